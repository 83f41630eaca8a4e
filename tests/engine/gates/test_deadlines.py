"""Gates with a deadline, reminders and escalation."""

from __future__ import annotations

from datetime import timedelta

import pytest

from holdfast import Engine
from holdfast.errors import GateClosed, GateExpired, RunFailed
from tests.engine.gates.workflows import ask, ended, later, opened, waits
from tests.store.helpers import wait_until


def test_a_deadline_is_counted_from_the_opening_and_survives_restarts(database, clock):
    options = {"poll": "1h", "session_ttl": "36500d", "idle_timeout": "0s", "clock": clock}
    with Engine(database, **options) as engine:
        run = engine.start(ask, {"timeout": "2h"})
        open_gate = opened(engine, run)
        waits(engine, run)
    clock.advance("90m")
    with Engine(database, **options) as engine:
        assert engine.gates.get(open_gate.id).deadline == open_gate.opened_at + timedelta(hours=2)
        clock.advance("31m")
        with pytest.raises(RunFailed, match=GateExpired.__name__):
            ended(clock, engine.run(run.id))
        with pytest.raises(GateClosed, match="expired"):
            engine.gates.approve(open_gate, by="ann")


@pytest.mark.parametrize(
    ("options", "answer"),
    [
        ({"on_timeout": "continue"}, [None, "", False]),
        ({"on_timeout": "no", "options": ["yes", "no"]}, ["no", "no", False]),
    ],
)
def test_when_time_is_over_the_workflow_may_go_on(timed, clock, options, answer):
    run = timed.start(ask, {"timeout": "2d", **options})
    waits(timed, run)
    clock.advance("2d")

    result = ended(clock, run)
    assert [result["choice"], result["answer"], result["approved"]] == answer
    assert (result["expired"], result["by"]) == (True, None)


def test_people_are_reminded_and_it_is_escalated(timed, clock):
    run = timed.start(
        ask,
        {
            "assignees": ["ann"],
            "remind": ["1h", "5h"],
            "escalate": [{"after": "3h", "assignees": ["boss"], "roles": ["head"]}],
        },
    )
    waits(timed, run)
    assert timed.gates.list(overdue=True) == timed.gates.list(mine="boss") == []
    clock.advance("1h")
    open_gate = later(clock, lambda: timed.gates.list(overdue=True))[0]
    assert (open_gate.reminded, open_gate.assignees) == (1, ["ann"])
    clock.advance("2h")
    open_gate = later(clock, lambda: timed.gates.list(mine="boss"))[0]
    assert (open_gate.escalated, open_gate.assignees, open_gate.roles) == (
        1,
        ["ann", "boss"],
        ["head"],
    )
    waits(timed, run)
    clock.advance("10h")
    later(clock, lambda: timed.gates.get(open_gate).reminded == 2)
    timed.gates.approve(open_gate, by="boss")

    assert run.result(timeout=60)["by"] == "boss"
    kinds = [event.kind for event in run.history()]
    assert kinds == [
        "gate_opened",
        "gate_reminded",
        "gate_escalated",
        "gate_reminded",
        "gate_closed",
        "run_completed",
    ]
    assert [entry.kind for entry in timed.gates.entries(open_gate)] == [
        "reminded",
        "escalated",
        "reminded",
        "decided",
    ]


def test_a_parked_run_costs_no_memory_and_wakes_for_a_decision(timed):
    run = timed.start(ask)
    wait_until(lambda: run.record.session_id is None and run.record.waits)

    timed.gates.approve(run.id)

    assert run.result(timeout=60)["choice"] == "approve"
