"""Flows, their steps and their audit trail, as they are stored; the moves of a flow."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec


class FlowStatus(StrEnum):
    """Where a flow stands."""

    CREATED = "created"
    RUNNING = "running"
    WAITING = "waiting"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"


ENDED = frozenset({FlowStatus.FINISHED, FlowStatus.FAILED, FlowStatus.CANCELLED})


_NEXT: dict[FlowStatus, frozenset[FlowStatus]] = {
    FlowStatus.CREATED: frozenset({FlowStatus.RUNNING, FlowStatus.CANCELLED}),
    FlowStatus.RUNNING: frozenset(
        {FlowStatus.WAITING, FlowStatus.FINISHED, FlowStatus.FAILED, FlowStatus.CANCELLED}
    ),
    FlowStatus.WAITING: frozenset({FlowStatus.RUNNING, FlowStatus.FAILED, FlowStatus.CANCELLED}),
}


class FlowStepStatus(StrEnum):
    """Where a step of a flow stands. Whoever observes it says so; nothing is enforced."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class TimerWait(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="timer", tag_field="kind"
):
    """Until an instant."""

    at: int


class EventWait(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="external_event", tag_field="kind"
):
    """For an event from outside, told by its topic and what it is about."""

    topic: str
    correlation: str


class ManualWait(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="manual", tag_field="kind"
):
    """For somebody to resume it."""


FlowWait = TimerWait | EventWait | ManualWait


LAST = 253_402_300_799_999_999
"""The last instant that has a date of four digits for its year."""


class FlowRecord(msgspec.Struct, kw_only=True):
    """A managed flow, as stored. ``state`` and ``wait`` are JSON."""

    id: str
    namespace: str
    controller: str
    goal: str
    owner: str
    requester: str
    current_step: str
    state: bytes
    status: FlowStatus
    created_at: int
    updated_at: int
    wait: bytes | None = None
    cancel_requested: bool = False
    revision: int = 0


class FlowStepRecord(msgspec.Struct, kw_only=True):
    """What is known of one piece of work of a flow. ``run_id`` is its name where it runs."""

    flow_id: str
    run_id: str
    task: str
    status: FlowStepStatus
    runtime: str = "mirrored"
    child_session: str | None = None
    result: bytes | None = None
    created_at: int = 0
    updated_at: int = 0


class FlowEventRecord(msgspec.Struct):
    """One line of a flow's audit trail."""

    flow_id: str
    seq: int
    kind: str
    payload: bytes
    at: int


class StartFlow(msgspec.Struct, frozen=True):
    """Begin."""


class WaitFlow(msgspec.Struct, frozen=True):
    """Wait for something."""

    wait: FlowWait


class ResumeFlow(msgspec.Struct, frozen=True):
    """Go on after a wait."""

    patch: bytes | None = None


class FinishFlow(msgspec.Struct, frozen=True):
    """End well."""

    patch: bytes | None = None


class FailFlow(msgspec.Struct, frozen=True):
    """End badly."""

    reason: str


class RequestFlowCancel(msgspec.Struct, frozen=True):
    """Ask whoever drives it to cancel it; nothing else can happen to it from now on."""


class CancelFlow(msgspec.Struct, frozen=True):
    """End at once."""


class AdvanceFlow(msgspec.Struct, frozen=True):
    """Change the state, and perhaps say what is being done now."""

    patch: bytes
    current_step: str | None = None


FlowAction = (
    StartFlow
    | WaitFlow
    | ResumeFlow
    | FinishFlow
    | FailFlow
    | RequestFlowCancel
    | CancelFlow
    | AdvanceFlow
)


class FlowMoved(msgspec.Struct):
    """A flow after an action, and the line of the audit trail that tells of it."""

    flow: FlowRecord
    kind: str
    payload: dict[str, Any]
