"""``holdfast runs, show, why, workers, lanes, db, doctor``."""

from __future__ import annotations

import json
import os
import re
import shlex
import sqlite3
from datetime import datetime

import pytest

from holdfast import Engine
from holdfast.testing import internals
from tests.engine.waiting import wait_until


def test_runs_are_listed_newest_first(call):
    first, second = call.start("shop.py:parcel", '"a"'), call.start("shop.py:listener")

    lines = call.text("runs").splitlines()

    assert lines[0].split() == ["ID", "WORKFLOW", "STATUS", "CREATED", "TOOK", "NOTE"]
    assert [line.split()[:3] for line in lines[1:]] == [
        [second, "listener", "pending"],
        [first, "parcel", "pending"],
    ]


def test_runs_are_filtered(call):
    call.run("shop.py:parcel", '"a"', "--tag", "customer=7")
    waiting = call.start("shop.py:listener", "--tag", "customer=8")

    def ids(*words):
        return [run["id"] for run in call.json("runs", *words)["items"]]

    assert ids("--status", "pending,running") == [waiting]
    assert ids("--workflow", "listener") == [waiting]
    assert ids("--tag", "customer=8") == [waiting]
    assert len(ids("--since", "1h")) == 2
    assert ids("--until", "1h") == []
    assert ids("--namespace", "acme") == []
    assert ids("--worker", "nobody") == []
    assert ids("--since", "2999-01-01") == []


def test_children_are_listed_by_their_parent(call):
    call.run("shop.py:family", '["a", "b"]')

    assert len(call.json("runs")["items"]) == 4
    assert len(call.json("runs", "--roots")["items"]) == 1
    assert len(call.json("runs", "--parent", "last")["items"]) == 3


def test_the_next_page_is_a_command_that_can_be_typed(call):
    ids = [
        call.start("shop.py:parcel", f'"{number}"', "--tag", "kind=two words")
        for number in range(5)
    ]
    words, seen = ["runs", "--tag", "kind=two words", "--limit", "2"], []

    while words:
        lines = call.text(*words).splitlines()
        seen += [line.split()[0] for line in lines if line.startswith("01")]
        more = [
            line.removeprefix("next page: ") for line in lines if line.startswith("next page: ")
        ]
        words = shlex.split(more[0])[1:] if more else []

    assert seen == ids[::-1]


def test_runs_as_json_are_a_page_with_a_cursor(call):
    ids = [call.start("shop.py:parcel", f'"{number}"') for number in range(3)]

    first = call.json("runs", "--limit", "2")
    second = call.json("runs", "--limit", "2", "--after", first["next"])

    assert [run["id"] for run in (*first["items"], *second["items"])] == ids[::-1]
    assert second["next"] is None
    assert [run["id"] for run in call.json("runs", "--after", ids[1])["items"]] == ids[:1]


def test_runs_can_be_counted_without_being_listed(call):
    for number in range(3):
        call.start("shop.py:parcel", f'"{number}"')

    assert call.text("runs", "--live", "--count") == "3\n"
    assert call.json("runs", "--status", "failed", "--count") == {"runs": 0}


def test_show_tells_attempts_results_and_the_undoing(call):
    call("run", "shop.py:failing", code=1)

    shown = call.text("show", "last")

    assert re.search(r"status +failed after", shown)
    assert "✓ charge" in shown and '2 attempts  → "paid 5"' in shown
    assert "attempt 1 failed: ValueError: no route to bank" in shown
    assert "↩ undo refund" in shown
    assert "✗ run failed: ValueError: out of stock" in shown


def test_show_tells_branches_by_their_path(call):
    call.run("shop.py:branches", '["a", "b"]')

    lines = call.text("show", "last").splitlines()

    begin = next(place for place, line in enumerate(lines) if line.endswith(" branch"))
    assert "pack" in lines[begin + 1] and lines[begin + 1].startswith("│  └─ ✓")


def test_show_tells_each_child_in_one_line(call):
    call.run("shop.py:family", '["a", "b"]')

    shown = call.text("show", "last")

    assert len(re.findall(r"run \w{26}  parcel  completed", shown)) == 3


def test_show_tells_what_is_waited_for(call):
    call.start("shop.py:listener", '"paid"', '"1h"')
    with_worker(call, lambda engine, run: engine.why(run).status == "waiting")

    assert "… signal paid" in call.text("show", "last")
    assert "waits for the signal 'paid' until" in call.text("show", "last")


def test_show_tells_what_was_left_when_the_run_ended(call):
    call.start("shop.py:listener")
    with_worker(call, lambda engine, run: engine.why(run).status == "waiting")
    call("cancel", "last", "--force")

    assert "- signal paid  not finished" in call.text("show", "last")


