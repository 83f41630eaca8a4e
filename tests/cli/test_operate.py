"""``holdfast signal, cancel, resume, replay, fork, export, prune``."""

from __future__ import annotations

import getpass
import sqlite3

import pytest

from holdfast import Engine


def status(call, run="last"):
    return call.json("show", run)["status"]


def test_a_signal_may_come_before_its_wait_and_reaches_the_run(call):
    run_id = call.start("shop.py:listener")

    assert f"signal paid sent to {run_id}" in call.text("signal", "last", "paid", '{"amount": 10}')
    assert call.run("shop.py:parcel", '"x"') == "packed x"

    with Engine(call.json("db", "info")["database"]) as engine:
        assert engine.run(run_id).result(timeout=60) == {"amount": 10}


def test_a_signal_with_a_key_is_sent_once(call):
    run_id = call.start("shop.py:listener")

    assert call.json("signal", run_id, "paid", "1", "--key", "k") == {
        "run": run_id,
        "name": "paid",
        "sent": True,
    }
    assert call.json("signal", run_id, "paid", "1", "--key", "k")["sent"] is False
    assert "before" in call.text("signal", run_id, "paid", "1", "--key", "k")


def test_a_signal_to_a_finished_run_is_refused(call):
    call.run("shop.py:parcel", '"x"')

    assert "The run has ended" in call.error("signal", "last", "paid")


def test_cancel_tells_what_became_of_the_run(call):
    run_id = call.start("shop.py:listener")

    assert (
        call.text("cancel", run_id, "--reason", "ordered twice") == f"run {run_id} was cancelled\n"
    )
    assert call.json("show", run_id)["cancel_reason"] == "ordered twice"
    person = getpass.getuser()
    assert f"it was cancelled by {person}: ordered twice" in call.text("why", run_id)
    assert f" {person} " in call.text("audit", "--action", "run.cancel", "--subject", run_id)
    assert "The run has ended" in call.error("cancel", run_id)


def test_cancel_by_force_ends_at_once(call):
    run_id = call.start("shop.py:listener")

    assert call.json("cancel", run_id, "--force") == {"run": run_id, "status": "cancelled"}


def test_replay_does_again_what_failed(call):
    call("run", "shop.py:failing", code=1)

    assert call.text("replay", "last").endswith("is pending\n")
    assert status(call) == "pending"
    assert "earlier events no longer count" in call.text("show", "last")


def test_replay_names_the_children_that_are_replayed_too(call):
    call("run", "shop.py:calling", code=1)
    parent = next(run for run in call.json("runs")["items"] if run["workflow"] == "calling")["id"]
    child = next(run for run in call.json("runs")["items"] if run["workflow"] == "failing")["id"]

    assert (
        call.text("replay", parent)
        == f"run {parent} is pending\nchild run {child} is replayed with it\n"
    )
    assert (status(call, parent), status(call, child)) == ("pending", "pending")
    assert "replayed with it: 1 child runs" in call.text("show", parent)
    call("cancel", parent, "--force")
    call("cancel", child, "--force")
    assert call.json("replay", parent) == {"run": parent, "status": "pending", "children": [child]}


def test_replay_of_a_live_run_or_an_unknown_step_is_refused(call):
    call.start("shop.py:listener")
    assert "has not ended yet" in call.error("replay", "last")

    call.run("shop.py:parcel", '"x"')
    assert "The run has no such step" in call.error("replay", "last", "--from", "nowhere")


def test_fork_makes_a_new_run_from_the_history_of_another(call):
    call.run("shop.py:checkout", "3")
    old = call.json("show", "last")["id"]

    made = call.json("fork", old, "--from", "pack")

    assert made["forked_from"] == old
    assert [event["step"] for event in call.json("show", made["id"])["history"]] == [
        "charge",
        "charge",
        None,
    ]
    assert call.text("fork", old).strip() in call.text("runs")


def test_resume_is_for_stuck_runs(call, database):
    run_id = call.start("shop.py:parcel", '"x"')
    assert "not possible in the current status" in call.error("resume", run_id)

    with sqlite3.connect(database) as raw:
        raw.execute(
            "UPDATE holdfast_run SET status = 'stuck', rank = NULL, error = ?",
            (b'{"type": "Diverged"}',),
        )
    raw.close()

    assert f"$ holdfast resume {run_id}" in call.text("why", run_id)
    assert call.text("resume", run_id) == f"run {run_id} is pending\n"


def test_export_copies_a_tree_to_a_database_of_its_own(call, tmp_path):
    call.run("shop.py:family", '["a", "b"]')
    target = tmp_path / "copy.db"

    assert call.text("db", "export", "last", target) == f"4 runs copied to {target}\n"
    assert len(call.json("--db", target, "runs")["items"]) == 4
    assert call.json("--db", target, "show", "last")["result"] == [
        "packed a",
        "packed a",
        "packed b",
    ]
    assert "already exists" in call.error("db", "export", "last", target)


def test_prune_counts_first_and_deletes_when_told(call):
    call.run("shop.py:family", '["a", "b"]')
    call.run("shop.py:parcel", '"x"')
    call("run", "shop.py:failing", code=1)
    live = call.start("shop.py:listener")

    assert call.json("db", "prune", "--older-than", "1h", "--dry-run") == {
        "runs": 0,
        "dry_run": True,
    }
    assert (
        call.json("db", "prune", "--older-than", "0s", "--status", "failed", "--dry-run")["runs"]
        == 1
    )
    assert (
        call.text("db", "prune", "--older-than", "0s", "--dry-run") == "6 runs would be deleted\n"
    )
    assert (
        call.text("db", "prune", "--older-than", "0s", "--status", "completed", "--yes")
        == "5 runs deleted\n"
    )
    assert call.json("db", "prune", "--older-than", "0s", "--yes") == {"runs": 1, "dry_run": False}
    assert [run["id"] for run in call.json("runs")["items"]] == [live]
    assert call.json("db", "check")["ok"]


@pytest.mark.parametrize(
    "words, told",
    [
        (["--older-than", "1h"], "stdin is not a terminal"),
        (["--older-than", "1x", "--yes"], "neither a duration"),
        (
            ["--older-than", "1h", "--status", "running", "--yes"],
            "only finished runs can be pruned",
        ),
        (["--older-than", "1h", "--status", "finished", "--yes"], "is not valid: use pending"),
        ([], "--older-than"),
    ],
)
def test_prune_refuses_what_makes_no_sense(call, words, told):
    call.run("shop.py:parcel", '"x"')

    assert told in call.error("db", "prune", *words, code=2)
    assert len(call.json("runs")["items"]) == 1
