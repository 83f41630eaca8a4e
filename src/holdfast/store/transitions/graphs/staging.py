"""Starting graphs and adding to them. All is checked before anything is written."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.core.graphs.records import (
    LOST,
    Edge,
    Graph,
    GraphStatus,
    Group,
    GroupState,
    Member,
    MemberState,
    NewGroup,
    Patch,
    Rest,
    name_of,
    run_of,
)
from holdfast.core.graphs.settling import in_vain, judged
from holdfast.core.graphs.structure import check_patch
from holdfast.errors import GraphChanged, GraphExists, GraphFinished, LaneDraining, MemberElsewhere, MemberStarted
from holdfast.store import contract as c
from holdfast.store.transitions.graphs.rows import graph_from, group_row, load_graph
from holdfast.store.transitions.graphs.settling import Work
from holdfast.store.transitions.transaction import Transaction, lane_from


def stage_graphs(tx: Transaction, op: c.StageGraphs) -> list[c.Staged]:
    """Start graphs, or recognise those that are there."""
    rows = tx.rows("graphs_to_settle", ids=tx.as_list([stage.id for stage in op.stages]))
    there = {graph.id: graph for graph in map(graph_from, rows)}
    new: list[c.Stage] = []
    for stage in op.stages:
        old = there.get(stage.id)
        if old is None:
            check_patch(stage.id, stage.namespace, stage.patch, {})
            new.append(stage)
            there[stage.id] = Graph(
                id=stage.id, namespace=stage.namespace, name=stage.name, status=GraphStatus.RUNNING, revision=1, members=0,
                live=0, events=0, fingerprint=stage.fingerprint, created_at=tx.now,
            )  # fmt: skip
        elif (old.namespace, old.fingerprint) != (stage.namespace, stage.fingerprint):
            raise GraphExists(graph=stage.id)
    _refuse_drained(tx, [stage.patch for stage in new])
    work = Work(tx, [there[stage.id] for stage in new], op.compose, op.lease)
    if tx.many("insert_graph", [_graph_row(there[stage.id]) for stage in new]) < len(new):
        raise GraphExists(graph=new[0].id, why="somebody else has just started it")
    for stage in new:
        work.trail.add(there[stage.id], "graph_started", data={"name": stage.name, "members": len(stage.patch.members)})
    _add(work, [(there[stage.id], stage.patch) for stage in new], {})
    work.finish()
    return _answers(work, [there[stage.id] for stage in op.stages], {stage.id for stage in new})


def _graph_row(graph: Graph) -> dict[str, object]:
    return {
        "id": graph.id, "namespace": graph.namespace, "name": graph.name, "status": graph.status.value,
        "revision": graph.revision, "members": graph.members, "live": graph.live, "events": graph.events,
        "fingerprint": graph.fingerprint, "created_at": graph.created_at,
    }  # fmt: skip


def _answers(work: Work, graphs: Sequence[Graph], new: set[str]) -> list[c.Staged]:
    born: dict[str, list[c.Born]] = {}
    for one in work.born:
        born.setdefault(work.graph(one.run.id).id, []).append(one)
    return [c.Staged(graph, born.pop(graph.id, []), graph.id in new) for graph in graphs]


def _refuse_drained(tx: Transaction, patches: Sequence[Patch]) -> None:
    """A lane that is being drained takes no new graphs; what is in a graph already goes on. Raises LaneDraining."""
    drained = {lane.name for lane in map(lane_from, tx.rows("lanes")) if lane.draining}
    for lane in sorted({member.spec.route.lane for patch in patches for member in patch.members} & drained):
        raise LaneDraining(lane=lane)


def extend_graph(tx: Transaction, op: c.ExtendGraph) -> c.Staged:
    """Add members and dependencies to a graph that has not ended."""
    graph = load_graph(tx, op.graph_id, op.namespace)
    if graph.status is not GraphStatus.RUNNING:
        raise GraphFinished(graph=op.graph_id, status=graph.status.value)
    if op.revision is not None and op.revision != graph.revision:
        raise GraphChanged(graph=op.graph_id, expected=op.revision, actual=graph.revision)
    there = _states(tx, graph.id, op.patch)
    edges: list[Edge] = []
    if op.patch.groups:
        rows = tx.rows("edges_of_graph", graph_id=graph.id)
        edges = [Edge(name_of(row["upstream"]), name_of(row["dependent"]), row["number"]) for row in rows]
    check_patch(graph.id, graph.namespace, op.patch, dict.fromkeys(there, graph.namespace), edges)
    for name, _ in op.patch.groups:
        if there.get(name, MemberState.WAITING) is not MemberState.WAITING:
            raise MemberStarted(graph=graph.id, member=name, state=there[name].value)
    _refuse_drained(tx, [op.patch])
    work = Work(tx, [graph], op.compose, op.lease)
    graph.revision += 1
    work.trail.add(graph, "graph_extended", data={"members": len(op.patch.members), "revision": graph.revision})
    work.touch(graph)
    _add(work, [(graph, op.patch)], there)
    work.finish()
    return c.Staged(graph, work.born)


def _states(tx: Transaction, graph_id: str, patch: Patch) -> dict[str, MemberState]:
    """Return the states of all members that are there and that the patch names."""
    names = {name for member in patch.members for group in member.groups for name in (member.name, *group.upstreams)}
    names |= {member.name for member in patch.members} | {name for name, _ in patch.groups}
    names |= {name for _, group in patch.groups for name in group.upstreams}
    rows = tx.rows("states_of_members", ids=tx.as_list(sorted(run_of(graph_id, name) for name in names)))
    return {name_of(row["run_id"]): MemberState(row["state"]) for row in rows}


def _add(work: Work, patches: Sequence[tuple[Graph, Patch]], there: dict[str, MemberState]) -> None:
    """Write what was checked: who can start starts, who can never start is skipped, and others with it."""
    tx = work.tx
    members: list[Member] = []
    groups: list[Group] = []
    edges: list[dict[str, object]] = []
    for graph, patch in patches:
        for new in patch.members:
            run_id = run_of(graph.id, new.name)
            mine = [_group(graph.id, run_id, number, group, there, edges) for number, group in enumerate(new.groups)]
            groups += mine
            missing = sum(group.state is not GroupState.SATISFIED for group in mine)
            members.append(Member(
                run_id=run_id, graph_id=graph.id, workflow=new.spec.route.workflow, state=MemberState.WAITING, missing=missing,
                spec=msgspec.json.encode(new.spec), input=new.input,
            ))  # fmt: skip
        graph.members += len(patch.members)
        graph.live += len(patch.members)
        work.touch(graph)
        groups += _more_groups(work, graph, patch, there, edges)
    ready = [member for member in members if member.missing == 0]
    runs, failed = work.runs_of([(member.run_id, member.spec, member.input) for member in ready])
    _refuse_taken(tx, [member.run_id for member in members])
    index = {member.run_id: member for member in ready}
    for run in runs:
        member = index[run.id]
        member.state, member.started_at, member.input = MemberState.STARTED, tx.now, b""
    tx.many("insert_member", [_member_row(member) for member in members])
    tx.many("insert_group", [group_row(group) for group in groups])
    tx.many("insert_edge", edges)
    failed |= work.start(runs, fresh=True)
    vain = {group.run_id: in_vain(group) for group in groups if group.state is GroupState.IMPOSSIBLE}
    ends = dict.fromkeys(failed, MemberState.FAILED) | dict.fromkeys(vain, MemberState.SKIPPED)
    closed = [group for group in groups if group.state is not GroupState.OPEN and group.rest is Rest.CANCEL]
    work.proceed(ends, failed | vain, closed)


def _refuse_taken(tx: Transaction, run_ids: Sequence[str]) -> None:
    taken = tx.rows("runs_there", ids=tx.as_list(run_ids)) if run_ids else []
    if taken:
        raise MemberElsewhere(run=taken[0]["id"], why="there is a run with this id that is in no graph")


def _group(
    graph_id: str, run_id: str, number: int, new: NewGroup, there: dict[str, MemberState], edges: list[dict[str, object]]
) -> Group:
    """Return a new group, counted by how those stand that are there already."""
    group = Group(run_id=run_id, number=number, need=new.need, total=len(new.upstreams), rest=new.rest)
    if there:
        states = [there.get(name) for name in new.upstreams]
        group.done, group.lost = states.count(MemberState.COMPLETED), sum(state in LOST for state in states)
        group.state = judged(group)
    edges += [{"upstream": run_of(graph_id, name), "dependent": run_id, "number": number} for name in new.upstreams]
    return group


def _more_groups(
    work: Work, graph: Graph, patch: Patch, there: dict[str, MemberState], edges: list[dict[str, object]]
) -> list[Group]:
    """Return the new groups of members that are there and wait."""
    found: list[Group] = []
    numbers: dict[str, int] = {}
    for name, new in patch.groups:
        run_id = run_of(graph.id, name)
        if run_id not in numbers:
            numbers[run_id] = len(work.tx.rows("groups_of_member", run_id=run_id))
        group = _group(graph.id, run_id, numbers[run_id], new, there, edges)
        numbers[run_id] += 1
        found.append(group)
        if group.state is not GroupState.SATISFIED:
            work.tx.change("miss_one_more", run_id=run_id)
    return found


def _member_row(member: Member) -> dict[str, object]:
    return {
        "run_id": member.run_id, "graph_id": member.graph_id, "workflow": member.workflow, "state": member.state.value,
        "missing": member.missing, "spec": member.spec, "input": member.input, "started_at": member.started_at,
    }  # fmt: skip


def reseal_member(tx: Transaction, op: c.ResealMember) -> bool:
    """Put the input of a member that waits into another seal."""
    return bool(tx.change("reseal_member", run_id=op.run_id, old=op.old, new=op.new))
