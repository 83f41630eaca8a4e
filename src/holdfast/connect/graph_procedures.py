"""Procedures of ``engine.graphs`` that combine several reads and commits. They block the calling
thread; both faces of the namespace call them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, cast

from holdfast.connect.components import Components
from holdfast.core.graphs.builder import Graph
from holdfast.core.runs import RunRecord
from holdfast.engine.runtime.group_commit import TEMPORARY
from holdfast.errors import BadGraph, GraphChanged, RunChanged
from holdfast.service.graph_stages import sweep_all
from holdfast.service.graphs import TRIES, GraphEnded
from holdfast.service.instants import Moment
from holdfast.store.graphs.operations import ResolvedGraphs, StagedGraph


def start(parts: Components, graphs: Sequence[tuple[Graph, str | None]]) -> Sequence[StagedGraph]:
    """Start graphs in one transaction, and execute the members that were leased here."""
    for graph, _ in graphs:
        _register(parts, graph)
    if not graphs:
        return []
    answers = parts.graphs.start(graphs, parts.lease_member, parts.commit)
    if len(answers) > 1 and parts.worker is not None:
        parts.ended_graphs.expect(answer.graph.id for answer in answers)
    _adopt(parts, answers)
    return answers


def extend(parts: Components, graph_id: str, graph: Graph, revision: int | None) -> int:
    """Add members to a graph, and return its new revision."""
    _register(parts, graph)
    answer = parts.graphs.extend(graph_id, graph, revision, parts.lease_member, parts.commit)
    _adopt(parts, [answer])
    return answer.graph.revision


def _register(parts: Components, graph: Graph) -> None:
    """Register the workflows of a graph, so that the worker can execute them. Raises BadGraph."""
    if not isinstance(graph, Graph):
        raise BadGraph(given=type(graph).__name__, why="build the graph with holdfast.Graph()")
    # Many members share a workflow: it is registered once.
    workflows = {
        id(member.workflow): member.workflow
        for member in graph.members.values()
        if member.joins is None
    }
    for workflow in workflows.values():
        parts.know(workflow)


def _adopt(parts: Components, staged: Sequence[StagedGraph | ResolvedGraphs]) -> None:
    """Execute the members that were leased to this engine's worker at their start."""
    worker = parts.worker
    members = [member for answer in staged for member in answer.born if member.started.leased]
    if worker is not None and members:
        runs = [(parts.sealer.opener.new_run(member.run), member.started.now) for member in members]
        worker.loop.call_soon_threadsafe(worker.adopt_all, runs)


def replay(
    parts: Components, graph_id: str, member: str, from_step: str | None, by: str | None = None
) -> None:
    """Replay an ended member; try again if other processes change the graph meanwhile."""
    for attempt in range(TRIES):
        try:
            requests = parts.graphs.replay(graph_id, member, parts.lease_member, from_step)
            if attempt == 0:
                parts.note_action(by, "graphs.replay", graph_id, member=member)
            for request in requests:
                _adopt(parts, [parts.commit(request)])
            return
        except (GraphChanged, RunChanged):
            if attempt == TRIES - 1:
                raise
            # The outcome of a member with very many dependents may be only partly processed.
            _resolve_outcomes(parts)


def _resolve_outcomes(parts: Components) -> None:
    """Process the recorded outcomes of members until none is left."""
    more = True
    while more:
        resolved = parts.commit(parts.graphs.resolve(parts.lease_member))
        _adopt(parts, [resolved])
        more = resolved.more


def caught_up(parts: Components, graph_id: str) -> str:
    """Return the id of a graph that is about to be read, after the resolution of the work that a
    process has left behind when it died. The worker of this process, if there is one, does that
    anyway."""
    follow_up = parts.writer.follow_up
    if parts.worker is not None or follow_up is None or not isinstance(graph_id, str):
        return graph_id
    if follow_up.can_resolve(graph_id) and parts.graphs.is_unresolved(graph_id):
        with suppress(*TEMPORARY):  # a database that cannot be written can still be read
            follow_up.note(parts.commit(parts.graphs.resolve(None)))
    return graph_id


def read_end(parts: Components, graph_id: str) -> RunRecord:
    """Return a graph in place of a run, for ``EndedRuns``, which reads only its status. Graphs that
    were started together and have ended here are read together, which saves a query each."""
    ended = parts.ended_graphs.fetch(
        caught_up(parts, graph_id), lambda ids: cast("list[RunRecord]", parts.graphs.ended(ids))
    )
    return ended or cast(RunRecord, parts.graphs.record(graph_id))


def value(parts: Components, record: RunRecord) -> dict[str, Any]:
    """Return the results of a graph that ``read_end`` returned. Raises GraphFailed,
    GraphCancelled."""
    graph: Any = record
    if isinstance(graph, GraphEnded):
        return parts.graphs.value(graph.graph, graph.last)
    return parts.graphs.value(graph)


def prune(parts: Components, older_than: Moment, batch: int) -> int:
    """Delete ended graphs, batch by batch, and return their number."""
    deleted = 0
    while count := parts.commit(parts.graphs.prune(older_than, batch)):
        deleted += count
        sweep_all(parts.commit)
    sweep_all(parts.commit)  # also the remains of an earlier call whose process died
    return deleted
