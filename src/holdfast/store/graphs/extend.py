"""Add members and dependencies to running graphs."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.graphs.model import (
    EdgeRecord,
    GraphPatch,
    GraphRecord,
    GraphStatus,
    MemberState,
    name_of,
)
from holdfast.core.graphs.validation import check_patch
from holdfast.core.runs import NewRun
from holdfast.errors import (
    BadGraph,
    GraphChanged,
    GraphFinished,
    MemberStarted,
)
from holdfast.store.database import Transaction
from holdfast.store.definitions.apply import keep_definitions
from holdfast.store.effects import Commit, applies
from holdfast.store.graphs.join import have_joined, join_runs
from holdfast.store.graphs.new_members import add_new_members, existing_members
from holdfast.store.graphs.operations import (
    AddMembers,
    StagedGraph,
)
from holdfast.store.graphs.outbox import SKIP
from holdfast.store.graphs.resolution import GraphResolution
from holdfast.store.graphs.rows import load_graph
from holdfast.store.graphs.stage import make_visible, refuse_draining_lanes


@applies(AddMembers)
def add_members(
    tx: Transaction, commit: Commit, effects: Sequence[AddMembers]
) -> list[tuple[NewRun, int]]:
    """Extend the graph of the run. Return the new members that were started as leased. Raises
    BadGraph."""
    if not tx.rows("member", run_id=commit.run_id):
        raise BadGraph(
            run=commit.run_id, why="the run is not a member of a graph, so it cannot extend one"
        )
    members = [member for effect in effects for member in extend_graph(tx, effect).born]
    return [(member.run, member.started.now) for member in members if member.started.leased]


def extend_graph(tx: Transaction, op: AddMembers) -> StagedGraph:
    """Add members and dependencies to a running graph. Raises GraphFinished, GraphChanged,
    MemberStarted."""
    graph = load_graph(tx, op.graph_id, op.namespace)
    if _is_repeated_join(tx, graph, op.patch):
        return StagedGraph(graph, [], created=False)
    if graph.status is not GraphStatus.RUNNING:
        raise GraphFinished(graph=op.graph_id, status=graph.status.value)
    if op.revision is not None and op.revision != graph.revision:
        raise GraphChanged(graph=op.graph_id, expected=op.revision, actual=graph.revision)
    existing = existing_members(tx, graph.id, _named(op.patch))
    edges: list[EdgeRecord] = []
    # Only new dependencies of existing members can close a cycle, so only then all edges are read.
    if op.patch.groups and op.prepared is None:
        rows = tx.rows("edges_of_graph", graph_id=graph.id)
        edges = [
            EdgeRecord(name_of(row["upstream"]), name_of(row["dependent"]), row["number"])
            for row in rows
        ]
    if op.prepared is None:
        check_patch(
            graph.id,
            graph.namespace,
            op.patch,
            dict.fromkeys(existing.states, graph.namespace),
            edges,
        )
    for name, _ in op.patch.groups:
        state = existing.states.get(name, MemberState.WAITING)
        if state is not MemberState.WAITING:
            raise MemberStarted(graph=graph.id, member=name, state=state.value)
    refuse_draining_lanes(tx, [op.patch], op.prepared)
    resolution = GraphResolution(tx, [graph], op.compose, op.lease)
    keep_definitions(tx, op.definitions)
    graph.revision += 1
    size = len(op.patch.members) if op.prepared is None else op.prepared.members[graph.id]
    size += len(op.patch.joins)
    resolution.audit.add(
        graph, "graph_extended", data={"members": size, "revision": graph.revision}
    )
    resolution.touch(graph)
    if op.prepared is not None:
        make_visible(resolution, op.prepared, [graph])
        # A staged member may wait for a member that has failed meanwhile: it can never start.
        resolution.outbox.leave(graph.id, SKIP)
    add_new_members(resolution, [(graph, op.patch)], existing)
    join_runs(resolution, graph, op.patch.joins)
    resolution.finish()
    return StagedGraph(graph, resolution.starter.born)


def _is_repeated_join(tx: Transaction, graph: GraphRecord, patch: GraphPatch) -> bool:
    """Return whether an earlier call has done all of this: a repeated join changes nothing."""
    if not patch.joins or patch.members or patch.groups:
        return False
    return have_joined(tx, graph, patch.joins)


def _named(patch: GraphPatch) -> set[str]:
    """Return all names of members in a patch."""
    names = {
        name
        for member in patch.members
        for group in member.groups
        for name in (member.name, *group.upstreams)
    }
    names |= {member.name for member in patch.members} | {name for name, _ in patch.groups}
    names |= {join.name for join in patch.joins}
    return names | {name for _, group in patch.groups for name in group.upstreams}
