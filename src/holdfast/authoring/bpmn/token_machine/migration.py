"""Migration: the state of an instance, moved to another version of its process.

The plan is made before anything is changed, and names every token that cannot move. Open waits stay
as they were opened: user tasks and their forms, jobs, the due times of timers, the names and keys
of messages, incidents, called processes. Events that only the other version has are armed,
events that it lacks are disarmed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.authoring.bpmn.binding import BindTask
from holdfast.authoring.bpmn.compile import NodeSpec, ProcessGraph
from holdfast.authoring.bpmn.token_machine.machine import TokenMachine
from holdfast.authoring.bpmn.token_machine.migrated_events import migrate_events
from holdfast.authoring.bpmn.token_machine.moves import fire_join
from holdfast.authoring.bpmn.token_machine.snapshot import restore, snapshot_of
from holdfast.authoring.bpmn.token_machine.state import (
    ENTER,
    MachineState,
    ProcessToken,
    ScopeState,
    UndoRecord,
)
from holdfast.errors import BadDuration, BadExpression


class ProcessVersion(msgspec.Struct, frozen=True):
    """One version of a process, as an instance executes it."""

    version: str
    graph: ProcessGraph
    bind: BindTask
    saga: str | None = None
    is_served: bool = True
    """Whether this process has all handlers of the version."""


class MigrationPlan(msgspec.Struct):
    """What a migration does to each token."""

    moved: list[str] = []
    """The ids of the tokens that move."""
    refused: dict[str, str] = {}
    """The reason for each token that cannot move, by its id; for a completed activity that could
    not be compensated any more, by the id of its element."""
    problems: list[str] = []
    """Lines of the mapping that fit no migration between the two versions."""


class ElementMapping:
    """Where the elements of one version are in another one; an element that the mapping does not
    name keeps its id."""

    def __init__(self, old: ProcessGraph, new: ProcessGraph, names: Mapping[str, str]) -> None:
        self.old: ProcessGraph = old
        self.new: ProcessGraph = new
        self._names: Mapping[str, str] = names
        self._old_kinds: dict[str, str] = _kinds(old)
        self._new_kinds: dict[str, str] = _kinds(new)

    def of(self, element: str) -> str:
        """Return the id of an element or flow in the other version, whether or not it is there."""
        return self._names.get(element, element)

    def node(self, element: str) -> NodeSpec | None:
        """Return the element of the other version; None if it has none of the same kind."""
        target = self.new.nodes.get(self.of(element))
        if target is None or target.detailed_kind != self.old.nodes[element].detailed_kind:
            return None
        return target

    def scope(self, spec: str) -> str:
        """Return the id of a process or sub-process in the other version."""
        return self.new.id if spec == self.old.id else self.of(spec)

    def problems(self) -> list[str]:
        """Return the faults of the mapping itself, line by line."""
        lines = []
        for source, target in self._names.items():
            before = self._old_kinds.get(source)
            after = self._new_kinds.get(target)
            if before is None:
                lines.append(f"{source}: the version of the run has no such element")
            elif after is None:
                lines.append(f"{target}: the other version has no such element")
            elif before != after:
                lines.append(f"{source} is a {before}, and {target} is a {after}")
        return lines

    def why_not(self, element: str) -> str | None:
        """Return why a token at an element cannot move; None if it can."""
        target = self.of(element)
        before = self._old_kinds[element]
        after = self._new_kinds.get(target)
        if after is None:
            return f"the other version has no element {target!r}: map {element} to another element"
        if before != after:
            return f"{element} is a {before}, and {target} of the other version is a {after}"
        return None


def _kinds(graph: ProcessGraph) -> dict[str, str]:
    kinds = {node.id: node.detailed_kind for node in graph.nodes.values()}
    flows = {flow.id: "sequenceFlow" for node in graph.nodes.values() for flow in node.outgoing}
    return {**flows, **kinds}


def plan_migration(
    state: MachineState, version: ProcessVersion, names: Mapping[str, str]
) -> tuple[MigrationPlan, MachineState | None]:
    """Return what a migration does, and the state after it; None if it is refused. The given state
    is not changed."""
    mapping = ElementMapping(state.graph, version.graph, names)
    refused = _refusals(state, mapping)
    plan = MigrationPlan(refused=refused, problems=mapping.problems())
    if refused or plan.problems:
        return plan, None
    try:
        migrated = _migrated(state, version, mapping)
    except (BadExpression, BadDuration) as error:
        plan.refused[_any_token(state)] = f"an event of the other version cannot be armed: {error}"
        return plan, None
    plan.moved = [str(token) for token in state.tokens]
    return plan, migrated


def _any_token(state: MachineState) -> str:
    return str(next(iter(state.tokens), ""))


# Refusals


def _refusals(state: MachineState, mapping: ElementMapping) -> dict[str, str]:
    refused: dict[str, str] = {}
    for token in state.tokens.values():
        why = _why_stays(state, token, mapping)
        if why is not None:
            refused[str(token.id)] = why
    logs = [scope.log for scope in state.scopes.values()]
    logs += [run.records for run in state.runs.values()]
    logs += [token.loop.log for token in state.tokens.values() if token.loop is not None]
    for log in logs:
        for record in _flat(log):
            why = _why_not_undone(record, mapping)
            if why is not None:
                refused.setdefault(record.node, why)
    return refused


def _why_stays(state: MachineState, token: ProcessToken, mapping: ElementMapping) -> str | None:
    """Return why a token cannot move to the other version; None if it can."""
    why = mapping.why_not(token.node)
    if why is not None:
        return why
    before = state.node(token)
    after = mapping.new.nodes[mapping.of(token.node)]
    scope = mapping.scope(state.scopes[token.scope].spec)
    if after.scope != scope:
        return f"{after.id} is inside {after.scope} in the other version, not inside {scope}"
    if _repetition(before) != _repetition(after):
        return f"{after.id} runs {_repetition(after)} in the other version"
    if before.element.is_event_subprocess != after.element.is_event_subprocess:
        return f"only one of the versions has {after.id} as an event sub-process"
    if token.waits_for == "join" and mapping.of(token.via or "") not in after.incoming:
        return f"the join {after.id} of the other version has no flow {mapping.of(token.via or '')}"
    return None


def _repetition(node: NodeSpec) -> str:
    loop = node.element.loop
    if loop is None:
        return "once"
    return {"standard": "in a loop"}.get(loop.kind, f"as {loop.kind} multi-instance")


def _why_not_undone(record: UndoRecord, mapping: ElementMapping) -> str | None:
    """Return why a completed activity could not be compensated any more."""
    why = mapping.why_not(record.node)
    if why is not None:
        return f"{record.node} has completed and can be compensated: {why}"
    if record.handler is not None and _handler(record, mapping) is None:
        return f"{record.node} has completed, and the other version cannot compensate it"
    return None


def _handler(record: UndoRecord, mapping: ElementMapping) -> str | None:
    """Return the compensation handler of a completed activity in the other version."""
    own = mapping.new.nodes[mapping.of(record.node)].undo
    if own is not None:
        return own
    kept = mapping.of(record.handler or "")
    node = mapping.new.nodes.get(kept)
    return kept if node is not None and node.element.is_for_compensation else None


def _flat(log: list[UndoRecord]) -> list[UndoRecord]:
    records: list[UndoRecord] = []
    stack = list(log)
    while stack:
        record = stack.pop()
        records.append(record)
        stack += record.log
    return records


# The state after it


def _migrated(
    state: MachineState, version: ProcessVersion, mapping: ElementMapping
) -> MachineState:
    """Return a copy of the state at the other version. Raises BadExpression, BadDuration."""
    after = MachineState(version.graph, version.bind, state.now, version.saga)
    restore(after, snapshot_of(state, {}))
    after.has_caller = state.has_caller
    after.touched = dict.fromkeys((*state.touched, *after.tokens))
    for token in after.tokens.values():
        _move_token(after, token, mapping)
    for scope in after.scopes.values():
        _move_scope(scope, mapping)
    for run in after.runs.values():
        _move_log(run.records, mapping)
    migrate_events(after, state, mapping.of, mapping.node)
    # A request of this turn that was closed again has never reached the engine.
    after.dropped = [*state.dropped, *(id for id in after.dropped if id not in state.requests)]
    open_requests = {id: after.waits[id] for id in state.requests if id in after.waits}
    after.requests = {**open_requests, **after.requests}
    after.trace = state.trace
    if after.trace is not None:
        for token in after.tokens.values():
            if token.loop is None and token.stage != ENTER:  # others are not counted as visits
                after.trace.moved(state.tokens[token.id].node, token.node)
    return after


def _move_token(state: MachineState, token: ProcessToken, mapping: ElementMapping) -> None:
    node = mapping.of(token.node)
    if node != token.node:
        token.version = state.version
    token.node = node
    if token.via is not None:
        token.via = mapping.of(token.via)
    if token.loop is not None:
        _move_log(token.loop.log, mapping)


def _move_scope(scope: ScopeState, mapping: ElementMapping) -> None:
    scope.spec = mapping.scope(scope.spec)
    scope.joins = {
        mapping.of(node): {mapping.of(flow): ids for flow, ids in arrived.items()}
        for node, arrived in scope.joins.items()
    }
    _move_log(scope.log, mapping)


def _move_log(log: list[UndoRecord], mapping: ElementMapping) -> None:
    for record in _flat(log):
        if record.handler is not None:
            record.handler = _handler(record, mapping)
        record.node = mapping.of(record.node)


def continue_migrated(machine: TokenMachine) -> None:
    """Let the tokens go on in the other version: joins that are full there fire, conditions are
    evaluated again."""
    state = machine.state
    for scope in list(state.scopes.values()):
        for id, arrived in list(scope.joins.items()):
            node = state.graph.nodes[id]
            if node.tag == "parallelGateway" and len(arrived) == len(node.incoming):
                fire_join(state, scope, node)
    state.conditions_changed = True
    state.joins_changed = True
    machine.run()


def renamed_waits(before: MachineState, after: MachineState) -> dict[str, str]:
    """Return the elements of the open waits that have another name after a migration, by the id of
    the wait."""
    return {
        id: wait.node
        for id, wait in after.waits.items()
        if id in before.waits and before.waits[id].node != wait.node
    }


def answer_of(plan: MigrationPlan) -> dict[str, Any]:
    """Return a plan as the answer to the instruction."""
    return {"moved": plan.moved, "refused": plan.refused}
