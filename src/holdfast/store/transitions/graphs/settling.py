"""What the ends of members lead to, written: the core decides, here it is loaded and saved, for many graphs at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from holdfast.core.graphs.records import (
    OPEN_GRAPHS,
    CancelPolicy,
    Graph,
    GraphStatus,
    Group,
    Member,
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
from holdfast.store.transitions.graphs.rows import Trail, graph_from, group_from, member_from, save_graphs
from holdfast.store.transitions.payloads import fetch
from holdfast.store.transitions.starting import start_runs
from holdfast.store.transitions.stopping import stop_runs
from holdfast.store.transitions.transaction import Transaction

CANCEL = "cancel"
"""The news that a cancel is not through."""

PORTION = 1000
"""How many members are asked to stop in one transaction."""

_spec = msgspec.json.Decoder(Spec)


def settle_graphs(tx: Transaction, op: c.SettleGraphs) -> c.Settled:
    """Do what is to be done about the oldest news, those of this very transaction among them."""
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
    found = tx.rows("graphs_to_settle", ids=tx.as_list(sorted({str(row["graph_id"]) for row in news})))
    work = Work(tx, [graph_from(row) for row in found], compose, lease, strict=False)
    taken = {row["id"] for row in tx.rows("take_news", ids=tx.as_list([row["id"] for row in news]))}
    news = [row for row in news if row["id"] in taken]
    ids = [str(row["run_id"]) for row in news if row["run_id"] is not None]
    states = {row["run_id"]: row["state"] for row in tx.rows("states_of_members", ids=tx.as_list(ids))} if ids else {}
    ends = {
        run_id: MemberState(str(row["status"]))
        for row in news
        if (run_id := str(row["run_id"])) in states and states[run_id] == MemberState.STARTED
    }
    work.proceed(ends)
    left = [row for row in news if row["graph_id"] in work.left]  # for somebody who can
    tx.many("insert_news", [{name: row[name] for name in ("graph_id", "run_id", "status", "at")} for row in left])
    for graph_id in {str(row["graph_id"]) for row in news if row["status"] == CANCEL and row["run_id"] is None}:
        if graph_id in work.graphs:
            go_on_cancelling(work, work.graphs[graph_id])
    work.finish()
    return work


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
        self._leases: dict[Route, str | None] = {}

    def graph(self, run_id: str) -> Graph:
        """Return the graph of a member; it is written at the end."""
        graph_id = graph_of(run_id) or ""
        self._touched.add(graph_id)
        return self.graphs[graph_id]

    # Deciding

    def proceed(
        self, ends: Mapping[str, MemberState], notes: Mapping[str, str] | None = None, decided: Sequence[Group] = ()
    ) -> None:
        """Write these ends and all that they lead to, and what becomes of the rest of groups that were decided."""
        told = dict(notes or {})
        while ends or decided:
            outcome, runs, failed = self._decide(ends, decided)
            self._end({run_id: state for run_id, state in ends.items() if graph_of(run_id) not in self.left}, told)
            self._write(outcome)
            failed |= self.start(runs)
            ends, told, decided = dict.fromkeys(failed, MemberState.FAILED), failed, ()

    def _decide(self, ends: Mapping[str, MemberState], decided: Sequence[Group]) -> tuple[Outcome, list[NewRun], dict[str, str]]:
        """Decide, and make the inputs of whoever starts before anything is written; what cannot be settled here is left out."""
        while True:
            here = {run_id: state for run_id, state in ends.items() if graph_of(run_id) not in self.left}
            outcome = Settling(self._downward, self._upward).settle(here, decided)
            known = len(self.left)
            runs, failed = self.composed(outcome.starts)
            if len(self.left) == known:
                return outcome, runs, failed

    def _downward(self, run_ids: Sequence[str]) -> list[Link]:
        rows = self.tx.rows("links_below", ids=self.tx.as_list(run_ids))
        return [Link(row["upstream"], group_from(row), MemberState(row["member_state"]), row["missing"]) for row in rows]

    def _upward(self, run_id: str, number: int) -> list[Upstream]:
        rows = self.tx.rows("upstreams_of_group", run_id=run_id, number=number)
        return [Upstream(row["run_id"], MemberState(row["state"])) for row in rows]

    # Writing

    def _end(self, ends: Mapping[str, MemberState], notes: Mapping[str, str], kind: str = "member_ended") -> None:
        rows: list[dict[str, object]] = []
        for run_id, state in ends.items():
            graph = self.graph(run_id)
            graph.live -= 1
            note = notes.get(run_id)
            rows.append({"run_id": run_id, "state": state.value, "now": self.tx.now, "note": note})
            data: dict[str, str] = {"state": state.value} if note is None else {"state": state.value, "why": note}
            self.trail.add(graph, "member_skipped" if state is MemberState.SKIPPED else kind, name_of(run_id), data)
        self.tx.many("end_member", rows)

    def _write(self, outcome: Outcome) -> None:
        tx, going = self.tx, set(outcome.starts)
        tx.many("save_group", [
            {"run_id": one.run_id, "number": one.number, "done": one.done, "lost": one.lost, "state": one.state.value}
            for one in outcome.groups.values()
        ])  # fmt: skip
        tx.many("save_missing", [
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
        self.tx.many("ask_member", [{"run_id": run_id, "now": self.tx.now, "note": why} for run_id, why in reasons.items()])
        for run_id in reasons:
            self.trail.add(self.graph(run_id), "member_asked_to_stop", name_of(run_id))

    # Starting

    def composed(self, run_ids: Sequence[str]) -> tuple[list[NewRun], dict[str, str]]:
        """Return the runs of members that are to start, and those that cannot, with why."""
        if not run_ids:
            return [], {}
        rows = self.tx.rows("members_by_id", ids=self.tx.as_list(run_ids))
        return self.runs_of([member_from(row) for row in rows])

    def runs_of(self, members: Sequence[Member]) -> tuple[list[NewRun], dict[str, str]]:
        """The same for members that were read already."""
        specs = {member.run_id: _spec.decode(member.spec) for member in members}
        wanted = {run_of(one.graph_id, name) for one in members for name in specs[one.run_id].takes}
        results = self._results(wanted) if wanted else {}
        runs, failed = [], {}
        for member in members:
            spec = specs[member.run_id]
            taken = {name: results[found] for name in spec.takes if (found := run_of(member.graph_id, name)) in results}
            try:
                data, payloads = self._compose(member.input, taken, lambda digest: fetch(self.tx.rows, digest))
            except KeyMissing as missing:
                if self._strict:
                    raise
                self.left[member.graph_id] = str(missing)
                continue
            except HoldfastError as broken:
                failed[member.run_id] = f"its input cannot be made: {broken}"
                continue
            runs.append(self._new_run(member.run_id, spec, data, payloads))
        return runs, failed

    def _results(self, run_ids: Iterable[str]) -> dict[str, bytes]:
        rows = self.tx.rows("results_by_id", ids=self.tx.as_list(sorted(run_ids)))
        return {row["id"]: bytes(row["result"] or b"null") for row in rows if row["status"] == Status.COMPLETED}

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
        there = {row["id"] for row in self.tx.rows("runs_there", ids=self.tx.as_list([run.id for run in runs]))}
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
            self.tx.many("start_member", [{"run_id": run.id, "now": self.tx.now, "empty": b""} for run, _ in answers])
        for run, _ in answers:
            self.trail.add(self.graph(run.id), "member_started", name_of(run.id))
        return failed

    def _start_alone(self, run: NewRun, failed: dict[str, str]) -> c.Started | None:
        try:
            return start_runs(self.tx, c.StartRuns([run]))[0]
        except BudgetNotFound as missing:  # before anything was written
            failed[run.id] = str(missing)
            return None

    # Ending

    def touch(self, graph: Graph) -> None:
        """See to it that the graph is written at the end."""
        self._touched.add(graph.id)

    def finish(self) -> None:
        """Write the graphs; end those of which no member is left."""
        touched = [self.graphs[graph_id] for graph_id in sorted(self._touched)]
        over = [graph for graph in touched if graph.live == 0 and graph.status in OPEN_GRAPHS]
        if over:
            self._end_graphs(over)
        save_graphs(self.tx, touched)
        self.trail.write()

    def _end_graphs(self, over: Sequence[Graph]) -> None:
        counts: dict[str, dict[str, int]] = {graph.id: {} for graph in over}
        last: dict[str, list[str]] = {graph.id: [] for graph in over}
        for row in self.tx.rows("counts_of_graphs", ids=self.tx.as_list([graph.id for graph in over])):
            counts[row["graph_id"]][row["state"]] = row["members"]
            last[row["graph_id"]] += [row["state"]] if row["last"] else []
        for graph in over:
            graph.status = ending(last[graph.id], cancelled=graph.status is GraphStatus.CANCELLING)
            graph.finished_at, graph.summary = self.tx.now, msgspec.json.encode(counts[graph.id], order="sorted")
            self.trail.add(graph, f"graph_{graph.status.value}", data=counts[graph.id])
            self.tx.hints.finished.add(graph.id)


def go_on_cancelling(work: Work, graph: Graph) -> None:
    """Ask the next portion to stop; leave a note when there are more."""
    if graph.status is not GraphStatus.CANCELLING:
        return
    tx, everybody = work.tx, graph.policy == CancelPolicy.ALL
    rows = tx.rows("unasked_members", graph_id=graph.id, everybody=int(everybody), limit=PORTION)
    reason = f"its graph was cancelled: {graph.reason}"
    work.stop({row["run_id"]: reason for row in rows})
    if len(rows) == PORTION:
        tx.many("insert_news", [{"graph_id": graph.id, "run_id": None, "status": CANCEL, "at": tx.now}])
        tx.hints.graphs = True