def test_show_as_json_has_what_outside_checks_rely_on(call):
    call("run", "shop.py:failing", code=1)

    shown = call.json("show", "last")

    assert shown["workflow"] == "failing"
    assert shown["version"] == "1"
    assert shown["status"] == "failed"
    assert shown["input"] == []
    assert shown["result"] is None
    assert shown["error"]["type"] == "ValueError"
    assert [event["kind"] for event in shown["history"]] == [
        "step_retried",
        "step_completed",
        "step_completed",
        "run_failed",
    ]
    charged = shown["history"][1]
    assert {"seq", "kind", "step", "at", "started_at", "attempt", "data", "error"} == set(charged)
    assert (charged["seq"], charged["step"], charged["attempt"], charged["data"]) == (
        2,
        "charge",
        2,
        "paid 5",
    )
    assert datetime.fromisoformat(charged["at"]) >= datetime.fromisoformat(charged["started_at"])
    assert charged["at"].endswith("Z")
    assert shown["history"][0]["data"]["until"].endswith("Z")


def test_json_may_be_asked_for_before_the_command(call):
    call.start("shop.py:parcel", '"a"')

    assert json.loads(call.text("--json", "show", "last"))["status"] == "pending"


def with_worker(call, reached):
    """Let an engine work on the newest run until it has come where the test wants it."""
    import shop

    run = call.json("show", "last")["id"]
    with Engine(os.environ["HOLDFAST_DB"], workflows=[shop.listener, shop.sleeper]) as engine:
        internals(engine).worker.idle_timeout = 0
        wait_until(engine, lambda: reached(engine, run))


def test_why_names_the_blocker_and_the_command(call):
    run_id = call.start("shop.py:listener")
    assert "no worker is alive" in call.text("why", "last")
    assert "$ holdfast worker MODULE" in call.text("why", "last")

    with_worker(call, lambda engine, run: engine.why(run).status == "waiting")

    text = call.text("why", run_id)
    assert "it waits for the signal 'paid'" in text
    assert f"$ holdfast signal {run_id} paid" in text
    data = call.json("why", run_id)
    assert data["remedy"] == f"holdfast signal {run_id} paid"
    assert data["blockers"][0]["kind"] == "signal"
    assert data["blockers"][0]["since"].endswith("Z")


def test_why_repeats_the_database_that_it_was_given(call, database):
    run_id = call.start("shop.py:parcel", '"a"')

    assert f"$ holdfast worker MODULE --db {database}" in call.text("--db", database, "why", run_id)


@pytest.mark.parametrize("word", ["show", "why"])
def test_a_run_may_be_named_by_its_beginning(call, word):
    run_id = call.start("shop.py:parcel", '"a"')

    assert run_id in call.text(word, run_id[:20])
    assert "no such run" in call.error(word, run_id[:5])
    assert "no such run" in call.error(word, "zzzzzzzz")


def test_an_ambiguous_beginning_is_refused(call):
    call.start("shop.py:parcel", '"a"', "--id", "order-71")
    call.start("shop.py:parcel", '"a"', "--id", "order-72")

    assert "several run ids begin with order-7, such as order-72 and order-71" in call.error(
        "show", "order-7"
    )
    assert call.json("show", "order-71")["id"] == "order-71"


def test_last_is_the_newest_run_also_when_people_choose_ids(call):
    call.start("shop.py:parcel", '"a"', "--id", "zebra")
    newest = call.start("shop.py:parcel", '"b"')

    assert call.json("show", "last")["id"] == newest


def test_lanes_are_listed_and_set_one_thing_at_a_time(call):
    call.start("shop.py:parcel", '"a"', "--lane", "mail")

    call("lanes", "set", "mail", "--concurrency", "5", "--rate", "10/s")
    call("lanes", "set", "mail", "--pause")
    changed = call.json("lanes", "set", "mail", "--concurrency", "none")

    unset = {
        "per_share": None,
        "rate_per_share": None,
        "weights": {},
        "draining": False,
        "state": "paused",
        "shares": {},
        "ready": 1,
        "oldest_ready": changed["oldest_ready"],
    }
    assert changed["oldest_ready"] is not None
    assert changed == {
        "name": "mail",
        "concurrency": None,
        "rate": "10/s",
        "paused": True,
        "running": 0,
        **unset,
    }
    assert call.items("lanes") == [changed]
    assert call.text("lanes").splitlines()[1].split() == [
        "mail",
        "0",
        "-",
        "10/s",
        "-",
        "-",
        "paused",
    ]
    assert "paused" in call.text("why", "last")
    assert call.json("lanes", "set", "mail", "--unpause", "--rate", "none")["paused"] is False


