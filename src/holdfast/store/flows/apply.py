"""Apply the operations on managed flows: each change and its audit entry in one transaction."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from holdfast.core.flows import model as flow_model
from holdfast.core.flows import rules as flow_rules
from holdfast.core.flows.model import (
    FlowAction,
    FlowEventKind,
    FlowEventRecord,
    FlowRecord,
    FlowStatus,
    FlowStepRecord,
    FlowStepStatus,
)
from holdfast.errors import FlowChanged, FlowExists, FlowNotFound, FlowNotYours
from holdfast.store.database import Row, Transaction
from holdfast.store.flows.operations import (
    AppendFlowEvent,
    CreateFlow,
    DeliverFlowEvent,
    DeliverToFlows,
    FlowsWoken,
    MoveFlow,
    ObserveFlowStep,
    PruneFlows,
    WakeFlows,
)


def create_flow(tx: Transaction, op: CreateFlow) -> FlowRecord:
    """Create a flow with the first entry of its audit trail. Raises FlowExists."""
    flow = msgspec.structs.replace(op.flow, created_at=tx.now, updated_at=tx.now)
    # The insert itself decides, so that two processes cannot both create the flow.
    if not tx.change("insert_flow", **_columns(flow)):
        raise FlowExists(flow=flow.id)
    created = {"controller": flow.controller, "goal": flow.goal, "current_step": flow.current_step}
    _audit(tx, flow.id, FlowEventKind.CREATED, created)
    return _act(tx, flow, flow_model.StartFlow()) if op.start else flow


def move_flow(tx: Transaction, op: MoveFlow) -> FlowRecord:
    """Apply an action to a flow, which is locked until the commit. Raises FlowChanged."""
    flow = _load(tx, op.flow_id, op.namespace, op.owner)
    if op.revision is not None and op.revision != flow.revision:
        raise FlowChanged(flow=flow.id, expected=op.revision, actual=flow.revision)
    return _act(tx, flow, op.action)


def deliver_flow_event(tx: Transaction, op: DeliverFlowEvent) -> FlowRecord | None:
    """Resume a flow that waits for exactly this event. Return None if it does not."""
    flows = tx.rows("flow_to_move", flow_id=op.flow_id)
    # Locked: of two events at the same time, only the first one resumes the flow.
    flow = flow_from(flows[0]) if flows else None
    if (
        flow is None
        or flow.namespace != op.namespace
        or not flow_rules.answers(flow, op.topic, op.correlation)
    ):
        return None
    return _act(tx, flow, _resumption(op.payload))


def deliver_to_flows(tx: Transaction, op: DeliverToFlows) -> list[FlowRecord]:
    """Resume the flows that wait for this event, in the order of their ids, which locks them."""
    rows = tx.rows(
        "flows_awaiting",
        awaits=flow_rules.awaits_of(flow_model.EventWait(op.topic, op.correlation)),
        namespace=op.namespace,
        limit=op.limit,
    )
    resumed = []
    for row in rows:
        # Read again with a lock: another process may have moved or pruned the flow meanwhile.
        locked = tx.rows("flow_to_move", flow_id=row["id"])
        flow = flow_from(locked[0]) if locked else None
        if (
            flow is not None
            and flow_rules.answers(flow, op.topic, op.correlation)
            and not flow.cancel_requested  # a worker cancels it
        ):
            resumed.append(_act(tx, flow, _resumption(op.payload)))
    return resumed


def _resumption(payload: bytes | None) -> flow_model.ResumeFlow:
    """Return the action that resumes a flow with the payload of its event."""
    if payload is None:
        return flow_model.ResumeFlow(None)
    return flow_model.ResumeFlow(msgspec.json.encode({"resume_event": msgspec.Raw(payload)}))


def append_flow_event(tx: Transaction, op: AppendFlowEvent) -> FlowEventRecord:
    """Append a line of a program's own to the audit trail of a flow."""
    # Locks the flow, and checks that the caller owns it.
    _load(tx, op.flow_id, op.namespace, op.owner)
    tx.change(
        "append_flow_event",
        flow_id=op.flow_id,
        kind=op.kind,
        payload=op.payload,
        at=tx.now,
        own=1,
    )
    return event_from(tx.rows("flow_events", flow_id=op.flow_id, limit=1)[0])


