"""What the ends of members lead to, written: the core decides, here it is loaded and saved, for many graphs at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

import msgspec

from holdfast.core.graphs.records import (
    OPEN_GRAPHS,
    CancelPolicy,
    Graph,
    GraphStatus,
    Group,
    MemberState,
    Spec,
    graph_of,
    name_of,
    run_of,
)
from holdfast.core.graphs.settling import Link, Outcome, Settling, Upstream
from holdfast.core.graphs.structure import ending
from holdfast.core.records import NewRun, Payload, Route
from holdfast.core.status import Status
from holdfast.errors import BudgetNotFound, HoldfastError, KeyMissing
from holdfast.store import contract as c
from holdfast.store.transitions.graphs.rows import Trail, counted, graph_from, group_from, saved
from holdfast.store.transitions.payloads import fetch
from holdfast.store.transitions.starting import start_runs
from holdfast.store.transitions.stopping import stop_runs
from holdfast.store.transitions.transaction import Row, Transaction

CANCEL = "cancel"
"""The news that a cancel is not through."""

PORTION = 1000
"""How many members are asked to stop in one transaction."""

_spec = lru_cache(1000)(msgspec.json.Decoder(Spec).decode)
"""Members of graphs that are alike are started with the same."""

_STATES = {state.value: state for state in MemberState}


def settle_graphs(tx: Transaction, op: c.SettleGraphs) -> c.Settled:
    """Do what is to be done about the ends of this very transaction or, if there are none, about the oldest news."""
    if tx.news:
        here = _opened(tx, {graph_of(one.run_id) or "" for one in tx.news}, op.compose, op.lease)
        here.finish()
        return c.Settled(here.born, more=False, left=here.left)
    news = tx.rows("graph_news", limit=op.limit)
    tx.hints.graphs = False
    work = settle_news(tx, news, op.compose, op.lease)
    if work is None:
        return c.Settled([], more=False)
    tx.hints.graphs |= len(news) == op.limit and not work.left  # what is left stays until somebody can settle it
    return c.Settled(work.born, more=tx.hints.graphs, left=work.left)


def settle_news(tx: Transaction, news: Sequence[dict[str, object]], compose: c.Compose, lease: c.Lease | None) -> Work | None:
    """Settle these news. The graphs are locked first, then the news taken: those that somebody else has taken meanwhile are
    settled. News of graphs that are gone go, too."""
    if not news:
        return None
    work = _opened(tx, {str(row["graph_id"]) for row in news}, compose, lease)
    taken = {row["id"] for row in tx.rows("take_news", ids=tx.as_list([row["id"] for row in news]))}
    news = [row for row in news if row["id"] in taken]
    work.settle([c.News(str(row["run_id"]), str(row["status"])) for row in news if row["run_id"] is not None])
    for graph_id in {str(row["graph_id"]) for row in news if row["status"] == CANCEL and row["run_id"] is None}:
        if graph_id in work.graphs:
            go_on_cancelling(work, work.graphs[graph_id])
    work.finish()
    return work


def _opened(tx: Transaction, graph_ids: Iterable[str], compose: c.Compose, lease: c.Lease | None) -> Work:
    wanted = sorted(graph_ids)
    known, tx.graphs = tx.graphs, {}
    found = list(map(known.get, wanted)) if known.keys() >= set(wanted) else tx.rows("graphs_to_settle", ids=tx.as_list(wanted))
    return Work(tx, [graph_from(row) for row in found], compose, lease, strict=False)


class Work:
    """What is done to graphs in one transaction."""

    def __init__(
        self, tx: Transaction, graphs: Iterable[Graph], compose: c.Compose, lease: c.Lease | None, *, strict: bool = True
    ) -> None:
        self.tx, self._compose, self._lease, self._strict = tx, compose, lease, strict
        self.graphs = {graph.id: graph for graph in graphs}
        self.trail = Trail(tx)
        self.born: list[c.Born] = []
        self.left: dict[str, str] = {}
        """The graphs that cannot be settled here, and why."""
        self._touched: set[str] = set()
        self._changed: set[str] = set()
        self._results: dict[str, bytes] = {}
        self._below: dict[str, list[Row]] = {}
        """The edges below members that have just ended: read once, with what their dependents are started with."""
        self._free: dict[str, Row] = {}
        self._asked: dict[str, str] = {}
        """Who was asked to stop, and did so at once."""
        self._leases: dict[Route, str | None] = {}
        self._noted: dict[str, list[dict[str, object]]] = {}

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

    def graph(self, run_id: str) -> Graph:
        """Return the graph of a member; it is written at the end."""
        graph_id = graph_of(run_id) or ""
        self._touched.add(graph_id)
        return self.graphs[graph_id]

    # Hearing

    def hear(self) -> None:
        """Settle what members of these graphs came to in this transaction, and what that leads to."""
        while mine := [one for one in self.tx.news if graph_of(one.run_id) in self.graphs]:
            others = len(mine) < len(self.tx.news)
            self.tx.news = [one for one in self.tx.news if graph_of(one.run_id) not in self.graphs] if others else []
            self.settle(mine)

    def settle(self, news: Sequence[c.News]) -> None:
        """Settle these ends; those of graphs that cannot go on here are left for somebody who can."""
        if not news:
            return
        states = self._look_below([one.run_id for one in news])
        self._results.update((one.run_id, one.result) for one in news if one.result is not None)
        started = [one for one in news if states.get(one.run_id) == MemberState.STARTED]
        self.proceed({one.run_id: _STATES[one.status] for one in started})
        left = [one for one in started if graph_of(one.run_id) in self.left] if self.left else []
        self.tx.many("insert_news", [
            {"graph_id": graph_of(one.run_id), "run_id": one.run_id, "status": one.status, "at": self.tx.now} for one in left
        ])  # fmt: skip

    def _look_below(self, run_ids: Sequence[str]) -> dict[str, str]:
        """Return how members stand that have ended, as far as their graph knows; keep what is below them."""
        self._below, self._free, states = {run_id: [] for run_id in run_ids}, {}, {}
        for row in self.ask("ends_below", ids=self.tx.as_list(run_ids)):
            states[row["upstream"]] = row["own_state"]
            if row["run_id"] is not None:
                self._below[row["upstream"]].append(row)
            if row["spec"] is not None:
                self._free[row["run_id"]] = row
        return states

    # Deciding

    def proceed(
        self, ends: Mapping[str, MemberState], notes: Mapping[str, str] | None = None, decided: Sequence[Group] = ()
    ) -> None:
        """Write these ends and all that they lead to, and what becomes of the rest of groups that were decided."""
        told = dict(notes or {})
        while ends or decided:
            outcome, runs, failed = self._decide(ends, decided)
            self._below = {}
            self._end(self._here(ends), told)
            self._write(outcome)
            failed |= self.start(runs)
            ends, told, decided = dict.fromkeys(failed, MemberState.FAILED), failed, ()
            if ends:
                self.write()  # what ends now was noted to wait, or to have started

    def _decide(self, ends: Mapping[str, MemberState], decided: Sequence[Group]) -> tuple[Outcome, list[NewRun], dict[str, str]]:
        """Decide, and make the inputs of whoever starts before anything is written; what cannot be settled here is left out."""
        while True:
            outcome = Settling(self._downward, self._upward).settle(self._here(ends), decided)
            known = len(self.left)
            runs, failed = self.composed(outcome.starts)
            if len(self.left) == known:
                return outcome, runs, failed

    def _here(self, ends: Mapping[str, MemberState]) -> Mapping[str, MemberState]:
        """Return the ends of those whose graphs can be settled here."""
        return {run_id: state for run_id, state in ends.items() if graph_of(run_id) not in self.left} if self.left else ends

    def _downward(self, run_ids: Sequence[str]) -> list[Link]:
        if all(run_id in self._below for run_id in run_ids):
            rows = [row for run_id in run_ids for row in self._below[run_id]]
        else:
            rows = self.ask("links_below", ids=self.tx.as_list(run_ids))
        return [Link(row["upstream"], group_from(row), _STATES[row["member_state"]], row["missing"]) for row in rows]

    def _upward(self, run_id: str, number: int) -> list[Upstream]:
        rows = self.ask("upstreams_of_group", run_id=run_id, number=number)
        return [Upstream(row["run_id"], _STATES[row["state"]]) for row in rows]

    # Writing

    def _end(self, ends: Mapping[str, MemberState], notes: Mapping[str, str], kind: str = "member_ended") -> None:
        rows: dict[bool, list[dict[str, object]]] = {False: [], True: []}
        for run_id, state in ends.items():
            graph = self.graph(run_id)
            graph.live -= 1
            note, asked = notes.get(run_id), self._asked.pop(run_id, None) if self._asked else None
            row: dict[str, object] = {"run_id": run_id, "state": state.value, "now": self.tx.now, "note": note or asked}
            rows[asked is not None].append(row)
            data: dict[str, str] = {"state": state.value} if note is None else {"state": state.value, "why": note}
            self.trail.add(graph, "member_skipped" if state is MemberState.SKIPPED else kind, name_of(run_id), data)
        self._note("end_member", rows[False])
        self._note("stop_member", rows[True])

    def _write(self, outcome: Outcome) -> None:
        going = set(outcome.starts)
        self._note("save_group", [
            {"run_id": one.run_id, "number": one.number, "done": one.done, "lost": one.lost, "state": one.state.value}
            for one in outcome.groups.values()
        ])  # fmt: skip
        self._note("save_missing", [
            {"run_id": run_id, "missing": missing} for run_id, missing in outcome.missing.items() if run_id not in going
        ])  # fmt: skip
        for group in outcome.decided:
            if group.total > 1:
                self._tell(group)
        self._end(dict.fromkeys(outcome.skips, MemberState.SKIPPED), outcome.skips)
        self._end(dict.fromkeys(outcome.cancels, MemberState.CANCELLED), outcome.cancels, "member_cancelled")
        self.stop(outcome.stops)

    def _tell(self, group: Group) -> None:
        """Say that a group is decided."""
        data = {"group": group.number, "need": group.need, "of": group.total, "completed": group.done}
        self.trail.add(self.graph(group.run_id), f"group_{group.state.value}", name_of(group.run_id), data)

    def stop(self, reasons: Mapping[str, str]) -> None:
        """Ask members that were started to stop, and note that they were."""
        if not reasons:
            return
        stop_runs(self.tx, reasons)
        gone = {one.run_id for one in self.tx.news}
        self._asked.update((run_id, why) for run_id, why in reasons.items() if run_id in gone)  # written with their ends
        self._note("ask_member", [
            {"run_id": run_id, "now": self.tx.now, "note": why} for run_id, why in reasons.items() if run_id not in gone
        ])  # fmt: skip
        for run_id in reasons:
            self.trail.add(self.graph(run_id), "member_asked_to_stop", name_of(run_id))

    # Starting

    def composed(self, run_ids: Sequence[str]) -> tuple[list[NewRun], dict[str, str]]:
        """Return the runs of members that are to start, and those that cannot, with why."""
        if not run_ids:
            return [], {}
        known = [self._free[run_id] for run_id in run_ids if run_id in self._free]
        others = [run_id for run_id in run_ids if run_id not in self._free]
        rows = [*known, *(self.ask("members_by_id", ids=self.tx.as_list(others)) if others else [])]
        return self.runs_of([(row["run_id"], bytes(row["spec"]), bytes(row["input"])) for row in rows])

    def runs_of(self, members: Sequence[tuple[str, bytes, bytes]]) -> tuple[list[NewRun], dict[str, str]]:
        """The same for members that were read already: their ids, what they are started with, their inputs."""
        specs = [_spec(spec) for _, spec, _ in members]
        takes = [_sources(run_id, spec) for (run_id, _, _), spec in zip(members, specs, strict=True)]
        self._read_results({found for one in takes for found in one})
        runs, failed = [], {}
        for (run_id, _, given), spec, names in zip(members, specs, takes, strict=True):
            taken = {name: self._results[found] for found, name in names.items() if found in self._results}
            try:
                data, payloads = self._compose(given, taken, self._fetch)
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
        found = {row["id"]: bytes(row["result"] or b"null") for row in rows if row["status"] == Status.COMPLETED}
        self._results.update(found)

    def _new_run(self, run_id: str, spec: Spec, data: bytes, payloads: Sequence[Payload]) -> NewRun:
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
            policy=None if spec.policy is None else bytes(spec.policy),
            budgets=spec.budgets,
            limits=spec.limits,
            share=spec.share,
            payloads=tuple(payloads),
        )

    def _session(self, route: Route) -> str | None:
        """Return the session to which a run of that route can be born leased; asked once."""
        if self._lease is None:
            return None
        if route not in self._leases:
            self._leases[route] = self._lease(route)
        return self._leases[route]

    def start(self, runs: Sequence[NewRun], *, fresh: bool = False) -> dict[str, str]:
        """Start the runs of members; return those that cannot be, with why. Members that are *fresh* are written as started."""
        if not runs:
            return {}
        there = self._there([run.id for run in runs])
        failed = dict.fromkeys(there, "there is another run with its id")
        ready = [run for run in runs if run.id not in there]
        try:
            answers = list(zip(ready, start_runs(self.tx, c.StartRuns(ready)), strict=True)) if ready else []
        except BudgetNotFound:
            if self._strict:
                raise
            answers = [(run, answer) for run in ready if (answer := self._start_alone(run, failed)) is not None]
        self.born += [c.Born(run, answer) for run, answer in answers]
        if not fresh:
            self._note("start_member", [{"run_id": run.id, "now": self.tx.now, "empty": b""} for run, _ in answers])
        for run, _ in answers:
            self.trail.add(self.graph(run.id), "member_started", name_of(run.id))
        return failed

    def _there(self, run_ids: Sequence[str]) -> set[str]:
        """Return those of the ids that a run has already."""
        unknown = [run_id for run_id in run_ids if run_id not in self._free]
        found = {run_id for run_id in run_ids if run_id in self._free and self._free[run_id]["there"]}
        return found | ({row["id"] for row in self.tx.rows("runs_there", ids=self.tx.as_list(unknown))} if unknown else set())

    def _start_alone(self, run: NewRun, failed: dict[str, str]) -> c.Started | None:
        try:
            return start_runs(self.tx, c.StartRuns([run]))[0]
        except BudgetNotFound as missing:  # before anything was written
            failed[run.id] = str(missing)
            return None

    # Ending

    def touch(self, graph: Graph) -> None:
        """See to it that the graph is written at the end, and not only its counts."""
        self._touched.add(graph.id)
        self._changed.add(graph.id)

    def finish(self) -> None:
        """Hear what this transaction has brought, write the graphs, end those of which no member is left."""
        self.hear()
        touched = [self.graphs[graph_id] for graph_id in sorted(self._touched)]
        over = [graph for graph in touched if graph.live == 0 and graph.summary is None]
        if over:
            self._end_graphs(over)
        changed = self._changed | {graph.id for graph in over}
        self._note("save_graph", [saved(graph) for graph in touched if graph.id in changed])
        self._note("count_graph", [counted(graph) for graph in touched if graph.id not in changed])
        self._note("insert_graph_event", self.trail.take())
        self.write()

    def _end_graphs(self, over: Sequence[Graph]) -> None:
        counts: dict[str, dict[str, int]] = {graph.id: {} for graph in over}
        last: dict[str, list[str]] = {graph.id: [] for graph in over}
        for row in self.ask("counts_of_graphs", ids=self.tx.as_list([graph.id for graph in over])):
            counts[row["graph_id"]][row["state"]] = row["members"]
            last[row["graph_id"]] += [row["state"]] if row["last"] else []
        for graph in over:
            graph.summary = msgspec.json.encode(counts[graph.id], order="sorted")
            if graph.status not in OPEN_GRAPHS:
                continue  # it was cancelled alone, and the last of what went on has ended
            graph.status = ending(last[graph.id], cancelled=graph.status is GraphStatus.CANCELLING)
            graph.finished_at = self.tx.now
            self.trail.add(graph, f"graph_{graph.status.value}", data=counts[graph.id])
            self.tx.hints.finished.add(graph.id)


def _sources(run_id: str, spec: Spec) -> dict[str, str]:
    """Return whose results the input of a member has places for: the ids of their runs, and their names."""
    graph_id = graph_of(run_id) or ""
    return {run_of(graph_id, name): name for name in spec.takes}


def go_on_cancelling(work: Work, graph: Graph) -> None:
    """Ask the next portion to stop; leave a note when there are more."""
    if graph.status is not GraphStatus.CANCELLING:
        return
    tx, everybody = work.tx, graph.policy == CancelPolicy.ALL
    rows = work.ask("unasked_members", graph_id=graph.id, everybody=int(everybody), limit=PORTION)
    reason = f"its graph was cancelled: {graph.reason}"
    work.stop({row["run_id"]: reason for row in rows})
    if len(rows) == PORTION:
        tx.many("insert_news", [{"graph_id": graph.id, "run_id": None, "status": CANCEL, "at": tx.now}])
        tx.hints.graphs = True
