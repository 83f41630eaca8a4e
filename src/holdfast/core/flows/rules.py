"""Rules of managed flows: which action is legal in which status, and its effect. Pure.

A managed flow is driven from outside, by an agent or another program, which decides what to do
next; Holdfast keeps its state. A flow has no definition. This module is the only place that decides
which transitions of a flow are legal.
"""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.core import duration, typed_json
from holdfast.core.flows.model import (
    _NEXT,
    ENDED,
    LAST,
    AdvanceFlow,
    CancelFlow,
    EventWait,
    FailFlow,
    FinishFlow,
    FlowAction,
    FlowEventKind,
    FlowMoved,
    FlowRecord,
    FlowStatus,
    FlowWait,
    RequestFlowCancel,
    ResumeFlow,
    SetFlow,
    StartFlow,
    TimerWait,
    WaitFlow,
)
from holdfast.core.text import is_storable
from holdfast.errors import BadFlowPatch, BadFlowWait, FlowCancelPending, FlowFinished, IllegalMove

# Actions


def act(flow: FlowRecord, action: FlowAction, now: int) -> FlowMoved | None:
    """Return *flow* after *action*, or None if nothing changes: a repeated request to cancel, one
    after the end of the flow, and a description that the flow has already are no errors.

    Raises, in this order: FlowFinished, FlowCancelPending, IllegalMove; and BadFlowPatch."""
    if isinstance(action, RequestFlowCancel) and (flow.cancel_requested or flow.status in ENDED):
        return None
    kind, payload, changes = _ACTIONS[type(action)](flow, action, now)
    if isinstance(action, SetFlow) and not changes:
        return None
    after = msgspec.structs.replace(
        flow, **changes, revision=flow.revision + 1, updated_at=max(now, flow.updated_at)
    )
    return FlowMoved(after, kind, payload)


Change = tuple[str, dict[str, Any], dict[str, Any]]
"""The kind and the payload of an audit line, and the changed fields of the flow."""


def _start(flow: FlowRecord, action: StartFlow, now: int) -> Change:
    return (
        FlowEventKind.STARTED,
        {},
        {"status": _moved(flow, FlowStatus.RUNNING, only_from=FlowStatus.CREATED)},
    )


def _wait(flow: FlowRecord, action: WaitFlow, now: int) -> Change:
    wait = msgspec.json.encode(action.wait)
    return (
        FlowEventKind.WAITING,
        {"wait": msgspec.Raw(wait)},
        {"status": _moved(flow, FlowStatus.WAITING), "wait": wait},
    )


def _resume(flow: FlowRecord, action: ResumeFlow, now: int) -> Change:
    status = _moved(flow, FlowStatus.RUNNING, only_from=FlowStatus.WAITING)
    return (
        FlowEventKind.RESUMED,
        {"patch": _raw(action.patch)},
        {"status": status, "wait": None, "state": merge_patch(flow.state, action.patch)},
    )


def _finish(flow: FlowRecord, action: FinishFlow, now: int) -> Change:
    status = _moved(flow, FlowStatus.FINISHED)
    return (
        FlowEventKind.FINISHED,
        {"patch": _raw(action.patch)},
        {"status": status, "state": merge_patch(flow.state, action.patch)},
    )


def _fail(flow: FlowRecord, action: FailFlow, now: int) -> Change:
    failure = msgspec.json.encode({"failure": {"reason": action.reason, "at": now}})
    status = _moved(flow, FlowStatus.FAILED)
    return (
        FlowEventKind.FAILED,
        {"reason": action.reason},
        {"status": status, "wait": None, "state": merge_patch(flow.state, failure)},
    )


def _request_cancel(flow: FlowRecord, action: RequestFlowCancel, now: int) -> Change:
    return FlowEventKind.CANCEL_REQUESTED, {}, {"cancel_requested": True}


def _cancel(flow: FlowRecord, action: CancelFlow, now: int) -> Change:
    return FlowEventKind.CANCELLED, {}, {"status": _moved(flow, FlowStatus.CANCELLED), "wait": None}


def _advance(flow: FlowRecord, action: AdvanceFlow, now: int) -> Change:
    _refuse_ended(flow)
    _refuse_pending_cancel(flow)
    changes = {
        "state": merge_patch(flow.state, action.patch),
        "current_step": action.current_step or flow.current_step,
    }
    return (
        FlowEventKind.ADVANCED,
        {"patch": _raw(action.patch), "current_step": action.current_step},
        changes,
    )


def _set(flow: FlowRecord, action: SetFlow, now: int) -> Change:
    _refuse_ended(flow)
    _refuse_pending_cancel(flow)
    values = msgspec.structs.asdict(action)
    changes = {
        name: value
        for name, value in values.items()
        if value is not None and value != getattr(flow, name)
    }
    return FlowEventKind.CHANGED, changes, changes


