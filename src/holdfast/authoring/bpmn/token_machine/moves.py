"""Moves of tokens: choosing and taking flows, joins, and the end of a token."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.authoring.bpmn.compile import FlowSpec, NodeSpec
from holdfast.authoring.bpmn.expressions import is_met
from holdfast.authoring.bpmn.token_machine.state import (
    ACTIVE,
    ENTER,
    FORWARD,
    LEAVE,
    MachineState,
    ProcessToken,
    ScopeState,
)
from holdfast.authoring.bpmn.token_machine.variables import VariableView, seen_by
from holdfast.errors import BadExpression


def leave(state: MachineState, token: ProcessToken) -> None:
    """Consume a token and put one on each flow that it takes. A node without an outgoing flow ends
    it. Raises BadExpression before anything is changed."""
    node = state.node(token)
    flows = _chosen(state, token, node)
    if state.trace is not None and token.loop is None:
        state.trace.completed(token.node)
    scope = state.scopes[token.scope]
    state.remove_token(token)
    for flow in flows:
        take(state, flow, scope)


def take(state: MachineState, flow: FlowSpec, scope: ScopeState) -> ProcessToken:
    """Put a token on a flow."""
    if state.trace is not None:
        state.trace.flows.append(flow.id)
    return state.new_token(flow.target, scope, via=flow.id)


def _chosen(state: MachineState, token: ProcessToken, node: NodeSpec) -> Sequence[FlowSpec]:
    flows = node.outgoing
    if token.undo is not None or token.mode != FORWARD:
        return ()  # a compensation handler has no flow out
    if node.tag == "parallelGateway" or all(flow.condition is None for flow in flows):
        return flows
    if len(flows) == 1 and node.tag.endswith("Gateway") and node.default is not None:
        return flows
    view = seen_by(state, token)
    if node.tag == "exclusiveGateway":
        return _first(state, node, view)
    return _all(state, node, view)


def _first(state: MachineState, node: NodeSpec, view: VariableView) -> Sequence[FlowSpec]:
    for flow in node.outgoing:
        if flow is node.default:
            continue
        if flow.condition is None or is_met(flow.condition, view, state.now):
            return (flow,)
    return _default(node)


def _all(state: MachineState, node: NodeSpec, view: VariableView) -> Sequence[FlowSpec]:
    chosen = [
        flow
        for flow in node.outgoing
        if flow is not node.default
        and (flow.condition is None or is_met(flow.condition, view, state.now))
    ]
    return chosen or _default(node)


def _default(node: NodeSpec) -> Sequence[FlowSpec]:
    if node.default is None:
        texts = "; ".join(flow.condition.text for flow in node.outgoing if flow.condition)
        raise BadExpression(
            expression=texts, why="no condition is true, and there is no default flow"
        )
    return (node.default,)


def arrive_at_join(state: MachineState, token: ProcessToken) -> None:
    """Let a token wait for the tokens of the other flows; a parallel join that is full fires."""
    node = state.node(token)
    scope = state.scopes[token.scope]
    arrived = scope.joins.setdefault(node.id, {})
    flow = token.via
    if flow is None or flow not in node.incoming:
        flow = next((entry for entry in node.incoming if not arrived.get(entry)), node.incoming[0])
        token.via = flow
    arrived.setdefault(flow, []).append(token.id)
    token.stage = ACTIVE
    token.waits_for = "join"
    state.joins_changed = True
    if node.tag == "parallelGateway" and len(arrived) == len(node.incoming):
        fire_join(state, scope, node)


def fire_join(state: MachineState, scope: ScopeState, node: NodeSpec) -> None:
    """Take one token of each flow that has any, and let one of them leave."""
    arrived = scope.joins.pop(node.id)
    firsts = [ids[0] for ids in arrived.values()]
    rest = {flow: ids[1:] for flow, ids in arrived.items() if ids[1:]}
    if rest:
        scope.joins[node.id] = rest
    for id in firsts[:-1]:
        token = state.tokens[id]
        if state.trace is not None:
            state.trace.of(node.id).active -= 1
            state.trace.of(node.id).entered -= 1  # a join is entered once, however many tokens
        state.remove_token(token)
    state.queue_token(state.tokens[firsts[-1]], LEAVE)


def fire_inclusive_join(state: MachineState) -> bool:
    """Fire the first inclusive join that no token elsewhere can still reach. Return whether there
    was one."""
    if not state.joins_changed:
        return False
    for scope in list(state.scopes.values()):
        for id in list(scope.joins):
            node = state.graph.nodes[id]
            if node.tag == "inclusiveGateway" and _is_complete(state, scope, node):
                fire_join(state, scope, node)
                return True
    state.joins_changed = False
    return False


def _is_complete(state: MachineState, scope: ScopeState, node: NodeSpec) -> bool:
    """Return whether every token elsewhere in the scope that could reach an empty flow could also
    reach a filled one."""
    arrived = scope.joins[node.id]
    filled = sum(1 << place for place, flow in enumerate(node.incoming) if arrived.get(flow))
    empty = ((1 << len(node.incoming)) - 1) & ~filled
    if not empty:
        return True
    reach = state.spec(scope).reach[node.id]
    for id in scope.tokens:
        reached = reach.get(state.tokens[id].node, 0)
        if reached & empty and not reached & filled:
            return False
    return True


def leave_join(state: MachineState, token: ProcessToken) -> None:
    """Remove a token from the join at which it waits."""
    joins = state.scopes[token.scope].joins
    arrived = joins.get(token.node)
    if arrived is None:
        return
    for flow in list(arrived):
        if token.id in arrived[flow]:
            arrived[flow].remove(token.id)
            if not arrived[flow]:
                del arrived[flow]
    if not arrived:
        del joins[token.node]


def cancel(state: MachineState, token: ProcessToken) -> None:
    """End a token and everything below it: its waits, its instances, its inner scope."""
    stack = [token]
    while stack:
        current = stack.pop()
        if current.id not in state.tokens:
            continue
        state.close_waits(current.waits)
        if current.loop is not None:
            stack += [state.tokens[id] for id in current.loop.active if id in state.tokens]
        if current.inner is not None:
            stack += close_scope(state, state.scopes[current.inner])
        for run in [run for run in state.runs.values() if run.host == current.id]:
            stack += [state.tokens[id] for id in run.active if id in state.tokens]
            del state.runs[run.id]
        if current.waits_for == "join" and current.scope in state.scopes:
            leave_join(state, current)
        if state.trace is not None and current.stage != ENTER and current.loop is None:
            state.trace.cancelled(current.node)
        state.remove_token(current)


def close_scope(state: MachineState, scope: ScopeState) -> list[ProcessToken]:
    """Remove a scope, and return its tokens, which the caller ends."""
    state.close_waits(scope.waits)
    del state.scopes[scope.id]
    state.emptied.pop(scope.id, None)
    return [state.tokens[id] for id in scope.tokens]


def cancel_all(state: MachineState, scope: ScopeState, but: ProcessToken | None = None) -> None:
    """End all tokens of a scope except one."""
    for id in list(scope.tokens):
        token = state.tokens.get(id)
        if token is not None and token is not but:
            cancel(state, token)
