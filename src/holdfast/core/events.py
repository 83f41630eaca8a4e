"""Events: the lines of a run's history, and their kinds.

The facts about each kind are in ``event_table``.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from holdfast.core.waits import Signal

BY_SIGNALS, BY_RELEASE, BY_TIMEOUT, BY_CODE, BY_END = (
    "its signals",
    "a person",
    "timeout",
    "its workflow",
    "the end of the run",
)
"""The causes for which a wait is closed."""


def signals_as_data(signals: Sequence[Signal], **more: object) -> bytes:
    """Return signals as the data of an event."""
    lines = [
        {
            "id": signal.number,
            "name": signal.name,
            "source": signal.source,
            "wait": signal.wait_id,
            "at": signal.at,
            "payload": msgspec.Raw(signal.payload),
        }
        for signal in signals
    ]
    return msgspec.json.encode({"signals": lines, **more})


class EventKind:
    """The kinds of events, in the past tense."""

    STEP_CALLED = "step_called"
    STEP_STARTED = "step_started"
    STEP_COMPLETED = "step_completed"
    STEP_FAILED = "step_failed"
    STEP_RETRIED = "step_retried"
    STEP_DROPPED = "step_dropped"
    STEP_BLOCKED = "step_blocked"
    TIMER_SET = "timer_set"
    TIMER_FIRED = "timer_fired"
    SIGNAL_AWAITED = "signal_awaited"
    SIGNAL_RECEIVED = "signal_received"
    SIGNAL_TIMED_OUT = "signal_timed_out"
    MESSAGE_AWAITED = "message_awaited"
    MESSAGE_RECEIVED = "message_received"
    MESSAGE_DROPPED = "message_dropped"
    MESSAGE_SENT = "message_sent"
    BROADCAST_SENT = "broadcast_sent"
    INCIDENT_RAISED = "incident_raised"
    INCIDENT_RESOLVED = "incident_resolved"
    INCIDENT_DROPPED = "incident_dropped"
    INSTRUCTED = "instructed"
    VERSION_CHANGED = "version_changed"
    ELEMENT_ENTERED = "element_entered"
    ELEMENT_COMPLETED = "element_completed"
    ELEMENT_CANCELLED = "element_cancelled"
    CHILD_STARTED = "child_started"
    CHILD_ENDED = "child_ended"
    MAP_STARTED = "map_started"
    MAP_ENDED = "map_ended"
    CHILDREN_ENDED = "children_ended"
    GATE_OPENED = "gate_opened"
    GATE_REMINDED = "gate_reminded"
    GATE_ESCALATED = "gate_escalated"
    GATE_CLOSED = "gate_closed"
    GATE_WITHDRAWN = "gate_withdrawn"
    WAIT_CREATED = "wait_created"
    WAIT_OPENED = "wait_opened"
    WAIT_SATISFIED = "wait_satisfied"
    WAIT_RELEASED = "wait_released"
    WAIT_TIMED_OUT = "wait_timed_out"
    WAIT_ESCALATED = "wait_escalated"
    WAIT_DROPPED = "wait_dropped"
    MARKED = "marked"
    CHECKPOINT_WRITTEN = "checkpoint_written"
    BUDGET_SPENT = "budget_spent"
    BUDGET_RESERVED = "budget_reserved"
    BUDGET_SETTLED = "budget_settled"
    SIGNAL_SENT = "signal_sent"
    CANCEL_SENT = "cancel_sent"
    GRAPH_EXTENDED = "graph_extended"
    CANCEL_REQUESTED = "cancel_requested"
    RUN_COMPLETED = "run_completed"
    RUN_FAILED = "run_failed"
    RUN_CANCELLED = "run_cancelled"
    RUN_EXPIRED = "run_expired"
    RUN_STUCK = "run_stuck"
    RUN_RESUMED = "run_resumed"
    RUN_REPLAYED = "run_replayed"
    RUN_FORKED = "run_forked"
    ATTEMPT_FAILED = "attempt_failed"
    RUN_DELAYED = "run_delayed"
    CHILDREN_AWAITED = "children_awaited"
    LEASE_REVOKED = "lease_revoked"
    PRIORITY_CHANGED = "priority_changed"
    RUN_RELEASED = "run_released"
    RUN_OVERRIDDEN = "run_overridden"
    LEASE_LOST = "lease_lost"
    HISTORY_DELETED = "history_deleted"


class EventRole(StrEnum):
    """What an event means beyond its kind: the step is a compensation; the run is stuck because an
    encryption key is missing; a replay repeats all steps whose identity begins with that of the
    event; the child that the event names was followed by another attempt, so that a replay leaves
    it alone."""

    COMPENSATION = "compensation"
    KEY_MISSING = "key_missing"
    REPEATED = "repeated"
    SUPERSEDED = "superseded"


def compensation_of(step: str | None) -> str:
    """Return the role of a compensation; *step* is the step that it undoes, if that is known."""
    if step is None:
        return EventRole.COMPENSATION
    return f"{EventRole.COMPENSATION} of {step}"


def is_compensation(role: str | None) -> bool:
    """Return whether a role is that of a compensation."""
    return role is not None and role.startswith(EventRole.COMPENSATION)


def undone_step(role: str | None) -> str | None:
    """Return the step that a compensation undoes, by its role; None if it is not recorded."""
    if role is None:
        return None
    before, _, step = role.partition(" of ")
    return step if step and before == EventRole.COMPENSATION else None


class Event(msgspec.Struct, gc=False):
    """One line of a run's history. It contains only texts and numbers, so that the garbage
    collector need not visit the events of a long history.

    ``step`` is the stable identity of the command that the event belongs to. ``id`` is its number
    among the events of all runs; it is set only where an event moves together with its run.
    """

    kind: str
    step: str | None = None
    data: bytes | None = None
    error: bytes | None = None
    attempt: int = 1
    started_at: int | None = None
    at: int = 0
    seq: int = 0
    id: int = 0
    role: str | None = None
    """An ``EventRole``; the role of a compensation may name the step that it undoes."""
