"""What a graph may look like, and how it ends. Pure."""

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

_NAME = r"[A-Za-z0-9][A-Za-z0-9_.#/-]{0,99}"


def checked_name(name: object, what: str = "a member") -> str:
    """Return the name of a member; refuse what is none."""
    if isinstance(name, str) and MARK in name:
        raise MemberElsewhere(member=name, why="a member is named by its name in its own graph")
    if not isinstance(name, str) or not _is_name(name):
        raise BadGraph(
            name=name,
            why=f"{what} has a name of 1 to 100 letters, digits, and _ . # / - after the first",
        )
    return name


@lru_cache(10_000)
def _is_name(name: str) -> bool:
    return re.fullmatch(_NAME, name) is not None


def group_from(upstreams: Sequence[str], need: object = "all", rest: object = "run") -> NewGroup:
    """Return a group as it was asked for: all of them, any of them, or a number of them. Raises
    BadGraph."""
    names = tuple(checked_name(name) for name in upstreams)
    if not names:
        raise BadGraph(why="a group waits for at least one member")
    if len(set(names)) < len(names):
        raise EdgeExists(
            upstream=next(name for name in names if names.count(name) > 1),
            why="it is named twice in one group",
        )
    wanted = {"all": len(names), "any": 1}.get(need, need) if isinstance(need, str) else need
    if isinstance(wanted, bool) or not isinstance(wanted, int) or not 1 <= wanted <= len(names):
        raise BadGraph(
            need=need, why=f'it is "all", "any", or how many of the {len(names)} must complete'
        )
    if not is_one_of(rest, list(RemainderPolicy)):
        raise BadGraph(rest=rest, why='it is "run" or "cancel"')
    return NewGroup(names, wanted, RemainderPolicy(str(rest)))


def check_patch(
    graph_id: str,
    namespace: str,
    patch: GraphPatch,
    there: Mapping[str, str],
    edges: Iterable[EdgeRecord] = (),
) -> None:
    """See whether what is to be added fits. *there* are the members that are there, by name, with
    their namespaces; *edges* those that are there. Raises what is wrong, first of all what is wrong
    with the new members themselves."""
    known = set(there)
    for member in patch.members:
        if checked_name(member.name) in known:
            raise MemberExists(graph=graph_id, member=member.name)
        if member.spec.route.namespace != namespace:
            where = member.spec.route.namespace
            raise EdgeAcrossNamespaces(
                graph=graph_id, member=member.name, namespace=where, of_the_graph=namespace
            )
        known.add(member.name)
    found = {(edge.upstream, edge.dependent) for edge in edges}
    for member in patch.members:
        for group in member.groups:
            _check_group(graph_id, member.name, group, known, found)
        _check_takes(graph_id, member)
    for dependent, group in patch.groups:
        _check_group(graph_id, dependent, group, known, found)
    after: dict[str, set[str]] = {}
    for upstream, dependent in found:
        after.setdefault(upstream, set()).add(dependent)
    ring = cycle_in(after)
    if ring:
        raise GraphCycle(graph=graph_id, members=" -> ".join(ring))


def _check_group(
    graph_id: str, dependent: str, group: NewGroup, known: set[str], found: set[tuple[str, str]]
) -> None:
    for name in (dependent, *group.upstreams):
        if name not in known:
            raise MemberNotFound(graph=graph_id, member=name, wanted_by=dependent)
    for upstream in group.upstreams:
        if upstream == dependent:
            raise SelfEdge(graph=graph_id, member=dependent)
        if (upstream, dependent) in found:
            raise EdgeExists(graph=graph_id, upstream=upstream, dependent=dependent)
        found.add((upstream, dependent))


def _check_takes(graph_id: str, member: NewMember) -> None:
    waited = {name for group in member.groups for name in group.upstreams}
    for name in member.spec.takes:
        if name not in waited:
            why = "it takes a result that it does not wait for"
            raise BadGraph(graph=graph_id, member=member.name, result_of=name, why=why)


def cycle_in(after: Mapping[str, Collection[str]]) -> list[str]:
    """Return members that wait for each other in a ring, the first one again at the end; empty when
    there is no ring."""
    left = dict.fromkeys(after, 0)
    for ones in after.values():
        for one in ones:
            left[one] = left.get(one, 0) + 1
    free = [name for name, count in left.items() if count == 0]
    while free:
        for one in after.get(free.pop(), ()):
            left[one] -= 1
            if left[one] == 0:
                free.append(one)
    stuck = {name for name, count in left.items() if count > 0}
    return _ring(after, stuck) if stuck else []


def _ring(after: Mapping[str, Collection[str]], stuck: set[str]) -> list[str]:
    """Walk among those that are left, backwards, until somebody is met again."""
    before: dict[str, str] = {}
    for upstream, ones in after.items():
        if upstream in stuck:
            before.update(dict.fromkeys((one for one in ones if one in stuck), upstream))
    path = [min(stuck)]
    while before[path[-1]] not in path:
        path.append(before[path[-1]])
    ring = path[path.index(before[path[-1]]) :]
    return [*reversed(ring), ring[-1]]


def ending(last: Iterable[str], *, cancelled: bool) -> GraphStatus:
    """Say how a graph ended by the states of its last members: those that nobody waits for. It
    completes when they do."""
    if cancelled:
        return GraphStatus.CANCELLED
    return (
        GraphStatus.COMPLETED
        if all(state == MemberState.COMPLETED for state in last)
        else GraphStatus.FAILED
    )


# Doing it again


def replay_roots(whole: GraphSnapshot, run_id: str) -> set[str]:
    """Return the members that have to end anew for one to do so: itself, unless it was skipped;
    and, if it was never started, those upstream without which it cannot start. Members that were
    skipped because of these are not among them."""
    before: dict[str, list[EdgeRecord]] = {}
    for edge in whole.edges:
        before.setdefault(edge.dependent, []).append(edge)
    found: set[str] = set()
    heap = [run_id]
    while heap:
        one = heap.pop()
        if one in found:
            continue
        found.add(one)
        if whole.members[one].started_at is None:
            heap += [edge.upstream for edge in before.get(one, ()) if _is_to_blame(whole, edge)]
    return {one for one in found if whole.members[one].state is not MemberState.SKIPPED}


def _is_to_blame(whole: GraphSnapshot, edge: EdgeRecord) -> bool:
    group = whole.groups[edge.dependent, edge.number]
    return judged(group) is GroupState.IMPOSSIBLE and whole.members[edge.upstream].state in LOST
