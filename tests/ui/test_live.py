"""Live updates: announced, paused and continued; values that are large or gone."""

from __future__ import annotations

import re

from tests.engine.waiting import until
from tests.ui.test_buttons import row_of


def wait_until_live(page):
    """Wait for the stream of events: a screen reads everything again when it opens."""
    page.tab.locator(".age", has_text=re.compile("^(live|caught up)")).wait_for()


def test_new_runs_are_announced_and_do_not_move_the_rows(site):
    site.engine.start("nowhere", id="news-1")
    page = site.page
    wait_until_live(page)
    page.open("runs?id_prefix=news-")
    row_of(page, "Runs", "news-1").wait_for()

    site.engine.start("nowhere", id="news-2")
    page.see("1 newer run")
    assert row_of(page, "Runs", "news-2").count() == 0
    page.press("Show")

    row_of(page, "Runs", "news-2").wait_for()
    assert page.errors == []


def test_a_key_pauses_the_updates_and_continues_them(site):
    site.engine.start("paid", "order", id="calm").wait_until("waiting", timeout="60s")
    page = site.page
    page.open("run/calm")
    state = page.tab.locator(".bar .state")
    state.get_by_text("waiting").wait_for()

    page.tab.keyboard.press(".")
    page.tab.locator(".age", has_text="paused").wait_for()
    site.engine.signal("calm", "paid", 1)
    site.engine.run("calm").result(timeout="60s")
    page.tab.keyboard.press(".")

    state.get_by_text("completed").wait_for()
    assert page.errors == []


def test_a_lane_and_its_worker_are_live(site):
    page = site.page
    page.open("lanes")
    row_of(page, "Workers", "alive").wait_for()

    site.engine.start("nowhere", id="in-a-new-lane", lane="fresh")

    row_of(page, "Lanes", "fresh").wait_for()
    row_of(page, "Runs that no worker serves", "fresh").wait_for()
    assert page.errors == []


def test_a_value_of_ten_megabytes_shows_its_size(site):
    site.engine.start("pack", "x" * 10_000_000, id="heavy").result(timeout="60s")
    page = site.page
    page.open("run/heavy")

    page.tab.get_by_text("text of 10,000,000 characters").first.wait_for(timeout=90_000)

    page.tab.get_by_role("link", name="download").first.wait_for()
    assert page.errors == []


def test_a_run_whose_history_was_deleted_says_so(site):
    site.engine.start("count", 3, id="trimmed").result(timeout="60s")
    site.engine.retention.set("histories", workflow="count", older_than="0s", target="events")
    site.engine.retention.apply()
    site.engine.retention.remove("histories")
    run = site.engine.run("trimmed")
    until(lambda: [event.kind for event in run.history()] == ["history_deleted"])
    page = site.page
    page.open("run/trimmed")

    page.see("history deleted")

    page.see("completed")
    assert page.errors == []
