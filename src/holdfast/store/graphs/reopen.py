"""Take back the ends of replayed members, and reopen dependents that were skipped because of them.

This is the reverse of resolving an end. The end of a member was counted in the groups of its
dependents; it is taken back from each of these groups. A dependent that was skipped, and that could
start by its new counts, waits again, so its own end is taken back as well.

Invariants:
- One transaction takes back at most ``LINKS`` links. The rest goes to the outbox: which member, how
  it had ended, and the last dependent that is done. Counts are only added to and subtracted from,
  so ends and replays in parts may be interleaved.
- ``missing`` of a member is one too many while its end is being taken back. So it is not started
  before that, and if it has been (a run that is replayed), its new end is not resolved before that:
  no dependent counts both ends.
- A graph does not end while an end of one of its members is being taken back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from holdfast.core.graphs.model import (
    LOST,
    GraphRecord,
    GraphStatus,
    GroupRecord,
    GroupState,
    MemberState,
    name_of,
)
from holdfast.core.graphs.resolution import judged
from holdfast.store.database import Row
from holdfast.store.graphs import portions
from holdfast.store.graphs.outbox import REPLAY
from holdfast.store.graphs.resolution import GraphResolution
from holdfast.store.graphs.rows import group_changes, group_from

_UNDECIDED = frozenset({MemberState.STAGED, MemberState.WAITING})


class TakenBack(msgspec.Struct, frozen=True):
    """An end that no longer counts: the member, how it had ended, and the last dependent that is
    done.

    ``resumed`` means that an earlier transaction has begun to take it back.
    """

    run_id: str
    was: MemberState
    after: str = ""
    resumed: bool = False

    @property
    def place(self) -> str:
        """Return the position to continue from, as it is stored."""
        return f"{self.was.value} {self.after}"


def taken_back(run_id: str, place: str) -> TakenBack:
    """Return an end that an earlier transaction has only partly taken back."""
    was, _, after = place.partition(" ")
    return TakenBack(run_id, MemberState(was), after, resumed=True)


class Reopening:
    """Takes back ends of the members of one graph, as many as one transaction may."""

    def __init__(self, resolution: GraphResolution, graph: GraphRecord) -> None:
        self._resolution: GraphResolution = resolution
        self._graph: GraphRecord = graph

    def reopen(self, members: Mapping[str, MemberState]) -> None:
        """Give ended members their new state: started, or waiting."""
        resolution = self._resolution
        rows: list[dict[str, object]] = [
            {"run_id": run_id, "state": state.value} for run_id, state in members.items()
        ]
        resolution.writes.flush()
        resolution.tx.many("reopen_member", rows)
        self._graph.live += len(rows)
        for run_id in members:
            resolution.audit.add(self._graph, "member_replayed", name_of(run_id))
        self._wait_again(
            [run_id for run_id, state in members.items() if state is MemberState.WAITING]
        )

    def take_back(self, ends: Sequence[TakenBack]) -> None:
        """Take back these ends and all that follow from them, or leave the rest over."""
        while ends:
            was = {end.run_id: end.was for end in ends}
            ends = [
                TakenBack(run_id, MemberState.SKIPPED)
                for run_id in self._uncount(self._links(ends), was)
            ]

    # Reading

    def _links(self, ends: Sequence[TakenBack]) -> list[Row]:
        """Return the links to the dependents of these ends, as far as there is room."""
        unread = [end for end in ends if not end.after]
        rows = [row for end in ends if end.after for row in self._page(end)]
        if unread and self._resolution.links_room > 0:
            ids = self._resolution.tx.as_list([end.run_id for end in unread])
            links = self._resolution.writes.ask(
                "links_below", ids=ids, limit=self._resolution.links_room + 1
            )
            if len(links) <= self._resolution.links_room:
                self._resolution.links_room -= len(links)
                self._close(unread)
                return rows + links
        return rows + [row for end in unread for row in self._page(end)]

    def _page(self, end: TakenBack) -> list[Row]:
        """Return the next links of one end. Links that do not fit are left over."""
        room = min(self._resolution.links_room, portions.PORTION)
        if room <= 0:
            self._leave(end)
            return []
        rows = self._resolution.writes.ask(
            "links_page", upstream=end.run_id, after=end.after, limit=room + 1
        )
        if len(rows) > room:
            rows = rows[:room]
            self._leave(TakenBack(end.run_id, end.was, rows[-1]["run_id"], end.resumed))
        else:
            self._close([end])
        self._resolution.links_room -= max(len(rows), 1)
        return rows

    def _close(self, ends: Sequence[TakenBack]) -> None:
        """Let members start, or their new ends be resolved: all their links are read."""
        self._resolution.writes.flush()  # first: a queued write may set `missing` of these members
        self._resolution.tx.many(
            "add_missing", [{"run_id": end.run_id, "more": -1} for end in ends if end.resumed]
        )

    def _leave(self, end: TakenBack) -> None:
        self._resolution.outbox.leave(self._graph.id, REPLAY, end.run_id, end.place)
        if not end.resumed:
            self._resolution.writes.flush()
            self._resolution.tx.change("add_missing", run_id=end.run_id, more=1)

    # Writing

    def _uncount(self, rows: Sequence[Row], was: Mapping[str, MemberState]) -> list[str]:
        """Take ends back from the groups of their dependents. Return the dependents that wait
        again."""
        groups: dict[tuple[str, int], GroupRecord] = {}
        more: Counter[str] = Counter()
        skipped: dict[str, None] = {}
        for row in rows:
            group = groups.setdefault((row["run_id"], row["number"]), group_from(row))
            lost = was[row["upstream"]] in LOST
            if lost:
                group.lost -= 1
            else:
                group.done -= 1
            state = MemberState(row["member_state"])
            if state in _UNDECIDED:
                more[group.run_id] += self._judge(group)
            elif state is MemberState.SKIPPED and lost:
                skipped[group.run_id] = None
        self._save(groups.values())
        # Added, not set: since the row was read, the taking back of the member's own end may have
        # incremented the count.
        rows_of_members: list[dict[str, object]] = [
            {"run_id": run_id, "more": count} for run_id, count in more.items() if count
        ]
        self._resolution.tx.many("add_missing", rows_of_members)
        return self._wait_if_possible(list(skipped))

    @staticmethod
    def _judge(group: GroupRecord) -> int:
        """Update the state of a group by its counts. Return how many more groups its member
        misses."""
        before = group.state
        group.state = judged(group)
        return (before is GroupState.SATISFIED) - (group.state is GroupState.SATISFIED)

    def _save(self, groups: Iterable[GroupRecord]) -> None:
        self._resolution.tx.many(
            "save_group",
            [group_changes(group) for group in groups],
        )

    def _wait_if_possible(self, skipped: Sequence[str]) -> list[str]:
        """Reopen the skipped members that could start by the counts of all their groups."""
        if not skipped or self._graph.status is not GraphStatus.RUNNING:
            return []
        groups = self._groups(skipped)
        possible = [
            run_id
            for run_id in skipped
            if all(judged(group) is not GroupState.IMPOSSIBLE for group in groups.get(run_id, ()))
        ]
        self.reopen(dict.fromkeys(possible, MemberState.WAITING))
        return possible

    def _groups(self, run_ids: Sequence[str]) -> dict[str, list[GroupRecord]]:
        groups: dict[str, list[GroupRecord]] = {}
        for row in (
            self._resolution.writes.ask(
                "groups_of_members", ids=self._resolution.tx.as_list(run_ids)
            )
            if run_ids
            else ()
        ):
            groups.setdefault(row["run_id"], []).append(group_from(row))
        return groups

    def _wait_again(self, run_ids: Sequence[str]) -> None:
        """Update the groups of members that wait again, and count the unsatisfied ones."""
        groups = self._groups(run_ids)
        pending = self._pending(run_ids)
        missing = dict.fromkeys(run_ids, 0)
        for run_id in run_ids:
            for group in groups.get(run_id, ()):
                group.state = judged(group)
                missing[run_id] += group.state is not GroupState.SATISFIED
            missing[run_id] += pending[run_id]
        self._save([group for of_member in groups.values() for group in of_member])
        self._resolution.tx.many(
            "save_missing",
            [{"run_id": run_id, "missing": count} for run_id, count in missing.items()],
        )

    def _pending(self, run_ids: Sequence[str]) -> Counter[str]:
        """Return how many previous ends of each member are still being taken back."""
        if not run_ids:
            return Counter()
        rows = self._resolution.writes.ask(
            "replays_of_members", graph_id=self._graph.id, ids=self._resolution.tx.as_list(run_ids)
        )
        return Counter(row["run_id"] for row in rows)
