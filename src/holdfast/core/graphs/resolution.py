"""Resolver: compute which members start, are skipped or are cancelled when other members end. Pure.

Invariants:
- A group is decided once.
- Only the edges of members that end are read, so that the cost of an end does not grow with the
  size of the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from holdfast.core.graphs.model import (
    ENDED,
    GroupRecord,
    GroupState,
    MemberState,
    RemainderPolicy,
    name_of,
)


class Link(msgspec.Struct):
    """An edge with its group, and with the state and the number of missing groups of the dependent
    member."""

    upstream: str
    group: GroupRecord
    state: MemberState
    missing: int


class Upstream(msgspec.Struct):
    """A member that a group waits for."""

    run_id: str
    state: MemberState


Downward = Callable[[Sequence[str], int | None], Sequence[Link]]
"""A function that returns the edges from members to their dependents: all of them or, if there are
more than a limit, at least one more than the limit."""

Upward = Callable[[str, int], Iterable[Upstream]]
"""A function that returns the members that a group waits for, by run id and number of the group."""


class ResolutionOutcome(msgspec.Struct):
    """The changes to write. ``missing`` is the number of groups that each touched member still
    waits for. Members are named by the ids of their runs."""

    groups: dict[tuple[str, int], GroupRecord] = {}
    decided: list[GroupRecord] = []
    missing: dict[str, int] = {}
    starts: list[str] = []
    skips: dict[str, str] = {}
    """The members that are skipped, with the reason."""
    cancels: dict[str, str] = {}
    """The waiting members that are cancelled, with the reason."""
    stops: dict[str, str] = {}
    """The started members that are asked to stop, with the reason."""
    postponed: dict[str, MemberState] = {}
    """The members that have ended and whose dependents are left to the next resolution."""


def judged(group: GroupRecord) -> GroupState:
    """Return the state of a group by its counts."""
    if group.done >= group.need:
        return GroupState.SATISFIED
    if group.lost > group.total - group.need:
        return GroupState.IMPOSSIBLE
    return GroupState.OPEN


def counted(group: GroupRecord, *, won: bool) -> bool:
    """Count the end of a member in a group, and return whether this decides the group. A group that
    was decided before only counts. *won* says that the member completed."""
    if won:
        group.done += 1
    else:
        group.lost += 1
    if group.state is not GroupState.OPEN:
        return False
    group.state = judged(group)
    return group.state is not GroupState.OPEN


class Resolver:
    """One resolution, of any number of ends in any number of graphs."""

    def __init__(self, downward: Downward, upward: Upward, most_links: int | None = None) -> None:
        self._downward: Downward = downward
        self._upward: Upward = upward
        self._room: int | None = most_links
        """How many more links this resolution may follow; None is no limit."""
        self._states: dict[str, MemberState] = {}
        """The states of members that this resolution has seen or changed."""
        self.outcome = ResolutionOutcome({}, [], {}, [], {}, {}, {}, {})

    def resolve(
        self, ended: Mapping[str, MemberState], decided: Sequence[GroupRecord] = ()
    ) -> ResolutionOutcome:
        """Return the changes that the ends of these members lead to.

        Members that are skipped or cancelled by it have ended, too, and are resolved in turn, until
        no more end or the limit of links is reached. The remainder of groups that were *decided*
        before is cancelled as well, if the group asks for it.
        """
        self._states.update(ended)
        ends = dict(ended)
        unhandled = list(decided)
        while ends or unhandled:
            while ends:
                newly_decided = self._count(ends)
                unhandled += newly_decided
                self.outcome.decided += newly_decided
                ends = dict.fromkeys(self._start_or_skip(newly_decided), MemberState.SKIPPED)
            # After all ends are counted, not before: only then is it known which members an open
            # group still needs.
            ends = dict.fromkeys(self._cancel_rest(unhandled), MemberState.CANCELLED)
            unhandled = []
        return self.outcome

    def _count(self, ends: Mapping[str, MemberState]) -> list[GroupRecord]:
        """Count the ends in the groups that wait for them; return the groups that this decides. If
        there are more links than the limit allows, postpone the ends instead."""
        decided: list[GroupRecord] = []
        links = self._downward(list(ends), self._room) if self._room != 0 else ()
        if self._room is not None:
            if self._room == 0 or len(links) > self._room:
                self.outcome.postponed.update(ends)
                return decided
            self._room -= len(links)
        for link in links:
            group = self._current_group(link)
            if counted(group, won=ends[link.upstream] is MemberState.COMPLETED):
                decided.append(group)
        return decided

    def _current_group(self, link: Link) -> GroupRecord:
        """Return the group of a link with the counts of this resolution; note the state of its
        member when it is seen first."""
        run_id = link.group.run_id
        self._states.setdefault(run_id, link.state)
        self.outcome.missing.setdefault(run_id, link.missing)
        return self.outcome.groups.setdefault((run_id, link.group.number), link.group)

    def _start_or_skip(self, decided: Iterable[GroupRecord]) -> list[str]:
        """Start the members whose last group is satisfied, skip the members with an impossible
        group; return the skipped."""
        skipped = []
        for group in decided:
            run_id = group.run_id
            if group.state is GroupState.SATISFIED:
                self.outcome.missing[run_id] -= 1
            if self._states[run_id] is not MemberState.WAITING:
                continue
            if group.state is GroupState.IMPOSSIBLE:
                self._states[run_id] = MemberState.SKIPPED
                self.outcome.skips[run_id] = can_never_fire(group)
                skipped.append(run_id)
            elif self.outcome.missing[run_id] == 0:
                self._states[run_id] = MemberState.STARTED
                self.outcome.starts.append(run_id)
        return skipped

    def _cancel_rest(self, decided: Iterable[GroupRecord]) -> list[str]:
        """Cancel the remainder of decided groups that ask for it, except members that another open
        group needs; return the members that were cancelled before they started."""
        cancelled: list[str] = []
        for group in decided:
            if group.rest is not RemainderPolicy.CANCEL:
                continue
            remainder = [
                upstream
                for upstream in self._upward(group.run_id, group.number)
                if self._state_of(upstream) not in ENDED
            ]
            if not remainder:
                continue
            needed = self._needed([upstream.run_id for upstream in remainder])
            why = f"what {name_of(group.run_id)} waits for is {group.state.value}"
            for upstream in remainder:
                run_id = upstream.run_id
                if run_id in needed or run_id in self.outcome.stops:
                    continue
                starts = self.outcome.starts
                if self._state_of(upstream) is MemberState.WAITING or run_id in starts:
                    self.outcome.starts = [start for start in starts if start != run_id]
                    self._states[run_id] = MemberState.CANCELLED
                    self.outcome.cancels[run_id] = why
                    cancelled.append(run_id)
                else:
                    self.outcome.stops[run_id] = why
        return cancelled

    def _state_of(self, upstream: Upstream) -> MemberState:
        """Return the state of a member with the changes of this resolution."""
        return self._states.get(upstream.run_id, upstream.state)

    def _needed(self, members: Sequence[str]) -> set[str]:
        """Return the members that an open group of a waiting member still needs."""
        needed = set()
        for link in self._downward(members, None):
            group = self.outcome.groups.get((link.group.run_id, link.group.number), link.group)
            state = self._states.get(link.group.run_id, link.state)
            if group.state is GroupState.OPEN and state is MemberState.WAITING:
                needed.add(link.upstream)
        return needed


def can_never_fire(group: GroupRecord) -> str:
    """Return the reason why a group can no longer be satisfied, as text for people."""
    return f"it needs {group.need} of {group.total}, and {group.lost} of them did not complete"
