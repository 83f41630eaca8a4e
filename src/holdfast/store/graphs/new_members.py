"""Write new members of graphs, with their groups and edges, and start the ones that can start.

The groups of a new member are counted by the states of the existing members that it depends on.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from holdfast.core.graphs.model import (
    LOST,
    GraphPatch,
    GraphRecord,
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
from holdfast.errors import (
    GraphBusy,
    MemberElsewhere,
    MemberExists,
)
from holdfast.store.database import Transaction
from holdfast.store.graphs.outbox import REPLAY
from holdfast.store.graphs.reopen import TakenBack, taken_back
from holdfast.store.graphs.resolution import GraphResolution
from holdfast.store.graphs.rows import group_row


def existing_members(tx: Transaction, graph_id: str, names: Iterable[str]) -> ExistingMembers:
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


def new_rows(
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


def add_new_members(
    resolution: GraphResolution,
    patches: Sequence[tuple[GraphRecord, GraphPatch]],
    existing: ExistingMembers,
) -> None:
    """Write checked members. Start the ones that can start, and skip the ones that never can,
    transitively."""
    tx = resolution.tx
    rows = NewRows([], [], [])
    for graph, patch in patches:
        new_rows(graph.id, patch.members, existing, rows)
        graph.members += len(patch.members)
        graph.live += len(patch.members)
        resolution.touch(graph)
        rows.groups += _more_groups(resolution, graph, patch, existing, rows.edges)
    ready = resolution.admit([member for member in rows.members if member.missing == 0])
    # Before anything is written: a missing key refuses the whole operation.
    runs, failed = resolution.starter.compose_read(
        [(member.run_id, member.spec, member.input) for member in ready]
    )
    refuse_taken_ids(tx, [member.run_id for member in rows.members])
    index = {member.run_id: member for member in ready}
    for run in runs:
        member = index[run.id]
        member.state = MemberState.STARTED
        member.started_at = tx.now
        member.input = b""
    write_members(tx, rows)
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


def write_members(tx: Transaction, rows: NewRows) -> None:
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


def refuse_taken_ids(tx: Transaction, run_ids: Sequence[str]) -> None:
    """Raise MemberElsewhere if a run has the id of a new member."""
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
        # Ends that are being taken back will be subtracted from this group, so they are added
        # first.
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
