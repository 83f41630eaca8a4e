"""Views of managed flows, their steps and their audit trails."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from holdfast.core.flows import rules
from holdfast.core.flows.model import (
    EventWait,
    FlowEventRecord,
    FlowRecord,
    FlowStatus,
    FlowStepRecord,
    FlowStepStatus,
    FlowWait,
    TimerWait,
)
from holdfast.core.stored_json import decode_stored
from holdfast.views.values import instant


class FlowView(msgspec.Struct, kw_only=True):
    """A managed flow. ``revision`` grows with every change; ``wait`` says what it waits for."""

    id: str
    controller: str
    goal: str
    owner: str
    requester: str
    current_step: str
    status: FlowStatus
    cancel_requested: bool
    state: Any
    wait: dict[str, Any] | None
    revision: int
    created_at: datetime
    updated_at: datetime


class FlowStepView(msgspec.Struct, kw_only=True):
    """A piece of a flow's work, in the state in which it was last observed."""

    flow_id: str
    run_id: str
    task: str
    status: FlowStepStatus
    runtime: str
    child_session: str | None
    result: Any
    created_at: datetime
    updated_at: datetime


class FlowEventView(msgspec.Struct, kw_only=True):
    """One line of a flow's audit trail; ``own`` if a program has appended it."""

    seq: int
    kind: str
    payload: Any
    at: datetime
    own: bool = False


def of(flow: FlowRecord) -> FlowView:
    """Return the view of a flow. Raises RowDamaged."""
    wait = rules.wait_of(flow)
    return FlowView(
        id=flow.id,
        controller=flow.controller,
        goal=flow.goal,
        owner=flow.owner,
        requester=flow.requester,
        current_step=flow.current_step,
        status=flow.status,
        cancel_requested=flow.cancel_requested,
        state=decode_stored(flow.state, f"the state of flow {flow.id}"),
        wait=None if wait is None else _wait(wait),
        revision=flow.revision,
        created_at=instant(flow.created_at),
        updated_at=instant(flow.updated_at),
    )


def _wait(wait: FlowWait) -> dict[str, Any]:
    if isinstance(wait, TimerWait):
        return {"kind": "timer", "at": instant(wait.at)}
    if isinstance(wait, EventWait):
        return {"kind": "external_event", "topic": wait.topic, "correlation": wait.correlation}
    return {"kind": "manual"}


def step_of(step: FlowStepRecord) -> FlowStepView:
    """Return the view of a step. Raises RowDamaged."""
    result = None
    if step.result is not None:
        result = decode_stored(step.result, f"the result of step {step.run_id}")
    return FlowStepView(
        flow_id=step.flow_id,
        run_id=step.run_id,
        task=step.task,
        status=step.status,
        runtime=step.runtime,
        child_session=step.child_session,
        result=result,
        created_at=instant(step.created_at),
        updated_at=instant(step.updated_at),
    )


def event_of(event: FlowEventRecord) -> FlowEventView:
    """Return the view of a line of the audit trail. Raises RowDamaged."""
    payload = decode_stored(event.payload, f"event {event.seq} of flow {event.flow_id}")
    return FlowEventView(
        seq=event.seq, kind=event.kind, payload=payload, at=instant(event.at), own=event.own
    )
