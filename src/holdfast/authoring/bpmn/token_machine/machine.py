"""The machine: outcomes in, requests out. A queue holds the tokens that can move."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from holdfast.authoring.bpmn.binding import BindTask
from holdfast.authoring.bpmn.compile import ProcessGraph
from holdfast.authoring.bpmn.expressions import is_met
from holdfast.authoring.bpmn.model import ACTIVITIES
from holdfast.authoring.bpmn.token_machine import events
from holdfast.authoring.bpmn.token_machine.activities import (
    arm_again,
    complete,
    enter_activity,
)
from holdfast.authoring.bpmn.token_machine.arming import trigger_of
from holdfast.authoring.bpmn.token_machine.compensation import undone
from holdfast.authoring.bpmn.token_machine.moves import (
    arrive_at_join,
    cancel,
    fire_inclusive_join,
    fire_join,
    leave,
)
from holdfast.authoring.bpmn.token_machine.starting import begin
from holdfast.authoring.bpmn.token_machine.state import (
    ARM,
    COMPLETE,
    ENTER,
    LEAVE,
    THROW,
    Ending,
    MachineState,
    ProcessToken,
    ScopeState,
    TokenWait,
)
from holdfast.authoring.bpmn.token_machine.throwing import (
    fail,
    fail_scope,
    fire,
    raise_incident,
    throw_error,
    write_and_complete,
)
from holdfast.authoring.bpmn.token_machine.variables import seen_by, seen_in, write
from holdfast.errors import BadDuration, BadExpression


class TokenMachine:
    """One instance of a process."""

    def __init__(
        self,
        graph: ProcessGraph,
        bind: BindTask,
        *,
        now: int,
        saga: str | None = None,
    ) -> None:
        self.state: MachineState = MachineState(graph, bind, now, saga)

    def start(self, variables: dict[str, Any], start: str | None = None) -> None:
        """Begin the instance at its none start event, or at the start event with that id."""
        begin(self.state, variables, start)
        self.run()

    def answer(self, id: str, kind: str, value: Any = None) -> bool:
        """Process the answer to a request. Return False if the request is not open.

        *kind* is ``done`` (with variables), ``error`` (a BPMN error), ``failed`` (with the
        description of a failure), ``fired``, ``retry`` or ``skip`` (of an incident)."""
        state = self.state
        wait = state.take_wait(id)
        if wait is None:
            return False
        if wait.token is None or wait.token in state.tokens:
            self._process(wait, kind, value)
        self.run()
        return True

    def _process(self, wait: TokenWait, kind: str, value: Any) -> None:
        state = self.state
        if wait.kind in ("publish", "broadcast", "escalate"):
            return
        if wait.kind in ("timer", "message", "signal", "condition", "trigger"):
            self._guard(wait, partial(fire, state, wait, value or {}))
            return
        token = state.tokens[wait.token or 0]
        if wait.kind == "incident":
            self._resolve(token, wait, kind, value or {})
        elif kind == "done":
            write_and_complete(state, token, value or {})
        elif kind == "error":
            throw_error(
                state,
                token,
                value["code"],
                value.get("message", ""),
                value.get("variables") or {},
            )
        else:
            fail(state, token, value)

    def _resolve(
        self, token: ProcessToken, wait: TokenWait, kind: str, value: dict[str, Any]
    ) -> None:
        """Continue after an incident: try the element again, or pass over it."""
        state = self.state
        write(state, token, value)
        stage = wait.data["stage"]
        token.attempt += 1
        if wait.data.get("join"):
            token.waits_for = "join"
            state.joins_changed = True
            if kind == "skip":
                fire_join(state, state.scopes[token.scope], state.node(token))
        elif stage == ARM and kind == "skip":
            cancel(state, token)
        elif kind == "skip":
            token.results = None
            state.queue_token(token, "skip" if stage == LEAVE else COMPLETE)
        elif stage in (ARM, COMPLETE, LEAVE):
            state.queue_token(token, stage)
        else:
            state.queue_token(token, ENTER)

    def _guard(self, wait: TokenWait, action: Callable[[], None]) -> None:
        """Turn an expression that cannot be evaluated into an incident of its token."""
        try:
            action()
        except (BadExpression, BadDuration) as error:
            token = self.state.tokens.get(wait.token or 0)
            if token is None:
                raise
            raise_incident(self.state, token, described(error))

    def run(self) -> None:
        """Move tokens until none can move by itself."""
        state = self.state
        while state.ending is None and not state.suspended:
            if state.queue:
                self._advance(state.queue.popleft())
            elif not (
                self._complete_scope()
                or self._check_conditions()
                or fire_inclusive_join(state)
                or self._raise_deadlock()
            ):
                break

    def _advance(self, id: int) -> None:
        state = self.state
        token = state.tokens.get(id)
        if token is None:
            return
        state.touched[id] = None
        try:
            _STAGES[token.stage](state, token)
        except (BadExpression, BadDuration) as error:
            raise_incident(state, token, described(error))

    def _complete_scope(self) -> bool:
        """Complete the first scope without tokens. Return whether there was one."""
        state = self.state
        while state.emptied:
            id = next(iter(state.emptied))
            del state.emptied[id]
            scope = state.scopes.get(id)
            if scope is None:
                continue
            if not scope.tokens and self._is_done(scope):
                self._end_scope(scope)
                return True
            if state.graph.scopes[scope.spec].id in state.graph.nodes:
                events.check_ad_hoc(state, scope)
        return False

    def _is_done(self, scope: ScopeState) -> bool:
        node = self.state.graph.nodes.get(scope.spec)
        if node is None or node.tag != "adHocSubProcess":
            return True
        return events.is_ad_hoc_done(self.state, scope)

    def _end_scope(self, scope: ScopeState) -> None:
        state = self.state
        owner = state.tokens.get(scope.owner or 0)
        if owner is None:
            state.ending = Ending("completed", dict(scope.variables))
            return
        node = state.node(owner)
        if node.element.is_event_subprocess:
            self._end_event_subprocess(owner, scope)
        elif owner.undo is not None and owner.mode != "forward" and _is_revived(owner):
            self._end_event_subprocess(owner, scope)
            undone(state, owner)
        else:
            state.queue_token(owner, COMPLETE)

    def _end_event_subprocess(self, owner: ProcessToken, scope: ScopeState) -> None:
        state = self.state
        state.close_waits(scope.waits)
        del state.scopes[scope.id]
        if state.trace is not None:
            state.trace.completed(owner.node)
        state.remove_token(owner)

    def _check_conditions(self) -> bool:
        """Fire the first condition that has become true. Return whether there was one."""
        state = self.state
        if not state.conditions_changed:
            return False
        for wait in list(state.conditions.values()):
            if self._has_become_true(wait):
                taken = state.take_wait(wait.id)
                if taken is not None:
                    self._guard(taken, partial(fire, state, taken, {}))
                return True
        state.conditions_changed = False
        return False

    def _has_become_true(self, wait: TokenWait) -> bool:
        state = self.state
        event = trigger_of(state, wait)
        if event is None or event.expression is None:
            return False
        if wait.token is not None:
            view = seen_by(state, state.tokens[wait.token])
        else:
            view = seen_in(state, state.scopes[wait.scope or 0])
        try:
            is_true = is_met(event.expression, view, state.now)
        except BadExpression:  # a variable without a value: not yet
            is_true = False
        was = wait.data.get("was", False)
        wait.data["was"] = is_true
        return is_true and not was

    def _raise_deadlock(self) -> bool:
        """Raise an incident if all that is left waits at joins that cannot fire."""
        state = self.state
        if state.waits or any(token.waits_for == "trigger" for token in state.tokens.values()):
            return False
        for token in list(state.tokens.values()):
            if token.waits_for == "join":
                missing = events.missing_flows(state, token)
                message = f"the join waits for {missing}, and no token can arrive there"
                raise_incident(state, token, {"type": "Deadlock", "message": message})
                state.waits[next(reversed(state.waits))].data["join"] = True
                return True
        return False


def _is_revived(owner: ProcessToken) -> bool:
    """Return whether a token opened a completed sub-process again to undo it."""
    return not owner.activation


def described(error: Exception) -> dict[str, Any]:
    """Return an error of the model as the description of an incident."""
    return {"type": type(error).__name__, "message": str(error)}


def _enter(state: MachineState, token: ProcessToken) -> None:
    node = state.node(token)
    is_body = node.element.loop is not None and token.body is None
    if state.trace is not None and not is_body and token.attempt == 1:
        state.trace.entered(node.id)
    if node.is_join:
        arrive_at_join(state, token)
    elif node.tag in ACTIVITIES:
        enter_activity(state, token)
    else:
        events.enter_event_or_gateway(state, token, node)


def _fail(state: MachineState, token: ProcessToken) -> None:
    error = (token.results or {}).get("error") or {}
    fail_scope(state, token, error)


def _skip(state: MachineState, token: ProcessToken) -> None:
    """Pass over an element that cannot choose a flow: by its default flow, or else to its end."""
    events.skip_choice(state, token)


_STAGES: dict[str, Callable[[MachineState, ProcessToken], None]] = {
    ENTER: _enter,
    COMPLETE: complete,
    THROW: events.throw_next,
    ARM: arm_again,
    LEAVE: leave,
    "cancel": events.leave_cancelled,
    "fail": _fail,
    "skip": _skip,
}
