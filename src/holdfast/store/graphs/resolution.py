"""Resolve graphs within one transaction: the core decides, this module loads and saves.

Many graphs are resolved with the same statements. Work that is too much for one transaction goes to
the outbox for the next one, because the holder of the write lock blocks all other writers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import msgspec

from holdfast.core.graphs.model import (
    OPEN_GRAPHS,
    GraphRecord,
    GraphStatus,
    GroupRecord,
    MemberRecord,
    MemberState,
    graph_of,
    name_of,
)
from holdfast.core.graphs.resolution import ResolutionOutcome, Resolver
from holdfast.core.graphs.validation import ending
from holdfast.core.runs import NewRun
from holdfast.store.database import MemberOutcome, Transaction
from holdfast.store.graphs import portions
from holdfast.store.graphs.links import MemberLinks
from holdfast.store.graphs.operations import Compose, Lease
from holdfast.store.graphs.outbox import REPLAY, START, GraphOutbox
from holdfast.store.graphs.queued_writes import QueuedWrites
from holdfast.store.graphs.rows import STATES, GraphAudit, counted, group_changes, saved
from holdfast.store.graphs.start import MemberStarter
from holdfast.store.runs.cancel import stop_members


class GraphResolution:
    """The changes to graphs in one transaction.

    With *strict* false, a graph that cannot be resolved here is noted (`unresolvable`) instead of
    failing the transaction.
    """

    def __init__(
        self,
        tx: Transaction,
        graphs: Iterable[GraphRecord],
        compose: Compose,
        lease: Lease | None,
        *,
        strict: bool = True,
    ) -> None:
        self.tx: Transaction = tx
        self.graphs: dict[str, GraphRecord] = {graph.id: graph for graph in graphs}
        self.unresolvable: dict[str, str] = {}
        """The graphs that cannot be resolved here, and why."""
        self.audit: GraphAudit = GraphAudit(tx)
        self.writes: QueuedWrites = QueuedWrites(tx)
        self.outbox: GraphOutbox = GraphOutbox(tx, self.unresolvable)
        self.links: MemberLinks = MemberLinks(tx, self.writes, self.outbox, self.graphs)
        self.starter: MemberStarter = MemberStarter(
            tx,
            self.writes,
            self.links.startable,
            self.unresolvable,
            compose,
            lease,
            strict=strict,
        )
        self.room: int = portions.PORTION
        """How many more members this transaction may start or stop."""
        self.links_room: int = portions.LINKS
        """From how many more groups this transaction may take back the ends of replayed members."""
        self._touched: set[str] = set()
        self._changed: set[str] = set()
        self._stopped_at_once: dict[str, str] = {}
        """Members that were asked to stop and ended at once, with the reason."""

    def graph(self, run_id: str) -> GraphRecord:
        """Return the graph of a member, and mark it to be saved."""
        # The id of a member is made from its graph and its name, so it can be taken apart again.
        # Whether a run is a member at all is a column of the run, not a matter of its id.
        graph_id = graph_of(run_id) or ""
        self._touched.add(graph_id)
        return self.graphs[graph_id]

    # Member outcomes

    def process_outcomes(self) -> None:
        """Resolve the outcomes that members of these graphs had in this transaction,
        transitively."""
        while mine := [
            outcome for outcome in self.tx.member_outcomes if outcome.graph_id in self.graphs
        ]:
            self.tx.member_outcomes = [
                outcome
                for outcome in self.tx.member_outcomes
                if outcome.graph_id not in self.graphs
            ]
            self.resolve(mine)

    def resolve(self, outcomes: Sequence[MemberOutcome]) -> None:
        """Resolve these outcomes. Those of graphs that cannot be resolved here go to the outbox."""
        outcomes = self._of_members(outcomes)
        if not outcomes:
            return
        states = self.links.read(outcomes)
        self.starter.keep_results(outcomes)
        here = [
            outcome
            for outcome in outcomes
            if self.links.is_kept(outcome.run_id)
            and (outcome.place is not None or states.get(outcome.run_id) is MemberState.STARTED)
        ]
        self.proceed(
            {outcome.run_id: STATES[outcome.status] for outcome in here},
            begun={outcome.run_id for outcome in outcomes if outcome.place is not None},
        )
        self._leave_unresolved(outcomes, here)

    def _of_members(self, outcomes: Sequence[MemberOutcome]) -> Sequence[MemberOutcome]:
        """Return outcomes under the ids of members: a run that has joined its graph has another id.

        Its result is read again if it is needed, because it is sealed under the id of the run.
        """
        if all(graph_of(outcome.run_id) == outcome.graph_id for outcome in outcomes):
            return outcomes
        ids = [outcome.run_id for outcome in outcomes if graph_of(outcome.run_id) is None]
        rows = self.writes.ask("members_of_runs", ids=self.tx.as_list(ids))
        members = {(row["joined"], row["graph_id"]): row["run_id"] for row in rows}
        of_members = []
        for outcome in outcomes:
            member = members.get((outcome.run_id, outcome.graph_id))
            if graph_of(outcome.run_id) == outcome.graph_id:
                of_members.append(outcome)
            elif member is not None:
                of_members.append(
                    MemberOutcome(outcome.graph_id, member, outcome.status, place=outcome.place)
                )
        return of_members

    def _leave_unresolved(
        self, outcomes: Sequence[MemberOutcome], here: Sequence[MemberOutcome]
    ) -> None:
        """Leave outcomes to the next transaction that this one has not read, could not resolve, or
        has resolved for some of the dependents."""
        later = [outcome for outcome in outcomes if not self.links.has_read(outcome.run_id)]
        if self.unresolvable:
            later += [outcome for outcome in here if outcome.graph_id in self.unresolvable]
        self.outbox.leave_outcomes(later)
        unfinished = [
            outcome
            for outcome in here
            if outcome.run_id in self.links.cursors and outcome.graph_id not in self.unresolvable
        ]
        self.outbox.leave_outcomes(
            [
                MemberOutcome(
                    outcome.graph_id,
                    outcome.run_id,
                    outcome.status,
                    place=self.links.cursors.pop(outcome.run_id),
                )
                for outcome in unfinished
            ]
        )

    # Deciding

    def proceed(
        self,
        ends: Mapping[str, MemberState],
        notes: Mapping[str, str] | None = None,
        decided: Sequence[GroupRecord] = (),
        begun: Collection[str] = (),
    ) -> None:
        """Write these ends and all that follow from them, and the remainders of decided groups.

        Ends that were *begun* are written already and only have consequences.
        """
        reasons = dict(notes or {})
        while ends or decided:
            outcome, runs, failed = self._decide(ends, decided)
            self.links.forget()
            resolvable = self._here(ends)
            self._end(
                {run_id: state for run_id, state in resolvable.items() if run_id not in begun}
                if begun
                else resolvable,
                reasons,
            )
            self._write(outcome)
            self._postpone(outcome)
            failed |= self.start(runs)
            ends = dict.fromkeys(failed, MemberState.FAILED)
            reasons = failed
            decided = ()
            begun = ()
            if ends:
                # First: the members that end now are queued as waiting or started.
                self.writes.flush()

    def _decide(
        self, ends: Mapping[str, MemberState], decided: Sequence[GroupRecord]
    ) -> tuple[ResolutionOutcome, list[NewRun], dict[str, str]]:
        """Decide, and compose the inputs of members that start before anything is written.

        Repeats without the graphs that turn out to be unresolvable here.
        """
        while True:
            resolver = Resolver(self.links.downward, self.links.upward, portions.LINKS)
            outcome = resolver.resolve(self._here(ends), decided)
            known = len(self.unresolvable)
            runs, failed = self.starter.compose(outcome.starts[: self.room])
            if len(self.unresolvable) == known:
                return outcome, runs, failed

    def _postpone(self, outcome: ResolutionOutcome) -> None:
        """Leave starts and ends beyond the limits of this transaction to the next one."""
        late = outcome.starts[self.room :]
        self.room -= len(outcome.starts) - len(late)
        for graph_id in {graph_of(run_id) or "" for run_id in late}:
            self.outbox.leave(graph_id, START)
        self.outbox.leave_outcomes(
            [
                MemberOutcome(graph_of(run_id) or "", run_id, state.value, place="")
                for run_id, state in outcome.postponed.items()
            ]
        )

    def _here(self, ends: Mapping[str, MemberState]) -> Mapping[str, MemberState]:
        """Return the ends in graphs that can be resolved here."""
        if not self.unresolvable:
            return ends
        return {
            run_id: state
            for run_id, state in ends.items()
            if graph_of(run_id) not in self.unresolvable
        }

    # Writing

    def _end(
        self, ends: Mapping[str, MemberState], notes: Mapping[str, str], kind: str = "member_ended"
    ) -> None:
        rows: dict[bool, list[dict[str, object]]] = {False: [], True: []}
        for run_id, state in ends.items():
            graph = self.graph(run_id)
            graph.live -= 1
            note = notes.get(run_id)
            stop_reason = self._stopped_at_once.pop(run_id, None) if self._stopped_at_once else None
            row: dict[str, object] = {
                "run_id": run_id,
                "state": state.value,
                "now": self.tx.now,
                "note": note or stop_reason,
            }
            rows[stop_reason is not None].append(row)
            data: dict[str, str] = (
                {"state": state.value} if note is None else {"state": state.value, "why": note}
            )
            self.audit.add(
                graph,
                "member_skipped" if state is MemberState.SKIPPED else kind,
                name_of(run_id),
                data,
            )
        self.writes.queue("end_member", rows[False])
        self.writes.queue("stop_member", rows[True])

    def _write(self, outcome: ResolutionOutcome) -> None:
        starting = set(outcome.starts[: self.room])
        self.writes.queue("save_group", [group_changes(group) for group in outcome.groups.values()])
        self.writes.queue(
            "save_missing",
            [
                {"run_id": run_id, "missing": missing}
                for run_id, missing in outcome.missing.items()
                if run_id not in starting
            ],
        )
        for group in outcome.decided:
            if group.total > 1:
                self._audit_decision(group)
        self._end(dict.fromkeys(outcome.skips, MemberState.SKIPPED), outcome.skips)
        self._end(
            dict.fromkeys(outcome.cancels, MemberState.CANCELLED),
            outcome.cancels,
            "member_cancelled",
        )
        self.stop(outcome.stops)

    def cancel_waiting(self, graph: GraphRecord, run_ids: Sequence[str], note: str) -> None:
        """Cancel waiting members.

        Their dependents are cancelled as well, so the groups are closed without a decision.
        """
        if not run_ids:
            return
        self.room -= len(run_ids)
        graph.live -= len(run_ids)
        self.touch(graph)
        ends: list[dict[str, object]] = [
            {
                "run_id": run_id,
                "state": MemberState.CANCELLED.value,
                "now": self.tx.now,
                "note": note,
            }
            for run_id in run_ids
        ]
        self.writes.queue("end_member", ends)
        counts = self.writes.ask("edges_below", ids=self.tx.as_list(run_ids))
        self.tx.many("add_lost", [dict(row) for row in counts])
        self.tx.many("close_groups", [{"run_id": run_id} for run_id in run_ids])

    def _audit_decision(self, group: GroupRecord) -> None:
        """Add an audit entry for a decided group."""
        data = {
            "group": group.number,
            "need": group.need,
            "of": group.total,
            "completed": group.done,
        }
        self.audit.add(
            self.graph(group.run_id), f"group_{group.state.value}", name_of(group.run_id), data
        )

    def stop(self, reasons: Mapping[str, str]) -> None:
        """Ask started members to stop, and record it."""
        if not reasons:
            return
        rows = self.writes.ask("joined_members", ids=self.tx.as_list(sorted(reasons)))
        joined = {row["run_id"]: row["joined"] for row in rows}
        stop_members(
            self.tx, {joined.get(run_id, run_id): reason for run_id, reason in reasons.items()}
        )
        # Runs that never started have ended at once; the reason is written with their end.
        ended = {outcome.run_id for outcome in self.tx.member_outcomes}
        gone = {run_id for run_id in reasons if joined.get(run_id, run_id) in ended}
        self._stopped_at_once.update(
            (run_id, why) for run_id, why in reasons.items() if run_id in gone
        )
        self.writes.queue(
            "ask_member",
            [
                {"run_id": run_id, "now": self.tx.now, "note": why}
                for run_id, why in reasons.items()
                if run_id not in gone
            ],
        )
        for run_id in reasons:
            self.audit.add(self.graph(run_id), "member_asked_to_stop", name_of(run_id))

    # Starting

    def admit(self, ready: Sequence[MemberRecord]) -> Sequence[MemberRecord]:
        """Return the new members that start in this transaction; the others start in the next
        ones."""
        here = ready[: self.room]
        self.room -= len(here)
        for graph_id in {member.graph_id for member in ready[len(here) :]}:
            self.outbox.leave(graph_id, START)
        return here

    def start(self, runs: Sequence[NewRun], *, fresh: bool = False) -> dict[str, str]:
        """Start the runs of members. Return the members that cannot start, with the reason.

        *fresh* members are already written as started.
        """
        started, failed = self.starter.start(runs)
        if not fresh:
            self.writes.queue(
                "start_member",
                [{"run_id": run.id, "now": self.tx.now, "empty": b""} for run in started],
            )
        for run in started:
            self.audit.add(self.graph(run.id), "member_started", name_of(run.id))
        return failed

    # Ending

    def touch(self, graph: GraphRecord) -> None:
        """Mark the graph to be saved as a whole at the end, not only its counts."""
        self._touched.add(graph.id)
        self._changed.add(graph.id)

    def finish(self) -> None:
        """Process the outcomes of this transaction, save the graphs, and end those without live
        members."""
        self.process_outcomes()
        touched = [self.graphs[graph_id] for graph_id in sorted(self._touched)]
        replayed = self.outbox.graphs_left(REPLAY)
        over = [
            graph
            for graph in touched
            if graph.live == 0 and graph.summary is None and graph.id not in replayed
        ]
        if over:
            self._end_graphs(over)
        changed = self._changed | {graph.id for graph in over}
        self.writes.queue("save_graph", [saved(graph) for graph in touched if graph.id in changed])
        self.writes.queue(
            "count_graph", [counted(graph) for graph in touched if graph.id not in changed]
        )
        self.writes.queue("insert_graph_event", self.audit.take())
        self.writes.flush()
        self.outbox.write()

    def _end_graphs(self, over: Sequence[GraphRecord]) -> None:
        counts: dict[str, dict[str, int]] = {graph.id: {} for graph in over}
        last: dict[str, list[str]] = {graph.id: [] for graph in over}
        replayed: set[str] = set()
        ids = self.tx.as_list([graph.id for graph in over])
        for row in self.writes.ask("counts_of_graphs", ids=ids):
            counts[row["graph_id"]][row["state"]] = row["members"]
            last[row["graph_id"]] += [row["state"]] if row["last"] else []
            if row["replays"]:
                replayed.add(row["graph_id"])
        for graph in over:
            if graph.id in replayed:
                continue  # skipped members are about to wait again
            graph.summary = msgspec.json.encode(counts[graph.id], order="sorted")
            if graph.status not in OPEN_GRAPHS:
                continue  # cancelled without its members, the last of which has now ended
            graph.status = ending(last[graph.id], cancelled=graph.status is GraphStatus.CANCELLING)
            graph.finished_at = self.tx.now
            self.audit.add(graph, f"graph_{graph.status.value}", data=counts[graph.id])
            self.tx.hints.finished.add(graph.id)
