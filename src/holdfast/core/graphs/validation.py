"""Validation of graphs: names, groups, additions and cycles; their final status; replay. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache

from holdfast.core.graphs.model import (
    LOST,
    MARK,
    EdgeRecord,
    GraphPatch,
    GraphSnapshot,
    GraphStatus,
    GroupState,
    MemberState,
    NewGroup,
    NewMember,
    RemainderPolicy,
)
from holdfast.core.graphs.resolution import judged
from holdfast.core.text import is_one_of
from holdfast.errors import (
    BadGraph,
    EdgeAcrossNamespaces,
    EdgeExists,
    GraphCycle,
    MemberElsewhere,
    MemberExists,
    MemberNotFound,
    SelfEdge,
)

JOINS = 1000
"""How many existing runs one transaction adds to a graph, at most."""

_NAME = r"[A-Za-z0-9][A-Za-z0-9_.#/-]{0,99}"


def checked_name(name: object, subject: str = "a member") -> str:
    """Return the name of a member, or of another *subject*. Raises BadGraph, and MemberElsewhere
    for the id of a run."""
    if isinstance(name, str) and MARK in name:
        raise MemberElsewhere(member=name, why="use the name that the member has in its graph")
    if not isinstance(name, str) or not _is_name(name):
        raise BadGraph(
            name=name,
            why=(
                f"the name of {subject} must be 1 to 100 letters, digits, and after the first also"
                " _ . # / -"
            ),
        )
    return name


@lru_cache(10_000)  # saves most matches: a name is checked again in each group that mentions it
def _is_name(name: str) -> bool:
    return re.fullmatch(_NAME, name) is not None


def group_from(upstreams: Sequence[str], need: object = "all", rest: object = "run") -> NewGroup:
    """Return a group that needs "all", "any" or a number of the upstream members. Raises BadGraph,
    EdgeExists, MemberElsewhere."""
    names = tuple(checked_name(name) for name in upstreams)
    if not names:
        raise BadGraph(why="a group must have at least one member to wait for")
    if len(set(names)) < len(names):
        raise EdgeExists(
            upstream=next(name for name in names if names.count(name) > 1),
            why="the group names it twice",
        )
    count = {"all": len(names), "any": 1}.get(need, need) if isinstance(need, str) else need
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= len(names):
        raise BadGraph(
            need=need, why=f'it must be "all", "any", or a number from 1 to {len(names)}'
        )
    if not is_one_of(rest, list(RemainderPolicy)):
        raise BadGraph(rest=rest, why='it must be "run" or "cancel"')
    return NewGroup(names, count, RemainderPolicy(str(rest)))


def check_patch(
    graph_id: str,
    namespace: str,
    patch: GraphPatch,
    there: Mapping[str, str],
    edges: Iterable[EdgeRecord] = (),
) -> None:
    """Raise an error if additions do not fit a graph: MemberExists, EdgeAcrossNamespaces,
    MemberNotFound, SelfEdge, EdgeExists, BadGraph or GraphCycle. Errors of the new members
    themselves come first.

    *there* are the namespaces of the existing members, by name; *edges* are the existing edges.
    """
    known = set(there)
    for member in patch.members:
        if checked_name(member.name) in known:
            raise MemberExists(graph=graph_id, member=member.name)
        if member.spec.route.namespace != namespace:
            raise EdgeAcrossNamespaces(
                graph=graph_id,
                member=member.name,
                namespace=member.spec.route.namespace,
                of_the_graph=namespace,
            )
        known.add(member.name)
    _check_joins(graph_id, patch, known)
    pairs = {(edge.upstream, edge.dependent) for edge in edges}
    for member in patch.members:
        for group in member.groups:
            _check_group(graph_id, member.name, group, known, pairs)
        _check_takes(graph_id, member)
    for dependent, group in patch.groups:
        _check_group(graph_id, dependent, group, known, pairs)
    dependents: dict[str, set[str]] = {}
    for upstream, dependent in pairs:
        dependents.setdefault(upstream, set()).add(dependent)
    cycle = cycle_in(dependents)
    if cycle:
        raise GraphCycle(graph=graph_id, members=" -> ".join(cycle))


def _check_joins(graph_id: str, patch: GraphPatch, known: set[str]) -> None:
    """Check the names of runs that join the graph and add them to the *known* members. Raises
    MemberExists, BadGraph."""
    if len(patch.joins) > JOINS:
        raise BadGraph(
            graph=graph_id,
            joins=len(patch.joins),
            why=f"at most {JOINS} runs join a graph at once: extend it several times",
        )
    runs: set[str] = set()
    for join in patch.joins:
        if checked_name(join.name) in known or join.run_id in runs:
            raise MemberExists(graph=graph_id, member=join.name, run=join.run_id)
        known.add(join.name)
        runs.add(join.run_id)


def _check_group(
    graph_id: str, dependent: str, group: NewGroup, known: set[str], pairs: set[tuple[str, str]]
) -> None:
    """Check a new group against the *known* members and add its edges to *pairs*, of upstream and
    dependent. Raises MemberNotFound, SelfEdge, EdgeExists."""
    for name in (dependent, *group.upstreams):
        if name not in known:
            raise MemberNotFound(graph=graph_id, member=name, wanted_by=dependent)
    for upstream in group.upstreams:
        if upstream == dependent:
            raise SelfEdge(graph=graph_id, member=dependent)
        if (upstream, dependent) in pairs:
            raise EdgeExists(graph=graph_id, upstream=upstream, dependent=dependent)
        pairs.add((upstream, dependent))


def _check_takes(graph_id: str, member: NewMember) -> None:
    """Raise BadGraph if a member takes the result of a member that it does not wait for."""
    waited = {name for group in member.groups for name in group.upstreams}
    for name in member.spec.takes:
        if name not in waited:
            why = "it takes a result that it does not wait for"
            raise BadGraph(graph=graph_id, member=member.name, result_of=name, why=why)


def cycle_in(after: Mapping[str, Collection[str]]) -> list[str]:
    """Return the members of a cycle in order, with the first one again at the end; empty if there
    is no cycle. *after* has the dependents of each member.

    Members without open dependencies are removed again and again (topological sort of Kahn); the
    members that remain are in a cycle or behind one."""
    open_edges = dict.fromkeys(after, 0)
    for dependents in after.values():
        for dependent in dependents:
            open_edges[dependent] = open_edges.get(dependent, 0) + 1
    free = [name for name, count in open_edges.items() if count == 0]
    while free:
        for dependent in after.get(free.pop(), ()):
            open_edges[dependent] -= 1
            if open_edges[dependent] == 0:
                free.append(dependent)
    remaining = {name for name, count in open_edges.items() if count > 0}
    if not remaining:
        return []
    return _cycle_among(after, remaining)


def _cycle_among(after: Mapping[str, Collection[str]], remaining: set[str]) -> list[str]:
    """Return a cycle among the remaining members. Each of them depends on another one of them, so
    that a walk from dependents to upstream members must meet a member twice."""
    before: dict[str, str] = {}
    for upstream, dependents in after.items():
        if upstream in remaining:
            inside = (dependent for dependent in dependents if dependent in remaining)
            before.update(dict.fromkeys(inside, upstream))
    path = [min(remaining)]
    while before[path[-1]] not in path:
        path.append(before[path[-1]])
    cycle = path[path.index(before[path[-1]]) :]
    return [*reversed(cycle), cycle[-1]]


def ending(last: Iterable[str], *, cancelled: bool) -> GraphStatus:
    """Return the final status of a graph by the states of its last members, on which no other
    member depends: it completes if all of them have completed."""
    if cancelled:
        return GraphStatus.CANCELLED
    if all(state == MemberState.COMPLETED for state in last):
        return GraphStatus.COMPLETED
    return GraphStatus.FAILED


# Replay


def replay_roots(whole: GraphSnapshot, run_id: str) -> set[str]:
    """Return the members that must run again so that the member *run_id* does: itself, unless it
    was skipped, and, if it was never started, the upstream members that prevented its start.
    Skipped members are not among them: they follow from these."""
    edges_to: dict[str, list[EdgeRecord]] = {}
    for edge in whole.edges:
        edges_to.setdefault(edge.dependent, []).append(edge)
    visited: set[str] = set()
    pending = [run_id]
    while pending:
        member_id = pending.pop()
        if member_id in visited:
            continue
        visited.add(member_id)
        if whole.members[member_id].started_at is None:
            edges = edges_to.get(member_id, ())
            pending += [edge.upstream for edge in edges if _prevented_start(whole, edge)]
    return {
        member_id
        for member_id in visited
        if whole.members[member_id].state is not MemberState.SKIPPED
    }


def _prevented_start(whole: GraphSnapshot, edge: EdgeRecord) -> bool:
    """Return whether the upstream member of an edge did not complete, in an impossible group."""
    group = whole.groups[edge.dependent, edge.number]
    return judged(group) is GroupState.IMPOSSIBLE and whole.members[edge.upstream].state in LOST
