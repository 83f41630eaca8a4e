"""The page of a run: output as it is emitted, compensations, tokens; pages of definitions."""

from __future__ import annotations

from contextlib import contextmanager

import pytest

from tests.engine.waiting import until
from tests.ui.models import LARGE, MODEL
from tests.ui.test_screens import AXE


@contextmanager
def axe(page):
    """Load axe into a page; what it finds at the end is a failure."""
    page.tab.evaluate(AXE.read_text())
    yield
    assert page.violations() == []


def outcome_of(page, selector):
    return page.tab.locator(selector).inner_text()


def test_output_follows_the_run_and_stops_on_request(site):
    run = site.engine.start("talk", 3, id="talk")
    run.wait_until("waiting", timeout="20s")
    page = site.page
    page.open("run/talk")
    page.see("word 2 of attempt 2")
    assert "speak, attempt 1, superseded" in outcome_of(page, ".output")

    site.engine.signal("talk", "say", "more")
    page.see("one more word")
    assert len(page.asked("/output/stream")) == 1

    page.tab.get_by_role("switch", name="following").click()
    page.tab.get_by_role("switch", name="follow", exact=True).wait_for()
    page.requests.clear()
    site.engine.signal("talk", "say", "end")
    page.tab.wait_for_selector(".bar >> .state.completed")
    assert page.asked("/output/stream") == []
    assert page.errors == []


def test_long_output_begins_at_its_end(site):
    site.engine.start("talk", 400, id="long-talk")
    page = site.page
    page.open("runs?id_prefix=long-talk")
    page.see("signal say")
    page.open("run/long-talk")
    page.see("word 399 of attempt 2")
    assert "word 10 of attempt 1\n" not in outcome_of(page, ".output")

    page.tab.get_by_role("button", name="Show earlier output").click()

    page.tab.wait_for_function(
        "() => document.querySelector('.output').innerText.includes('word 10 of attempt 1')"
    )


def test_a_compensation_is_shown_below_the_step_that_it_undoes(site):
    site.engine.start("book", "trip-1", id="trip-1").wait_until("failed", timeout="20s")
    page = site.page
    page.open("run/trip-1")
    page.see("undo refund")

    names = page.tab.locator(".timeline .name").all_inner_texts()

    assert names.index("undo refund") == names.index("charge") + 1
    indent = "(node) => parseInt(getComputedStyle(node).paddingLeft)"
    step, undo = (
        page.tab.locator(".timeline .name", has_text=text).first.evaluate(indent)
        for text in ("charge", "undo refund")
    )
    assert undo > step


@pytest.mark.needs_tool("axe-core")
def test_tokens_of_a_model_are_shown_and_moved_after_a_dry_run(site):
    site.engine.models.deploy(MODEL)
    site.engine.start("releasing", id="approval-1").wait_until("waiting", timeout="20s")
    page = site.page
    page.open("run/approval-1")
    page.see("Tokens")
    tokens = page.tab.get_by_role("table", name="Tokens", exact=True)
    tokens.get_by_text("decide").first.wait_for()
    with axe(page):
        page.see("As of event")

    page.press("Modify")
    dialog = page.tab.get_by_role("dialog")
    dialog.get_by_label("Element").select_option("check")
    dialog.get_by_role("button", name="Show what happens").click()
    page.see("The run would have these tokens:")
    assert [token.element for token in site.engine.models.tokens("approval-1")] == ["decide"]
    dialog.get_by_role("button", name="Modify").click()

    tokens.get_by_text("check").first.wait_for()
    assert [token.element for token in site.engine.models.tokens("approval-1")] == ["check"]
    assert page.errors == []


def test_a_run_of_a_model_moves_to_another_version(site):
    site.engine.models.deploy(MODEL.replace("releasing", "moving"))
    site.engine.start("moving", id="moving-1").wait_until("waiting", timeout="20s")
    renamed = MODEL.replace("releasing", "moving").replace("Check", "Look")
    site.engine.models.deploy(renamed.replace('"decide"', '"approve"'))
    page = site.page
    page.open("run/moving-1")
    page.tab.get_by_role("table", name="Tokens", exact=True).wait_for()

    page.press("Migrate")
    dialog = page.tab.get_by_role("dialog")
    dialog.get_by_label("Version").select_option("2")
    dialog.get_by_label("Reason").fill("a better text")
    dialog.get_by_role("button", name="Show what happens").click()
    page.see("These tokens cannot move")
    dialog.get_by_label("decide is now").select_option("approve")
    dialog.get_by_role("button", name="Show what happens").click()
    page.see("All tokens of the run move to the new version.")
    assert site.engine.run("moving-1").record.version == "1"
    dialog.get_by_role("button", name="Migrate").click()

    page.see("Look")
    until(lambda: site.engine.run("moving-1").record.version == "2")
    assert [token.element for token in site.engine.models.tokens("moving-1")] == ["approve"]
    for button, verb, status in (
        ("Suspend tokens", "Suspend", "suspended"),
        ("Resume tokens", "Resume", "waiting"),
    ):
        page.press(button)
        dialog.get_by_label("Reason").fill(f"to {verb}")
        dialog.get_by_role("button", name=verb).click()
        page.tab.get_by_role("table", name="Tokens", exact=True).get_by_text(
            status
        ).first.wait_for()
        assert [token.status for token in site.engine.models.tokens("moving-1")] == [status]
    reasons = [
        event.data["reason"]
        for event in site.engine.run("moving-1").history()
        if event.kind == "instructed"
    ]
    assert reasons == ["a better text", "to Suspend", "to Resume"]
    page.open("workflow/moving")
    page.tab.get_by_role("button", name="1 instance here").wait_for()
    assert page.errors == []


