"""Read the links between members: from ended members to their dependents, and back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from holdfast.core.graphs.model import (
    GraphRecord,
    GraphStatus,
    GroupState,
    MemberState,
    graph_of,
)
from holdfast.core.graphs.resolution import Link, Upstream
from holdfast.store.database import MemberOutcome, Row, Transaction
from holdfast.store.graphs import portions
from holdfast.store.graphs.outbox import REST, GraphOutbox
from holdfast.store.graphs.queued_writes import QueuedWrites
from holdfast.store.graphs.rows import STATES, group_from, state_of


class MemberLinks:
    """The links that one resolution reads, at most as many as one transaction resolves."""

    def __init__(
        self,
        tx: Transaction,
        writes: QueuedWrites,
        outbox: GraphOutbox,
        graphs: Mapping[str, GraphRecord],
    ) -> None:
        self._tx: Transaction = tx
        self._writes: QueuedWrites = writes
        self._outbox: GraphOutbox = outbox
        self._graphs: Mapping[str, GraphRecord] = graphs
        self._below: dict[str, list[Row]] = {}
        """The links to the dependents of members that have just ended: read once, with the
        dependents' specifications."""
        self._read: set[str] = set()
        self.startable: dict[str, Row] = {}
        """Dependents that may start now, with their specifications."""
        self.cursors: dict[str, str] = {}
        """Ended members with more dependents than are resolved here: the last dependent that is."""
        self.resumed: dict[tuple[str, int], str] = {}
        """Groups whose remainder is being stopped: the last member that was processed."""

    def has_read(self, run_id: str) -> bool:
        """Return whether the last `read` included this ended member."""
        return run_id in self._read

    def forget(self) -> None:
        """Forget the links below ended members: the states of their dependents have changed."""
        self._below = {}

    def read(self, outcomes: Sequence[MemberOutcome]) -> dict[str, MemberState]:
        """Read the links below ended members. Return the states that their graphs have for them."""
        run_ids = [outcome.run_id for outcome in outcomes]
        self._below = {run_id: [] for run_id in run_ids}
        self.startable.clear()
        self._read = set(run_ids)
        self.cursors = {}
        rows: list[Row] = []
        begun = any(outcome.place is not None for outcome in outcomes)
        if not begun:
            rows = self._writes.ask(
                "ends_below", ids=self._tx.as_list(run_ids), limit=portions.LINKS + 1
            )
        # Fast path: one statement reads all that the resolution of ordinary ends needs.
        if begun or len(rows) > portions.LINKS:
            return self._read_by_page(outcomes)
        return self._keep(rows)

    def _keep(self, rows: Sequence[Row]) -> dict[str, MemberState]:
        """Keep the links of rows that have all that is needed of the ended members."""
        states = {}
        for row in rows:
            # Checked, because a member with a damaged state would count as ended.
            states[row["upstream"]] = state_of(row["own_state"], row["upstream"])
            if row["own_missing"] and states[row["upstream"]] is MemberState.STARTED:
                self._read.discard(row["upstream"])  # its previous end is still being taken back
                self._below.pop(row["upstream"], None)
                continue
            if row["run_id"] is not None:
                self._below[row["upstream"]].append(row)
            if row["spec"] is not None:
                self.startable[row["run_id"]] = row
        return states

    def _read_by_page(self, outcomes: Sequence[MemberOutcome]) -> dict[str, MemberState]:
        """Do the same for members with very many dependents, for as many as one transaction
        resolves."""
        self._below = {}
        self._read = set()
        whole = self._choose_whole(outcomes)
        # Together: most of very many ends have few dependents, and one statement for each would
        # take longer than all the rest.
        ids = self._tx.as_list(whole)
        for row in self._writes.ask("links_below", ids=ids, limit=portions.ALL) if whole else ():
            self._below[row["upstream"]].append(row)
        rows = self._writes.ask("states_of_members", ids=self._tx.as_list(sorted(self._read)))
        for row in rows:
            if row["missing"] and row["state"] == MemberState.STARTED:
                self._read.discard(row["run_id"])  # its previous end is still being taken back
                self._below.pop(row["run_id"])
                self.cursors.pop(row["run_id"], None)
        return {row["run_id"]: STATES[row["state"]] for row in rows}

    def _choose_whole(self, outcomes: Sequence[MemberOutcome]) -> list[str]:
        """Return the ended members whose links are read as a whole; read a page of the next one."""
        room = min(portions.LINKS, portions.PORTION)
        ids = self._tx.as_list([outcome.run_id for outcome in outcomes])
        counts = {row["upstream"]: row["links"] for row in self._writes.ask("count_links", ids=ids)}
        whole: list[str] = []
        for outcome in outcomes:
            if room <= 0:
                break
            links = counts.get(outcome.run_id, 0)
            if outcome.place is None and links <= room:
                whole.append(outcome.run_id)
                self._below[outcome.run_id] = []
            else:
                links = self._read_page(outcome, room)
            self._read.add(outcome.run_id)
            room -= max(links, 1)
        return whole

    def _read_page(self, outcome: MemberOutcome, room: int) -> int:
        """Keep the next links below an ended member. Return how many."""
        rows = self._writes.ask(
            "links_page", upstream=outcome.run_id, after=outcome.place or "", limit=room + 1
        )
        if len(rows) > room:
            rows = rows[:room]
            self.cursors[outcome.run_id] = rows[-1]["run_id"]
        self._below[outcome.run_id] = rows
        return len(rows)

    def is_kept(self, run_id: str) -> bool:
        """Return whether the links below this ended member are kept."""
        return run_id in self._below

    def downward(self, run_ids: Sequence[str], limit: int | None) -> list[Link]:
        """Return the links to the dependents of ended members."""
        if all(run_id in self._below for run_id in run_ids):
            rows = [row for run_id in run_ids for row in self._below[run_id]]
        else:
            rows = self._writes.ask(
                "links_below",
                ids=self._tx.as_list(run_ids),
                limit=portions.ALL if limit is None else limit + 1,
            )
        return [self._link(row) for row in rows]

    def _link(self, row: Row) -> Link:
        group = group_from(row)
        graph = self._graphs.get(graph_of(group.run_id) or "")
        if (
            graph is not None
            and graph.status is not GraphStatus.RUNNING
            and group.state is GroupState.OPEN
        ):
            # No member waits in a graph that has stopped: its groups must not decide anything.
            group.state = GroupState.IMPOSSIBLE
        return Link(
            row["upstream"], group, state_of(row["member_state"], group.run_id), row["missing"]
        )

    def upward(self, run_id: str, number: int) -> list[Upstream]:
        """Return the unfinished upstreams of a group, or the first portion of very many."""
        after = self.resumed.get((run_id, number), "")
        rows = self._writes.ask(
            "upstreams_of_group",
            run_id=run_id,
            number=number,
            after=after,
            limit=portions.PORTION + 1,
        )
        if len(rows) > portions.PORTION:
            rows = rows[: portions.PORTION]
            place = f"{number} {rows[-1]['run_id']}"
            self._outbox.leave(graph_of(run_id) or "", REST, run_id, place)
        return [Upstream(row["run_id"], STATES[row["state"]]) for row in rows]
