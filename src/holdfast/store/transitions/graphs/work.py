"""What is done to graphs in one transaction: the core decides, here it is loaded and saved, for
many graphs at once.

What is too much for one transaction is left to the next one, as news: whoever holds the write lock
keeps all others from writing.
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
from holdfast.store.contract.graphs import StartedMember
from holdfast.store.contract.growing import Compose, Lease
from holdfast.store.contract.reading import MemberOutcome
from holdfast.store.contract.runs import Started, StartRuns
from holdfast.store.transitions.graphs.rows import (
    STATES,
    GraphAudit,
    counted,
    group_from,
    saved,
    sources_of,
    spec_of,
    state_of,
)
from holdfast.store.transitions.payloads import fetch
from holdfast.store.transitions.starting import start_runs
from holdfast.store.transitions.stopping import stop_runs
from holdfast.store.transitions.transaction import Row, Transaction

PORTION = 1000
"""How many members one transaction starts, or asks to stop, at most: the write lock of the database
is held meanwhile."""

LINKS = 3000
"""How many dependents one transaction settles at most."""

START, SKIP, CANCEL, REST, REPLAY = "start", "skip", "cancel", "rest", "replay"
"""News of work that goes on in the next transaction: members that wait for nothing more are
started, members that wait in vain are skipped, a cancelled graph is stopped, the rest of a decided
group is stopped, the end of a replayed member is taken back."""

CONTINUED = frozenset({START, SKIP, CANCEL, REST, REPLAY})

ALL = 2**31
"""No limit."""


class GraphResolution:
    """What is done to graphs in one transaction."""

    def __init__(
        self,
        tx: Transaction,
        graphs: Iterable[GraphRecord],
        compose: Compose,
        lease: Lease | None,
        *,
        strict: bool = True,
    ) -> None:
        self.tx, self._compose, self._lease, self._strict = tx, compose, lease, strict
        self.graphs = {graph.id: graph for graph in graphs}
        self.trail = GraphAudit(tx)
        self.born: list[StartedMember] = []
        self.left: dict[str, str] = {}
        """The graphs that cannot be settled here, and why."""
        self._touched: set[str] = set()
        self._changed: set[str] = set()
        self._results: dict[str, bytes] = {}
        self._below: dict[str, list[Row]] = {}
        """The edges below members that have just ended: read once, with what their dependents are
        started with."""
        self._free: dict[str, Row] = {}
        self._asked: dict[str, str] = {}
        """Who was asked to stop, and did so at once."""
        self._noted: dict[str, list[dict[str, object]]] = {}
        self.room = PORTION
        """How many more members this transaction may start or stop."""
        self.links = LINKS
        """From how many more groups this transaction may take back the ends of replayed members."""
        self._left_over: list[tuple[str, str, str | None, str | None]] = []
        """Work for the next transaction: of which graph, which kind, of which member, and the place
        to go on from."""
        self.resumed: dict[tuple[str, int], str] = {}
        """Groups whose rest is being stopped: the last member that was looked at."""
        self._looked_at: set[str] = set()
        self._places: dict[str, str] = {}
        """Members that have ended and have more dependents than are settled here: the last one that
        is."""

    # Reading and writing

    def ask(self, query: str, **values: object) -> list[Row]:
        """Ask about graphs, when all that was noted about them is written."""
        self.write()
        return self.tx.rows(query, **values)

    def _note(self, query: str, rows: list[dict[str, object]]) -> None:
        """Note what is to be written: nobody asks about it yet."""
        if rows:
            self._noted.setdefault(query, []).extend(rows)

    def write(self) -> None:
        """Write what was noted."""
        if self._noted:
            noted, self._noted = self._noted, {}
            self.tx.together(noted)

    def graph(self, run_id: str) -> GraphRecord:
        """Return the graph of a member; it is written at the end."""
        graph_id = graph_of(run_id) or ""
        self._touched.add(graph_id)
        return self.graphs[graph_id]

    # Hearing

    def hear(self) -> None:
        """Settle what members of these graphs came to in this transaction, and what that leads
        to."""
        while mine := [one for one in self.tx.news if graph_of(one.run_id) in self.graphs]:
            others = len(mine) < len(self.tx.news)
            self.tx.news = (
                [one for one in self.tx.news if graph_of(one.run_id) not in self.graphs]
                if others
                else []
            )
            self.settle(mine)

    def settle(self, news: Sequence[MemberOutcome]) -> None:
        """Settle these ends; those of graphs that cannot go on here are left for somebody who
        can."""
        if not news:
            return
        states = self._look_below(news)
        self._results.update((one.run_id, one.result) for one in news if one.result is not None)
        begun = {one.run_id for one in news if one.place is not None}
        here = [one for one in news if one.run_id in self._below]
        here = [
            one
            for one in here
            if one.place is not None or states.get(one.run_id) is MemberState.STARTED
        ]
        self.proceed({one.run_id: STATES[one.status] for one in here}, begun=begun)
        later = [one for one in news if one.run_id not in self._looked_at]
        if self.left:
            later += [one for one in here if graph_of(one.run_id) in self.left]
        self._leave(later)
        unfinished = [
            one
            for one in here
            if one.run_id in self._places and graph_of(one.run_id) not in self.left
        ]
        self._leave(
            [
                MemberOutcome(one.run_id, one.status, place=self._places.pop(one.run_id))
                for one in unfinished
            ]
        )

    def _leave(self, news: Sequence[MemberOutcome]) -> None:
        """Leave ends to the next transaction."""
        rows: list[dict[str, object]] = [
            {
                "graph_id": graph_of(one.run_id),
                "run_id": one.run_id,
                "status": one.status,
                "at": self.tx.now,
                "place": one.place,
            }
            for one in news
        ]
        self.tx.many("insert_news", rows)
        if any(graph_of(one.run_id) not in self.left for one in news):
            self.tx.hints.graphs = True

    def _look_below(self, news: Sequence[MemberOutcome]) -> dict[str, MemberState]:
        """Return how members stand that have ended, as far as their graph knows; keep what is below
        them."""
        run_ids = [one.run_id for one in news]
        self._below, self._free, states = {run_id: [] for run_id in run_ids}, {}, {}
        self._looked_at, self._places = set(run_ids), {}
        rows: list[Row] = []
        begun = any(one.place is not None for one in news)
        if not begun:
            rows = self.ask("ends_below", ids=self.tx.as_list(run_ids), limit=LINKS + 1)
        if begun or len(rows) > LINKS:
            return self._page_below(news)
        for row in rows:
            # A damaged state must not pass for that of a member whose end was heard of.
            states[row["upstream"]] = state_of(row["own_state"], row["upstream"])
            if row["own_missing"] and states[row["upstream"]] is MemberState.STARTED:
                self._looked_at.discard(
                    row["upstream"]
                )  # its previous end is still being taken back
                self._below.pop(row["upstream"], None)
                continue
            if row["run_id"] is not None:
                self._below[row["upstream"]].append(row)
            if row["spec"] is not None:
                self._free[row["run_id"]] = row
        return states

    def _page_below(self, news: Sequence[MemberOutcome]) -> dict[str, MemberState]:
        """The same for members with very many dependents: as many of these as one transaction
        settles."""
        self._below, self._looked_at, room = {}, set(), min(LINKS, PORTION)
        counts = {
            row["upstream"]: row["links"]
            for row in self.ask("count_links", ids=self.tx.as_list([one.run_id for one in news]))
        }
        whole: list[str] = []
        for one in news:
            if room <= 0:
                break
            links = counts.get(one.run_id, 0)
            if one.place is None and links <= room:
                whole.append(one.run_id)
                self._below[one.run_id] = []
            else:
                links = self._page(one, room)
            self._looked_at.add(one.run_id)
            room -= max(links, 1)
        # Together: most of very many ends have few dependents, and one statement for each would
        # take longer than all the rest.
        for row in self.ask("links_below", ids=self.tx.as_list(whole), limit=ALL) if whole else ():
            self._below[row["upstream"]].append(row)
        rows = self.ask("states_of_members", ids=self.tx.as_list(sorted(self._looked_at)))
        for row in rows:
            if row["missing"] and row["state"] == MemberState.STARTED:
                self._looked_at.discard(row["run_id"])  # its previous end is still being taken back
                self._below.pop(row["run_id"])
                self._places.pop(row["run_id"], None)
        return {row["run_id"]: STATES[row["state"]] for row in rows}

    def _page(self, one: MemberOutcome, room: int) -> int:
        """Keep the next links below a member that has ended; return how many."""
        rows = self.ask("links_page", upstream=one.run_id, after=one.place or "", limit=room + 1)
        if len(rows) > room:
            rows = rows[:room]
            self._places[one.run_id] = rows[-1]["run_id"]
        self._below[one.run_id] = rows
        return len(rows)

    # Deciding

    def proceed(
        self,
        ends: Mapping[str, MemberState],
        notes: Mapping[str, str] | None = None,
        decided: Sequence[GroupRecord] = (),
        begun: Collection[str] = (),
    ) -> None:
        """Write these ends and all that they lead to, and what becomes of the rest of groups that
        were decided. Ends that were *begun* are written, and only lead to more."""
        told = dict(notes or {})
        while ends or decided:
            outcome, runs, failed = self._decide(ends, decided)
            self._below = {}
            here = self._here(ends)
            self._end(
                {run_id: state for run_id, state in here.items() if run_id not in begun}
                if begun
                else here,
                told,
            )
            self._write(outcome)
            self._postpone(outcome)
            failed |= self.start(runs)
            ends, told, decided, begun = dict.fromkeys(failed, MemberState.FAILED), failed, (), ()
            if ends:
                self.write()  # what ends now was noted to wait, or to have started

    def _decide(
        self, ends: Mapping[str, MemberState], decided: Sequence[GroupRecord]
    ) -> tuple[ResolutionOutcome, list[NewRun], dict[str, str]]:
        """Decide, and make the inputs of whoever starts before anything is written; what cannot be
        settled here is left out."""
        while True:
            outcome = Resolver(self._downward, self._upward, LINKS).resolve(
                self._here(ends), decided
            )
            known = len(self.left)
            runs, failed = self.composed(outcome.starts[: self.room])
            if len(self.left) == known:
                return outcome, runs, failed

    def _postpone(self, outcome: ResolutionOutcome) -> None:
        """Leave to the next transaction what is too much for this one."""
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
        """Return the ends of those whose graphs can be settled here."""
        return (
            {run_id: state for run_id, state in ends.items() if graph_of(run_id) not in self.left}
            if self.left
            else ends
        )

    def _downward(self, run_ids: Sequence[str], limit: int | None) -> list[Link]:
        if all(run_id in self._below for run_id in run_ids):
            rows = [row for run_id in run_ids for row in self._below[run_id]]
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
            group.state = (
                GroupState.IMPOSSIBLE
            )  # nobody waits any more: what ends there decides nothing, and stops nobody
        return Link(
            row["upstream"], group, state_of(row["member_state"], group.run_id), row["missing"]
        )

    def _upward(self, run_id: str, number: int) -> list[Upstream]:
        """Return those whom a group waits for that have not ended, or the first of very many: the
        others come later."""
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
            note, asked = notes.get(run_id), self._asked.pop(run_id, None) if self._asked else None
            row: dict[str, object] = {
                "run_id": run_id,
                "state": state.value,
                "now": self.tx.now,
                "note": note or asked,
            }
            rows[asked is not None].append(row)
            data: dict[str, str] = (
                {"state": state.value} if note is None else {"state": state.value, "why": note}
            )
            self.trail.add(
                graph,
                "member_skipped" if state is MemberState.SKIPPED else kind,
                name_of(run_id),
                data,
            )
        self._note("end_member", rows[False])
        self._note("stop_member", rows[True])

    def _write(self, outcome: ResolutionOutcome) -> None:
        going = set(outcome.starts[: self.room])
        self._note(
            "save_group",
            [
                {
                    "run_id": one.run_id,
                    "number": one.number,
                    "done": one.done,
                    "lost": one.lost,
                    "state": one.state.value,
                }
                for one in outcome.groups.values()
            ],
        )
        self._note(
            "save_missing",
            [
                {"run_id": run_id, "missing": missing}
                for run_id, missing in outcome.missing.items()
                if run_id not in going
            ],
        )
        for group in outcome.decided:
            if group.total > 1:
                self._tell(group)
        self._end(dict.fromkeys(outcome.skips, MemberState.SKIPPED), outcome.skips)
        self._end(
            dict.fromkeys(outcome.cancels, MemberState.CANCELLED),
            outcome.cancels,
            "member_cancelled",
        )
        self.stop(outcome.stops)

    def cancel_waiting(self, graph: GraphRecord, run_ids: Sequence[str], note: str) -> None:
        """Cancel members that wait. Whoever waits for them is cancelled as well, so that it decides
        nothing."""
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
        self._note("end_member", ends)
        counts = self.ask("edges_below", ids=self.tx.as_list(run_ids))
        self.tx.many("lose_some", [dict(row) for row in counts])
        self.tx.many("close_groups", [{"run_id": run_id} for run_id in run_ids])

    def _tell(self, group: GroupRecord) -> None:
        """Say that a group is decided."""
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
        """Ask members that were started to stop, and note that they were."""
        if not reasons:
            return
        stop_runs(self.tx, reasons)
        gone = {one.run_id for one in self.tx.news}
        self._asked.update(
            (run_id, why) for run_id, why in reasons.items() if run_id in gone
        )  # written with their ends
        self._note(
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
        """Return those of new members that start in this transaction; the others start in the next
        ones."""
        here = ready[: self.room]
        self.room -= len(here)
        for graph_id in {member.graph_id for member in ready[len(here) :]}:
            self.leave_over(graph_id, START)
        return here

    def composed(self, run_ids: Sequence[str]) -> tuple[list[NewRun], dict[str, str]]:
        """Return the runs of members that are to start, and those that cannot, with why."""
        if not run_ids:
            return [], {}
        known = [self._free[run_id] for run_id in run_ids if run_id in self._free]
        others = [run_id for run_id in run_ids if run_id not in self._free]
        rows = [*known, *(self.ask("members_by_id", ids=self.tx.as_list(others)) if others else [])]
        return self.runs_of(
            [(row["run_id"], bytes(row["spec"]), bytes(row["input"])) for row in rows]
        )

    def runs_of(
        self, members: Sequence[tuple[str, bytes, bytes]]
    ) -> tuple[list[NewRun], dict[str, str]]:
        """The same for members that were read already: their ids, what they are started with, their
        inputs."""
        specs = [spec_of(run_id, spec) for run_id, spec, _ in members]
        takes = [
            sources_of(run_id, spec) for (run_id, _, _), spec in zip(members, specs, strict=True)
        ]
        self._read_results({found for one in takes for found in one})
        runs, failed = [], {}
        for (run_id, _, given), spec, names in zip(members, specs, takes, strict=True):
            taken = {
                name: (found, self._results[found])
                for found, name in names.items()
                if found in self._results
            }
            try:
                data, payloads = self._compose(run_id, given, taken, self._fetch)
            except KeyMissing as missing:
                if self._strict:
                    raise
                self.left[graph_of(run_id) or ""] = str(missing)
                continue
            except HoldfastError as broken:
                failed[run_id] = f"its input cannot be made: {broken}"
                continue
            runs.append(self._new_run(run_id, spec, data, payloads))
        return runs, failed

    def _fetch(self, digest: bytes) -> Payload | None:
        return fetch(self.tx.rows, digest)

    def _read_results(self, run_ids: Iterable[str]) -> None:
        """Read the results that are taken, but those that came with the news."""
        unknown = sorted(run_id for run_id in run_ids if run_id not in self._results)
        rows = self.tx.rows("results_by_id", ids=self.tx.as_list(unknown)) if unknown else []
        found = {
            row["id"]: bytes(row["result"] or b"null")
            for row in rows
            if row["status"] == Status.COMPLETED
        }
        self._results.update(found)

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
            payloads=tuple(payloads),
        )

    def _session(self, route: Route) -> str | None:
        """Return the session to which the next run of that route can be born leased."""
        return None if self._lease is None else self._lease(route)

    def start(self, runs: Sequence[NewRun], *, fresh: bool = False) -> dict[str, str]:
        """Start the runs of members; return those that cannot be, with why. Members that are
        *fresh* are written as started."""
        if not runs:
            return {}
        there = self._there([run.id for run in runs])
        failed = dict.fromkeys(there, "there is another run with its id")
        ready = [run for run in runs if run.id not in there]
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
            self._note(
                "start_member",
                [{"run_id": run.id, "now": self.tx.now, "empty": b""} for run, _ in answers],
            )
        for run, _ in answers:
            self.trail.add(self.graph(run.id), "member_started", name_of(run.id))
        return failed

    def _there(self, run_ids: Sequence[str]) -> set[str]:
        """Return those of the ids that a run has already."""
        unknown = [run_id for run_id in run_ids if run_id not in self._free]
        found = {
            run_id for run_id in run_ids if run_id in self._free and self._free[run_id]["there"]
        }
        return found | (
            {row["id"] for row in self.tx.rows("runs_there", ids=self.tx.as_list(unknown))}
            if unknown
            else set()
        )

    def _start_alone(self, run: NewRun, failed: dict[str, str]) -> Started | None:
        try:
            return start_runs(self.tx, StartRuns([run]))[0]
        except BudgetNotFound as missing:  # before anything was written
            failed[run.id] = str(missing)
            return None

    # Going on

    def leave_over(
        self, graph_id: str, kind: str, run_id: str | None = None, place: str | None = None
    ) -> None:
        """Leave some work of a graph to the next transaction."""
        rest = (graph_id, kind, run_id, place)
        if run_id is not None or rest not in self._left_over:
            self._left_over.append(rest)

    # Ending

    def touch(self, graph: GraphRecord) -> None:
        """See to it that the graph is written at the end, and not only its counts."""
        self._touched.add(graph.id)
        self._changed.add(graph.id)

    def finish(self) -> None:
        """Hear what this transaction has brought, write the graphs, end those of which no member is
        left."""
        self.hear()
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
        self._note("save_graph", [saved(graph) for graph in touched if graph.id in changed])
        self._note("count_graph", [counted(graph) for graph in touched if graph.id not in changed])
        self._note("insert_graph_event", self.trail.take())
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
                continue  # members that were skipped will wait again
            graph.summary = msgspec.json.encode(counts[graph.id], order="sorted")
            if graph.status not in OPEN_GRAPHS:
                continue  # it was cancelled alone, and the last of what went on has ended
            graph.status = ending(last[graph.id], cancelled=graph.status is GraphStatus.CANCELLING)
            graph.finished_at = self.tx.now
            self.trail.add(graph, f"graph_{graph.status.value}", data=counts[graph.id])
            self.tx.hints.finished.add(graph.id)
