"""Commands that apply to many runs, and ``holdfast operations``."""

from __future__ import annotations

import pytest


@pytest.fixture
def three(call):
    """Return the ids of three runs that wait for a worker, from new to old."""
    return [call.start("shop.py:listener") for _ in range(3)][::-1]


def test_many_runs_are_cancelled_by_a_filter(call, three):
    other = call.start("shop.py:parcel", '"x"')

    report = call.json("cancel", "--workflow", "listener", "--reason", "not needed", "--by", "ann")

    assert (report["status"], report["done"], report["refused"]) == ("completed", three, {})
    assert report["operation"]["by"] == "ann"
    assert call.json("show", three[0])["cancel_reason"] == "not needed"
    assert call.json("show", other)["status"] == "pending"


def test_a_dry_run_changes_nothing(call, three):
    text = call.text("cancel", "--status", "pending", "--dry-run")

    assert text.startswith("dry run of cancel: 3 runs would be changed, 0 refused")
    assert call.json("operations")["items"] == []
    assert {run["status"] for run in call.json("runs")["items"]} == {"pending"}


def test_refusals_are_listed_and_the_exit_code_is_1(call, three):
    call("cancel", three[1])

    result = call("cancel", *three, code=1)

    assert "2 of 3 runs changed, 1 refused" in result.stdout
    assert f"  {three[1]}: The run has ended" in result.stdout


def test_a_command_needs_runs_or_filters_and_not_both(call, three):
    assert "Missing argument 'RUN'" in call.error("cancel", code=2)
    assert "not both" in call.error("replay", three[0], "--status", "failed", code=2)
    assert "is not valid" in call.error("cancel", "--status", "nonsense", code=2)


def test_many_runs_get_a_signal_a_priority_and_are_deleted(call, three):
    assert call.json("signal", "paid", "7", "--live")["changed"] == 3
    assert call.json("prioritise", "-5", "--live")["changed"] == 3
    assert call.json("show", three[0])["priority"] == -5
    call("cancel", "--live")

    assert call.json("delete", "--status", "cancelled", "--yes")["changed"] == 3
    assert call.json("runs")["items"] == []


def test_a_finished_run_is_deleted_by_its_name_and_a_live_one_refused(call, three):
    call("cancel", three[0])

    assert "1 of 1 run changed" in call.text("delete", three[0], "--yes")
    assert "has not ended" in call.error("delete", three[1], "--yes")


def test_failed_runs_are_replayed(call):
    call("run", "shop.py:failing", code=1)

    assert call.json("replay", "--status", "failed", "--since", "1d")["changed"] == 1
    assert call.json("show", "last")["status"] == "pending"


def test_runs_without_a_stuck_cause_or_a_wait_are_refused(call, three):
    assert call.json("resume", "--live", code=1)["refusals"] == 3
    assert call.json("release", "--live", code=1)["refusals"] == 3


def test_operations_are_listed_shown_and_stopped(call, three):
    call("prioritise", "5", "--live")
    first = call.json("cancel", "--live")["id"]

    page = call.json("operations", "--limit", "1")
    assert [item["id"] for item in page["items"]] == [first]
    assert call.json("operations", "list", "--after", page["next"])["items"][0]["verb"] == (
        "prioritise"
    )
    assert call.json("operations", "--status", "running")["items"] == []
    assert call.json("operations", "show", first)["changed"] == 3
    assert call.json("operations", "wait", first)["status"] == "completed"
    assert call.json("operations", "stop", first)["status"] == "completed"
    assert "cancel completed: 3 of 3 runs changed" in call.text("operations", "show", first)
    assert "no such bulk operation" in call.error("operations", "show", "nothing")
