"""What a reader changes: filters, the rows and steps that are chosen, unfolded parts, the theme."""

from __future__ import annotations

import base64
import re

from holdfast import Engine
from holdfast.codecs import Encrypted
from tests.engine.waiting import until
from tests.server.clients import ServeProcess
from tests.ui.models import LARGE
from tests.ui.test_buttons import confirm, row_of
from tests.ui.test_live import wait_until_live


def test_filters_are_typed_and_cleared(site):
    for name in ("red", "blue"):
        run = site.engine.start("pack", name, id=f"team-{name}", tags={"team": name})
        run.result(timeout="60s")
    page = site.page
    page.open("runs?id_prefix=team-")
    page.see("team-blue")

    page.tab.get_by_label("Tag", exact=True).fill("team=red")
    page.tab.keyboard.press("Tab")
    page.tab.get_by_role("link", name="team-blue").wait_for(state="detached")
    page.tab.get_by_label("Select team-red").check()
    page.press("Clear")
    page.press("Clear filters")
    page.see("team-blue")

    assert "tag=" not in page.tab.url
    page.press("Filter")
    page.tab.get_by_role("search").wait_for(state="detached")
    assert page.errors == []


def test_all_runs_that_match_are_chosen_beyond_the_rows_that_were_read(site):
    ids = [f"every-{number:02}" for number in range(60)]
    for run_id in ids:
        site.engine.start("nowhere", id=run_id, delay="30d", tags={"batch": "7"})
    site.engine.start("nowhere", id="every-other", delay="30d", tags={"batch": "8"})
    page = site.page
    page.open("runs?id_prefix=every-&tag=batch%3D7")
    page.tab.get_by_label("Select every-59").check()
    page.press("Clear")
    page.tab.get_by_label("Select every-58").check()

    page.press("Select all that match")
    page.see("all runs that match")
    page.press("Cancel")
    page.see("Cancel 60 runs?")
    confirm(page, "Cancel")

    page.see("60 changed, 0 refused")
    assert site.engine.runs(id_prefix="every-", status="cancelled").count() == 60
    assert site.engine.run("every-other").status == "pending"
    assert page.errors == []


def test_the_theme_and_the_time_zone_are_kept(site):
    page = site.page
    theme = "document.documentElement.dataset.theme"
    for name, following in (("system", "light"), ("light", "dark")):
        page.press(f"{name} theme")
        page.tab.wait_for_function(f"{theme} === '{following}'")
    page.press("local time")
    page.tab.get_by_role("button", name="UTC", exact=True).wait_for()

    page.tab.reload()
    page.press("dark theme")

    page.tab.wait_for_function(f"{theme} === 'system'")
    page.press("UTC")
    page.tab.get_by_role("button", name="local time", exact=True).wait_for()
    assert page.errors == []


def test_a_step_and_the_history_are_opened_and_closed(site):
    site.engine.start("checkout", "o", False, id="opened").result(timeout="60s")
    page = site.page
    page.open("run/opened")

    page.tab.locator(".timeline .outcome").first.click()
    page.tab.get_by_role("region", name="Step charge").wait_for()
    assert "step=charge" in page.tab.url
    page.press("Deselect")
    page.tab.get_by_role("region", name="Step charge").wait_for(state="detached")
    page.tab.get_by_role("button", name=re.compile("^Show .* events$")).click()
    page.tab.get_by_role("table", name="History").get_by_text("run completed").wait_for()
    page.press("Hide")

    page.tab.get_by_role("table", name="History").wait_for(state="detached")
    assert page.errors == []


def test_a_timeline_of_many_names_is_read_to_its_end(site):
    names = [f"part-{number:03}" for number in range(120)]
    run = site.engine.start("listen", names, id="listens")
    for name in names:
        run.signal(name)
    run.result(timeout="60s")
    page = site.page
    page.open("run/listens")
    page.see("signal part-000")

    page.press("Show later rows")

    page.tab.wait_for_function(
        """() => document.querySelector('.timeline').innerText.includes('part-119')
             || (window.scrollTo(0, document.documentElement.scrollHeight), false)"""
    )
    assert page.tab.get_by_role("button", name="Show later rows").count() == 0
    assert page.errors == []


