"""``holdfast schedules``."""

from __future__ import annotations

import pytest

from holdfast import Engine


@pytest.fixture
def nightly(call):
    call.text(
        "schedules",
        "set",
        "nightly",
        "shop.py:parcel",
        '"x"',
        "--cron",
        "0 2 * * *",
        "--zone",
        "Europe/Berlin",
    )
    return "nightly"


def test_a_schedule_is_added_listed_and_shown(call, nightly):
    (listed,) = call.items("schedules")
    assert (listed["name"], listed["rule"], listed["zone"]) == (
        "nightly",
        {"cron": "0 2 * * *"},
        "Europe/Berlin",
    )
    assert call.items("schedules") == [listed]
    assert listed["arguments"] == ["x"]
    assert "cron 0 2 * * *" in call.text("schedules")
    shown = call.text("schedules", "show", nightly)
    assert "starts parcel" in shown
    assert "it ticks next at" in shown
    assert len(call.json("schedules", "show", nightly)["next"]) == 10


def test_the_next_ticks_are_told(call, nightly):
    assert len(call.json("schedules", "next", nightly, "--count", "3")) == 3
    assert len(call.text("schedules", "next", nightly).splitlines()) == 10


def test_a_schedule_is_paused_and_resumed(call, nightly):
    shown = call.text("schedules", "pause", nightly, "--reason", "the printer is broken")
    assert "it is paused: the printer is broken -> holdfast schedules resume nightly" in shown
    assert "paused: the printer is broken" in call.text("schedules")
    assert call.json("schedules", "resume", nightly)["paused"] is None


def test_a_trigger_starts_a_run(call, nightly):
    run_id = call.text("schedules", "trigger", nightly).strip()

    assert call.json("show", run_id)["workflow"] == "parcel"
    assert "the schedule nightly started it" in call.text("why", run_id)
    assert run_id in call.error("schedules", "trigger", nightly)


def test_a_backfill_is_shown_and_done(call, nightly):
    shown = call.json(
        "schedules",
        "backfill",
        nightly,
        "--since",
        "2026-01-01",
        "--until",
        "2026-01-03",
        "--dry-run",
    )
    assert [tick["at"] for tick in shown] == ["2026-01-01T01:00:00Z", "2026-01-02T01:00:00Z"]
    assert "would start" in call.text(
        "schedules",
        "backfill",
        nightly,
        "--since",
        "2026-01-01",
        "--until",
        "2026-01-03",
        "--dry-run",
    )
    assert call.json("runs")["items"] == []
    done = call.json(
        "schedules", "backfill", nightly, "--since", "2026-01-01", "--until", "2026-01-03"
    )
    assert [tick["created"] for tick in done] == [True, True]
    assert "has a run" in call.text(
        "schedules", "backfill", nightly, "--since", "2026-01-01", "--until", "2026-01-03"
    )


def test_a_schedule_is_removed(call, nightly):
    assert "use --yes" in call.error("schedules", "remove", nightly, code=2)
    assert len(call.items("schedules")) == 1

    assert call.text("schedules", "remove", nightly, "--yes") == "schedule nightly removed\n"

    assert call.items("schedules") == []
    assert "There is no such schedule" in call.error("schedules", "remove", nightly, "--yes")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--cron", "0 0 30 2 *"], "never comes"),
        (["--cron", "* * * * *", "--interval", "5m"], "not cron and interval"),
        ([], "give one of cron, interval, dates and repeat"),
        (["--cron", "* * * * *", "--zone", "Mars/Base"], "no time zone"),
        (["--interval", "-5m"], "negative"),
        (["--date", "soon"], "must be a date and time"),
        (["--repeat", "R5"], "use R/PT10M"),
    ],
)
def test_what_makes_no_sense_is_wrong_usage(call, nightly, words, told):
    assert told in call.error("schedules", "set", "bad", "shop.py:parcel", '"x"', *words, code=2)
    assert [schedule["name"] for schedule in call.items("schedules")] == ["nightly"]


def test_an_unknown_workflow_is_named(call, nightly):
    assert "has no none" in call.error(
        "schedules", "set", "bad", "shop.py:none", "--interval", "5m"
    )


def test_other_rules_can_be_added(call, nightly):
    for name, *words in (
        ("often", "--interval", "5m", "--jitter", "1m", "--overlap", "queue", "--tag", "team=7"),
        ("once", "--date", "2100-12-24T18:00", "--date", "2100-12-25"),
        ("five", "--repeat", "R5/2100-12-24T18:00:00/P1D", "--misfire", "all", "--paused"),
    ):
        call.text("schedules", "set", name, "shop.py:parcel", '"x"', *words)

    found = {schedule["name"]: schedule for schedule in call.items("schedules")}
    assert (found["often"]["jitter"], found["often"]["tags"], found["five"]["paused"]) == (
        "PT60S",
        {"team": "7"},
        "paused from the start",
    )
    assert "every 5m" in call.text("schedules")
    assert "2 dates" in call.text("schedules")
    with Engine(call.json("db", "info")["database"]) as engine:
        assert len(engine.schedules.next("five")) == 5


def test_a_change_keeps_the_settings_that_are_not_given(call, nightly):
    call.text("schedules", "set", nightly, "--priority", "7", "--tag", "team=7", "--jitter", "1m")
    call.text("schedules", "pause", nightly, "--reason", "repairs")
    before = call.json("schedules", "show", nightly)

    call.text("schedules", "set", nightly, "--overlap", "queue")

    after = call.json("schedules", "show", nightly)
    assert (before["overlap"], after["overlap"]) == ("skip", "queue")
    assert {**after, "overlap": "skip"} == before


def test_a_new_schedule_needs_a_workflow(call, nightly):
    assert "needs a workflow" in call.error("schedules", "set", "new", "--interval", "5m")