def observe_flow_step(tx: Transaction, op: ObserveFlowStep) -> FlowStepRecord:
    """Record the status of a step; the flow itself does not change."""
    step = op.step
    # Locks the flow, and checks that the caller owns it.
    _load(tx, step.flow_id, op.namespace, op.owner)
    tx.change(
        "observe_flow_step",
        flow_id=step.flow_id,
        run_id=step.run_id,
        task=step.task,
        status=step.status,
        runtime=step.runtime,
        child_session=step.child_session,
        result=step.result,
        now=tx.now,
    )
    stored = step_from(tx.rows("flow_step", flow_id=step.flow_id, run_id=step.run_id)[0])
    _audit(
        tx,
        step.flow_id,
        FlowEventKind.STEP_OBSERVED,
        {"run_id": step.run_id, "status": step.status, "runtime": stored.runtime},
    )
    return stored


def wake_flows(tx: Transaction, op: WakeFlows) -> FlowsWoken:
    """Resume or cancel waiting flows whose time has come."""
    due = tx.rows("due_flows", now=tx.now, limit=op.limit, namespace=op.namespace)
    woken = FlowsWoken(resumed=0, cancelled=0, more=len(due) == op.limit)
    for row in due:
        # Read again with a lock: another process may have moved or pruned the flow meanwhile.
        locked = tx.rows("flow_to_move", flow_id=row["id"])
        flow = flow_from(locked[0]) if locked else None
        action = None if flow is None else flow_rules.due(flow, tx.now)
        if flow is not None and action is not None:
            after = _act(tx, flow, action)
            woken.cancelled += after.status is FlowStatus.CANCELLED
            woken.resumed += after.status is FlowStatus.RUNNING
    return woken


def prune_flows(tx: Transaction, op: PruneFlows) -> int:
    """Delete flows that ended before *op.before*, with their steps and audit trails."""
    gone = [
        {"flow_id": row["id"]}
        for row in tx.rows("old_flows", before=op.before, namespace=op.namespace, limit=op.limit)
    ]
    for query in ("delete_flow_events", "delete_flow_steps", "delete_flow"):
        tx.many(query, gone)
    return len(gone)


def _load(tx: Transaction, flow_id: str, namespace: str, owner: str | None) -> FlowRecord:
    flows = tx.rows("flow_to_move", flow_id=flow_id)
    flow = flow_from(flows[0]) if flows else None
    if flow is None or flow.namespace != namespace:
        raise FlowNotFound(flow=flow_id)
    if owner is not None and flow.owner != owner:
        raise FlowNotYours(flow=flow_id)
    return flow


def _act(tx: Transaction, flow: FlowRecord, action: FlowAction) -> FlowRecord:
    """Apply an action to a flow, and write its audit entry."""
    acted = flow_rules.act(flow, action, tx.now)
    if acted is None:
        return flow
    after = _columns(acted.flow)
    tx.change("move_flow", flow_id=flow.id, **{name: after[name] for name in _CHANGING})
    _audit(tx, flow.id, acted.kind, acted.payload)
    if after["wake_at"] is not None:
        # Workers must compute again how long they may sleep.
        tx.hints.ready = True
    return acted.flow


_CHANGING = (
    "controller",
    "goal",
    "owner",
    "requester",
    "current_step",
    "state",
    "wait",
    "wake_at",
    "awaits",
    "status",
    "cancel_requested",
    "revision",
    "updated_at",
)


def _columns(flow: FlowRecord) -> dict[str, object]:
    values = msgspec.structs.asdict(flow)
    return {
        **values,
        "cancel_requested": int(flow.cancel_requested),
        "wake_at": flow_rules.wake_at(flow),
        "awaits": flow_rules.awaits_of(flow_rules.wait_of(flow)),
    }


def _audit(tx: Transaction, flow_id: str, kind: str, payload: Mapping[str, object]) -> None:
    tx.change(
        "append_flow_event",
        flow_id=flow_id,
        kind=kind,
        payload=msgspec.json.encode(payload),
        at=tx.now,
        own=0,
    )


def flow_from(row: Row) -> FlowRecord:
    """Return the flow of a row."""
    values = dict(row)
    values |= {
        "status": FlowStatus(values["status"]),
        "cancel_requested": bool(values["cancel_requested"]),
    }
    values |= {
        name: None if values[name] is None else bytes(values[name]) for name in ("state", "wait")
    }
    return FlowRecord(**values)


def event_from(row: Row) -> FlowEventRecord:
    """Return the line of an audit trail of a row."""
    return FlowEventRecord(
        row["flow_id"],
        row["seq"],
        row["kind"],
        bytes(row["payload"]),
        row["at"],
        bool(row["own"]),
    )


def step_from(row: Row) -> FlowStepRecord:
    """Return the step of a row."""
    values = dict(row)
    values |= {
        "status": FlowStepStatus(values["status"]),
        "result": None if values["result"] is None else bytes(values["result"]),
    }
    return FlowStepRecord(**values)
