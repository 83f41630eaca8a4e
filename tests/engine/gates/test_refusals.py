"""Gates that cannot be asked, and answers that are refused."""

from __future__ import annotations

import pytest

import holdfast
from holdfast import gate, sync
from holdfast.errors import (
    BadOption,
    GateChanged,
    GateNotFound,
    QuorumImpossible,
    RunFailed,
    UnknownChoice,
    WrongAnswer,
)
from tests.engine.gates.workflows import ask, opened, waits


@pytest.mark.parametrize(
    "options",
    [
        {"options": "yes"},
        {"options": []},
        {"options": ["a", "a"]},
        {"options": [1]},
        {"options": [{"name": "a"}]},
        {"quorum": 0},
        {"quorum": True},
        {"timeout": "0s"},
        {"on_timeout": "maybe"},
        {"assignees": [""]},
        {"escalate": {"after": "1d"}},
        {"escalate": {"assignees": ["boss"]}},
        {"remind": "0s"},
        {"options": [{"value": "a", "means": "perhaps"}]},
    ],
)
@pytest.mark.sqlite_only
def test_what_cannot_be_asked_fails_the_run_by_name_and_opens_nothing(engine, options):
    run = engine.start(ask, options)

    with pytest.raises(RunFailed, match="BadOption"):
        run.result(timeout=60)
    assert engine.gates.list(status="any") == []


def test_more_people_than_there_are_cannot_agree(engine):
    run = engine.start(ask, {"assignees": ["ann"], "quorum": 2})

    with pytest.raises(RunFailed, match=QuorumImpossible.__name__):
        run.result(timeout=60)
    assert engine.gates.list(status="any") == []


def test_bad_answers_are_refused_and_change_nothing(engine):
    run = engine.start(ask, {"options": ["yes", "no"]})
    open_gate = opened(engine, run)
    waits(engine, run)
    before = (engine.gates.get(open_gate), run.record)

    for error, call in [
        (UnknownChoice, lambda: engine.gates.decide(open_gate, "perhaps", by="ann")),
        (WrongAnswer, lambda: engine.gates.decide(open_gate, "yes", by="ann", form={"a": 1})),
        (BadOption, lambda: engine.gates.decide(open_gate, "yes", by="")),
        (BadOption, lambda: engine.gates.decide(open_gate, 7, by="ann")),
        (GateNotFound, lambda: engine.gates.decide("none", "yes", by="ann")),
        (GateNotFound, lambda: engine.gates.decide(None, "yes", by="ann")),
        (BadOption, lambda: engine.gates.reassign(open_gate)),
        (BadOption, lambda: engine.gates.list(status="nonsense")),
        (GateChanged, lambda: engine.gates.decide(open_gate, "yes", by="ann", expect="0" * 64)),
    ]:
        with pytest.raises(error):
            call()

    assert (engine.gates.get(open_gate), run.record) == before
    assert engine.gates.entries(open_gate) == []


def test_gate_works_only_inside_a_workflow():
    with pytest.raises(holdfast.errors.NotInWorkflow):
        gate("Ship it?")
    with pytest.raises(holdfast.errors.NotInWorkflow):
        sync.gate("Ship it?")
