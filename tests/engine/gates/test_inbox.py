"""The inbox of gates, and how a run that waits for people is explained."""

from __future__ import annotations

from tests.engine.gates.workflows import ask, opened, waits
from tests.store.helpers import wait_until


def test_why_names_who_may_decide_how_many_are_missing_the_time_left_and_the_command(engine):
    run = engine.start(
        ask,
        {
            "assignees": ["ann", "bob", "carol"],
            "quorum": 2,
            "timeout": "2d",
            "options": ["yes", "no"],
        },
    )
    open_gate = opened(engine, run)
    engine.gates.decide(open_gate, "yes", by="ann")
    waits(engine, run)

    why = engine.why(run.id)

    assert why.reason.startswith(
        "it waits for ann, bob, carol to decide: 'Ship it?'; 1 more of 2 must agree (so far ann:"
        " yes)"
    )
    assert "gives up at" in why.reason
    assert (why.blockers[0].until, why.remedy) == (
        open_gate.deadline,
        f"holdfast gates decide {open_gate.id} yes --by NAME",
    )


def test_the_command_of_why_names_a_role_if_only_roles_may_decide(engine):
    run = engine.start(ask, {"roles": ["finance", "head"], "options": ["yes", "no"]})
    open_gate = opened(engine, run)
    waits(engine, run)

    assert engine.why(run.id).remedy == (
        f"holdfast gates decide {open_gate.id} yes --by NAME --role finance"
    )


def test_an_inbox_with_pages(engine):
    runs = engine.start_many(ask, [{"assignees": ["ann"]}, {"roles": ["finance"]}, {}])
    wait_until(lambda: len(engine.gates.list()) == 3)
    everything = engine.gates.list()

    assert {one.run for one in everything} == {run.id for run in runs}
    assert engine.gates.list(limit=2) == everything[:2]
    assert engine.gates.list(after=everything[1].id) == everything[2:]
    assert {open_gate.run for open_gate in engine.gates.list(mine="ann", role="finance")} == {
        run.id for run in runs
    }
    assert [open_gate.run for open_gate in engine.gates.list(role="finance")] == [runs[1].id]
    assert engine.gates.list(workflow="ask", namespace="default") == everything
