"""Compensation: the log of completed activities, undone in reverse order, each once.

A completed activity with a handler is recorded in its scope; a completed sub-process is recorded
with its own log and its variables. Undoing takes records out of the log, so no record is undone
twice. One record is undone after the other; a handler that fails is an incident, and the others
continue.
"""

from __future__ import annotations

from typing import Any

from holdfast.authoring.bpmn.compile import NodeSpec
from holdfast.authoring.bpmn.model import EventDefinition
from holdfast.authoring.bpmn.token_machine.moves import cancel
from holdfast.authoring.bpmn.token_machine.state import (
    ACTIVE,
    COMPENSATION,
    COMPLETE,
    LEAVE,
    CompensationRun,
    MachineState,
    ProcessToken,
    ScopeState,
    UndoRecord,
)


def record(state: MachineState, token: ProcessToken, inner: ScopeState | None) -> UndoRecord | None:
    """Return the record of an activity that completes; None if there is nothing to undo."""
    node = state.node(token)
    if node.undo is None and (inner is None or not has_log(state, inner)):
        return None
    return UndoRecord(
        node=node.id,
        handler=node.undo,
        locals=None if token.locals is None else dict(token.locals),
        variables=None if inner is None else dict(inner.variables),
        log=[] if inner is None else inner.log,
    )


def has_log(state: MachineState, scope: ScopeState) -> bool:
    return bool(scope.log) or state.spec(scope).compensation is not None


def throw_compensation(
    state: MachineState, token: ProcessToken, event: EventDefinition, then: str = LEAVE
) -> None:
    """Undo the activity that the event names, or all completed activities of the scope; the token
    waits for the end, unless the event says otherwise."""
    scope = _compensated_scope(state, state.scopes[token.scope])
    if event.activity is not None:
        records = _take_named(scope.log, event.activity)
    else:
        records = scope.log
        scope.log = []
    if not event.waits:
        start(state, scope, records, None)
        state.queue_token(token, LEAVE)
        return
    token.stage = ACTIVE
    token.waits_for = "child"
    start(state, scope, records, token.id, then)


def _compensated_scope(state: MachineState, scope: ScopeState) -> ScopeState:
    """Return the scope whose log is undone: for an event sub-process, the scope around it."""
    owner = state.graph.nodes.get(scope.spec)
    if owner is not None and owner.element.is_event_subprocess and scope.parent is not None:
        return state.scopes[scope.parent]
    return scope


def _take_named(log: list[UndoRecord], activity: str) -> list[UndoRecord]:
    """Take the records of an activity out of a log, also out of completed sub-processes."""
    taken = [entry for entry in log if entry.node == activity]
    for entry in taken:
        log.remove(entry)
    if taken:
        return taken
    stack: list[list[UndoRecord]] = [[entry] for entry in log if entry.log]
    while stack:
        path = stack.pop()
        inner = [entry for entry in path[-1].log if entry.node == activity]
        for entry in inner:
            path[-1].log.remove(entry)
        if inner:
            return _wrapped(path, inner)
        stack += [[*path, entry] for entry in path[-1].log if entry.log]
    return []


def _wrapped(path: list[UndoRecord], records: list[UndoRecord]) -> list[UndoRecord]:
    for outer in reversed(path):
        records = [UndoRecord(node=outer.node, variables=outer.variables, log=records)]
    return records


def start(
    state: MachineState,
    scope: ScopeState,
    records: list[UndoRecord],
    host: int | None,
    then: str = LEAVE,
    error: dict[str, Any] | None = None,
) -> None:
    """Undo records, the last one first; then the host goes on."""
    run = CompensationRun(
        id=state.next_id(), scope=scope.id, records=records, host=host, then=then, error=error
    )
    state.runs[run.id] = run
    advance(state, run)


def advance(state: MachineState, run: CompensationRun) -> None:
    """Undo the next record; finish the run if there is none left and none in progress."""
    scope = state.scopes.get(run.scope)
    if scope is None:
        state.runs.pop(run.id, None)
    elif run.records:
        _undo(state, run, scope, run.records.pop())
    elif not run.active:
        del state.runs[run.id]
        host = state.tokens.get(run.host or 0)
        if host is not None:
            host.results = None if run.error is None else {"error": run.error}
            state.queue_token(host, run.then)


