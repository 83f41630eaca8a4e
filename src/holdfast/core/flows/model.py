"""Records of managed flows, their steps and their audit trail; the status table of a flow and the
actions on it."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec


class FlowStatus(StrEnum):
    """The status of a flow."""

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
"""The statuses that may follow each status; a status without a row is final."""


class FlowStepStatus(StrEnum):
    """The status of a step of a flow. The driver of the flow reports it; no order is enforced."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class TimerWait(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="timer", tag_field="kind"
):
    """Wait until the instant ``at``, in microseconds since 1970."""

    at: int


class EventWait(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="external_event", tag_field="kind"
):
    """Wait for an external event with this topic and correlation."""

    topic: str
    correlation: str


class ManualWait(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag="manual", tag_field="kind"
):
    """Wait until the driver or an operator resumes the flow."""


FlowWait = TimerWait | EventWait | ManualWait


LAST = 253_402_300_799_999_999
"""The last instant of the year 9999, in microseconds since 1970: later ones cannot be shown as a
date."""


class FlowRecord(msgspec.Struct, kw_only=True):
    """A managed flow, as stored. ``state`` and ``wait`` are JSON; ``revision`` grows with every
    change."""

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
    """One step of a flow, as its driver has reported it. ``run_id`` is its id in the system that
    runs it."""

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
    """One line of a flow's audit trail; *own* if a program has appended it, not a change of the
    flow."""

    flow_id: str
    seq: int
    kind: str
    payload: bytes
    at: int
    own: bool = False


class FlowEventKind(StrEnum):
    """The kinds of lines that changes and observed steps write to the audit trail. A program may
    not use them for its own lines."""

    CREATED = "created"
    STARTED = "started"
    ADVANCED = "advanced"
    CHANGED = "changed"
    WAITING = "waiting"
    RESUMED = "resumed"
    FINISHED = "finished"
    FAILED = "failed"
    CANCEL_REQUESTED = "cancel_requested"
    CANCELLED = "cancelled"
    STEP_OBSERVED = "step_observed"


class StartFlow(msgspec.Struct, frozen=True):
    """Start a created flow."""


class WaitFlow(msgspec.Struct, frozen=True):
    """Park a running flow until its wait ends."""

    wait: FlowWait


class ResumeFlow(msgspec.Struct, frozen=True):
    """Continue a waiting flow; *patch* is merged into its state."""

    patch: bytes | None = None


class FinishFlow(msgspec.Struct, frozen=True):
    """End a running flow successfully; *patch* is merged into its state."""

    patch: bytes | None = None


class FailFlow(msgspec.Struct, frozen=True):
    """End a flow as failed."""

    reason: str


class RequestFlowCancel(msgspec.Struct, frozen=True):
    """Ask the driver of a flow to cancel it. From then on the flow accepts only its cancel."""


class CancelFlow(msgspec.Struct, frozen=True):
    """Cancel a flow immediately."""


class AdvanceFlow(msgspec.Struct, frozen=True):
    """Merge *patch* into the state of a flow and, if given, set its current step."""

    patch: bytes
    current_step: str | None = None


class SetFlow(msgspec.Struct, frozen=True):
    """Change the description of a flow; fields that are None keep their values."""

    goal: str | None = None
    owner: str | None = None
    requester: str | None = None
    controller: str | None = None


FlowAction = (
    StartFlow
    | WaitFlow
    | ResumeFlow
    | FinishFlow
    | FailFlow
    | RequestFlowCancel
    | CancelFlow
    | AdvanceFlow
    | SetFlow
)


class FlowMoved(msgspec.Struct):
    """A flow after an action, with the kind and payload of the line for its audit trail."""

    flow: FlowRecord
    kind: str
    payload: dict[str, Any]
