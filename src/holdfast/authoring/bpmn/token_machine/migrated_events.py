"""Events that wait while an instance moves to another version: which of them stay armed.

An event that both versions have keeps its wait, as it was armed. An event that the other version
lacks, or has with another trigger, is disarmed; an event that only the other version has is armed.
An event that both have and that is not armed now, because it has fired, stays so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from holdfast.authoring.bpmn.compile import NodeSpec, ProcessGraph
from holdfast.authoring.bpmn.model import ACTIVITIES
from holdfast.authoring.bpmn.token_machine.arming import arm, arm_start, can_wait, show_waits
from holdfast.authoring.bpmn.token_machine.state import (
    ACTIVE,
    FORWARD,
    MachineState,
    ProcessToken,
    ScopeState,
    TokenWait,
)

Rename = Callable[[str], str]
"""Returns the id of an element in the other version."""

FindNode = Callable[[str], NodeSpec | None]
"""Returns the element of the other version for the id of an old one, if it is of the same kind."""


def migrate_events(state: MachineState, before: MachineState, of: Rename, node: FindNode) -> None:
    """Move the waits of *state*, whose tokens and scopes have moved; *before* is the state that it
    is made from. Raises BadExpression, BadDuration."""
    for wait in list(state.waits.values()):
        if wait.role == "own":
            _move_own(state, wait, of)
    for token in list(state.tokens.values()):
        source = before.graph.nodes[before.tokens[token.id].node]
        target = state.node(token)
        if source.tag == "eventBasedGateway":
            events = _events_after(before.graph, source)
            _move_armed(state, token, "gateway", events, _events_after(state.graph, target), node)
        elif source.tag in ACTIVITIES and token.body is None:
            _move_armed(state, token, "boundary", source.boundaries, target.boundaries, node)
    for scope in list(state.scopes.values()):
        armed = before.spec(before.scopes[scope.id]).event_subprocesses
        _move_starts(state, scope, armed, of)


def _events_after(graph: ProcessGraph, gateway: NodeSpec) -> list[NodeSpec]:
    return [graph.nodes[flow.target] for flow in gateway.outgoing]


def _move_own(state: MachineState, wait: TokenWait, of: Rename) -> None:
    wait.node = of(wait.node)
    if wait.kind == "incident":
        wait.data["element"] = wait.node
    node = state.graph.nodes.get(wait.node)
    token = state.tokens.get(wait.token or 0)
    if node is None or token is None or node.tag != "receiveTask":
        return
    if wait.kind in ("message", "trigger"):
        kind = "trigger" if node.element.message is None else "message"
        if wait.kind != kind:  # the versions differ in whether it has a message
            state.close_wait(wait.id)
            token.activation = state.activate(node.id)
            show_waits(token, arm(state, node, token, "own"))


def _move_armed(
    state: MachineState,
    token: ProcessToken,
    role: str,
    before: Iterable[NodeSpec],
    after: Iterable[NodeSpec],
    node: FindNode,
) -> None:
    """Move the boundary events of a token, or the events after its gateway."""
    targets = {event.id: event for event in after}
    known: set[str] = set()
    for event in before:
        target = node(event.id)
        if target is not None and target.id in targets:
            known.add(target.id)
    for id in list(token.waits):
        wait = state.waits[id]
        if wait.role != role:
            continue
        target = node(wait.node)
        if target is not None and target.id in targets:
            wait.node = target.id
        else:
            state.close_wait(id)
    if not _may_arm(state, token, role):
        return
    for event in targets.values():
        if event.id not in known and can_wait(event):
            waits = arm(state, event, token, role)
            if role == "gateway":
                token.waits_for = waits[-1].kind


def _may_arm(state: MachineState, token: ProcessToken, role: str) -> bool:
    """Return whether events may be armed for a token: its activity is in progress. An element that
    failed before its events were armed arms all of them when it is tried again."""
    if token.stage != ACTIVE or token.undo is not None or token.mode != FORWARD:
        return False
    if token.waits_for != "incident":
        return True
    return any(state.waits[id].role == role for id in token.waits)


def _move_starts(
    state: MachineState, scope: ScopeState, before: Iterable[NodeSpec], of: Rename
) -> None:
    """Move the event sub-processes that wait in a scope."""
    targets = {each.id: each for each in state.spec(scope).event_subprocesses}
    known = {of(each.id) for each in before if _same_start(each, targets.get(of(each.id)))}
    for id in list(scope.waits):
        wait = state.waits[id]
        wait.node = of(wait.node)
        if wait.node not in known:
            state.close_wait(id)
    if _is_interrupted(state, scope):
        return
    for each in targets.values():
        if each.id not in known:
            arm_start(state, each, scope)


def _same_start(before: NodeSpec, after: NodeSpec | None) -> bool:
    if after is None or before.start is None or after.start is None:
        return False
    return before.start.detailed_kind == after.start.detailed_kind


def _is_interrupted(state: MachineState, scope: ScopeState) -> bool:
    """Return whether no event sub-process may start: another one has interrupted the scope, or its
    work is being undone."""
    owner = state.tokens.get(scope.owner or 0)
    if owner is not None and owner.undo is not None:
        return True
    for id in scope.tokens:
        start = state.node(state.tokens[id]).start
        if start is not None and start.element.interrupting:
            return True
    return False
