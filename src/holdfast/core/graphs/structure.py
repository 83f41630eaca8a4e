"""What a graph may look like, and how it ends. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import lru_cache

from holdfast.core.graphs.records import (
    LOST,
    MARK,
    Edge,
    GraphStatus,
    Group,
    GroupState,
    MemberState,
    NewGroup,
    NewMember,
    Patch,
    Rest,
    Whole,
)
from holdfast.core.graphs.settling import judged
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
        raise BadGraph(name=name, why=f"{what} has a name of 1 to 100 letters, digits, and _ . # / - after the first")
    return name


@lru_cache(10_000)
def _is_name(name: str) -> bool:
    return re.fullmatch(_NAME, name) is not None


def group_from(upstreams: Sequence[str], need: object = "all", rest: object = "run") -> NewGroup:
    """Return a group as it was asked for: all of them, any of them, or a number of them. Raises BadGraph."""
    names = tuple(checked_name(name) for name in upstreams)
    if not names:
        raise BadGraph(why="a group waits for at least one member")
    if len(set(names)) < len(names):
        raise EdgeExists(upstream=next(name for name in names if names.count(name) > 1), why="it is named twice in one group")
    wanted = {"all": len(names), "any": 1}.get(need, need) if isinstance(need, str) else need
    if isinstance(wanted, bool) or not isinstance(wanted, int) or not 1 <= wanted <= len(names):
        raise BadGraph(need=need, why=f'it is "all", "any", or how many of the {len(names)} must complete')
    if rest not in list(Rest):
        raise BadGraph(rest=rest, why='it is "run" or "cancel"')
    return NewGroup(names, wanted, Rest(str(rest)))


def check_patch(graph_id: str, namespace: str, patch: Patch, there: Mapping[str, str], edges: Iterable[Edge] = ()) -> None:
    """See whether what is to be added fits. *there* are the members that are there, by name, with their namespaces; *edges*
    those that are there. Raises what is wrong, first of all what is wrong with the new members themselves."""
    known = set(there)
    for member in patch.members:
        if checked_name(member.name) in known:
            raise MemberExists(graph=graph_id, member=member.name)
        if member.spec.route.namespace != namespace:
            where = member.spec.route.namespace
            raise EdgeAcrossNamespaces(graph=graph_id, member=member.name, namespace=where, of_the_graph=namespace)
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


def _check_group(graph_id: str, dependent: str, group: NewGroup, known: set[str], found: set[tuple[str, str]]) -> None:
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
    """Return members that wait for each other in a ring, the first one again at the end; empty when there is no ring."""
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
    """Say how a graph ended by the states of its last members: those that nobody waits for. It completes when they do."""
    if cancelled:
        return GraphStatus.CANCELLED
    return GraphStatus.COMPLETED if all(state == MemberState.COMPLETED for state in last) else GraphStatus.FAILED


# Doing it again


def again(whole: Whole, run_id: str) -> set[str]:
    """Return the members that must end anew when one does: itself; if it was skipped, or was cancelled while it waited, those
    upstream without which it can never start; and all that were skipped because of any of them."""
    before: dict[str, list[Edge]] = {}
    after: dict[str, list[str]] = {}
    for edge in whole.edges:
        before.setdefault(edge.dependent, []).append(edge)
        after.setdefault(edge.upstream, []).append(edge.dependent)
    found: set[str] = set()
    heap = [run_id]
    while heap:
        one = heap.pop()
        if one in found:
            continue
        found.add(one)
        if whole.members[one].started_at is None:
            heap += [edge.upstream for edge in before.get(one, ()) if _is_to_blame(whole, edge)]
    heap = [below for one in found for below in after.get(one, ())]
    while heap:
        one = heap.pop()
        if one not in found and whole.members[one].state is MemberState.SKIPPED:
            found.add(one)
            heap += after.get(one, ())
    return _without_the_hopeless(whole, found, before, run_id)


def _is_to_blame(whole: Whole, edge: Edge) -> bool:
    group = whole.groups[edge.dependent, edge.number]
    return judged(group) is GroupState.IMPOSSIBLE and whole.members[edge.upstream].state in LOST


def _without_the_hopeless(whole: Whole, found: set[str], before: Mapping[str, Sequence[Edge]], run_id: str) -> set[str]:
    """Leave those skipped that would be skipped again, because of others that do not end anew."""
    while True:
        hopeless = {
            one
            for one in found
            if one != run_id and whole.members[one].started_at is None
            and any(group.state is GroupState.IMPOSSIBLE for group in recounted(whole, one, found, before))
        }  # fmt: skip
        if not hopeless:
            return found
        found = found - hopeless


def recounted(whole: Whole, run_id: str, reopened: Collection[str], before: Mapping[str, Sequence[Edge]]) -> list[Group]:
    """Return the groups of a member that was never started, counted anew as if these others had not ended."""
    found: list[Group] = []
    for (who, number), group in whole.groups.items():
        if who == run_id:
            states = [
                MemberState.WAITING if edge.upstream in reopened else whole.members[edge.upstream].state
                for edge in before.get(run_id, ())
                if edge.number == number
            ]
            fresh = Group(
                run_id=run_id, number=number, need=group.need, total=group.total, rest=group.rest,
                done=states.count(MemberState.COMPLETED), lost=sum(state in LOST for state in states),
            )  # fmt: skip
            fresh.state = judged(fresh)
            found.append(fresh)
    return found