def test_a_refused_modification_says_why(site):
    site.engine.models.deploy(MODEL)
    site.engine.start("releasing", id="approval-2").wait_until("waiting", timeout="20s")
    page = site.page
    page.open("run/approval-2")
    page.see("Tokens")
    page.tab.get_by_role("table", name="Tokens", exact=True).wait_for()

    page.press("Modify")
    dialog = page.tab.get_by_role("dialog")
    dialog.get_by_role("button", name="Show what happens").click()

    dialog.get_by_role("alert").wait_for()


def test_a_workflow_is_drawn_without_a_run(site):
    site.engine.models.deploy(MODEL)
    site.engine.start("book", "trip-2").wait_until("failed", timeout="20s")
    page = site.page
    page.open("workflow/releasing")
    page.see("Check")
    page.tab.wait_for_function(
        "() => document.querySelectorAll('.diagram .node.not-reached').length === 4"
    )

    page.open("workflow/book")
    page.see("none of them has completed yet")

    page.open("workflow/nothing-of-ours")
    page.see("All workflows")


def test_boxes_of_a_large_model_unfold_one_by_one(site):
    site.engine.models.deploy(LARGE)
    page = site.page
    page.open("workflow/large")
    page.see("+60")
    folded = page.count(".diagram .node")

    page.tab.get_by_role("button", name="Part 1, not reached, folded, 60 nodes").press("Enter")
    nodes = "() => document.querySelectorAll('.diagram .node').length"
    page.tab.wait_for_function(f"{nodes} === {folded + 59}")
    page.press("fold boxes")
    page.tab.wait_for_function(f"{nodes} === {folded}")
    assert page.errors == []


@pytest.mark.needs_tool("axe-core")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_of_a_gate_link_has_the_style_of_the_ui(site, browser, scheme):
    run = site.engine.start("checkout", "order-30", id=f"link-{scheme}")
    site.page.open(f"inbox?run=link-{scheme}")
    site.page.see("Ship it?")
    token = site.engine.gates.link(run.id, "approve", by="ann")
    small = {"width": 360, "height": 740}
    with browser.page(
        site.server, log_in=False, color_scheme=scheme, viewport=small, bypass_csp=True
    ) as page:
        page.tab.goto(f"{site.server.url}answer/{token}")
        page.see("Ship it?")
        page.see("Nothing is decided until you press the button.")
        page.fit()
        corner = "getComputedStyle(document.querySelector('main')).borderTopLeftRadius"
        assert page.tab.evaluate(corner) == "10px"
        with axe(page):
            page.tab.get_by_text('"order": "order-30"').wait_for()

        page.tab.get_by_label("Comment").fill("fine")
        page.press("approve")

        page.see("Your decision was recorded")
    assert run.result(timeout="20s")["payment"]["payment"] == "p-order-30"


def test_storage_shows_sizes_and_what_a_rule_would_delete(site):
    for name in ("old", "new"):
        site.engine.start("count", 1, id=name).result(timeout="20s")
    site.engine.retention.set("old-counts", workflow="count", keep_last=1)
    page = site.page
    page.open("storage")
    page.see("sqlite:")

    page.press("Measure")
    page.tab.get_by_role("table", name="Sizes of tables").get_by_text("event").first.wait_for()
    page.tab.get_by_role("table", name="Sizes of workflows").get_by_text("count").first.wait_for()
    page.press("What would they delete?")
    page.see("1 run,")

    page.press("Apply now")
    page.tab.get_by_role("dialog").get_by_role("button", name="Delete").click()
    page.see("1 run deleted or trimmed.")
    assert not list(site.engine.runs(ids=["old"]))
    site.engine.retention.remove("old-counts")


def test_versions_name_the_runs_that_no_worker_serves(site):
    site.engine.start("nowhere", id="lost-1")
    site.engine.start("talk", 1, id="talk-2").wait_until("waiting", timeout="20s")
    page = site.page
    page.open("versions")

    row = page.tab.get_by_role("row", name="nowhere")

    row.get_by_text("start a worker that has this version").wait_for()
    page.press("Check the live runs")
    row.get_by_text("not judged").wait_for()
    talks = page.tab.get_by_role("row", name="talk")
    talks.get_by_text("a worker serves it").wait_for()
    talks.get_by_text("fits").wait_for()