def test_workers_are_listed_with_what_they_serve(call, database):
    import shop

    call.start("shop.py:parcel", '"a"')
    assert "no workers" in call.text("workers")

    with Engine(
        database, workflows=[shop.listener], name="w1", lanes=["slow"], capabilities=["gpu"]
    ):
        (found,) = call.items("workers")
        text = call.text("workers")

    assert (found["worker"], found["state"], found["lanes"], found["capabilities"]) == (
        "w1",
        "alive",
        ["slow"],
        ["gpu"],
    )
    assert found["workflows"] == {"listener": None}
    assert "listener in slow with gpu" in text


def test_db_check_and_info(call, database):
    call.run("shop.py:parcel", '"a"')

    assert call.text("db", "check") == "the database is sound: every law holds\n"
    assert call.json("db", "check") == {
        "ok": True,
        "broken": [],
        "payloads": 0,
        "keys": {},
        "unreadable": {},
    }
    info = call.json("db", "info")
    assert info["runs"] == {"completed": 1}
    assert info["database"] == str(database)
    assert "1 completed" in call.text("db", "info")


def test_db_check_names_a_broken_law(call, database):
    call.run("shop.py:parcel", '"a"')
    with sqlite3.connect(database) as raw:
        raw.execute("UPDATE holdfast_run SET finished_at = NULL")
    raw.close()

    report = call.text("db", "check", code=1)
    assert "a run has an end time exactly if its status is final: 1 broken" in report
    assert call.json("db", "check", code=1)["ok"] is False


def test_doctor_finds_nothing_wrong(call):
    call.run("shop.py:parcel", '"a"')

    assert "no problems found" in call.text("doctor")
    assert call.json("doctor")["ok"] is True


def test_doctor_finds_runs_that_nobody_serves(call):
    run_id = call.start("shop.py:parcel", '"a"', "--lane", "slow")

    text = call.text("doctor", code=1)

    assert (
        "problem: 1 run needs a worker, and no live one serves parcel version 1 in lane slow (such"
        f" as {run_id})" in text
    )
    assert "$ holdfast worker MODULE" in text
    assert call.json("doctor", code=1)["ok"] is False


def test_doctor_finds_stuck_runs(call, database):
    run_id = call.start("shop.py:parcel", '"a"')
    with sqlite3.connect(database) as raw:
        error = b'{"type": "Diverged", "message": "m"}'
        raw.execute("UPDATE holdfast_run SET status = 'stuck', rank = NULL, error = ?", (error,))
    raw.close()

    assert f"problem: run {run_id} of parcel is stuck: Diverged: m" in call.text("doctor", code=1)


def test_a_terminal_gets_colours_and_a_pipe_none(call, terminal):
    call("run", "shop.py:failing", code=1)

    assert "\x1b[" not in call.text("show", "last") + call.text("runs")
    for words in (["show", "last"], ["runs"], ["db", "prune", "--older-than", "0s", "--yes"]):
        assert "\x1b[" in terminal(*words)


def test_show_prints_the_traceback_of_a_failed_run(call):
    call("run", "shop.py:failing", code=1)

    shown = call("show", "last").stdout

    assert "traceback of failing\nTraceback (most recent call last):" in shown
    assert "ValueError" in shown.rpartition("Traceback")[2]


def test_show_as_json_lists_the_steps_with_their_state(call):
    call("run", "shop.py:failing", code=1)

    steps = call.json("show", "last")["steps"]

    assert [(step["name"], step["status"], step["attempts"]) for step in steps][:1] == [
        ("charge", "completed", 2)
    ]


def test_the_kept_arguments_of_a_step_are_shown(call, tmp_path, monkeypatch):
    (tmp_path / "kept.py").write_text(
        "from holdfast import step, workflow\n\n"
        "@step(keep_args=True)\nasync def book(order: str, amount: int = 1) -> str:\n"
        "    return order\n\n"
        "@workflow\nasync def booking() -> str:\n    return await book('a', amount=3)\n"
    )
    call.run(str(tmp_path / "kept.py") + ":booking")

    assert 'called with ("a", amount=3)' in call.text("show", "last")
    shown = call.json("show", "last")
    assert shown["steps"][0]["args"] == {"args": ["a"], "kwargs": {"amount": 3}}


def test_show_draws_the_diagram_of_a_run(call):
    call.run("shop.py:branches", '["a", "b"]')

    drawn = call.text("show", "last", "--svg")
    text = call.text("show", "last", "--mermaid")

    assert drawn.startswith("<svg ") and "pack, completed" in drawn
    assert text.startswith("flowchart LR\n") and '["pack' in text