def _undo(state: MachineState, run: CompensationRun, scope: ScopeState, entry: UndoRecord) -> None:
    node = state.graph.nodes[entry.node]
    facts: dict[str, Any] = {"mode": COMPENSATION, "undo": run.id, "locals": entry.locals}
    if entry.handler is not None:
        token = state.new_token(entry.handler, scope, **facts)
        run.active.append(token.id)
        return
    token = state.new_token(node.id, scope, **facts)
    state.queue.pop()  # the sub-process is not entered again: only its log is undone
    run.active.append(token.id)
    _revive(state, token, node, entry)


def _revive(state: MachineState, token: ProcessToken, node: NodeSpec, entry: UndoRecord) -> None:
    """Open a completed sub-process again, with its variables, to undo what it has done."""
    token.stage = ACTIVE
    token.waits_for = "child"
    if state.trace is not None:
        state.trace.of(node.id).active += 1
        state.trace.of(node.id).completed -= 1
    inner = state.new_scope(node.id, state.scopes[token.scope], token.id)
    inner.variables = dict(entry.variables or {})
    inner.log = entry.log
    token.inner = inner.id
    handler = state.spec(inner).compensation
    if handler is not None:
        start_event_subprocess(state, inner, handler, {})
    else:
        records = inner.log
        inner.log = []
        start(state, inner, records, None)
        state.emptied[inner.id] = None


def start_event_subprocess(
    state: MachineState,
    scope: ScopeState,
    node: NodeSpec,
    variables: dict[str, Any],
) -> None:
    """Run an event sub-process in its scope; *variables* came with its trigger."""
    owner = state.new_token(node.id, scope)
    state.queue.pop()  # the token only owns the inner scope
    owner.stage = ACTIVE
    owner.waits_for = "child"
    inner = state.new_scope(node.id, scope, owner.id)
    owner.inner = inner.id
    if state.trace is not None:
        state.trace.entered(node.id)
    if node.start is not None:
        put_on_event(state, node.start, inner, variables)


def put_on_event(
    state: MachineState, event: NodeSpec, scope: ScopeState, variables: dict[str, Any]
) -> None:
    """Put a token on a boundary or start event that has fired. Its output mapping, if it has one,
    is what becomes of the variables that came with it."""
    if event.element.work.outputs:
        token = state.new_token(event.id, scope, stage=COMPLETE, results=dict(variables))
    else:
        token = state.new_token(event.id, scope, stage=LEAVE)
    if state.trace is not None:
        state.trace.entered(token.node)


def undone(state: MachineState, token: ProcessToken) -> None:
    """Continue the run of a token that has undone its record."""
    run = state.runs.get(token.undo or 0)
    if run is None:
        return
    if token.id in run.active:
        run.active.remove(token.id)
    advance(state, run)


def skip_failed(state: MachineState, token: ProcessToken) -> None:
    """Continue with the other records while the handler of this one waits for an operator."""
    run = state.runs.get(token.undo or 0)
    if run is not None and run.records:
        advance(state, run)


def cancel_transaction(state: MachineState, token: ProcessToken) -> None:
    """Cancel a transaction: end its active work, undo its completed work, then leave it by its
    cancel event."""
    scope = state.scopes[token.scope]
    end_others(state, scope, token)
    records = scope.log
    scope.log = []
    token.stage = ACTIVE
    token.waits_for = "child"
    start(state, scope, records, token.id, then="cancel")


def end_others(state: MachineState, scope: ScopeState, but: ProcessToken) -> None:
    """End all other tokens of a scope, and its event sub-processes. The work that their inner
    scopes had completed is added to the log of the scope."""
    state.close_waits(scope.waits)
    for id in list(scope.tokens):
        other = state.tokens.get(id)
        if other is None or other is but:
            continue
        inner = state.scopes.get(other.inner or 0)
        if inner is not None:
            scope.log += _open_logs(state, other, inner)
        cancel(state, other)


def _open_logs(state: MachineState, owner: ProcessToken, scope: ScopeState) -> list[UndoRecord]:
    """Return the completed work of an active sub-process and of those inside it, as records."""
    log = list(scope.log)
    for id in scope.tokens:
        token = state.tokens[id]
        inner = state.scopes.get(token.inner or 0)
        if inner is not None and inner.log:
            variables = dict(inner.variables)
            log.append(UndoRecord(node=token.node, variables=variables, log=list(inner.log)))
    if not log:
        return []
    return [UndoRecord(node=owner.node, variables=dict(scope.variables), log=log)]
