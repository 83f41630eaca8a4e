"""Gates that are handed on, withdrawn, or about data that changed."""

from __future__ import annotations

import pytest

from holdfast.errors import GateChanged, GateWithdrawn, RunFailed
from tests.engine.gates.workflows import ask, opened


def test_a_decision_can_be_delegated_and_reassigned(engine):
    run = engine.start(ask, {"assignees": ["ann"]})
    found = opened(engine, run)

    engine.gates.delegate(found, "bob", by="ann", reason="holiday")
    assert (engine.gates.list(mine="ann"), [one.id for one in engine.gates.list(mine="bob")]) == (
        [],
        [found.id],
    )
    engine.gates.reassign(found, roles=["finance"], by="root")
    assert engine.gates.list(mine="bob") == []
    engine.gates.approve(found, by="carol", roles=["finance"])

    assert run.result(timeout=10)["by"] == "carol"
    log = [
        (entry.kind, entry.person, entry.names, entry.roles)
        for entry in engine.gates.entries(found)
    ]
    assert log[:2] == [("delegated", "ann", ["bob"], []), ("reassigned", "root", [], ["finance"])]


def test_a_withdrawn_gate_is_told_to_its_workflow(engine):
    run = engine.start(ask)

    engine.gates.withdraw(opened(engine, run), by="root", reason="not needed")

    with pytest.raises(RunFailed, match=f"{GateWithdrawn.__name__}.*not needed"):
        run.result(timeout=10)


def test_a_decision_is_about_the_data_that_it_was_shown(engine):
    run = engine.start(ask, {"data": {"rows": 10}, "quorum": 2})
    found = opened(engine, run)
    engine.gates.approve(found, by="ann", expect=found.hash)

    changed = engine.gates.update(found, {"rows": 10_000}, by="root")

    with pytest.raises(GateChanged):
        engine.gates.approve(found, by="bob", expect=found.hash)
    engine.gates.approve(found, by="bob", expect=changed.hash)
    engine.gates.approve(found, by="ann", expect=changed.hash)
    assert run.result(timeout=10)["people"] == [["bob", "approve"], ["ann", "approve"]]
