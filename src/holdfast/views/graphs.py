"""Views of graphs, their members and their audit trails."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from holdfast.core.graphs.model import (
    LOST,
    GraphEvent,
    GraphRecord,
    GraphSnapshot,
    GraphStatus,
    GroupState,
    MemberRecord,
    MemberState,
    RemainderPolicy,
    name_of,
)
from holdfast.core.status import Status
from holdfast.core.stored_json import decode_stored
from holdfast.views.text import Tree, short
from holdfast.views.values import instant, optional_instant

DEEPEST = 24
"""The maximum depth of a tree: deeper lines would begin beyond the edge of the window."""


class MemberNeedView(msgspec.Struct, kw_only=True):
    """A group of upstream members: the member waits until ``need`` of ``of`` have completed.
    ``lost`` of them have ended in any other way; ``rest`` says what happens to the others."""

    of: list[str]
    need: int
    completed: int
    lost: int
    rest: RemainderPolicy
    state: GroupState


class MemberView(msgspec.Struct, kw_only=True):
    """A member. ``state`` is its state in the graph, ``status`` the status of its run, None if it
    has no run yet. ``note`` says why it was skipped, was cancelled or could not be started."""

    name: str
    run: str
    workflow: str
    state: MemberState
    status: Status | None
    needs: list[MemberNeedView]
    note: str | None
    asked_to_stop: bool
    started_at: datetime | None
    finished_at: datetime | None


class GraphEdgeView(msgspec.Struct, kw_only=True):
    """One dependency: *member* waits for *upstream*, in its group number *group*. ``state`` is
    satisfied if the upstream has completed, impossible if it has ended in any other way, otherwise
    open."""

    upstream: str
    member: str
    group: int
    state: GroupState


class GraphView(msgspec.Struct, kw_only=True):
    """A graph. ``revision`` counts changes of its structure; ``summary`` is the number of members
    by state. ``reason`` and ``policy`` are those of its cancellation. ``members`` and ``edges`` are
    empty in a list of graphs."""

    id: str
    name: str
    status: GraphStatus
    revision: int
    summary: dict[str, int]
    reason: str | None
    policy: str | None
    created_at: datetime
    finished_at: datetime | None
    members: list[MemberView] = []
    edges: list[GraphEdgeView] = []


class GraphEventView(msgspec.Struct, kw_only=True):
    """One line of the audit trail of a graph."""

    seq: int
    kind: str
    member: str | None
    at: datetime
    data: Any


def of(graph: GraphRecord) -> GraphView:
    """Return the view of a graph without its members. Raises RowDamaged."""
    summary = {"ended": graph.members - graph.live, "live": graph.live}
    if graph.summary is not None:
        summary = decode_stored(graph.summary, f"the summary of graph {graph.id}", dict[str, int])
    return _view(graph, summary)


def whole(snapshot: GraphSnapshot, statuses: Mapping[str, Status]) -> GraphView:
    """Return the view of a graph with its members, each after the members that it waits for.
    *statuses* are the statuses of their runs, by the id of the run."""
    view = of(snapshot.graph)
    if snapshot.members:
        view.summary = dict(Counter(member.state.value for member in snapshot.members.values()))
    needs = _needs(snapshot)
    view.members = [
        _member(member, needs.get(member.run_id, []), statuses.get(member.run_id))
        for member in _in_order(snapshot)
    ]
    view.edges = edges(snapshot)
    return view


def edges(
    snapshot: GraphSnapshot, member: str | None = None, upstream: str | None = None
) -> list[GraphEdgeView]:
    """Return the dependencies of a graph, by member and group; with *member* or *upstream*, only
    the dependencies of that member, or on that member."""
    return [
        GraphEdgeView(
            upstream=name_of(edge.upstream),
            member=name_of(edge.dependent),
            group=edge.number,
            state=_edge_state(snapshot.members[edge.upstream].state),
        )
        for edge in snapshot.edges
        if member in (None, name_of(edge.dependent)) and upstream in (None, name_of(edge.upstream))
    ]


def _edge_state(upstream: MemberState) -> GroupState:
    if upstream is MemberState.COMPLETED:
        return GroupState.SATISFIED
    if upstream in LOST:
        return GroupState.IMPOSSIBLE
    return GroupState.OPEN


def event_of(event: GraphEvent) -> GraphEventView:
    """Return the view of a line of the audit trail. Raises RowDamaged."""
    data = None
    if event.data is not None:
        data = decode_stored(event.data, f"event {event.seq} of graph {event.graph_id}")
    return GraphEventView(
        seq=event.seq, kind=event.kind, member=event.member, at=instant(event.at), data=data
    )


def _view(graph: GraphRecord, summary: dict[str, int]) -> GraphView:
    return GraphView(
        id=graph.id,
        name=graph.name,
        status=graph.status,
        revision=graph.revision,
        summary=summary,
        reason=graph.reason,
        policy=graph.policy,
        created_at=instant(graph.created_at),
        finished_at=optional_instant(graph.finished_at),
    )


def _needs(snapshot: GraphSnapshot) -> dict[str, list[MemberNeedView]]:
    """Return the groups of dependencies of each member, by the id of its run."""
    upstreams: dict[tuple[str, int], list[str]] = {}
    for edge in snapshot.edges:
        upstreams.setdefault((edge.dependent, edge.number), []).append(name_of(edge.upstream))
    needs: dict[str, list[MemberNeedView]] = {}
    for (run_id, number), group in sorted(snapshot.groups.items()):
        need = MemberNeedView(
            of=upstreams.get((run_id, number), []),
            need=group.need,
            completed=group.done,
            lost=group.lost,
            rest=group.rest,
            state=group.state,
        )
        needs.setdefault(run_id, []).append(need)
    return needs


def _member(member: MemberRecord, needs: list[MemberNeedView], status: Status | None) -> MemberView:
    return MemberView(
        name=member.name,
        run=member.actual_run_id,
        workflow=member.workflow,
        state=member.state,
        status=status,
        needs=needs,
        note=member.note,
        asked_to_stop=member.asked_at is not None,
        started_at=optional_instant(member.started_at),
        finished_at=optional_instant(member.finished_at),
    )


def _in_order(snapshot: GraphSnapshot) -> list[MemberRecord]:
    """Return the members, each after the members that it waits for."""
    left = dict.fromkeys(snapshot.members, 0)
    after: dict[str, list[str]] = {}
    for edge in snapshot.edges:
        left[edge.dependent] += 1
        after.setdefault(edge.upstream, []).append(edge.dependent)
    free = sorted((run_id for run_id, count in left.items() if count == 0), reverse=True)
    ordered = []
    while free:
        ordered.append(free.pop())
        for below in sorted(after.get(ordered[-1], ()), reverse=True):
            left[below] -= 1
            if left[below] == 0:
                free.append(below)
    return [snapshot.members[run_id] for run_id in ordered]


# Lines for people


def trees(graph: GraphView) -> list[Tree]:
    """Return the members as trees.

    Each member is drawn below the last of the members that it depends on, so that all of them have
    been shown before it. From the depth DEEPEST on it is drawn beside that member."""
    order = {member.name: number for number, member in enumerate(graph.members)}
    nodes = {member.name: Tree(member_line(member)) for member in graph.members}
    paths: dict[str, tuple[str, ...]] = {}
    roots: list[Tree] = []
    for member in graph.members:
        upstreams = [name for need in member.needs for name in need.of]
        path: tuple[str, ...] = ()
        if upstreams:
            last = max(upstreams, key=order.__getitem__)
            path = (*paths[last], last)[:DEEPEST]
        paths[member.name] = path
        siblings = nodes[path[-1]].below if path else roots
        siblings.append(nodes[member.name])
    return roots


def member_line(member: MemberView) -> str:
    """Return a member as one line, with its state and the members that it waits for."""
    state = member.state.value
    if member.status is not None and member.state is MemberState.STARTED:
        state = member.status.value
    needs = "; ".join(_need_line(need) for need in member.needs)
    after = f"  after {needs}" if needs else ""
    note = f"  ({short(member.note, 80)})" if member.note else ""
    workflow = "" if member.workflow == member.name else f"  {member.workflow}"
    return f"{member.name}  {state}{workflow}{after}{note}"


def _need_line(need: MemberNeedView) -> str:
    names = ", ".join(need.of[:5])
    if len(need.of) > 5:
        names += f" and {len(need.of) - 5} others"
    count = "" if need.need == len(need.of) else f"{need.need} of "
    rest = " (cancel the rest)" if need.rest is RemainderPolicy.CANCEL else ""
    return f"{count}{names}{rest}"


def counts_line(graph: GraphView) -> str:
    """Return the number of members by state as one line."""
    return ", ".join(f"{count} {state}" for state, count in graph.summary.items())
