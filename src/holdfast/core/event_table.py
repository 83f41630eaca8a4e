"""One row per kind of event: the command it belongs to, and how the engine treats it.

Everything that distinguishes the kinds is in this table; the sets below are derived from it. A new
kind of event is a new row here, and a text in the view of the history.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple

from holdfast.core import commands as c
from holdfast.core.events import EventKind as K


class OnReplay(Enum):
    """What a replay of the run does to an event."""

    KEEP = auto()
    """The event still counts."""

    VOID = auto()
    """The event no longer counts: it is a failure, or the end of the run."""

    VOID_IF_FAILED = auto()
    """The event no longer counts if it has an error."""

    VOID_IF_TIMED_OUT = auto()
    """The event no longer counts if its wait timed out: the repeated wait gets its full time."""

    VOID_IF_GATE_REOPENS = auto()
    """The event no longer counts if its gate failed or was withdrawn: the repeated gate is new."""

    VOID_IF_OUTCOME_VOID = auto()
    """The event no longer counts if an earlier outcome no longer counts: it records a state of the
    program that depends on that outcome."""


class EventRow(NamedTuple):
    """The facts about one kind of event."""

    kind: str
    command: type | None = None
    """The command that the event belongs to; None if the run or its environment caused it."""

    is_outcome: bool = False
    """Whether the program is fed the event."""

    is_request: bool = False
    """Whether the event is recorded in the turn in which the code makes the call."""

    is_sealed: bool = False
    """Whether the data of the event is a value of the user, which is sealed."""

    on_replay: OnReplay = OnReplay.KEEP

    leaves_waiting: bool = False
    """Whether the step is still waiting after the event."""

    has_times: bool = False
    """Whether the engine writes the data of the event, with instants in it."""


_VOID = OnReplay.VOID

EVENTS = (
    EventRow(K.STEP_CALLED, c.RunStep, is_request=True, is_sealed=True),
    EventRow(K.STEP_STARTED, c.RunStep),
    EventRow(K.STEP_COMPLETED, c.RunStep, is_outcome=True, is_sealed=True),
    EventRow(K.STEP_FAILED, c.RunStep, is_outcome=True, on_replay=_VOID),
    EventRow(K.STEP_RETRIED, c.RunStep, on_replay=_VOID, leaves_waiting=True, has_times=True),
    EventRow(K.STEP_DROPPED, c.RunStep),
    EventRow(K.STEP_BLOCKED, c.RunStep, leaves_waiting=True, has_times=True),
    EventRow(K.TIMER_SET, c.SetTimer, is_request=True, leaves_waiting=True, has_times=True),
    EventRow(K.TIMER_FIRED, c.SetTimer, is_outcome=True),
    EventRow(
        K.SIGNAL_AWAITED,
        c.AwaitSignal,
        is_request=True,
        on_replay=OnReplay.VOID_IF_TIMED_OUT,
        leaves_waiting=True,
        has_times=True,
    ),
    EventRow(K.SIGNAL_RECEIVED, c.AwaitSignal, is_outcome=True, is_sealed=True),
    EventRow(K.SIGNAL_TIMED_OUT, c.AwaitSignal, is_outcome=True, on_replay=_VOID),
    EventRow(K.MESSAGE_AWAITED, c.Subscribe, is_request=True, leaves_waiting=True),
    EventRow(K.MESSAGE_RECEIVED, c.Subscribe, is_outcome=True, is_sealed=True),
    EventRow(K.MESSAGE_DROPPED, c.Subscribe),
    EventRow(K.MESSAGE_SENT, c.Publish, is_outcome=True, is_request=True),
    EventRow(K.BROADCAST_SENT, c.Broadcast, is_outcome=True, is_request=True),
    EventRow(K.INCIDENT_RAISED, c.RaiseIncident, is_request=True, leaves_waiting=True),
    EventRow(K.INCIDENT_RESOLVED, c.RaiseIncident, is_outcome=True, is_sealed=True),
    EventRow(K.INCIDENT_DROPPED, c.RaiseIncident),
    EventRow(K.INSTRUCTED, is_outcome=True, is_sealed=True),
    EventRow(K.VERSION_CHANGED, c.ChangeVersion),
    EventRow(K.ELEMENT_ENTERED, c.RecordElements),
    EventRow(K.ELEMENT_COMPLETED, c.RecordElements),
    EventRow(K.ELEMENT_CANCELLED, c.RecordElements),
    EventRow(K.CHILD_STARTED, c.StartChild, is_outcome=True, is_request=True),
    EventRow(
        K.CHILD_ENDED,
        c.AwaitChild,
        is_outcome=True,
        is_sealed=True,
        on_replay=OnReplay.VOID_IF_FAILED,
    ),
    EventRow(K.MAP_STARTED, c.StartMap, is_request=True, leaves_waiting=True),
    EventRow(
        K.MAP_ENDED, c.StartMap, is_outcome=True, is_sealed=True, on_replay=OnReplay.VOID_IF_FAILED
    ),
    EventRow(K.CHILDREN_ENDED, c.EndChildren, is_outcome=True, on_replay=_VOID),
    EventRow(
        K.GATE_OPENED,
        c.OpenGate,
        is_request=True,
        on_replay=OnReplay.VOID_IF_GATE_REOPENS,
        leaves_waiting=True,
        has_times=True,
    ),
    EventRow(
        K.GATE_REMINDED, c.OpenGate, on_replay=OnReplay.VOID_IF_GATE_REOPENS, leaves_waiting=True
    ),
    EventRow(
        K.GATE_ESCALATED, c.OpenGate, on_replay=OnReplay.VOID_IF_GATE_REOPENS, leaves_waiting=True
    ),
    EventRow(
        K.GATE_CLOSED,
        c.OpenGate,
        is_outcome=True,
        on_replay=OnReplay.VOID_IF_FAILED,
        has_times=True,
    ),
    EventRow(K.GATE_WITHDRAWN, c.OpenGate, on_replay=OnReplay.VOID_IF_GATE_REOPENS),
    EventRow(K.WAIT_CREATED, c.CreateWait, is_outcome=True, is_request=True, has_times=True),
    EventRow(
        K.WAIT_OPENED,
        c.AwaitCondition,
        is_request=True,
        on_replay=OnReplay.VOID_IF_TIMED_OUT,
        leaves_waiting=True,
        has_times=True,
    ),
    EventRow(K.WAIT_SATISFIED, c.AwaitCondition, is_outcome=True, is_sealed=True, has_times=True),
    EventRow(K.WAIT_RELEASED, c.AwaitCondition, is_outcome=True, is_sealed=True, has_times=True),
    EventRow(
        K.WAIT_TIMED_OUT,
        c.AwaitCondition,
        is_outcome=True,
        is_sealed=True,
        on_replay=_VOID,
        has_times=True,
    ),
    EventRow(
        K.WAIT_ESCALATED,
        c.AwaitCondition,
        on_replay=OnReplay.VOID_IF_TIMED_OUT,
        leaves_waiting=True,
        has_times=True,
    ),
    EventRow(K.WAIT_DROPPED, c.AwaitCondition),
    EventRow(K.MARKED, c.RecordDecision, is_sealed=True),
    EventRow(
        K.CHECKPOINT_WRITTEN, c.Checkpoint, is_sealed=True, on_replay=OnReplay.VOID_IF_OUTCOME_VOID
    ),
    EventRow(K.BUDGET_SPENT, c.Spend, is_outcome=True),
    EventRow(K.BUDGET_RESERVED, c.Reserve, is_outcome=True),
    EventRow(K.BUDGET_SETTLED, c.ReleaseReservation, is_outcome=True),
    EventRow(K.SIGNAL_SENT, c.SendSignal, is_outcome=True, is_request=True),
    EventRow(K.CANCEL_SENT, c.CancelRun, is_outcome=True, is_request=True),
    EventRow(K.GRAPH_EXTENDED, c.ExtendGraph, is_outcome=True, is_request=True),
    EventRow(K.CANCEL_REQUESTED, is_outcome=True, on_replay=_VOID),
    EventRow(K.RUN_COMPLETED, on_replay=_VOID),
    EventRow(K.RUN_FAILED, on_replay=_VOID),
    EventRow(K.RUN_CANCELLED, on_replay=_VOID),
    EventRow(K.RUN_EXPIRED, on_replay=_VOID),
    EventRow(K.RUN_STUCK, on_replay=_VOID),
    EventRow(K.RUN_RESUMED),
    EventRow(K.RUN_REPLAYED),
    EventRow(K.RUN_FORKED),
    EventRow(K.ATTEMPT_FAILED, has_times=True),
    EventRow(K.RUN_DELAYED, has_times=True),
    EventRow(K.CHILDREN_AWAITED, has_times=True),
    EventRow(K.LEASE_REVOKED),
    EventRow(K.PRIORITY_CHANGED),
    EventRow(K.RUN_RELEASED),
    EventRow(K.RUN_OVERRIDDEN),
    EventRow(K.LEASE_LOST),
    EventRow(K.HISTORY_DELETED),
)

OUTCOMES = frozenset(row.kind for row in EVENTS if row.is_outcome)
"""The kinds that a program is fed: outcomes of commands, and the request to stop."""

REQUESTS = frozenset(row.kind for row in EVENTS if row.is_request)
"""The kinds that are recorded in the turn in which the code makes the call."""

SEALED = frozenset(row.kind for row in EVENTS if row.is_sealed)
"""The kinds whose data are values of the user. Times and names, which the engine writes itself,
are not sealed."""

WAITING = frozenset(row.kind for row in EVENTS if row.leaves_waiting)
"""The kinds after which a step is still waiting."""

TIMED = frozenset(row.kind for row in EVENTS if row.has_times)
"""The kinds whose data the engine writes, with instants in it. The data of the others are values of
users, names and counts."""

ANSWERS: dict[type, frozenset[str]] = {
    command: frozenset(row.kind for row in EVENTS if row.command is command and row.is_outcome)
    for command in {row.command for row in EVENTS if row.command is not None}
}
"""The kinds of events that can be the outcome of a command."""


STEP_ENDS = ANSWERS[c.RunStep]
"""The kinds that record the end of a step."""


def kinds_with(policy: OnReplay) -> frozenset[str]:
    """Return the kinds that a replay treats by *policy*."""
    return frozenset(row.kind for row in EVENTS if row.on_replay is policy)
