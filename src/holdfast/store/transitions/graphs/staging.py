"""Starting graphs and adding to them. All is checked before anything is written.

A graph with very many members is written in parts: each transaction of a stage adds members that
nobody sees, and the last one makes all of them visible, and begins. A stage that is not ended is
deleted, in parts as well (`sweeping.py`).

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
from holdfast.errors import (
    GraphBusy,
    GraphChanged,
    GraphExists,
    GraphFinished,
    LaneDraining,
    MemberElsewhere,
    MemberExists,
    MemberStarted,
)
from holdfast.store.contract.graphs import (
    GraphStage,
    ResealMember,
    StagedGraph,
    StageGraphs,
    StartedMember,
    WriteStagePart,
)
from holdfast.store.contract.growing import AddMembers, PreparedMember
from holdfast.store.transitions.budgets import check_budgets
from holdfast.store.transitions.graphs.reopening import TakenBack, taken_back
from holdfast.store.transitions.graphs.rows import graph_from, group_from, group_row, load_graph
from holdfast.store.transitions.graphs.sweeping import STALE
from holdfast.store.transitions.graphs.work import REPLAY, SKIP, START, GraphResolution
from holdfast.store.transitions.transaction import Transaction, lanes_from


def stage_graphs(tx: Transaction, op: StageGraphs) -> list[StagedGraph]:
    """Start graphs, or recognise those that are there."""
    rows = tx.rows("graphs_to_settle", ids=tx.as_list([stage.id for stage in op.stages]))
    there = {graph.id: graph for graph in map(graph_from, rows)}
    new: list[GraphStage] = []
    sizes = op.prepared.members if op.prepared is not None else {}
    for stage in op.stages:
        old = there.get(stage.id)
        if old is None:
            if op.prepared is not None and stage.id not in sizes:
                raise GraphChanged(graph=stage.id, why="it was deleted meanwhile")
            check_patch(stage.id, stage.namespace, stage.patch, {})
            new.append(stage)
            there[stage.id] = GraphRecord(
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
    work = GraphResolution(tx, [there[stage.id] for stage in new], op.compose, op.lease)
    if tx.many("insert_graph", [_graph_row(there[stage.id]) for stage in new]) < len(new):
        if tx.rows("stage_to_change", stage_id=new[0].id):
            raise GraphBusy(graph=new[0].id, stage=new[0].id)
        raise GraphExists(graph=new[0].id, why="somebody else has just started it")
    for stage in new:
        size = sizes.get(stage.id, len(stage.patch.members))
        work.trail.add(there[stage.id], "graph_started", data={"name": stage.name, "members": size})
    if op.prepared is not None:
        make_visible(work, op.prepared, [there[stage.id] for stage in new])
    _add(work, [(there[stage.id], stage.patch) for stage in new], NOBODY)
    work.finish()
    return _answers(work, [there[stage.id] for stage in op.stages], {stage.id for stage in new})


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
    work: GraphResolution, graphs: Sequence[GraphRecord], new: set[str]
) -> list[StagedGraph]:
    born: dict[str, list[StartedMember]] = {}
    for one in work.born:
        born.setdefault(work.graph(one.run.id).id, []).append(one)
    return [StagedGraph(graph, born.pop(graph.id, []), graph.id in new) for graph in graphs]


def _refuse_drained(
    tx: Transaction, patches: Sequence[GraphPatch], prepared: PreparedMember | None
) -> None:
    """A lane that is being drained takes no new graphs; what is in a graph already goes on. Raises
    LaneDraining."""
    drained = {lane.name for lane in lanes_from(*tx.sifted("lanes")) if lane.draining}
    lanes = {member.spec.route.lane for patch in patches for member in patch.members}
    if prepared is not None:
        lanes.update(prepared.lanes)
    for lane in sorted(lanes & drained):
        raise LaneDraining(lane=lane)


def extend_graph(tx: Transaction, op: AddMembers) -> StagedGraph:
    """Add members and dependencies to a graph that has not ended."""
    graph = load_graph(tx, op.graph_id, op.namespace)
    if graph.status is not GraphStatus.RUNNING:
        raise GraphFinished(graph=op.graph_id, status=graph.status.value)
    if op.revision is not None and op.revision != graph.revision:
        raise GraphChanged(graph=op.graph_id, expected=op.revision, actual=graph.revision)
    there = _there(tx, graph.id, _named(op.patch))
    edges: list[EdgeRecord] = []
    if op.patch.groups and op.prepared is None:
        rows = tx.rows("edges_of_graph", graph_id=graph.id)
        edges = [
            EdgeRecord(name_of(row["upstream"]), name_of(row["dependent"]), row["number"])
            for row in rows
        ]
    if op.prepared is None:
        check_patch(
            graph.id, graph.namespace, op.patch, dict.fromkeys(there.states, graph.namespace), edges
        )
    for name, _ in op.patch.groups:
        state = there.states.get(name, MemberState.WAITING)
        if state is not MemberState.WAITING:
            raise MemberStarted(graph=graph.id, member=name, state=state.value)
    _refuse_drained(tx, [op.patch], op.prepared)
    work = GraphResolution(tx, [graph], op.compose, op.lease)
    graph.revision += 1
    size = len(op.patch.members) if op.prepared is None else op.prepared.members[graph.id]
    work.trail.add(graph, "graph_extended", data={"members": size, "revision": graph.revision})
    work.touch(graph)
    if op.prepared is not None:
        make_visible(work, op.prepared, [graph])
        work.leave_over(graph.id, SKIP)
    _add(work, [(graph, op.patch)], there)
    work.finish()
    return StagedGraph(graph, work.born)


def _named(patch: GraphPatch) -> set[str]:
    """Return the names of all members that a patch names."""
    names = {
        name
        for member in patch.members
        for group in member.groups
        for name in (member.name, *group.upstreams)
    }
    names |= {member.name for member in patch.members} | {name for name, _ in patch.groups}
    return names | {name for _, group in patch.groups for name in group.upstreams}


def _there(tx: Transaction, graph_id: str, names: Iterable[str]) -> ExistingMembers:
    """Return those of the members that are there."""
    ids = [run_of(graph_id, name) for name in sorted(names)]
    rows = tx.rows("states_of_members", ids=tx.as_list(ids)) if ids else []
    places = tx.rows("places_of_graph", graph_id=graph_id) if rows else []
    undone: dict[str, list[TakenBack]] = {}
    for row in places:
        if row["status"] == REPLAY:
            undone.setdefault(name_of(row["run_id"]), []).append(
                taken_back(row["run_id"], row["place"])
            )
    return ExistingMembers(
        {name_of(row["run_id"]): MemberState(row["state"]) for row in rows},
        {name_of(row["run_id"]): row["place"] for row in places if row["status"] != REPLAY},
        undone,
    )


class ExistingMembers(msgspec.Struct):
    """The members that a graph has already, as far as new ones name them. An end that is still
    being settled, in the order of the ids of the dependents, counts for those up to its place: for
    the others it will be counted. One that is still being taken back (``undone``) counts for those
    after its place, from which it will be taken back."""

    states: Mapping[str, MemberState] = {}
    places: Mapping[str, str] = {}
    undone: Mapping[str, Sequence[TakenBack]] = {}

    def state(self, name: str, dependent: str) -> MemberState | None:
        """Return how a member stands, as far as a new group of this dependent is to count it."""
        if name in self.places and dependent > self.places[name]:
            return None
        return self.states.get(name)

    def ends_to_take_back(self, name: str, dependent: str) -> list[MemberState]:
        """Return the ends of a member that will be taken back from a new group of this
        dependent."""
        return [end.was for end in self.undone.get(name, ()) if dependent > end.after]


NOBODY = ExistingMembers()


class NewRows(msgspec.Struct):
    """The rows of new members, and of what they wait for."""

    members: list[MemberRecord]
    groups: list[GroupRecord]
    edges: list[dict[str, object]]


def _new_rows(
    graph_id: str, members: Iterable[NewMember], there: ExistingMembers, rows: NewRows
) -> None:
    """Add the rows of new members, counted by how those stand that are there already."""
    for new in members:
        run_id = run_of(graph_id, new.name)
        mine = [
            _group(graph_id, run_id, number, group, there, rows.edges)
            for number, group in enumerate(new.groups)
        ]
        rows.groups += mine
        missing = sum(group.state is not GroupState.SATISFIED for group in mine)
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
    work: GraphResolution, patches: Sequence[tuple[GraphRecord, GraphPatch]], there: ExistingMembers
) -> None:
    """Write what was checked: who can start starts, who can never start is skipped, and others with
    it."""
    tx, rows = work.tx, NewRows([], [], [])
    for graph, patch in patches:
        _new_rows(graph.id, patch.members, there, rows)
        graph.members += len(patch.members)
        graph.live += len(patch.members)
        work.touch(graph)
        rows.groups += _more_groups(work, graph, patch, there, rows.edges)
    ready = work.admit([member for member in rows.members if member.missing == 0])
    runs, failed = work.runs_of([(member.run_id, member.spec, member.input) for member in ready])
    _refuse_taken(tx, [member.run_id for member in rows.members])
    index = {member.run_id: member for member in ready}
    for run in runs:
        member = index[run.id]
        member.state, member.started_at, member.input = MemberState.STARTED, tx.now, b""
    _write(tx, rows)
    failed |= work.start(runs, fresh=True)
    vain = {
        group.run_id: can_never_fire(group)
        for group in rows.groups
        if group.state is GroupState.IMPOSSIBLE
    }
    ends = dict.fromkeys(failed, MemberState.FAILED) | dict.fromkeys(vain, MemberState.SKIPPED)
    closed = [
        group
        for group in rows.groups
        if group.state is not GroupState.OPEN and group.rest is RemainderPolicy.CANCEL
    ]
    work.proceed(ends, failed | vain, closed)


def _write(tx: Transaction, rows: NewRows) -> None:
    """Write new members. Raises GraphBusy when a stage that is not ended, or not deleted, has one
    of them."""
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
    """Write the next members of a stage."""
    there = NOBODY
    if op.extends is not None:
        load_graph(
            tx, op.extends, op.namespace
        )  # whoever settles it counts what ends below it, too
        there = _there(tx, op.extends, op.outside)
    tx.change("insert_stage", id=op.stage_id, due_at=tx.now + STALE)
    stage = tx.rows("stage_to_change", stage_id=op.stage_id)[0]
    if stage["discarded"]:
        raise GraphBusy(stage=op.stage_id)
    if stage["written"] != op.written:
        return int(stage["written"])
    rows_of_part = NewRows([], [], [])
    for graph_id, found in groupby(op.members, itemgetter(0)):
        _new_rows(graph_id, (member for _, member in found), there, rows_of_part)
    for member in rows_of_part.members:
        member.graph_id, member.state = op.stage_id, MemberState.STAGED
    _refuse_taken(tx, [member.run_id for member in rows_of_part.members])
    _write(tx, rows_of_part)
    written = op.written + len(op.members)
    tx.change("move_stage", id=op.stage_id, written=written, due_at=tx.now + STALE)
    return written


def make_visible(
    work: GraphResolution, prepared: PreparedMember, graphs: Sequence[GraphRecord]
) -> None:
    """Add the members of a stage to their graphs, which begin with the next transaction; a stage
    that nobody needs is given up. Raises GraphChanged when the stage is not whole."""
    tx = work.tx
    if not graphs:
        tx.change("discard_stage", id=prepared.id)
        return
    check_budgets(tx, prepared.budgets)
    stages = tx.rows("stage_to_change", stage_id=prepared.id)
    wanted = sum(prepared.members.values())
    if not stages or stages[0]["discarded"] or stages[0]["written"] != wanted:
        raise GraphChanged(
            graph=graphs[0].id, why="its new members are not written yet, or were deleted"
        )
    decided = tx.rows("rests_of_stage", stage_id=prepared.id) if prepared.stops else []
    tx.change("make_visible", stage_id=prepared.id)
    tx.change("delete_stage", id=prepared.id)
    for graph in graphs:
        graph.members += prepared.members[graph.id]
        graph.live += prepared.members[graph.id]
        work.touch(graph)
        work.leave_over(graph.id, START)
    work.proceed({}, decided=[group_from(row) for row in decided])


def _refuse_taken(tx: Transaction, run_ids: Sequence[str]) -> None:
    taken = tx.rows("runs_there", ids=tx.as_list(run_ids)) if run_ids else []
    if taken:
        raise MemberElsewhere(
            run=taken[0]["id"], why="there is a run with this id that is in no graph"
        )


def _group(
    graph_id: str,
    run_id: str,
    number: int,
    new: NewGroup,
    there: ExistingMembers,
    edges: list[dict[str, object]],
) -> GroupRecord:
    """Return a new group, counted by how those stand that are there already."""
    group = GroupRecord(
        run_id=run_id, number=number, need=new.need, total=len(new.upstreams), rest=new.rest
    )
    if there.states:
        states = [there.state(name, run_id) for name in new.upstreams]
        group.done, group.lost = (
            states.count(MemberState.COMPLETED),
            sum(state in LOST for state in states),
        )
        group.state = judged(group)
        taken = [state for name in new.upstreams for state in there.ends_to_take_back(name, run_id)]
        group.done += taken.count(MemberState.COMPLETED)
        group.lost += sum(state in LOST for state in taken)
    edges += [
        {"upstream": run_of(graph_id, name), "dependent": run_id, "number": number}
        for name in new.upstreams
    ]
    return group


def _more_groups(
    work: GraphResolution,
    graph: GraphRecord,
    patch: GraphPatch,
    there: ExistingMembers,
    edges: list[dict[str, object]],
) -> list[GroupRecord]:
    """Return the new groups of members that are there and wait."""
    found: list[GroupRecord] = []
    numbers: dict[str, int] = {}
    for name, new in patch.groups:
        run_id = run_of(graph.id, name)
        if run_id not in numbers:
            numbers[run_id] = len(work.tx.rows("groups_of_member", run_id=run_id))
        group = _group(graph.id, run_id, numbers[run_id], new, there, edges)
        numbers[run_id] += 1
        found.append(group)
        if group.state is not GroupState.SATISFIED:
            work.tx.change("miss_more", run_id=run_id, more=1)
    return found


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
    """Put the input of a member that waits into another seal."""
    return bool(tx.change("reseal_member", run_id=op.run_id, old=op.old, new=op.new))
