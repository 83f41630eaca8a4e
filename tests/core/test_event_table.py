"""Each kind of event has one row, and each command that is answered has its outcomes."""

import inspect
from typing import get_args

import pytest

from holdfast.core import commands
from holdfast.core.commands import (
    AnswerInstruction,
    ChangeVersion,
    Checkpoint,
    Command,
    Drop,
    Finish,
    RecordDecision,
    RecordElements,
    Rest,
)
from holdfast.core.event_table import ANSWERS, EVENTS, OUTCOMES, OnReplay, kinds_with
from holdfast.core.events import Event, EventKind
from holdfast.core.history import voided_by_replay

KINDS = {kind for name, kind in vars(EventKind).items() if not name.startswith("_")}
UNANSWERED = {
    AnswerInstruction,
    ChangeVersion,
    Checkpoint,
    Drop,
    Finish,
    RecordDecision,
    RecordElements,
    Rest,
}
UNASKED = {EventKind.CANCEL_REQUESTED, EventKind.INSTRUCTED}


def test_each_kind_has_one_row():
    assert sorted(row.kind for row in EVENTS) == sorted(KINDS)


def test_each_command_that_a_program_waits_for_has_outcomes():
    answered = {command for command, kinds in ANSWERS.items() if kinds}

    assert answered == set(get_args(Command)) - UNANSWERED
    assert all(inspect.getmodule(command) is commands for command in ANSWERS)


def test_an_outcome_belongs_to_one_command():
    outcomes = [kind for kinds in ANSWERS.values() for kind in kinds]

    assert sorted(outcomes) == sorted(OUTCOMES - UNASKED)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_replay_treats_an_event_by_its_policy(kind):
    policy = next(row.on_replay for row in EVENTS if row.kind == kind)
    plain = Event(kind, "a", seq=1)
    failed = Event(kind, "a", seq=1, error=b"{}")

    assert voided_by_replay([plain], None) == ([1] if is_void(kind, policy) else [])
    assert voided_by_replay([failed], None) == ([1] if is_void(kind, policy, failed=True) else [])


def test_a_wait_that_timed_out_begins_again():
    for kind in kinds_with(OnReplay.VOID_IF_TIMED_OUT):
        begun = Event(kind, "a", seq=1)
        timed_out = Event(EventKind.WAIT_TIMED_OUT, "a", seq=2)

        assert voided_by_replay([begun, timed_out], None) == [1, 2]


def test_a_gate_that_failed_is_opened_again():
    opened = Event(EventKind.GATE_OPENED, "a", seq=1)
    closed = Event(EventKind.GATE_CLOSED, "a", seq=2)
    rejected = Event(EventKind.GATE_CLOSED, "a", seq=2, error=b"{}")

    assert voided_by_replay([opened, closed], None) == []
    assert voided_by_replay([opened, rejected], None) == [1, 2]


def is_void(kind: str, policy: OnReplay, *, failed: bool = False) -> bool:
    if policy is OnReplay.VOID_IF_FAILED:
        return failed
    return policy is OnReplay.VOID or kind == EventKind.GATE_WITHDRAWN
