"""Throwing: errors, escalations and failures, from the place of a token outwards to its catcher."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from holdfast.authoring.bpmn.compile import NodeSpec
from holdfast.authoring.bpmn.model import EventDefinition
from holdfast.authoring.bpmn.token_machine import compensation
from holdfast.authoring.bpmn.token_machine.arming import collect, rearm
from holdfast.authoring.bpmn.token_machine.moves import cancel, cancel_all
from holdfast.authoring.bpmn.token_machine.state import (
    ACTIVE,
    COMPENSATION,
    Ending,
    MachineState,
    ProcessToken,
    ScopeState,
    TokenWait,
)
from holdfast.authoring.bpmn.token_machine.variables import write_in


class Catcher(msgspec.Struct, frozen=True):
    """The event that catches: a boundary event of *token*, or an event sub-process of *scope*."""

    node: NodeSpec
    event: EventDefinition
    token: ProcessToken | None = None
    scope: ScopeState | None = None


def throw_error(
    state: MachineState,
    token: ProcessToken,
    code: str,
    message: str = "",
    variables: dict[str, Any] | None = None,
) -> None:
    """Throw a BPMN error from a token. Without a catcher it leaves a called process; otherwise it
    is an incident."""
    catcher = _find(state, token, "error", code)
    error = {"type": "BpmnError", "code": code, "message": message, "variables": variables or {}}
    if catcher is None and state.has_caller:
        state.ending = Ending("failed", dict(state.root.variables), error)
    elif catcher is None:
        text = f"no event catches the error {code!r}" + (f": {message}" if message else "")
        raise_incident(state, token, {**error, "message": text})
    else:
        work = catcher.node.trigger.element.work
        facts = dict(variables or {})
        if work.error_code_variable:
            facts[work.error_code_variable] = code
        if work.error_message_variable:
            facts[work.error_message_variable] = message
        catch(state, catcher, facts)


def throw_escalation(
    state: MachineState, token: ProcessToken, code: str | None, variables: dict[str, Any]
) -> None:
    """Throw an escalation: only the nearest catcher gets it, and without one it is ignored."""
    catcher = _find(state, token, "escalation", code)
    if catcher is not None:
        catch(state, catcher, variables)
    elif state.has_caller:
        state.open_wait(
            TokenWait(
                id=f"{token.activation}:escalation",
                kind="escalate",
                node=token.node,
                data={"code": code, "variables": variables},
            )
        )


def catch(state: MachineState, catcher: Catcher, variables: dict[str, Any]) -> None:
    """Let a boundary event or an event sub-process fire."""
    ends = catcher.event.event == "error" or catcher.node.trigger.element.interrupting
    if catcher.token is not None:
        fire_boundary(state, catcher.token, catcher.node, variables, ends=ends)
    elif catcher.scope is not None:
        fire_start(state, catcher.scope, catcher.node, variables, ends=ends)


def fire_boundary(
    state: MachineState,
    host: ProcessToken,
    node: NodeSpec,
    variables: dict[str, Any],
    *,
    ends: bool,
) -> None:
    """Put a token on a boundary event; an interrupting one ends its activity."""
    scope = state.scopes[host.scope]
    if not node.element.work.outputs:
        write_in(state, scope, variables)
    if ends:
        undo = host.undo
        cancel(state, host)
        if undo is not None:
            run = state.runs.get(undo)
            if run is not None and host.id in run.active:
                run.active.remove(host.id)
                compensation.advance(state, run)
    compensation.put_on_event(state, node, scope, variables)


def fire_start(
    state: MachineState,
    scope: ScopeState,
    node: NodeSpec,
    variables: dict[str, Any],
    *,
    ends: bool,
) -> None:
    """Start an event sub-process; an interrupting one ends all other tokens of the scope, and
    disarms its siblings. The scope itself stays."""
    if not node.trigger.element.work.outputs:
        write_in(state, scope, variables)
    if ends:
        state.close_waits(scope.waits)
        cancel_all(state, scope)
    compensation.start_event_subprocess(state, scope, node, variables)


def fire(state: MachineState, wait: TokenWait, variables: dict[str, Any]) -> None:
    """Let an armed event fire: of the token itself, of a gateway, of a boundary or a scope. An
    event that needs all of its triggers fires with the last of them."""
    received = collect(state, wait, variables)
    if received is None:
        return
    node = state.graph.nodes[wait.node]
    ends = node.trigger.element.interrupting
    if wait.role == "start":
        scope = state.scopes[wait.scope or 0]
        fire_start(state, scope, node, received, ends=ends)
        if not ends:
            rearm(state, wait, node.trigger)
        return
    token = state.tokens[wait.token or 0]
    if wait.role == "boundary":
        if not ends:
            rearm(state, wait, node)
        fire_boundary(state, token, node, received, ends=ends)
    else:
        if wait.role == "gateway":
            move_to_event(state, token, node)
        state.close_waits(token.waits)
        token.results = {**(token.results or {}), **received}
        state.queue_token(token, "complete")


def move_to_event(state: MachineState, token: ProcessToken, node: NodeSpec) -> None:
    """Take the flow from an event-based gateway to the event that has fired."""
    gateway = state.node(token)
    if state.trace is not None:
        state.trace.completed(gateway.id)
        flows = [flow.id for flow in gateway.outgoing if flow.target == node.id]
        state.trace.flows.extend(flows[:1])
        state.trace.entered(node.id)
    token.node = node.id


def _find(state: MachineState, token: ProcessToken, event: str, code: str | None) -> Catcher | None:
    """Return the nearest catcher: at each level an event sub-process before the boundary, a
    matching code before one that catches all."""
    current: ProcessToken | None = token
    while current is not None:
        host = state.tokens.get(current.body or 0, current)
        matched = _match(state.node(host).boundaries, event, code)
        if matched is not None:
            return Catcher(*matched, token=host)
        scope = state.scopes[host.scope]
        if not state.node(host).element.is_event_subprocess:
            inner = _match(state.spec(scope).event_subprocesses, event, code)
            if inner is not None:
                return Catcher(*inner, scope=scope)
        current = state.tokens.get(scope.owner or 0)
    return None


def _match(
    nodes: Iterable[NodeSpec], event: str, code: str | None
) -> tuple[NodeSpec, EventDefinition] | None:
    catch_all = None
    for node in nodes:
        for definition in node.trigger.events:
            if definition.event != event:
                continue
            if definition.code is None:
                catch_all = catch_all or (node, definition)
            elif definition.code == code:
                return node, definition
    return catch_all


def fail(state: MachineState, token: ProcessToken, error: dict[str, Any]) -> None:
    """Treat the failure of a task without retries left: an incident, or a Saga if the model or the
    deployment asks for it."""
    saga = _saga(state, token)
    if saga is None or token.mode == COMPENSATION or token.undo is not None:
        raise_incident(state, token, error)
        if token.undo is not None:
            compensation.skip_failed(state, token)
        return
    scope = state.root if saga == "instance" else _saga_scope(state, token)
    holder = state.new_token(token.node, scope, mode=COMPENSATION, stage=ACTIVE)
    state.queue.pop()  # it waits until everything is undone
    holder.waits_for = "child"
    holder.activation = token.activation
    if state.trace is not None:
        state.trace.entered(holder.node)
    compensation.end_others(state, scope, holder)
    records = scope.log
    scope.log = []
    compensation.start(state, scope, records, holder.id, then="fail", error=error)


def _saga(state: MachineState, token: ProcessToken) -> str | None:
    scope: ScopeState | None = state.scopes[token.scope]
    while scope is not None:
        saga = state.spec(scope).saga
        if saga is not None:
            return None if saga == "none" else saga
        scope = state.scopes.get(scope.parent or 0)
    return state.saga


def _saga_scope(state: MachineState, token: ProcessToken) -> ScopeState:
    """Return the scope that a Saga undoes: the nearest one that asks for it, or the own one."""
    scope = state.scopes[token.scope]
    current: ScopeState | None = scope
    while current is not None:
        if state.spec(current).saga is not None:
            return current
        current = state.scopes.get(current.parent or 0)
    return scope


def fail_scope(state: MachineState, token: ProcessToken, error: dict[str, Any]) -> None:
    """End a scope whose work was undone after a failure: the instance fails; a sub-process is an
    incident of the activity around it, which can be retried as a whole."""
    scope = state.scopes[token.scope]
    owner = state.tokens.get(scope.owner or 0)
    if owner is None:
        state.ending = Ending("failed", dict(state.root.variables), error)
        return
    for inner in _end_scope(state, scope):
        cancel(state, inner)
    owner.inner = None
    raise_incident(state, owner, error)


def _end_scope(state: MachineState, scope: ScopeState) -> list[ProcessToken]:
    state.close_waits(scope.waits)
    tokens = [state.tokens[id] for id in scope.tokens]
    del state.scopes[scope.id]
    state.emptied.pop(scope.id, None)
    return tokens


def raise_incident(state: MachineState, token: ProcessToken, error: dict[str, Any]) -> None:
    """Let a token wait for an operator. Its boundary events stay armed."""
    stage = token.stage
    if state.trace is not None:
        state.trace.of(token.node).incidents += 1
    id = f"{token.activation or state.activate(token.node)}!{token.attempt}"
    state.wait(
        token,
        "incident",
        "incident",
        id=id,
        data={
            "stage": stage,
            "error": error,
            "attempts": error.get("attempts", token.attempt),
            "element": token.node,
        },
    )


def write_and_complete(state: MachineState, token: ProcessToken, variables: dict[str, Any]) -> None:
    """Finish the work of a token with its results."""
    token.results = {**(token.results or {}), **variables}
    state.queue_token(token, "complete")
