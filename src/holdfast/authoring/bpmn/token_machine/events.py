"""Events and gateways: what happens when a token arrives at one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.authoring.bpmn.compile import NodeSpec
from holdfast.authoring.bpmn.expressions import is_met, name_of
from holdfast.authoring.bpmn.model import EventDefinition
from holdfast.authoring.bpmn.token_machine.activities import (
    map_inputs,
    perform_task,
    send_message,
)
from holdfast.authoring.bpmn.token_machine.arming import arm, can_wait, show_waits
from holdfast.authoring.bpmn.token_machine.compensation import (
    cancel_transaction,
    throw_compensation,
)
from holdfast.authoring.bpmn.token_machine.moves import cancel, cancel_all, take
from holdfast.authoring.bpmn.token_machine.state import (
    ACTIVE,
    COMPLETE,
    LEAVE,
    THROW,
    MachineState,
    ProcessToken,
    ScopeState,
    TokenWait,
)
from holdfast.authoring.bpmn.token_machine.throwing import throw_error, throw_escalation
from holdfast.authoring.bpmn.token_machine.variables import seen_by, seen_in


def enter_event_or_gateway(state: MachineState, token: ProcessToken, node: NodeSpec) -> None:
    """Let a token arrive at an event or a gateway that is no join."""
    if node.tag == "eventBasedGateway":
        _wait_for_first(state, token, node)
    elif node.tag == "intermediateCatchEvent" and can_wait(node):
        token.activation = state.activate(node.id)
        token.stage = ACTIVE
        show_waits(token, arm(state, node, token, "own"))
    elif node.tag in ("intermediateThrowEvent", "endEvent") and node.events:
        token.activation = state.activate(node.id)
        map_inputs(state, token, node.element.work)
        token.thrown = max(0, token.thrown - 1)  # after an incident, the event that failed
        throw_next(state, token)
    else:
        state.queue_token(token, COMPLETE if node.element.work.outputs else LEAVE)


def _wait_for_first(state: MachineState, token: ProcessToken, node: NodeSpec) -> None:
    token.activation = state.activate(node.id)
    token.stage = ACTIVE
    waits: list[TokenWait] = []
    for flow in node.outgoing:
        waits += arm(state, state.graph.nodes[flow.target], token, "gateway")
    show_waits(token, waits)


def throw_next(state: MachineState, token: ProcessToken) -> None:
    """Throw the next of the events of a throwing element. What ends its scope comes last."""
    node = state.node(token)
    events = sorted(node.events, key=lambda event: _ORDER.get(event.event, 0))
    event = events[token.thrown]
    token.thrown += 1
    has_more = token.thrown < len(events)
    _THROWN[event.event](state, token, node, event)
    if has_more and token.stage == LEAVE:
        token.stage = THROW  # it is in the queue already


def _message(
    state: MachineState, token: ProcessToken, node: NodeSpec, event: EventDefinition
) -> None:
    if len(node.events) == 1:
        perform_task(state, token, node)
    else:
        send_message(state, token, node, event)
        state.queue_token(token, LEAVE)


def _signal(
    state: MachineState, token: ProcessToken, node: NodeSpec, event: EventDefinition
) -> None:
    variables = dict(token.locals or {}) if node.element.work.inputs else {}
    name = name_of(event.name or "", seen_by(state, token), state.now)
    data: dict[str, Any] = {"name": name, "variables": variables}
    state.open_wait(TokenWait(id=token.sent_id, kind="broadcast", node=node.id, data=data))
    state.queue_token(token, LEAVE)


def _error(
    state: MachineState, token: ProcessToken, node: NodeSpec, event: EventDefinition
) -> None:
    code = name_of(event.code or event.ref or "", seen_by(state, token), state.now)
    token.stage = ACTIVE
    throw_error(state, token, code, variables=dict(token.locals or {}))


def _escalation(
    state: MachineState, token: ProcessToken, node: NodeSpec, event: EventDefinition
) -> None:
    code = event.code and name_of(event.code, seen_by(state, token), state.now)
    throw_escalation(state, token, code, dict(token.locals or {}))
    if token.id in state.tokens:
        state.queue_token(token, LEAVE)


def _link(state: MachineState, token: ProcessToken, node: NodeSpec, event: EventDefinition) -> None:
    target = state.graph.scopes[node.scope].links[event.name or ""]
    if state.trace is not None:
        state.trace.completed(node.id)
        state.trace.entered(target.id)
    token.node = target.id
    state.queue_token(token, LEAVE)


def _terminate(
    state: MachineState, token: ProcessToken, node: NodeSpec, event: EventDefinition
) -> None:
    scope = state.scopes[token.scope]
    state.close_waits(scope.waits)
    cancel_all(state, scope, but=token)
    state.queue_token(token, LEAVE)


def _compensate(
    state: MachineState, token: ProcessToken, node: NodeSpec, event: EventDefinition
) -> None:
    then = THROW if token.thrown < len(node.events) else LEAVE
    throw_compensation(state, token, event, then)


def _cancel(
    state: MachineState, token: ProcessToken, node: NodeSpec, event: EventDefinition
) -> None:
    cancel_transaction(state, token)


_ORDER = {"compensate": 1, "escalation": 2, "error": 3, "terminate": 3, "cancel": 3}
"""The order in which an element throws several events; the others come first."""

_THROWN: dict[str, Callable[[MachineState, ProcessToken, NodeSpec, EventDefinition], None]] = {
    "message": _message,
    "signal": _signal,
    "error": _error,
    "escalation": _escalation,
    "link": _link,
    "terminate": _terminate,
    "compensate": _compensate,
    "cancel": _cancel,
}


def leave_cancelled(state: MachineState, token: ProcessToken) -> None:
    """Leave a transaction whose work was undone by its cancel event; without one, at its end."""
    owner = state.tokens[state.scopes[token.scope].owner or 0]
    host = state.tokens.get(owner.body or 0, owner)
    if state.trace is not None:
        state.trace.completed(token.node)
    boundary = next(
        (
            node
            for node in state.node(host).boundaries
            if any(event.event == "cancel" for event in node.events)
        ),
        None,
    )
    if boundary is None:
        state.remove_token(token)
        return
    scope = state.scopes[host.scope]
    state.remove_token(token)
    cancel(state, host)
    first = state.new_token(boundary.id, scope, stage=LEAVE)
    if state.trace is not None:
        state.trace.entered(first.node)


def skip_choice(state: MachineState, token: ProcessToken) -> None:
    """Take the default flow of an element whose conditions cannot be evaluated; without one the
    token ends here."""
    node = state.node(token)
    scope = state.scopes[token.scope]
    if state.trace is not None:
        state.trace.completed(token.node)
    state.remove_token(token)
    if node.default is not None:
        take(state, node.default, scope)


def missing_flows(state: MachineState, token: ProcessToken) -> str:
    """Return the flows of a join that have no token, as a text."""
    node = state.node(token)
    arrived = state.scopes[token.scope].joins.get(node.id, {})
    return ", ".join(flow for flow in node.incoming if not arrived.get(flow)) or "nothing"


def check_ad_hoc(state: MachineState, scope: ScopeState) -> None:
    """Evaluate the completion condition of an ad hoc sub-process whenever a token in it ends."""
    node = state.graph.nodes[scope.spec]
    condition = node.element.completion
    if node.tag != "adHocSubProcess" or condition is None or not scope.has_run or scope.met:
        return
    if not is_met(condition, seen_in(state, scope), state.now):
        return
    scope.met = True
    if node.element.cancels_remaining:
        cancel_all(state, scope)
        state.emptied[scope.id] = None


def is_ad_hoc_done(state: MachineState, scope: ScopeState) -> bool:
    """Return whether an ad hoc sub-process without active tokens is complete: its condition is met,
    or it has none and something was done."""
    node = state.graph.nodes[scope.spec]
    if node.element.completion is None:
        return scope.has_run
    if not scope.met and scope.has_run:
        scope.met = is_met(node.element.completion, seen_in(state, scope), state.now)
    return scope.met
