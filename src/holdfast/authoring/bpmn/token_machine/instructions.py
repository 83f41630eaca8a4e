"""Instructions of operators and clients: set variables, trigger, throw, start an activity, move
tokens. Each is refused before it changes anything."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from holdfast.authoring.bpmn.model import ACTIVITIES
from holdfast.authoring.bpmn.token_machine.machine import TokenMachine
from holdfast.authoring.bpmn.token_machine.moves import cancel
from holdfast.authoring.bpmn.token_machine.state import MachineState, ProcessToken, ScopeState
from holdfast.authoring.bpmn.token_machine.throwing import fire, throw_error
from holdfast.authoring.bpmn.token_machine.variables import seen_by, write, write_in
from holdfast.errors import NotThere


def instruct(machine: TokenMachine, verb: str, facts: Mapping[str, Any]) -> Any:
    """Carry out an instruction and return its answer. Raises NotThere, BadExpression."""
    action = _VERBS.get(verb)
    if action is None:
        raise NotThere(why=f"a model does not know the instruction {verb!r}")
    answer = action(machine.state, facts)
    machine.run()
    return answer


def _set_variables(state: MachineState, facts: Mapping[str, Any]) -> Any:
    element = facts.get("element")
    if element is None:
        write_in(state, state.root, facts["variables"])
    else:
        token = _token_at(state, element)
        for name, value in facts["variables"].items():
            if name not in seen_by(state, token) and token.locals is not None:
                token.locals[name] = value
            else:
                write(state, token, {name: value})
    state.conditions_changed = True
    return None


def _trigger(state: MachineState, facts: Mapping[str, Any]) -> Any:
    element = facts["element"]
    for wait in state.waits.values():
        if wait.kind == "trigger" and element in (wait.node, wait.id):
            taken = state.take_wait(wait.id)
            if taken is not None:
                fire(state, taken, dict(facts.get("variables") or {}))
            return None
    raise NotThere(element=element, why="no receive task without a message waits there")


def _throw(state: MachineState, facts: Mapping[str, Any]) -> Any:
    place = facts.get("step") or facts.get("element")
    for wait in list(state.waits.values()):
        if place in (wait.id, wait.node) and wait.role == "own" and wait.token is not None:
            token = state.tokens[wait.token]
            state.close_wait(wait.id)
            throw_error(
                state,
                token,
                str(facts["code"]),
                str(facts.get("message") or ""),
                dict(facts.get("variables") or {}),
            )
            return None
    raise NotThere(element=place, why="no open task is there")


def _start_activity(state: MachineState, facts: Mapping[str, Any]) -> Any:
    name = facts["scope"]
    activity = facts["activity"]
    scope = next((scope for scope in state.scopes.values() if scope.spec == name), None)
    node = state.graph.nodes.get(name)
    inner = state.graph.nodes.get(activity)
    if scope is None or node is None or node.tag != "adHocSubProcess":
        raise NotThere(element=name, why="no ad hoc sub-process is active there")
    if inner is None or inner.scope != name or inner.tag not in ACTIVITIES or inner.incoming:
        raise NotThere(element=activity, why="this is no activity that can be started there")
    if node.element.is_sequential and scope.tokens:
        raise NotThere(element=activity, why="the sub-process runs one activity at a time")
    scope.has_run = True
    state.new_token(activity, scope)
    return None


def _modify(state: MachineState, facts: Mapping[str, Any]) -> Any:
    """Move, add and cancel tokens."""
    moves = facts["moves"]
    for move in moves:
        _check_move(state, move)
    for move in moves:
        token = _find_token(state, move.get("token"))
        if move["kind"] == "add":
            state.new_token(move["element"], _scope_of(state, move["element"], None))
        elif token is not None:
            scope = _scope_of(state, move.get("element"), token)
            if move["kind"] == "move":
                state.new_token(move["element"], scope)
            cancel(state, token)
    return None


def _check_move(state: MachineState, move: Mapping[str, Any]) -> None:
    kind = move.get("kind")
    if kind not in ("move", "add", "cancel"):
        raise NotThere(why=f"there is no move of the kind {kind!r}")
    if kind != "add" and _find_token(state, move.get("token")) is None:
        raise NotThere(token=move.get("token"), why="no such token rests in the run")
    if kind != "cancel":
        element = move.get("element") or ""
        if element not in state.graph.nodes:
            raise NotThere(element=element, why="the model has no such element")
        _scope_of(state, element, _find_token(state, move.get("token")))


def _find_token(state: MachineState, id: Any) -> ProcessToken | None:
    try:
        return state.tokens.get(int(id))
    except (TypeError, ValueError):
        return None


def _scope_of(state: MachineState, element: str | None, token: ProcessToken | None) -> ScopeState:
    """Return the active scope that an element belongs to; that of the token if it is there."""
    if token is not None:
        own = state.scopes[token.scope]
        if element is None or own.spec == state.graph.nodes[element].scope:
            return own
    wanted = state.graph.nodes[element or ""].scope
    for scope in state.scopes.values():
        if scope.spec == wanted:
            return scope
    raise NotThere(element=element, why=f"the sub-process {wanted} around it is not active")


def _token_at(state: MachineState, element: str) -> ProcessToken:
    for token in state.tokens.values():
        if element in (token.node, token.activation):
            return token
    raise NotThere(element=element, why="no token is at this element")


def _suspend(state: MachineState, facts: Mapping[str, Any]) -> Any:
    state.suspended = True
    state.touched.update(dict.fromkeys(state.tokens))


def _resume(state: MachineState, facts: Mapping[str, Any]) -> Any:
    state.suspended = False
    state.touched.update(dict.fromkeys(state.tokens))


_VERBS: dict[str, Callable[[MachineState, Mapping[str, Any]], Any]] = {
    "set_variables": _set_variables,
    "trigger": _trigger,
    "throw": _throw,
    "start_activity": _start_activity,
    "modify": _modify,
    "suspend": _suspend,
    "resume": _resume,
}