def test_all_boxes_of_a_large_model_unfold_at_once(site):
    site.engine.models.deploy(LARGE.replace('id="large"', 'id="wide"'))
    page = site.page
    page.open("workflow/wide")

    page.press("unfold 360 more nodes")

    page.tab.wait_for_function("() => document.querySelectorAll('.diagram .node').length > 360")
    width = "document.querySelector('svg.diagram').viewBox.baseVal.width"
    before = page.tab.evaluate(width)
    page.press("zoom out")
    page.tab.wait_for_function(f"() => {width} > {before}")
    page.press("zoom in")
    page.tab.wait_for_function(f"() => {width} < {before} + 1")
    assert page.errors == []


def test_several_decisions_are_rejected_at_once(site):
    run = site.engine.start("two_gates", "order", id="rejected")
    until(lambda: len(site.engine.gates.list(run="rejected")) == 2, "the gates are open")
    page = site.page
    page.open("inbox?run=rejected")
    for prompt in ("Left?", "Right?"):
        page.tab.get_by_label(f"Select {prompt}").check()

    page.press("Reject")
    page.see("Reject 2 decisions?")
    confirm(page, "Reject")

    assert run.result(timeout="60s") == ["reject", "reject"]
    assert page.errors == []


def test_a_page_of_another_version_asks_to_be_loaded_again(site):
    page = site.page
    page.press("pause")
    other = '<script type="module" src="another-version/app.js"></script>'
    page.tab.route(page.url, lambda route: route.fulfill(body=other, content_type="text/html"))
    page.press("go live")
    page.see("The server was updated")
    page.tab.unroute(page.url)

    page.press("Reload")

    page.tab.get_by_text("The server was updated").wait_for(state="detached")
    page.see("Workers alive")
    assert page.errors == []


FILTERS = {
    "Workflow": "pack",
    "Tag": "size=large=3",
    "Since": "1d",
    "Lane": "parcels",
    "Version": "1",
    "Namespace": "default",
    "Id begins with": "sought-",
}


def test_each_filter_finds_the_run_that_it_names(site):
    tags = {"size": "large=3"}
    site.engine.start("pack", "a", id="sought-1", lane="parcels", tags=tags, delay="30d")
    page = site.page
    page.open("runs")
    page.press("pause")  # the only requests are those of the filters
    page.press("Filter")
    for name, value in FILTERS.items():
        with page.tab.expect_response("**/api/v1/runs?*") as answer:
            page.tab.get_by_label(name, exact=True).fill(value)
            page.tab.keyboard.press("Tab")
        found = [run["id"] for run in answer.value.json()["items"]]
        assert "sought-1" in found, name
    assert found == ["sought-1"]

    page.tab.get_by_label("Worker", exact=True).fill("nobody")
    page.tab.keyboard.press("Tab")

    page.see("No run matches.")
    page.press("go live")
    assert page.errors == []


def test_a_redraw_keeps_the_text_that_a_person_is_typing(site):
    site.engine.start("pack", "a", id="shown", lane="parcels", delay="30d")
    page = site.page
    wait_until_live(page)
    page.open("runs")
    row_of(page, "Runs", "shown").wait_for()
    page.press("Filter")
    field = page.tab.get_by_label("Id begins with", exact=True)
    field.fill("typed-")

    site.engine.start("pack", "a", id="typed-1", lane="parcels", delay="30d")
    page.see("1 newer run")  # the page was drawn again

    assert field.input_value() == "typed-"
    with page.tab.expect_response("**/api/v1/runs?*id_prefix=typed-*") as answer:
        page.tab.keyboard.press("Tab")
    assert [run["id"] for run in answer.value.json()["items"]] == ["typed-1"]
    assert page.errors == []


def test_a_value_whose_key_is_missing_names_the_key(browser, tmp_path, monkeypatch):
    database = str(tmp_path / "sealed.db")
    with Engine(database, codec=Encrypted({"2026": b"a" * 32}, "2026"), work=False) as engine:
        engine.start("pack", "a secret", id="sealed")
    another = base64.b64encode(b"b" * 32).decode()
    monkeypatch.setenv("HOLDFAST_KEYS", f"2027={another}")
    with ServeProcess(database) as server, browser.page(server) as page:
        page.open("run/sealed")

        page.see("encrypted with key 2026, which is not known here")
        assert page.errors == []
