"""Gates that are handed on, withdrawn, or about data that changed."""

from __future__ import annotations

import pytest

from holdfast.errors import GateChanged, GateWithdrawn, RunFailed
from tests.engine.gates.workflows import ask, opened


def test_a_decision_can_be_delegated_and_reassigned(engine):
    run = engine.start(ask, {"assignees": ["ann"]})
    open_gate = opened(engine, run)

    engine.gates.delegate(open_gate, "bob", by="ann", reason="holiday")
    assert (
        engine.gates.list(mine="ann"),
        [open_gate.id for open_gate in engine.gates.list(mine="bob")],
    ) == (
        [],
        [open_gate.id],
    )
    engine.gates.reassign(open_gate, roles=["finance"], by="root")
    assert engine.gates.list(mine="bob") == []
    engine.gates.approve(open_gate, by="carol", roles=["finance"])

    assert run.result(timeout=60)["by"] == "carol"
    log = [
        (entry.kind, entry.person, entry.names, entry.roles)
        for entry in engine.gates.entries(open_gate)
    ]
    assert log[:2] == [("delegated", "ann", ["bob"], []), ("reassigned", "root", [], ["finance"])]


def test_a_withdrawn_gate_is_told_to_its_workflow(engine):
    run = engine.start(ask)

    engine.gates.withdraw(opened(engine, run), by="root", reason="not needed")

    with pytest.raises(RunFailed, match=f"{GateWithdrawn.__name__}.*not needed"):
        run.result(timeout=60)


def test_a_decision_is_about_the_data_that_it_was_shown(engine):
    run = engine.start(ask, {"data": {"rows": 10}, "quorum": 2})
    open_gate = opened(engine, run)
    engine.gates.approve(open_gate, by="ann", expect=open_gate.hash)

    changed = engine.gates.update(open_gate, {"rows": 10_000}, by="root")

    with pytest.raises(GateChanged):
        engine.gates.approve(open_gate, by="bob", expect=open_gate.hash)
    engine.gates.approve(open_gate, by="bob", expect=changed.hash)
    engine.gates.approve(open_gate, by="ann", expect=changed.hash)
    assert run.result(timeout=60)["people"] == [["bob", "approve"], ["ann", "approve"]]
