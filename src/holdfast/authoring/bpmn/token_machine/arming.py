"""Arm and disarm events: subscriptions, timers and conditions of a token or a scope."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.authoring.bpmn.compile import NodeSpec
from holdfast.authoring.bpmn.expressions import name_of, value_of
from holdfast.authoring.bpmn.model import WAITING, EventDefinition, ModelExpression
from holdfast.authoring.bpmn.timers import Period, TimerPlan, plan_of
from holdfast.authoring.bpmn.token_machine.state import (
    MachineState,
    ProcessToken,
    ScopeState,
    TokenWait,
)
from holdfast.authoring.bpmn.token_machine.variables import VariableView, seen_by, seen_in
from holdfast.errors import BadExpression

TRIGGER = "trigger"
"""In the data of a wait: which of several triggers of its event it is for."""

RECEIVED = "received"
"""The variables of the other triggers of an event that needs all."""

HAPPENED = "happened"
"""The other triggers that have happened."""


def arm(state: MachineState, node: NodeSpec, token: ProcessToken, role: str) -> list[TokenWait]:
    """Arm an event for a token: its own event, a boundary event, or one after a gateway. Each of
    its triggers is a wait. Raises BadExpression, BadDuration before anything is changed."""
    waits: list[TokenWait] = []
    for kind, data in _triggers(state, node, seen_by(state, token)):
        is_first = role == "own" and not waits
        wait = TokenWait(
            id=token.activation if is_first else state.activate(node.id),
            kind=kind,
            node=node.id,
            token=token.id,
            role=role,
            data=data,
        )
        waits.append(state.open_wait(wait))
    return waits


def show_waits(token: ProcessToken, waits: Sequence[TokenWait]) -> None:
    """Show what a token waits for, and the time at which it goes on at the latest."""
    token.waits_for = waits[-1].kind
    token.until = min((wait.data["at"] for wait in waits if "at" in wait.data), default=None)


def arm_start(state: MachineState, node: NodeSpec, scope: ScopeState) -> None:
    """Arm the start event of an event sub-process."""
    start = node.trigger
    if not can_wait(start):
        return
    for kind, data in _triggers(state, start, seen_in(state, scope)):
        state.open_wait(
            TokenWait(
                id=state.activate(start.id),
                kind=kind,
                node=node.id,
                scope=scope.id,
                role="start",
                data=data,
            )
        )


def can_wait(event: NodeSpec) -> bool:
    """Return whether something outside, or time, can trigger an event."""
    if event.tag == "receiveTask":
        return True
    return any(trigger.event in WAITING for trigger in event.events)


def trigger_of(state: MachineState, wait: TokenWait) -> EventDefinition | None:
    """Return the trigger that a wait is for; None for a receive task."""
    events = state.graph.nodes[wait.node].trigger.events
    return events[wait.data.get(TRIGGER, 0)] if events else None


def collect(
    state: MachineState, wait: TokenWait, variables: dict[str, Any]
) -> dict[str, Any] | None:
    """Note that a trigger of an event has happened. Return the variables of all of them; None while
    the event waits for others."""
    if not state.graph.nodes[wait.node].trigger.element.needs_all:
        return variables
    variables = {**wait.data.get(RECEIVED, {}), **variables}
    happened = [*wait.data.get(HAPPENED, ()), {"kind": wait.kind, "data": _own_data(wait)}]
    others = _others(state, wait)
    for other in others:
        other.data[RECEIVED] = variables
        other.data[HAPPENED] = happened
    if not others:
        wait.data[HAPPENED] = happened
        return variables
    token = state.tokens.get(wait.token or 0)
    if token is not None and wait.role == "own":
        show_waits(token, others)
    return None


def _others(state: MachineState, wait: TokenWait) -> list[TokenWait]:
    """Return the waits for the other triggers of an event."""
    token = state.tokens.get(wait.token or 0)
    ids = state.scopes[wait.scope or 0].waits if token is None else token.waits
    waits = [state.waits[id] for id in ids]
    return [other for other in waits if other.node == wait.node and TRIGGER in other.data]


def _own_data(wait: TokenWait) -> dict[str, Any]:
    return {key: value for key, value in wait.data.items() if key not in (RECEIVED, HAPPENED)}


def rearm(state: MachineState, wait: TokenWait, event: NodeSpec) -> None:
    """Arm a non-interrupting event again after it has fired: the trigger that has happened, or all
    of an event that needs all."""
    again = []
    for fired in wait.data.get(HAPPENED) or [{"kind": wait.kind, "data": wait.data}]:
        data = _next_data(state, fired["kind"], fired["data"], event)
        if data is None:
            return  # it cannot happen again, so the event cannot fire again
        again.append((fired["kind"], data))
    for kind, data in again:
        state.open_wait(
            TokenWait(
                id=state.activate(event.id),
                kind=kind,
                node=wait.node,
                token=wait.token,
                scope=wait.scope,
                role=wait.role,
                data=data,
            )
        )


def _next_data(
    state: MachineState, kind: str, data: dict[str, Any], event: NodeSpec
) -> dict[str, Any] | None:
    """Return the data of the next wait for a trigger; None if it does not happen again."""
    if kind == "condition":
        return {**data, "was": True}
    if kind != "timer":
        return dict(data)
    plan = _next_plan(state, data, event)
    if plan is None:
        return None
    place = {TRIGGER: data[TRIGGER]} if TRIGGER in data else {}
    return {**timer_data(plan), **place}


def _next_plan(state: MachineState, data: dict[str, Any], event: NodeSpec) -> TimerPlan | None:
    plan = data.get("plan")
    if plan is None:
        return None
    each = event.element.work.missed == "each"
    return TimerPlan(**_with_period(plan)).following(state.now, each)


def _with_period(plan: dict[str, Any]) -> dict[str, Any]:
    period = plan.get("period")
    return {**plan, "period": None if period is None else Period(**period)}


def timer_data(plan: TimerPlan) -> dict[str, Any]:
    """Return the data of a timer: when it is due, and how it continues."""
    data: dict[str, Any] = {"at": plan.at}
    if plan.period is not None or plan.cron is not None:
        period = plan.period
        data["plan"] = {
            "at": plan.at,
            "remaining": plan.remaining,
            "end": plan.end,
            "zone": plan.zone,
            "cron": plan.cron,
            "period": period
            and {"months": period.months, "days": period.days, "micros": period.micros},
        }
    return data


def _triggers(
    state: MachineState, node: NodeSpec, view: VariableView
) -> list[tuple[str, dict[str, Any]]]:
    """Return the kind and the data of the wait for each trigger of an event."""
    if not node.events:  # a receive task
        if node.element.message is None:
            return [("trigger", {})]
        name = name_of(node.element.message, view, state.now)
        received: dict[str, Any] = {"name": name}
        return [("message", _with_key(state, received, node.element.message_key, view))]
    waits = []
    for place, event in enumerate(node.events):
        if event.event in WAITING:
            kind, data = _trigger(state, event, view)
            if len(node.events) > 1:
                data[TRIGGER] = place
            waits.append((kind, data))
    return waits


def _trigger(
    state: MachineState, event: EventDefinition, view: VariableView
) -> tuple[str, dict[str, Any]]:
    """Return the kind and the data of the wait for a trigger."""
    if event.event == "timer":
        if event.expression is None or event.timer is None:
            raise BadExpression(expression="", why="the timer has no time")
        time = value_of(event.expression, view, state.now)
        return "timer", timer_data(plan_of(event.timer, time, state.now))
    if event.event == "conditional":
        return "condition", {"was": False}
    data: dict[str, Any] = {"name": name_of(event.name or "", view, state.now)}
    return event.event, _with_key(state, data, event.key, view)


def _with_key(
    state: MachineState, data: dict[str, Any], key: ModelExpression | None, view: VariableView
) -> dict[str, Any]:
    """Add the value of a correlation key to the data of a wait."""
    if key is not None:
        value = value_of(key, view, state.now)
        if value is None:
            raise BadExpression(expression=key.text, why="the correlation key has no value")
        data["key"] = key_text(value)
    return data


def key_text(value: Any) -> str:
    """Return the value of a correlation key as senders and receivers compare it."""
    return value if isinstance(value, str) else _text(value)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
