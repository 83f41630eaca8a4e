"""Activities: entering, doing the work, completing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from holdfast.authoring.bpmn.binding import TaskBinding
from holdfast.authoring.bpmn.compile import NodeSpec
from holdfast.authoring.bpmn.expressions import name_of, stored_value, value_of
from holdfast.authoring.bpmn.model import EventDefinition, Work
from holdfast.authoring.bpmn.timers import plan_of, retry_terms
from holdfast.authoring.bpmn.token_machine.arming import (
    arm,
    arm_start,
    can_wait,
    key_text,
    show_waits,
)
from holdfast.authoring.bpmn.token_machine.compensation import record, undone
from holdfast.authoring.bpmn.token_machine.loops import begin_loop, end_instance
from holdfast.authoring.bpmn.token_machine.moves import leave
from holdfast.authoring.bpmn.token_machine.state import (
    ACTIVE,
    ARM,
    COMPLETE,
    FORWARD,
    MachineState,
    ProcessToken,
    ScopeState,
    TokenWait,
    UndoRecord,
)
from holdfast.authoring.bpmn.token_machine.throwing import raise_incident
from holdfast.authoring.bpmn.token_machine.variables import (
    locals_of,
    seen_by,
    write,
    write_outside,
)
from holdfast.errors import BadDuration, BadExpression


def enter_activity(state: MachineState, token: ProcessToken) -> None:
    """Begin an activity: its loop, or its boundary events and its work."""
    node = state.node(token)
    loop = node.element.loop
    if token.loop is None and token.body is None:
        arm_boundaries(state, token, node)
    if loop is not None and token.body is None:
        begin_loop(state, token, loop)
        return
    token.activation = state.activate(node.id)
    map_inputs(state, token, node.element.work)
    _PERFORM.get(node.tag, perform_task)(state, token, node)


def arm_boundaries(state: MachineState, token: ProcessToken, node: NodeSpec) -> None:
    """Arm the boundary events of an activity that wait for something outside."""
    if token.waits:
        return  # armed before an incident, and still armed
    for boundary in node.boundaries:
        if can_wait(boundary):
            arm(state, boundary, token, "boundary")


def map_inputs(state: MachineState, token: ProcessToken, work: Work) -> None:
    """Evaluate the input mappings into the locals of the token."""
    if not work.inputs or state.node(token).tag == "callActivity":
        return
    view = seen_by(state, token)
    values: dict[str, Any] = {}
    for entry in work.inputs:
        _assign(values, entry.target, value_of(entry.source, view, state.now))
    token.locals = {**(token.locals or {}), **values}


def _assign(values: dict[str, Any], target: str, value: Any) -> None:
    """Assign to a name, or to a field of it (``order.id``)."""
    *path, last = target.split(".")
    for name in path:
        values = values.setdefault(name, {})
    values[last] = stored_value(value)


def perform_task(state: MachineState, token: ProcessToken, node: NodeSpec) -> None:
    """Do the work of a task, or of an event that sends a message."""
    binding = state.bind(node, None)
    work = node.element.work
    topic = work.topic
    if binding.kind == "external" and work.computed_topic is not None:
        topic = name_of(work.computed_topic.text, seen_by(state, token), state.now)
        binding = state.bind(node, topic)
    if binding.kind == "handler":
        _call_handler(state, token, work, binding, topic)
    elif binding.kind == "external":
        _offer_to_workers(state, token, work, topic)
    elif binding.kind == "expression":
        expression = work.script or work.expression
        if expression is not None:
            value = value_of(expression, seen_by(state, token), state.now)
            if work.result:
                token.results = {work.result: stored_value(value)}
        state.queue_token(token, COMPLETE)
    elif binding.kind == "send":
        send_message(state, token, node, node.event)
        state.queue_token(token, COMPLETE)
    elif binding.kind == "missing":
        wanted = ", ".join((node.id, *work.names))
        message = f"no handler is known for {wanted}: bind one, then retry"
        raise_incident(state, token, {"type": "NoHandler", "message": message})
    else:
        state.queue_token(token, COMPLETE)


def _call_handler(
    state: MachineState, token: ProcessToken, work: Work, binding: TaskBinding, topic: str | None
) -> None:
    view = seen_by(state, token)
    names = binding.parameters
    args = view.flat() if names is None else {name: view[name] for name in names if name in view}
    local = locals_of(state, token) if token.body is not None else {}
    data: dict[str, Any] = {"args": args, "local": local, "mode": token.mode}
    if work.computed_topic is not None:
        data["topic"] = topic
    if work.computed_retries is not None:
        data["retries"], data["delay"] = _retries(state, token, work)
    state.wait(token, "work", "handler", id=token.activation, data=data)


def _offer_to_workers(
    state: MachineState, token: ProcessToken, work: Work, topic: str | None
) -> None:
    retries, delay = _retries(state, token, work)
    data = {
        "topic": topic,
        "variables": seen_by(state, token).flat(),
        "retries": 2 if retries is None else retries,
        "delay": delay,
        "mode": token.mode,
    }
    state.wait(token, "external", "external", id=token.activation, data=data)


def _retries(state: MachineState, token: ProcessToken, work: Work) -> tuple[int | None, str | None]:
    """Return the retries of a task and the delay before each, which the model may compute."""
    if work.computed_retries is None:
        return work.retries, work.delay
    text = name_of(work.computed_retries.text, seen_by(state, token), state.now).strip()
    terms = (max(int(text) - 1, 0), work.delay) if text.isdigit() else retry_terms(text)
    if terms is None:
        why = f"it must give a number of attempts or a cycle such as R3/PT10M, not {text!r}"
        raise BadExpression(expression=work.computed_retries.text, why=why)
    return terms


def send_message(
    state: MachineState, token: ProcessToken, node: NodeSpec, event: EventDefinition | None
) -> None:
    """Publish the message of a send task or a message event, with its mapped variables."""
    work = node.element.work
    name = node.element.message
    key = node.element.message_key
    data: dict[str, Any] = {"variables": dict(token.locals or {}) if work.inputs else {}}
    if event is not None:
        name = event.name
        key = event.key
    view = seen_by(state, token)
    if key is not None:
        data["key"] = key_text(value_of(key, view, state.now))
    data["name"] = name_of(name or "", view, state.now)
    state.open_wait(TokenWait(id=token.sent_id, kind="publish", node=node.id, data=data))


def _user_task(state: MachineState, token: ProcessToken, node: NodeSpec) -> None:
    work = node.element.work
    view = seen_by(state, token)

    def text(expression: Any) -> Any:
        return None if expression is None else value_of(expression, view, state.now)

    due = text(work.due)
    data: dict[str, Any] = {
        "name": node.name or node.id,
        "assignee": text(work.assignee),
        "users": _people(text(user) for user in work.users),
        "groups": _people(text(group) for group in work.groups),
        "due": None if due is None else str(due),
        "due_at": _due_at(due, state.now),
        "local": locals_of(state, token),
    }
    state.wait(token, "user", "user", id=token.activation, data=data)
    token.until = data["due_at"]


def _due_at(due: Any, now: int) -> int | None:
    """Return the instant of a due date, which is a date or a duration. A text that is neither is
    only shown: people can do the task without it."""
    if due is None:
        return None
    for kind in ("timeDate", "timeDuration"):
        try:
            return plan_of(kind, due, now).at
        except BadDuration:
            continue
    return None


def _people(values: Iterable[Any]) -> list[str]:
    people: list[str] = []
    for value in values:
        if isinstance(value, list | tuple):
            people += [str(person) for person in value]
        elif value is not None:
            people += [part.strip() for part in str(value).split(",") if part.strip()]
    return people


def _receive_task(state: MachineState, token: ProcessToken, node: NodeSpec) -> None:
    token.stage = ACTIVE
    show_waits(token, arm(state, node, token, "own"))


def _call_activity(state: MachineState, token: ProcessToken, node: NodeSpec) -> None:
    work = node.element.work
    view = seen_by(state, token)
    values: dict[str, Any] = view.flat() if work.passes_all_in else {}
    for entry in work.inputs:
        _assign(values, entry.target, value_of(entry.source, view, state.now))
    version = None if work.version is None else name_of(work.version, view, state.now)
    called = name_of(node.element.called or "", view, state.now)
    data = {"target": called, "version": version, "variables": values}
    state.wait(token, "call", "child", id=token.activation, data=data)


def _subprocess(state: MachineState, token: ProcessToken, node: NodeSpec) -> None:
    token.stage = ACTIVE
    token.waits_for = "child"
    scope = state.new_scope(node.id, state.scopes[token.scope], token.id)
    token.inner = scope.id
    arm_scope(state, scope)
    if node.tag == "adHocSubProcess":
        token.waits_for = "trigger"
        return
    open_scope(state, scope)


def arm_scope(state: MachineState, scope: ScopeState) -> None:
    """Arm all event sub-processes of a scope. A sub-process that cannot be armed becomes
    an incident; the other sub-processes and the tokens of the scope go on."""
    for node in state.spec(scope).event_subprocesses:
        try:
            arm_start(state, node, scope)
        except (BadExpression, BadDuration) as error:
            token = state.new_token(node.id, scope, stage=ARM)
            state.queue.pop()  # it waits for an operator
            if state.trace is not None:
                state.trace.entered(node.id)
            raise_incident(state, token, {"type": type(error).__name__, "message": str(error)})


def arm_again(state: MachineState, token: ProcessToken) -> None:
    """Arm an event sub-process after its incident was resolved. Raises BadExpression,
    BadDuration."""
    arm_start(state, state.node(token), state.scopes[token.scope])
    if state.trace is not None:
        visits = state.trace.of(token.node)
        visits.active -= 1
        visits.entered -= 1  # it has not started, it only waits
    state.remove_token(token)


def open_scope(state: MachineState, scope: ScopeState) -> None:
    """Put a token on each entry of a scope."""
    for entry in state.spec(scope).entries:
        state.new_token(entry.id, scope)
    state.emptied[scope.id] = None


_PERFORM = {
    "userTask": _user_task,
    "receiveTask": _receive_task,
    "callActivity": _call_activity,
    "subProcess": _subprocess,
    "transaction": _subprocess,
    "adHocSubProcess": _subprocess,
}


def complete(state: MachineState, token: ProcessToken) -> None:
    """Write the results of an activity or event, record it for compensation, and leave it."""
    node = state.node(token)
    _write_results(state, token, node)
    inner = state.scopes.get(token.inner or 0)
    entry = None
    if token.mode == FORWARD and token.undo is None:
        entry = record(state, token, inner)
    if token.body is not None:
        _complete_instance(state, token, node, entry)
    else:
        _complete_whole(state, token, node, entry)


def _write_results(state: MachineState, token: ProcessToken, node: NodeSpec) -> None:
    results = token.results or {}
    outputs = node.element.work.outputs
    if node.tag == "callActivity":
        write(state, token, results)
    elif outputs and token.loop is None:
        token.locals = {**(token.locals or {}), **results}
        view = seen_by(state, token)
        values: dict[str, Any] = {}
        for line in outputs:
            _assign(values, line.target, value_of(line.source, view, state.now))
        write_outside(state, token, values)
    else:
        write(state, token, results)
    token.results = None


def _complete_instance(
    state: MachineState, token: ProcessToken, node: NodeSpec, entry: UndoRecord | None
) -> None:
    body = state.tokens[token.body or 0]
    if node.element.loop is not None:
        end_instance(state, token, node.element.loop)
    if entry is not None and body.loop is not None:
        body.loop.log.append(entry)
    _close_inner(state, token)
    state.close_waits(token.waits)
    if state.trace is not None:
        state.trace.completed(token.node)
    state.remove_token(token)


def _complete_whole(
    state: MachineState, token: ProcessToken, node: NodeSpec, entry: UndoRecord | None
) -> None:
    if token.loop is not None:
        loop = node.element.loop
        if loop is not None and loop.output is not None:
            write_outside(state, token, {loop.output: token.loop.outputs or []})
        if token.undo is None:
            state.scopes[token.scope].log += token.loop.log
    elif entry is not None:
        state.scopes[token.scope].log.append(entry)
    _close_inner(state, token)
    state.close_waits(token.waits)
    leave(state, token)
    if token.undo is not None:
        undone(state, token)


def _close_inner(state: MachineState, token: ProcessToken) -> None:
    inner = state.scopes.pop(token.inner or 0, None)
    if inner is not None:
        state.close_waits(inner.waits)
        token.inner = None
