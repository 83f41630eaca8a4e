"""Start graphs and extend them. Everything is checked before anything is written.

A graph with very many members is written in parts: each transaction of a stage adds invisible
members; the last one makes all of them visible and starts the graph. A stage that is not completed
is deleted, in parts as well (`sweeping.py`).

Lock order: the graph, then the stage, then members.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter

import msgspec

from holdfast.core.graphs.model import (
    LOST,
    EdgeRecord,
    GraphPatch,
    GraphRecord,
    GraphStatus,
    GroupRecord,
    GroupState,
    MemberRecord,
    MemberState,
    NewGroup,
    NewMember,
    RemainderPolicy,
    name_of,
    run_of,
)
from holdfast.core.graphs.resolution import can_never_fire, judged
from holdfast.core.graphs.validation import check_patch
from holdfast.core.runs import NewRun
from holdfast.errors import (
    BadGraph,
    GraphBusy,
    GraphChanged,
    GraphExists,
    GraphFinished,
    LaneDraining,
    MemberElsewhere,
    MemberExists,
    MemberStarted,
)
from holdfast.store.budgets.apply import check_budgets
from holdfast.store.database import Transaction
from holdfast.store.effects import Commit, applies
from holdfast.store.graphs.operations import (
    AddMembers,
    GraphStage,
    PreparedMember,
    ResealMember,
    StagedGraph,
    StageGraphs,
    StartedMember,
    WriteStagePart,
)
from holdfast.store.graphs.outbox import REPLAY, SKIP, START
from holdfast.store.graphs.reopen import TakenBack, taken_back
from holdfast.store.graphs.resolution import GraphResolution
from holdfast.store.graphs.rows import graph_from, group_from, group_row, load_graph
from holdfast.store.rows import lanes_from
from holdfast.store.runs.operations import STAGE_TTL


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
    _refuse_drained(tx, [stage.patch for stage in new], op.prepared)
    resolution = GraphResolution(tx, [graphs[stage.id] for stage in new], op.compose, op.lease)
    if tx.many("insert_graph", [_graph_row(graphs[stage.id]) for stage in new]) < len(new):
        if tx.rows("stage_to_change", stage_id=new[0].id):
            raise GraphBusy(graph=new[0].id, stage=new[0].id)
        raise GraphExists(graph=new[0].id, why="another process has just started it")
    for stage in new:
        size = sizes.get(stage.id, len(stage.patch.members))
        resolution.audit.add(
            graphs[stage.id], "graph_started", data={"name": stage.name, "members": size}
        )
    if op.prepared is not None:
        make_visible(resolution, op.prepared, [graphs[stage.id] for stage in new])
    _add(resolution, [(graphs[stage.id], stage.patch) for stage in new], NO_MEMBERS)
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


def _refuse_drained(
    tx: Transaction, patches: Sequence[GraphPatch], prepared: PreparedMember | None
) -> None:
    """Raise LaneDraining for new members in a draining lane; existing members are not affected."""
    drained = {lane.name for lane in lanes_from(*tx.sound_rows("lanes")) if lane.draining}
    lanes = {member.spec.route.lane for patch in patches for member in patch.members}
    if prepared is not None:
        lanes.update(prepared.lanes)
    for lane in sorted(lanes & drained):
        raise LaneDraining(lane=lane)


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
    if graph.status is not GraphStatus.RUNNING:
        raise GraphFinished(graph=op.graph_id, status=graph.status.value)
    if op.revision is not None and op.revision != graph.revision:
        raise GraphChanged(graph=op.graph_id, expected=op.revision, actual=graph.revision)
    existing = _existing(tx, graph.id, _named(op.patch))
    edges: list[EdgeRecord] = []
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
    _refuse_drained(tx, [op.patch], op.prepared)
    resolution = GraphResolution(tx, [graph], op.compose, op.lease)
    graph.revision += 1
    size = len(op.patch.members) if op.prepared is None else op.prepared.members[graph.id]
    resolution.audit.add(
        graph, "graph_extended", data={"members": size, "revision": graph.revision}
    )
    resolution.touch(graph)
    if op.prepared is not None:
        make_visible(resolution, op.prepared, [graph])
        resolution.outbox.leave(graph.id, SKIP)
    _add(resolution, [(graph, op.patch)], existing)
    resolution.finish()
    return StagedGraph(graph, resolution.starter.born)


def _named(patch: GraphPatch) -> set[str]:
    """Return all names of members in a patch."""
    names = {
        name
        for member in patch.members
        for group in member.groups
        for name in (member.name, *group.upstreams)
    }
    names |= {member.name for member in patch.members} | {name for name, _ in patch.groups}
    return names | {name for _, group in patch.groups for name in group.upstreams}


def _existing(tx: Transaction, graph_id: str, names: Iterable[str]) -> ExistingMembers:
    """Return the ones of the named members that the graph has."""
    ids = [run_of(graph_id, name) for name in sorted(names)]
    rows = tx.rows("states_of_members", ids=tx.as_list(ids)) if ids else []
    places = tx.rows("places_of_graph", graph_id=graph_id) if rows else []
    taken_back_ends: dict[str, list[TakenBack]] = {}
    for row in places:
        if row["status"] == REPLAY:
            taken_back_ends.setdefault(name_of(row["run_id"]), []).append(
                taken_back(row["run_id"], row["place"])
            )
    return ExistingMembers(
        {name_of(row["run_id"]): MemberState(row["state"]) for row in rows},
        {name_of(row["run_id"]): row["place"] for row in places if row["status"] != REPLAY},
        taken_back_ends,
    )


class ExistingMembers(msgspec.Struct):
    """The existing members of a graph that new members name.

    Ends that are resolved or taken back in parts, in the order of the ids of the dependents:
    - An end that is still being resolved counts for dependents up to its place; for later ones it
      will be counted.
    - An end that is still being taken back (``undone``) counts for dependents after its place, from
      which it will be taken back.
    """

    states: Mapping[str, MemberState] = {}
    places: Mapping[str, str] = {}
    undone: Mapping[str, Sequence[TakenBack]] = {}

    def state(self, name: str, dependent: str) -> MemberState | None:
        """Return the state of a member, as far as a new group of this dependent must count it."""
        if name in self.places and dependent > self.places[name]:
            return None
        return self.states.get(name)

    def ends_to_take_back(self, name: str, dependent: str) -> list[MemberState]:
        """Return the ends of a member that will be taken back from a new group of this
        dependent."""
        return [end.was for end in self.undone.get(name, ()) if dependent > end.after]


NO_MEMBERS = ExistingMembers()


class NewRows(msgspec.Struct):
    """The rows of new members, of their groups and of their edges."""

    members: list[MemberRecord]
    groups: list[GroupRecord]
    edges: list[dict[str, object]]


def _new_rows(
    graph_id: str, members: Iterable[NewMember], existing: ExistingMembers, rows: NewRows
) -> None:
    """Add the rows of new members, counted by the state of the existing ones."""
    for new in members:
        run_id = run_of(graph_id, new.name)
        groups = [
            _group(graph_id, run_id, number, group, existing, rows.edges)
            for number, group in enumerate(new.groups)
        ]
        rows.groups += groups
        missing = sum(group.state is not GroupState.SATISFIED for group in groups)
        rows.members.append(
            MemberRecord(
                run_id=run_id,
                graph_id=graph_id,
                workflow=new.spec.route.workflow,
                state=MemberState.WAITING,
                missing=missing,
                spec=msgspec.json.encode(new.spec),
                input=new.input,
            )
        )


def _add(
    resolution: GraphResolution,
    patches: Sequence[tuple[GraphRecord, GraphPatch]],
    existing: ExistingMembers,
) -> None:
    """Write checked members. Start the ones that can start, and skip the ones that never can,
    transitively."""
    tx = resolution.tx
    rows = NewRows([], [], [])
    for graph, patch in patches:
        _new_rows(graph.id, patch.members, existing, rows)
        graph.members += len(patch.members)
        graph.live += len(patch.members)
        resolution.touch(graph)
        rows.groups += _more_groups(resolution, graph, patch, existing, rows.edges)
    ready = resolution.admit([member for member in rows.members if member.missing == 0])
    runs, failed = resolution.starter.compose_read(
        [(member.run_id, member.spec, member.input) for member in ready]
    )
    _refuse_taken(tx, [member.run_id for member in rows.members])
    index = {member.run_id: member for member in ready}
    for run in runs:
        member = index[run.id]
        member.state = MemberState.STARTED
        member.started_at = tx.now
        member.input = b""
    _write(tx, rows)
    failed |= resolution.start(runs, fresh=True)
    unreachable = {
        group.run_id: can_never_fire(group)
        for group in rows.groups
        if group.state is GroupState.IMPOSSIBLE
    }
    ends = dict.fromkeys(failed, MemberState.FAILED) | dict.fromkeys(
        unreachable, MemberState.SKIPPED
    )
    closed = [
        group
        for group in rows.groups
        if group.state is not GroupState.OPEN and group.rest is RemainderPolicy.CANCEL
    ]
    resolution.proceed(ends, failed | unreachable, closed)


def _write(tx: Transaction, rows: NewRows) -> None:
    """Write new members. Raises GraphBusy if an unfinished or undeleted stage has one of them."""
    if tx.many("insert_member", [_member_row(member) for member in rows.members]) < len(
        rows.members
    ):
        ids = tx.as_list([member.run_id for member in rows.members])
        busy = tx.rows("stage_of_members", ids=ids, own=rows.members[0].graph_id)
        if busy:
            raise GraphBusy(member=busy[0]["run_id"], stage=busy[0]["id"])
        first = next(iter(tx.rows("states_of_members", ids=ids)), None)
        raise MemberExists(member=None if first is None else first["run_id"])
    tx.many("insert_group", [group_row(group) for group in rows.groups])
    tx.many("insert_edge", rows.edges)


# Stages


def stage_part(tx: Transaction, op: WriteStagePart) -> int:
    """Write the next members of a stage. Return how many are written. Raises GraphBusy."""
    existing = NO_MEMBERS
    if op.extends is not None:
        # Locked first: a resolution of the graph also counts ends in the groups of this stage.
        load_graph(tx, op.extends, op.namespace)
        existing = _existing(tx, op.extends, op.outside)
    tx.change("insert_stage", id=op.stage_id, due_at=tx.now + STAGE_TTL)
    stage = tx.rows("stage_to_change", stage_id=op.stage_id)[0]
    if stage["discarded"]:
        raise GraphBusy(stage=op.stage_id)
    if stage["written"] != op.written:
        return int(stage["written"])
    rows_of_part = NewRows([], [], [])
    for graph_id, pairs in groupby(op.members, itemgetter(0)):
        _new_rows(graph_id, (member for _, member in pairs), existing, rows_of_part)
    for member in rows_of_part.members:
        member.graph_id = op.stage_id
        member.state = MemberState.STAGED
    _refuse_taken(tx, [member.run_id for member in rows_of_part.members])
    _write(tx, rows_of_part)
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


def _refuse_taken(tx: Transaction, run_ids: Sequence[str]) -> None:
    taken = tx.rows("runs_there", ids=tx.as_list(run_ids)) if run_ids else []
    if taken:
        raise MemberElsewhere(run=taken[0]["id"], why="a run with this id exists outside any graph")


def _group(
    graph_id: str,
    run_id: str,
    number: int,
    new: NewGroup,
    existing: ExistingMembers,
    edges: list[dict[str, object]],
) -> GroupRecord:
    """Return a new group, counted by the state of the existing members."""
    group = GroupRecord(
        run_id=run_id, number=number, need=new.need, total=len(new.upstreams), rest=new.rest
    )
    if existing.states:
        states = [existing.state(name, run_id) for name in new.upstreams]
        group.done = states.count(MemberState.COMPLETED)
        group.lost = sum(state in LOST for state in states)
        group.state = judged(group)
        taken = [
            state for name in new.upstreams for state in existing.ends_to_take_back(name, run_id)
        ]
        group.done += taken.count(MemberState.COMPLETED)
        group.lost += sum(state in LOST for state in taken)
    edges += [
        {"upstream": run_of(graph_id, name), "dependent": run_id, "number": number}
        for name in new.upstreams
    ]
    return group


def _more_groups(
    resolution: GraphResolution,
    graph: GraphRecord,
    patch: GraphPatch,
    existing: ExistingMembers,
    edges: list[dict[str, object]],
) -> list[GroupRecord]:
    """Return the new groups of existing members that wait."""
    groups: list[GroupRecord] = []
    numbers: dict[str, int] = {}
    for name, new in patch.groups:
        run_id = run_of(graph.id, name)
        if run_id not in numbers:
            numbers[run_id] = len(resolution.tx.rows("groups_of_member", run_id=run_id))
        group = _group(graph.id, run_id, numbers[run_id], new, existing, edges)
        numbers[run_id] += 1
        groups.append(group)
        if group.state is not GroupState.SATISFIED:
            resolution.tx.change("add_missing", run_id=run_id, more=1)
    return groups


def _member_row(member: MemberRecord) -> dict[str, object]:
    return {
        "run_id": member.run_id,
        "graph_id": member.graph_id,
        "workflow": member.workflow,
        "state": member.state.value,
        "missing": member.missing,
        "spec": member.spec,
        "input": member.input,
        "started_at": member.started_at,
    }


def reseal_member(tx: Transaction, op: ResealMember) -> bool:
    """Replace the sealed input of a waiting member by the same input under another seal."""
    return bool(tx.change("reseal_member", run_id=op.run_id, old=op.old, new=op.new))