_ACTIONS: dict[type, Any] = {
    StartFlow: _start,
    WaitFlow: _wait,
    ResumeFlow: _resume,
    FinishFlow: _finish,
    FailFlow: _fail,
    RequestFlowCancel: _request_cancel,
    CancelFlow: _cancel,
    AdvanceFlow: _advance,
    SetFlow: _set,
}


def _moved(flow: FlowRecord, to: FlowStatus, *, only_from: FlowStatus | None = None) -> FlowStatus:
    """Return *to* if the flow may change to that status, from *only_from* if given. Raises
    FlowFinished, FlowCancelPending, IllegalMove."""
    _refuse_ended(flow)
    if to is not FlowStatus.CANCELLED:
        _refuse_pending_cancel(flow)
    if to not in _NEXT[flow.status] or (only_from is not None and flow.status is not only_from):
        possible = ", ".join(status for status in FlowStatus if status in _NEXT[flow.status])
        raise IllegalMove(flow=flow.id, status=flow.status.value, to=to.value, possible=possible)
    return to


def _refuse_ended(flow: FlowRecord) -> None:
    if flow.status in ENDED:
        raise FlowFinished(flow=flow.id, status=flow.status.value)


def _refuse_pending_cancel(flow: FlowRecord) -> None:
    if flow.cancel_requested:
        raise FlowCancelPending(flow=flow.id)


def merge_patch(state: bytes, patch: bytes | None) -> bytes:
    """Return *state* with *patch* applied: two objects are merged at the top level, any other patch
    replaces the state. Raises BadFlowPatch if the patch is not JSON."""
    if patch is None:
        return state
    try:
        new = msgspec.json.decode(patch)
    except msgspec.DecodeError as error:
        raise BadFlowPatch(why=str(error)) from None
    old = msgspec.json.decode(state)
    if isinstance(old, dict) and isinstance(new, dict):
        return msgspec.json.encode({**old, **new})
    return msgspec.json.encode(new)


def _raw(patch: bytes | None) -> msgspec.Raw | None:
    if patch is None:
        return None
    return msgspec.Raw(patch)


def wait_of(flow: FlowRecord) -> FlowWait | None:
    """Return the wait of a flow; None if it does not wait, or if the stored wait is unreadable."""
    if flow.wait is None:
        return None
    try:
        wait: FlowWait = typed_json.decode(flow.wait, FlowWait)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return wait


def checked_wait(wait: FlowWait, now: int, horizon: int | None = None) -> FlowWait:
    """Return the wait. Raises BadFlowWait if a timer is not in the future or lies beyond *horizon*
    (microseconds from *now*) or the year 9999, or if a topic or correlation cannot be stored."""
    if isinstance(wait, TimerWait) and wait.at <= now:
        raise BadFlowWait(field="at", why="the instant is in the past: choose a later one")
    if isinstance(wait, TimerWait) and horizon is not None and wait.at > now + horizon:
        raise BadFlowWait(
            field="at",
            why="the instant is too far away: it lies beyond the horizon",
            horizon=duration.show(horizon),
        )
    if isinstance(wait, TimerWait) and wait.at > LAST:
        raise BadFlowWait(field="at", why="the instant is after the year 9999")
    if isinstance(wait, EventWait):
        for name in ("topic", "correlation"):
            value = getattr(wait, name)
            if not isinstance(value, str) or not value.strip():
                raise BadFlowWait(field=name, value=value, why="it must be text that is not blank")
            if not is_storable(value):
                raise BadFlowWait(
                    field=name, value=value, why="it must be Unicode without NUL characters"
                )
    return wait


def awaits_of(wait: FlowWait | None) -> str | None:
    """Return the key by which flows that wait for an external event are found; None for other
    waits."""
    if not isinstance(wait, EventWait):
        return None
    return msgspec.json.encode([wait.topic, wait.correlation]).decode()


def answers(flow: FlowRecord, topic: str, correlation: str) -> bool:
    """Return whether a flow waits for this external event."""
    return flow.status is FlowStatus.WAITING and wait_of(flow) == EventWait(topic, correlation)


def due(flow: FlowRecord, now: int) -> FlowAction | None:
    """Return the action that is due for a waiting flow: its cancel if that was requested, its
    resumption if its timer has fired. None if nothing is due."""
    if flow.status is not FlowStatus.WAITING:
        return None
    if flow.cancel_requested:
        return CancelFlow()
    wait = wait_of(flow)
    if isinstance(wait, TimerWait) and wait.at <= now:
        return ResumeFlow()
    return None


def wake_at(flow: FlowRecord) -> int | None:
    """Return when an action is due for a flow, in microseconds since 1970; None if never."""
    if flow.status is not FlowStatus.WAITING:
        return None
    if flow.cancel_requested:
        return flow.updated_at
    wait = wait_of(flow)
    if not isinstance(wait, TimerWait):
        return None
    return wait.at
