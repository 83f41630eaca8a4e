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
    GroupState,
    MemberRecord,
    MemberSpec,
    MemberState,
    graph_of,
    name_of,
)
from holdfast.core.graphs.resolution import Link, ResolutionOutcome, Resolver, Upstream
from holdfast.core.graphs.validation import ending
from holdfast.core.payload import Payload
from holdfast.core.runs import NewRun, Route
from holdfast.core.status import Status
from holdfast.errors import BudgetNotFound, HoldfastError, KeyMissing
from holdfast.store.database import MemberOutcome, Row, Started, Transaction
from holdfast.store.graphs.operations import Compose, Lease, StartedMember
from holdfast.store.graphs.rows import (
    STATES,
    GraphAudit,
    counted,
    group_from,
    saved,
    sources_of,
    spec_of,
    state_of,
)
from holdfast.store.payloads.apply import fetch
from holdfast.store.runs.cancel import stop_members
from holdfast.store.runs.operations import StartRuns
from holdfast.store.runs.start import start_runs

PORTION = 1000
"""How many members one transaction starts or stops at most, because it holds the write lock."""

LINKS = 3000
"""How many dependents one transaction resolves at most."""

START = "start"
SKIP = "skip"
CANCEL = "cancel"
REST = "rest"
REPLAY = "replay"
"""Kinds of work in the outbox that the next transaction continues:

- START: members that wait for nothing more are started
- SKIP: members that can never start are skipped
- CANCEL: the members of a cancelled graph are stopped
- REST: the remainder of a decided group is stopped
- REPLAY: the end of a replayed member is taken back
"""

CONTINUED = frozenset({START, SKIP, CANCEL, REST, REPLAY})

ALL = 2**31
"""No limit."""


