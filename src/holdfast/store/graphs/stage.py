"""Start graphs. Everything is checked before anything is written.

A graph with very many members is written in parts: each transaction of a stage adds invisible
members; the last one makes all of them visible and starts the graph. A stage that is not completed
is deleted, in parts as well (`sweeping.py`).

Lock order: the graph, then the stage, then members.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter

from holdfast.core.graphs.model import (
    GraphPatch,
    GraphRecord,
    GraphStatus,
    MemberState,
)
from holdfast.core.graphs.validation import check_patch
from holdfast.errors import (
    GraphBusy,
    GraphChanged,
    GraphExists,
    LaneDraining,
)
from holdfast.store.budgets.apply import check_budgets
from holdfast.store.database import Transaction
from holdfast.store.definitions.apply import keep_definitions
from holdfast.store.graphs.join import join_runs
from holdfast.store.graphs.new_members import (
    NO_MEMBERS,
    NewRows,
    add_new_members,
    existing_members,
    new_rows,
    refuse_taken_ids,
    write_members,
)
from holdfast.store.graphs.operations import (
    GraphStage,
    PreparedMember,
    ResealMember,
    StagedGraph,
    StageGraphs,
    StartedMember,
    WriteStagePart,
)
from holdfast.store.graphs.outbox import START
from holdfast.store.graphs.resolution import GraphResolution
from holdfast.store.graphs.rows import graph_from, group_from, load_graph
from holdfast.store.rows import lanes_from
from holdfast.store.runs.copy_operations import STAGE_TTL


def stage_graphs(tx: Transaction, op: StageGraphs) -> list[StagedGraph]:
    """Start graphs, or recognise those with the same content. Raises GraphExists, GraphBusy."""
    rows = tx.rows("lock_graphs", ids=tx.as_list([stage.id for stage in op.stages]))
    graphs = {graph.id: graph for graph in map(graph_from, rows)}
    new: list[GraphStage] = []
    sizes = op.prepared.members if op.prepared is not None else {}
    for stage in op.stages:
        old = graphs.get(stage.id)
        if old is None:
            if op.prepared is not None and stage.id not in sizes:
                raise GraphChanged(graph=stage.id, why="the graph was deleted meanwhile")
            check_patch(stage.id, stage.namespace, stage.patch, {})
            new.append(stage)
            graphs[stage.id] = GraphRecord(
                id=stage.id,
                namespace=stage.namespace,
                name=stage.name,
                status=GraphStatus.RUNNING,
                revision=1,
                members=0,
                live=0,
                events=0,
                fingerprint=stage.fingerprint,
                created_at=tx.now,
            )
        elif (old.namespace, old.fingerprint) != (stage.namespace, stage.fingerprint):
            raise GraphExists(graph=stage.id)
    refuse_draining_lanes(tx, [stage.patch for stage in new], op.prepared)
    resolution = GraphResolution(tx, [graphs[stage.id] for stage in new], op.compose, op.lease)
    # The insert decides between two processes that start the same graph.
    if tx.many("insert_graph", [_graph_row(graphs[stage.id]) for stage in new]) < len(new):
        if tx.rows("stage_to_change", stage_id=new[0].id):
            raise GraphBusy(graph=new[0].id, stage=new[0].id)
        raise GraphExists(graph=new[0].id, why="another process has just started it")
    keep_definitions(tx, op.definitions)
    for stage in new:
        size = sizes.get(stage.id, len(stage.patch.members)) + len(stage.patch.joins)
        resolution.audit.add(
            graphs[stage.id], "graph_started", data={"name": stage.name, "members": size}
        )
    if op.prepared is not None:
        make_visible(resolution, op.prepared, [graphs[stage.id] for stage in new])
    add_new_members(resolution, [(graphs[stage.id], stage.patch) for stage in new], NO_MEMBERS)
    for stage in new:
        join_runs(resolution, graphs[stage.id], stage.patch.joins)
    resolution.finish()
    return _answers(
        resolution, [graphs[stage.id] for stage in op.stages], {stage.id for stage in new}
    )


def _graph_row(graph: GraphRecord) -> dict[str, object]:
    return {
        "id": graph.id,
        "namespace": graph.namespace,
        "name": graph.name,
        "status": graph.status.value,
        "revision": graph.revision,
        "members": graph.members,
        "live": graph.live,
        "events": graph.events,
        "fingerprint": graph.fingerprint,
        "created_at": graph.created_at,
    }


def _answers(
    resolution: GraphResolution, graphs: Sequence[GraphRecord], new: set[str]
) -> list[StagedGraph]:
    born: dict[str, list[StartedMember]] = {}
    for member in resolution.starter.born:
        born.setdefault(resolution.graph(member.run.id).id, []).append(member)
    return [StagedGraph(graph, born.pop(graph.id, []), graph.id in new) for graph in graphs]


def refuse_draining_lanes(
    tx: Transaction, patches: Sequence[GraphPatch], prepared: PreparedMember | None
) -> None:
    """Raise LaneDraining for new members in a draining lane; existing members are not affected."""
    drained = {lane.name for lane in lanes_from(*tx.sound_rows("lanes")) if lane.draining}
    lanes = {member.spec.route.lane for patch in patches for member in patch.members}
    if prepared is not None:
        lanes.update(prepared.lanes)
    for lane in sorted(lanes & drained):
        raise LaneDraining(lane=lane)


def stage_part(tx: Transaction, op: WriteStagePart) -> int:
    """Write the next members of a stage. Return how many are written. Raises GraphBusy."""
    existing = NO_MEMBERS
    if op.extends is not None:
        # Locked first: a resolution of the graph also counts ends in the groups of this stage.
        load_graph(tx, op.extends, op.namespace)
        existing = existing_members(tx, op.extends, op.outside)
    tx.change("insert_stage", id=op.stage_id, due_at=tx.now + STAGE_TTL)
    stage = tx.rows("stage_to_change", stage_id=op.stage_id)[0]
    if stage["discarded"]:
        raise GraphBusy(stage=op.stage_id)
    # Another attempt has written some of them already: the caller continues from there.
    if stage["written"] != op.written:
        return int(stage["written"])
    rows_of_part = NewRows([], [], [])
    for graph_id, pairs in groupby(op.members, itemgetter(0)):
        new_rows(graph_id, (member for _, member in pairs), existing, rows_of_part)
    # Under the id of the stage: they are no members of the graph yet.
    for member in rows_of_part.members:
        member.graph_id = op.stage_id
        member.state = MemberState.STAGED
    refuse_taken_ids(tx, [member.run_id for member in rows_of_part.members])
    write_members(tx, rows_of_part)
    written = op.written + len(op.members)
    tx.change("move_stage", id=op.stage_id, written=written, due_at=tx.now + STAGE_TTL)
    return written


def make_visible(
    resolution: GraphResolution, prepared: PreparedMember, graphs: Sequence[GraphRecord]
) -> None:
    """Add the members of a stage to their graphs, which start with the next transaction.

    A stage without a graph is discarded. Raises GraphChanged if the stage is not complete.
    """
    tx = resolution.tx
    if not graphs:
        tx.change("discard_stage", id=prepared.id)
        return
    check_budgets(tx, prepared.budgets)
    stages = tx.rows("stage_to_change", stage_id=prepared.id)
    wanted = sum(prepared.members.values())
    if not stages or stages[0]["discarded"] or stages[0]["written"] != wanted:
        raise GraphChanged(
            graph=graphs[0].id, why="its staged members are incomplete, or were deleted"
        )
    decided = tx.rows("rests_of_stage", stage_id=prepared.id) if prepared.stops else []
    tx.change("make_visible", stage_id=prepared.id)
    tx.change("delete_stage", id=prepared.id)
    for graph in graphs:
        graph.members += prepared.members[graph.id]
        graph.live += prepared.members[graph.id]
        resolution.touch(graph)
        resolution.outbox.leave(graph.id, START)
    resolution.proceed({}, decided=[group_from(row) for row in decided])


def reseal_member(tx: Transaction, op: ResealMember) -> bool:
    """Replace the sealed input of a waiting member by the same input under another seal."""
    return bool(tx.change("reseal_member", run_id=op.run_id, old=op.old, new=op.new))
