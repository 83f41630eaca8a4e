"""What the end of members leads to: which groups are decided by it, who is started, skipped or
cancelled. Pure.

Only what is touched is looked at: the cost of an end does not grow with the size of the graph. A
group is decided once.
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
    """An edge with the group it belongs to and where the one who waits stands."""

    upstream: str
    group: GroupRecord
    state: MemberState
    missing: int


class Upstream(msgspec.Struct):
    """A member that a group waits for."""

    run_id: str
    state: MemberState


Downward = Callable[[Sequence[str], int | None], Sequence[Link]]
"""Finds the edges that lead away from members: all of them, or a few more than a limit when there
are more."""

Upward = Callable[[str, int], Iterable[Upstream]]
"""Finds the members that a group waits for."""


class ResolutionOutcome(msgspec.Struct):
    """What is to be written. ``missing`` is how many groups each touched member still waits for."""

    groups: dict[tuple[str, int], GroupRecord] = {}
    decided: list[GroupRecord] = []
    missing: dict[str, int] = {}
    starts: list[str] = []
    skips: dict[str, str] = {}
    """Who need not run at all, and why."""
    cancels: dict[str, str] = {}
    """Who waited and is cancelled, and why."""
    stops: dict[str, str] = {}
    """Who was started and is asked to stop, and why."""
    postponed: dict[str, MemberState] = {}
    """Members that end by this outcome and whose dependents are left to the next settlement."""


def judged(group: GroupRecord) -> GroupState:
    """Say how a group stands by its counts."""
    if group.done >= group.need:
        return GroupState.SATISFIED
    return GroupState.IMPOSSIBLE if group.lost > group.total - group.need else GroupState.OPEN


def counted(group: GroupRecord, *, won: bool) -> bool:
    """Count the end of a member; say whether the group was decided by it. One that was decided
    before only counts."""
    if won:
        group.done += 1
    else:
        group.lost += 1
    if group.state is not GroupState.OPEN:
        return False
    group.state = judged(group)
    return group.state is not GroupState.OPEN


class Resolver:
    """One settlement, of any number of ends in any number of graphs."""

    def __init__(self, downward: Downward, upward: Upward, most_links: int | None = None) -> None:
        self._downward, self._upward = downward, upward
        self._room: int | None = most_links
        """How many more links this settlement may follow; None: any number."""
        self._states: dict[str, MemberState] = {}
        self.outcome = ResolutionOutcome({}, [], {}, [], {}, {}, {}, {})

    def settle(
        self, ended: Mapping[str, MemberState], decided: Sequence[GroupRecord] = ()
    ) -> ResolutionOutcome:
        """Return what the ends of these members lead to, down to the last that is skipped, or until
        the largest number of links is exceeded. Groups that were *decided* already may want their
        rest to stop."""
        self._states.update(ended)
        ends, closed = dict(ended), list(decided)
        while ends or closed:
            while ends:
                now = self._count(ends)
                closed += now
                self.outcome.decided += now
                ends = dict.fromkeys(self._act(now), MemberState.SKIPPED)
            ends, closed = dict.fromkeys(self._cancel_rest(closed), MemberState.CANCELLED), []
        return self.outcome

    def _count(self, ends: Mapping[str, MemberState]) -> list[GroupRecord]:
        """Count the ends in the groups that wait for them; return those that were decided."""
        decided: list[GroupRecord] = []
        links = self._downward(list(ends), self._room) if self._room != 0 else ()
        if self._room is not None:
            if self._room == 0 or len(links) > self._room:
                self.outcome.postponed.update(ends)
                return decided
            self._room -= len(links)
        for link in links:
            group = self._known(link)
            if counted(group, won=ends[link.upstream] is MemberState.COMPLETED):
                decided.append(group)
        return decided

    def _known(self, link: Link) -> GroupRecord:
        """Return the group as it stands by now."""
        who = link.group.run_id
        self._states.setdefault(who, link.state)
        self.outcome.missing.setdefault(who, link.missing)
        return self.outcome.groups.setdefault((who, link.group.number), link.group)

    def _act(self, decided: Iterable[GroupRecord]) -> list[str]:
        """Start whoever waits for nothing more, skip whoever waits in vain; return the skipped."""
        skipped = []
        for group in decided:
            who = group.run_id
            if group.state is GroupState.SATISFIED:
                self.outcome.missing[who] -= 1
            if self._states[who] is not MemberState.WAITING:
                continue
            if group.state is GroupState.IMPOSSIBLE:
                self._states[who] = MemberState.SKIPPED
                self.outcome.skips[who] = can_never_fire(group)
                skipped.append(who)
            elif self.outcome.missing[who] == 0:
                self._states[who] = MemberState.STARTED
                self.outcome.starts.append(who)
        return skipped

    def _cancel_rest(self, decided: Iterable[GroupRecord]) -> list[str]:
        """Stop the rest of decided groups that want it so, but those that others still wait for;
        return those that waited."""
        waited: list[str] = []
        for group in decided:
            if group.rest is not RemainderPolicy.CANCEL:
                continue
            rest = [
                one
                for one in self._upward(group.run_id, group.number)
                if self._now(one) not in ENDED
            ]
            needed = self._needed([one.run_id for one in rest]) if rest else set()
            why = f"what {name_of(group.run_id)} waits for is {group.state.value}"
            for one in rest:
                if one.run_id in needed or one.run_id in self.outcome.stops:
                    continue
                if self._now(one) is MemberState.WAITING or one.run_id in self.outcome.starts:
                    self.outcome.starts = [
                        run_id for run_id in self.outcome.starts if run_id != one.run_id
                    ]
                    self._states[one.run_id] = MemberState.CANCELLED
                    self.outcome.cancels[one.run_id] = why
                    waited.append(one.run_id)
                else:
                    self.outcome.stops[one.run_id] = why
        return waited

    def _now(self, one: Upstream) -> MemberState:
        return self._states.get(one.run_id, one.state)

    def _needed(self, members: Sequence[str]) -> set[str]:
        """Return those of the members that an open group still waits for."""
        found = set()
        for link in self._downward(members, None):
            known = self.outcome.groups.get((link.group.run_id, link.group.number), link.group)
            state = self._states.get(link.group.run_id, link.state)
            if known.state is GroupState.OPEN and state is MemberState.WAITING:
                found.add(link.upstream)
        return found


def can_never_fire(group: GroupRecord) -> str:
    """Say why a group can no longer be satisfied."""
    return f"it needs {group.need} of {group.total}, and {group.lost} of them did not complete"