class GraphResolution:
    """The changes to graphs in one transaction.

    Writes are queued and flushed together before the next read (`ask`) and at the end (`finish`),
    which saves statements. With *strict* false, a graph that cannot be resolved here is left
    (`left`) instead of failing the transaction.
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
        self._compose: Compose = compose
        self._lease: Lease | None = lease
        self._strict: bool = strict
        self.graphs = {graph.id: graph for graph in graphs}
        self.trail = GraphAudit(tx)
        self.born: list[StartedMember] = []
        self.left: dict[str, str] = {}
        """The graphs that cannot be resolved here, and why."""
        self._touched: set[str] = set()
        self._changed: set[str] = set()
        self._results: dict[str, bytes] = {}
        self._links_below: dict[str, list[Row]] = {}
        """The links to the dependents of members that have just ended: read once, with the
        dependents' specifications."""
        self._startable: dict[str, Row] = {}
        self._stopped_at_once: dict[str, str] = {}
        """Members that were asked to stop and ended at once, with the reason."""
        self._queued: dict[str, list[dict[str, object]]] = {}
        self.room = PORTION
        """How many more members this transaction may start or stop."""
        self.links = LINKS
        """From how many more groups this transaction may take back the ends of replayed members."""
        self._left_over: list[tuple[str, str, str | None, str | None]] = []
        """Work for the next transaction: graph, kind, member, and the position to continue from."""
        self.resumed: dict[tuple[str, int], str] = {}
        """Groups whose remainder is being stopped: the last member that was processed."""
        self._read: set[str] = set()
        self._cursors: dict[str, str] = {}
        """Ended members with more dependents than are resolved here: the last dependent that is."""

    # Reading and writing

    def ask(self, query: str, **values: object) -> list[Row]:
        """Read about graphs, after flushing the queued writes."""
        self.write()
        return self.tx.rows(query, **values)

    def _queue(self, query: str, rows: list[dict[str, object]]) -> None:
        """Queue rows to be written before the next read."""
        if rows:
            self._queued.setdefault(query, []).extend(rows)

    def write(self) -> None:
        """Flush the queued writes."""
        if self._queued:
            queued = self._queued
            self._queued = {}
            self.tx.together(queued)

    def graph(self, run_id: str) -> GraphRecord:
        """Return the graph of a member, and mark it to be saved."""
        graph_id = graph_of(run_id) or ""
        self._touched.add(graph_id)
        return self.graphs[graph_id]

    # Member outcomes

    def process_outcomes(self) -> None:
        """Resolve the outcomes that members of these graphs had in this transaction,
        transitively."""
        while mine := [
            outcome for outcome in self.tx.news if graph_of(outcome.run_id) in self.graphs
        ]:
            others = len(mine) < len(self.tx.news)
            self.tx.news = (
                [outcome for outcome in self.tx.news if graph_of(outcome.run_id) not in self.graphs]
                if others
                else []
            )
            self.resolve(mine)

    def resolve(self, outcomes: Sequence[MemberOutcome]) -> None:
        """Resolve these outcomes. Those of graphs that cannot be resolved here go to the outbox."""
        if not outcomes:
            return
        states = self._read_links(outcomes)
        self._results.update(
            (outcome.run_id, outcome.result) for outcome in outcomes if outcome.result is not None
        )
        begun = {outcome.run_id for outcome in outcomes if outcome.place is not None}
        here = [outcome for outcome in outcomes if outcome.run_id in self._links_below]
        here = [
            outcome
            for outcome in here
            if outcome.place is not None or states.get(outcome.run_id) is MemberState.STARTED
        ]
        self.proceed({outcome.run_id: STATES[outcome.status] for outcome in here}, begun=begun)
        later = [outcome for outcome in outcomes if outcome.run_id not in self._read]
        if self.left:
            later += [outcome for outcome in here if graph_of(outcome.run_id) in self.left]
        self._leave(later)
        unfinished = [
            outcome
            for outcome in here
            if outcome.run_id in self._cursors and graph_of(outcome.run_id) not in self.left
        ]
        self._leave(
            [
                MemberOutcome(
                    outcome.run_id, outcome.status, place=self._cursors.pop(outcome.run_id)
                )
                for outcome in unfinished
            ]
        )

    def _leave(self, outcomes: Sequence[MemberOutcome]) -> None:
        """Write outcomes to the outbox, for the next transaction."""
        rows: list[dict[str, object]] = [
            {
                "graph_id": graph_of(outcome.run_id),
                "run_id": outcome.run_id,
                "status": outcome.status,
                "at": self.tx.now,
                "place": outcome.place,
            }
            for outcome in outcomes
        ]
        self.tx.many("insert_news", rows)
        if any(graph_of(outcome.run_id) not in self.left for outcome in outcomes):
            self.tx.hints.graphs = True

    def _read_links(self, outcomes: Sequence[MemberOutcome]) -> dict[str, MemberState]:
        """Return the states of ended members as their graph has them; keep the links below them."""
        run_ids = [outcome.run_id for outcome in outcomes]
        self._links_below = {run_id: [] for run_id in run_ids}
        self._startable = {}
        states = {}
        self._read = set(run_ids)
        self._cursors = {}
        rows: list[Row] = []
        begun = any(outcome.place is not None for outcome in outcomes)
        if not begun:
            rows = self.ask("ends_below", ids=self.tx.as_list(run_ids), limit=LINKS + 1)
        if begun or len(rows) > LINKS:
            return self._read_links_by_page(outcomes)
        for row in rows:
            # Checked: a damaged state must not be taken for one that has already ended.
            states[row["upstream"]] = state_of(row["own_state"], row["upstream"])
            if row["own_missing"] and states[row["upstream"]] is MemberState.STARTED:
                self._read.discard(row["upstream"])  # its previous end is still being taken back
                self._links_below.pop(row["upstream"], None)
                continue
            if row["run_id"] is not None:
                self._links_below[row["upstream"]].append(row)
            if row["spec"] is not None:
                self._startable[row["run_id"]] = row
        return states

    def _read_links_by_page(self, outcomes: Sequence[MemberOutcome]) -> dict[str, MemberState]:
        """Do the same for members with very many dependents, for as many as one transaction
        resolves."""
        self._links_below = {}
        self._read = set()
        room = min(LINKS, PORTION)
        counts = {
            row["upstream"]: row["links"]
            for row in self.ask(
                "count_links", ids=self.tx.as_list([outcome.run_id for outcome in outcomes])
            )
        }
        whole: list[str] = []
        for outcome in outcomes:
            if room <= 0:
                break
            links = counts.get(outcome.run_id, 0)
            if outcome.place is None and links <= room:
                whole.append(outcome.run_id)
                self._links_below[outcome.run_id] = []
            else:
                links = self._page(outcome, room)
            self._read.add(outcome.run_id)
            room -= max(links, 1)
        # Together: most of very many ends have few dependents, and one statement for each would
        # take longer than all the rest.
        for row in self.ask("links_below", ids=self.tx.as_list(whole), limit=ALL) if whole else ():
            self._links_below[row["upstream"]].append(row)
        rows = self.ask("states_of_members", ids=self.tx.as_list(sorted(self._read)))
        for row in rows:
            if row["missing"] and row["state"] == MemberState.STARTED:
                self._read.discard(row["run_id"])  # its previous end is still being taken back
                self._links_below.pop(row["run_id"])
                self._cursors.pop(row["run_id"], None)
        return {row["run_id"]: STATES[row["state"]] for row in rows}

    def _page(self, outcome: MemberOutcome, room: int) -> int:
        """Keep the next links below an ended member. Return how many."""
        rows = self.ask(
            "links_page", upstream=outcome.run_id, after=outcome.place or "", limit=room + 1
        )
        if len(rows) > room:
            rows = rows[:room]
            self._cursors[outcome.run_id] = rows[-1]["run_id"]
        self._links_below[outcome.run_id] = rows
        return len(rows)

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
            self._links_below = {}
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
                self.write()  # first: the members that end now are queued as waiting or started

    def _decide(
        self, ends: Mapping[str, MemberState], decided: Sequence[GroupRecord]
    ) -> tuple[ResolutionOutcome, list[NewRun], dict[str, str]]:
        """Decide, and compose the inputs of members that start before anything is written.

        Repeats without the graphs that turn out to be unresolvable here.
        """
        while True:
            outcome = Resolver(self._downward, self._upward, LINKS).resolve(
                self._here(ends), decided
            )
            known = len(self.left)
            runs, failed = self.composed(outcome.starts[: self.room])
            if len(self.left) == known:
                return outcome, runs, failed

    def _postpone(self, outcome: ResolutionOutcome) -> None:
        """Leave starts and ends beyond the limits of this transaction to the next one."""
        late = outcome.starts[self.room :]
        self.room -= len(outcome.starts) - len(late)
        for graph_id in {graph_of(run_id) or "" for run_id in late}:
            self.leave_over(graph_id, START)
        self._leave(
            [
                MemberOutcome(run_id, state.value, place="")
                for run_id, state in outcome.postponed.items()
            ]
        )

    def _here(self, ends: Mapping[str, MemberState]) -> Mapping[str, MemberState]:
        """Return the ends in graphs that can be resolved here."""
        return (
            {run_id: state for run_id, state in ends.items() if graph_of(run_id) not in self.left}
            if self.left
            else ends
        )

    def _downward(self, run_ids: Sequence[str], limit: int | None) -> list[Link]:
        if all(run_id in self._links_below for run_id in run_ids):
            rows = [row for run_id in run_ids for row in self._links_below[run_id]]
        else:
            rows = self.ask(
                "links_below",
                ids=self.tx.as_list(run_ids),
                limit=ALL if limit is None else limit + 1,
            )
        return [self._link(row) for row in rows]

    def _link(self, row: Row) -> Link:
        group = group_from(row)
        graph = self.graphs.get(graph_of(group.run_id) or "")
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

    def _upward(self, run_id: str, number: int) -> list[Upstream]:
        """Return the unfinished upstreams of a group, or the first portion of very many."""
        after = self.resumed.get((run_id, number), "")
        rows = self.ask(
            "upstreams_of_group", run_id=run_id, number=number, after=after, limit=PORTION + 1
        )
        if len(rows) > PORTION:
            rows = rows[:PORTION]
            self.leave_over(graph_of(run_id) or "", REST, run_id, f"{number} {rows[-1]['run_id']}")
        return [Upstream(row["run_id"], STATES[row["state"]]) for row in rows]

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
            self.trail.add(
                graph,
                "member_skipped" if state is MemberState.SKIPPED else kind,
                name_of(run_id),
                data,
            )
        self._queue("end_member", rows[False])
        self._queue("stop_member", rows[True])

    def _write(self, outcome: ResolutionOutcome) -> None:
        starting = set(outcome.starts[: self.room])
        self._queue(
            "save_group",
            [
                {
                    "run_id": changed_group.run_id,
                    "number": changed_group.number,
                    "done": changed_group.done,
                    "lost": changed_group.lost,
                    "state": changed_group.state.value,
                }
                for changed_group in outcome.groups.values()
            ],
        )
        self._queue(
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
        ends = [
            {
                "run_id": run_id,
                "state": MemberState.CANCELLED.value,
                "now": self.tx.now,
                "note": note,
            }
            for run_id in run_ids
        ]
        self._queue("end_member", ends)
        counts = self.ask("edges_below", ids=self.tx.as_list(run_ids))
        self.tx.many("lose_some", [dict(row) for row in counts])
        self.tx.many("close_groups", [{"run_id": run_id} for run_id in run_ids])

    def _audit_decision(self, group: GroupRecord) -> None:
        """Add an audit entry for a decided group."""
        data = {
            "group": group.number,
            "need": group.need,
            "of": group.total,
            "completed": group.done,
        }
        self.trail.add(
            self.graph(group.run_id), f"group_{group.state.value}", name_of(group.run_id), data
        )

    def stop(self, reasons: Mapping[str, str]) -> None:
        """Ask started members to stop, and record it."""
        if not reasons:
            return
        stop_members(self.tx, reasons)
        # Runs that never started have ended at once; the reason is written with their end.
        gone = {outcome.run_id for outcome in self.tx.news}
        self._stopped_at_once.update(
            (run_id, why) for run_id, why in reasons.items() if run_id in gone
        )
        self._queue(
            "ask_member",
            [
                {"run_id": run_id, "now": self.tx.now, "note": why}
                for run_id, why in reasons.items()
                if run_id not in gone
            ],
        )
        for run_id in reasons:
            self.trail.add(self.graph(run_id), "member_asked_to_stop", name_of(run_id))

    # Starting

    def admit(self, ready: Sequence[MemberRecord]) -> Sequence[MemberRecord]:
        """Return the new members that start in this transaction; the others start in the next
        ones."""
        here = ready[: self.room]
        self.room -= len(here)
        for graph_id in {member.graph_id for member in ready[len(here) :]}:
            self.leave_over(graph_id, START)
        return here

    def composed(self, run_ids: Sequence[str]) -> tuple[list[NewRun], dict[str, str]]:
        """Return the runs of members to be started, and the reasons of members that cannot
        start."""
        if not run_ids:
            return [], {}
        known = [self._startable[run_id] for run_id in run_ids if run_id in self._startable]
        others = [run_id for run_id in run_ids if run_id not in self._startable]
        rows = [*known, *(self.ask("members_by_id", ids=self.tx.as_list(others)) if others else [])]
        return self.runs_of(
            [(row["run_id"], bytes(row["spec"]), bytes(row["input"])) for row in rows]
        )

    def runs_of(
        self, members: Sequence[tuple[str, bytes, bytes]]
    ) -> tuple[list[NewRun], dict[str, str]]:
        """Do the same for members that were read already: id, specification and input of each."""
        specs = [spec_of(run_id, spec) for run_id, spec, _ in members]
        takes = [
            sources_of(run_id, spec) for (run_id, _, _), spec in zip(members, specs, strict=True)
        ]
        self._read_results({source for sources in takes for source in sources})
        runs = []
        failed = {}
        for (run_id, _, template), spec, names in zip(members, specs, takes, strict=True):
            taken = {
                name: (source, self._results[source])
                for source, name in names.items()
                if source in self._results
            }
            try:
                data, payloads = self._compose(run_id, template, taken, self._fetch)
            except KeyMissing as missing:
                if self._strict:
                    raise
                self.left[graph_of(run_id) or ""] = str(missing)
                continue
            except HoldfastError as broken:
                failed[run_id] = f"its input cannot be composed: {broken}"
                continue
            runs.append(self._new_run(run_id, spec, data, payloads))
        return runs, failed

    def _fetch(self, digest: bytes) -> Payload | None:
        return fetch(self.tx.rows, digest)

    def _read_results(self, run_ids: Iterable[str]) -> None:
        """Read the results that inputs need, unless they came with the outcomes."""
        unknown = sorted(run_id for run_id in run_ids if run_id not in self._results)
        rows = self.tx.rows("results_by_id", ids=self.tx.as_list(unknown)) if unknown else []
        results = {
            row["id"]: bytes(row["result"] or b"null")
            for row in rows
            if row["status"] == Status.COMPLETED
        }
        self._results.update(results)

    def _new_run(
        self, run_id: str, spec: MemberSpec, data: bytes, payloads: Sequence[Payload]
    ) -> NewRun:
        now = self.tx.now
        return NewRun(
            id=run_id,
            route=spec.route,
            input=data,
            priority=spec.priority,
            tags=spec.tags,
            available_at=None if spec.delay is None else now + spec.delay,
            deadline=None if spec.deadline is None else now + spec.deadline,
            session_id=None if spec.delay is not None else self._session(spec.route),
            policy=None if spec.policy is None else msgspec.json.encode(spec.policy),
            budgets=spec.budgets,
            limits=spec.limits,
            share=spec.share,
            graph_id=graph_of(run_id),
            payloads=tuple(payloads),
        )

    def _session(self, route: Route) -> str | None:
        """Return the session that the next run of the route can be leased to at its start."""
        return None if self._lease is None else self._lease(route)

    def start(self, runs: Sequence[NewRun], *, fresh: bool = False) -> dict[str, str]:
        """Start the runs of members. Return the members that cannot start, with the reason.

        *fresh* members are already written as started.
        """
        if not runs:
            return {}
        existing = self._existing([run.id for run in runs])
        failed = dict.fromkeys(existing, "another run has its id")
        ready = [run for run in runs if run.id not in existing]
        try:
            answers = (
                list(zip(ready, start_runs(self.tx, StartRuns(ready)), strict=True))
                if ready
                else []
            )
        except BudgetNotFound:
            if self._strict:
                raise
            answers = [
                (run, answer)
                for run in ready
                if (answer := self._start_alone(run, failed)) is not None
            ]
        self.born += [StartedMember(run, answer) for run, answer in answers]
        if not fresh:
            self._queue(
                "start_member",
                [{"run_id": run.id, "now": self.tx.now, "empty": b""} for run, _ in answers],
            )
        for run, _ in answers:
            self.trail.add(self.graph(run.id), "member_started", name_of(run.id))
        return failed

    def _existing(self, run_ids: Sequence[str]) -> set[str]:
        """Return the ids that existing runs have."""
        unknown = [run_id for run_id in run_ids if run_id not in self._startable]
        known = {
            run_id
            for run_id in run_ids
            if run_id in self._startable and self._startable[run_id]["there"]
        }
        return known | (
            {row["id"] for row in self.tx.rows("runs_there", ids=self.tx.as_list(unknown))}
            if unknown
            else set()
        )

    def _start_alone(self, run: NewRun, failed: dict[str, str]) -> Started | None:
        try:
            return start_runs(self.tx, StartRuns([run]))[0]
        except BudgetNotFound as missing:  # raised before anything was written
            failed[run.id] = str(missing)
            return None

    # Continuing later

    def leave_over(
        self, graph_id: str, kind: str, run_id: str | None = None, place: str | None = None
    ) -> None:
        """Leave some work of a graph to the next transaction."""
        rest = (graph_id, kind, run_id, place)
        if run_id is not None or rest not in self._left_over:
            self._left_over.append(rest)

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
        replayed = {graph_id for graph_id, kind, _, _ in self._left_over if kind == REPLAY}
        over = [
            graph
            for graph in touched
            if graph.live == 0 and graph.summary is None and graph.id not in replayed
        ]
        if over:
            self._end_graphs(over)
        changed = self._changed | {graph.id for graph in over}
        self._queue("save_graph", [saved(graph) for graph in touched if graph.id in changed])
        self._queue("count_graph", [counted(graph) for graph in touched if graph.id not in changed])
        self._queue("insert_graph_event", self.trail.take())
        self.write()
        self._write_left_over()

    def _write_left_over(self) -> None:
        rows: list[dict[str, object]] = [
            {
                "graph_id": graph_id,
                "run_id": run_id,
                "status": kind,
                "at": self.tx.now,
                "place": place,
            }
            for graph_id, kind, run_id, place in self._left_over
        ]
        self.tx.many("insert_news", rows)
        if any(graph_id not in self.left for graph_id, _, _, _ in self._left_over):
            self.tx.hints.graphs = True
        self._left_over = []

    def _end_graphs(self, over: Sequence[GraphRecord]) -> None:
        counts: dict[str, dict[str, int]] = {graph.id: {} for graph in over}
        last: dict[str, list[str]] = {graph.id: [] for graph in over}
        replayed: set[str] = set()
        for row in self.ask("counts_of_graphs", ids=self.tx.as_list([graph.id for graph in over])):
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
            self.trail.add(graph, f"graph_{graph.status.value}", data=counts[graph.id])
            self.tx.hints.finished.add(graph.id)
