"""The beginning of an instance: at the start event that was triggered, or plainly.

A plain start uses the none start event. A process without one begins at a conditional start event
whose condition is true, or at its only timer; a process that begins with messages or signals alone
fails with their names, rather than to end without having done anything.
"""

from __future__ import annotations

from typing import Any

from holdfast.authoring.bpmn.compile import NodeSpec
from holdfast.authoring.bpmn.expressions import is_met
from holdfast.authoring.bpmn.token_machine.activities import arm_scope, open_scope
from holdfast.authoring.bpmn.token_machine.state import (
    COMPLETE,
    Ending,
    MachineState,
    ScopeState,
)
from holdfast.authoring.bpmn.token_machine.throwing import move_to_event
from holdfast.authoring.bpmn.token_machine.variables import seen_in
from holdfast.errors import BadExpression


def begin(state: MachineState, variables: dict[str, Any], start: str | None) -> None:
    """Open the instance with variables, plainly or at the start event with that id."""
    root = state.new_scope(state.graph.id, None, None)
    node = None if start is None else state.graph.nodes[start]
    if node is None or not (node.element.work.outputs or node.tag != "startEvent"):
        root.variables.update(variables)
    arm_scope(state, root)
    if node is not None:
        _begin_at(state, root, node, variables)
    elif state.spec(root).entries or not state.graph.starts:
        open_scope(state, root)
    else:
        _begin_anywhere(state, root)


def _begin_at(
    state: MachineState, root: ScopeState, node: NodeSpec, variables: dict[str, Any]
) -> None:
    """Put a token on the element that the trigger belongs to."""
    if node.tag == "startEvent":
        results = variables if node.element.work.outputs else None
        state.new_token(node.id, root, results=results)
        return
    # A receive task that starts the process, or an event after such a gateway: it has happened.
    gateway = next(
        (other for other in state.graph.nodes.values() if _starts_with(other, node)), node
    )
    token = state.new_token(gateway.id, root, stage=COMPLETE, results=variables)
    token.activation = state.activate(node.id)
    if state.trace is not None:
        state.trace.entered(gateway.id)
    if gateway is not node:
        state.activate(gateway.id)
        move_to_event(state, token, node)


def _starts_with(gateway: NodeSpec, node: NodeSpec) -> bool:
    """Return whether an event-based gateway that starts the process leads to a node."""
    if gateway.tag != "eventBasedGateway" or not gateway.element.instantiates:
        return False
    return any(flow.target == node.id for flow in gateway.outgoing)


def _begin_anywhere(state: MachineState, root: ScopeState) -> None:
    """Begin a process without a none start event."""
    starts = [node for node in state.graph.starts.values() if node.tag == "startEvent"]
    timers = [node for node in starts if any(event.event == "timer" for event in node.events)]
    true = [node for node in starts if _is_true(state, root, node)]
    if true:
        state.new_token(true[0].id, root)
    elif len(timers) == 1:
        state.new_token(timers[0].id, root)
    else:
        state.ending = Ending("failed", dict(root.variables), _no_start(state))


def _is_true(state: MachineState, root: ScopeState, node: NodeSpec) -> bool:
    """Return whether the condition of a start event is true."""
    for event in node.events:
        if event.event == "conditional" and event.expression is not None:
            try:
                if is_met(event.expression, seen_in(state, root), state.now):
                    return True
            except BadExpression:  # a variable without a value
                continue
    return False


def _no_start(state: MachineState) -> dict[str, Any]:
    names = [
        f"{event.event} {event.name or node.id}"
        for node in state.graph.starts.values()
        for event in node.events
    ]
    names += [
        f"message {node.element.message}"
        for node in state.graph.starts.values()
        if node.element.message
    ]
    message = (
        f"{state.graph.id} has no start event without a trigger: it begins with"
        f" {', '.join(names)}; send that, or add a none start event"
    )
    return {"type": "NoStart", "message": message}
