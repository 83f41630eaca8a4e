"""One try to write a batch: what is simple travels together, the rest is applied one by one, all in one transaction.

Any order of the transitions in a batch is as good as any other, for they are concurrent; only those about one run keep theirs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import psycopg

from holdfast.core.graphs.records import graph_of
from holdfast.core.records import Route
from holdfast.core.status import FINAL
from holdfast.errors import HoldfastError, RowDamaged, StoreError
from holdfast.store import contract as c
from holdfast.store.postgres import claiming, pruning
from holdfast.store.postgres.connection import Connection
from holdfast.store.postgres.drafts import SPENDING, Draft, draft, lanes_that_refused, tell_parents, write
from holdfast.store.postgres.sql import as_list
from holdfast.store.postgres.transaction import PostgresTransaction
from holdfast.store.postgres.trouble import Again, Lost, translated
from holdfast.store.transitions import APPLY, leave_news, may_refuse_late
from holdfast.store.transitions.graphs import settle_graphs
from holdfast.store.transitions.streaming import append_all

_APPLY: dict[type, Callable[[Any, Any], Any]] = {
    **APPLY,
    c.Claim: claiming.claim,
    c.ClaimLeases: claiming.claim_leases,
    c.CompleteLeases: claiming.complete_leases,
    c.Prune: pruning.prune,
}
T = TypeVar("T")
_ABOUT_ONE = (c.SignalRun, c.RequestCancel, c.ResumeRun, c.ReplayRun, c.RevokeLease, c.SetPriority, c.OverrideRun)
_ORDER = ("insert_run", SPENDING, "append_guarded", "move_run", "release_run", "finish_run", "release_lease", "finish_lease")


class Unsettled(Exception):
    """What the ends of members lead to could not be done: all is to be written anew without it, and others will see to it."""

    def __init__(self, op: c.SettleGraphs, why: Exception) -> None:
        super().__init__(str(why))
        self.op, self.why = op, why


class Attempt:
    """One try."""

    def __init__(
        self, db: Connection, ops: Sequence[c.Transition], now: int, routes: dict[Route, int], limited: set[str], *,
        drafts: bool = True,
    ) -> None:  # fmt: skip
        self._db, self.ops, self._routes, self._limited = db, ops, routes, limited
        self.tx = PostgresTransaction(db, now, routes)
        self.answers: dict[int, Any] = {}
        """What is decided, by the place of the transition."""
        self.drafts: dict[int, Draft] = {}
        self.slow: list[int] = []
        self.called: list[c.Transition] = []
        """The transitions whose user code was called."""
        self.undone = False
        """Whether the only one there is was refused, so that there is nothing to commit."""
        if drafts:
            self._draft(routes)
        else:
            self.slow = list(range(len(ops)))

    def _draft(self, routes: dict[Route, int]) -> None:
        taken: set[str] = set()
        for place, op in enumerate(self.ops):
            found = draft(op, self.tx.now, routes, taken, self._limited)
            if found is None:
                self.slow.append(place)
            else:
                self.drafts[place] = found
            taken.update(_written_by(op))

    @property
    def lends(self) -> bool:
        """Whether user code is called in the transaction."""
        return any(isinstance(op, c.Consume) or (type(op) is c.Advance and op.body is not None) for op in self.ops)

    def write(self) -> None:
        """Write all of it, in the transaction that is open."""
        self._learn_routes()
        self._lock_graphs()
        self._lock()
        for head in _ORDER:
            self._write_group({place: one for place, one in self.drafts.items() if one.head == head})
        self.drafts = {}
        alone = len(self.ops) == 1
        self._append_frames()
        self._complete_leases()
        for place in sorted(self.slow):
            calls = self.tx.calls
            try:
                self.answers[place] = self._apply_alone(place) if alone else self._apply(place)
            finally:
                if self.tx.calls != calls:
                    self.called.append(self.ops[place])
        if self.tx.news and not self.undone:
            leave_news(self.tx)

    def _learn_routes(self) -> None:
        """Many runs of a workflow that was never started here: find its route once, and let them travel together after all."""
        new = Counter(route for place in self.slow for route in _new_routes(self.ops[place], self._routes))
        if new.total() > 1:
            for route in new:
                self.tx.route_id(route)
            self.drafts, self.slow = {}, []
            self._draft({**self._routes, **self.tx.new_routes})

    def _append_frames(self) -> None:
        """Append the output of all runs together."""
        together = self._alike(c.AppendFrames)
        if together:
            self.answers.update(zip(together, append_all(self.tx, list(together.values())), strict=True))

    def _complete_leases(self) -> None:
        """End together what several have completed."""
        together = self._alike(c.CompleteLeases)
        if together:
            self.answers.update(zip(together, claiming.complete_all(self.tx, list(together.values())), strict=True))

    def _alike(self, kind: type[T]) -> dict[int, T]:
        """Take out what can be done together, if there are several of a kind: not what is about runs of which the batch has
        more to say, for that keeps its order."""
        found = {place: op for place in self.slow if isinstance(op := self.ops[place], kind)}
        if len(found) < 2:
            return {}
        names = Counter(run_id for op in self.ops for run_id in _written_by(op))
        alike: dict[int, T] = {place: op for place, op in found.items() if all(names[run_id] == 1 for run_id in _written_by(op))}
        if len(alike) < 2:
            return {}
        self.slow = [place for place in self.slow if place not in alike]
        return alike

    def _lock_graphs(self) -> None:
        """Lock the graphs that hear of an end before any run: so do all who change both, and nobody waits for each other."""
        if not any(isinstance(self.ops[place], c.SettleGraphs) for place in self.slow):
            return
        ended = {graph_of(op.run_id) or "" for op in self.ops if type(op) is c.Advance and op.status in FINAL} - {""}
        found = self.tx.rows("graphs_to_settle", ids=as_list(sorted(ended))) if ended else []
        if len(self.slow) == 1:  # only who settles them changes them
            self.tx.graphs = {row["id"]: row for row in found}

    def _lock(self) -> None:
        """Lock the runs that are known to be touched before any is touched, if there are several. Who only starts or claims
        waits for no run; and whoever settles graphs locks them, and then what it changes."""
        harmless = all(isinstance(self.ops[place], c.StartRuns | c.Claim | c.SettleGraphs) for place in self.slow)
        if harmless and all(one.parent is None for one in self.drafts.values()):
            return
        if not self.drafts and all(isinstance(op, c.CompleteLeases | c.ClaimLeases) for op in self.ops):
            return  # what ends is locked in one statement, and what is claimed only if nobody has locked it
        known = {run_id for op in self.ops for run_id in _touched_by(op)}
        if len(known) > 1:
            self.tx.rows("lock_runs", ids=as_list(sorted(known)))

    def _write_group(self, group: dict[int, Draft]) -> None:
        if not group:
            return
        places = list(group)
        passed = {places[number] for number in write(self._db, list(group.values()))}
        refused = [place for place in places if place not in passed]
        self.slow += refused
        self._limited.update(lanes_that_refused(group[place] for place in refused))
        extras: dict[str, list[dict[str, object]]] = {}
        for place in passed:
            self._pass(place)
            for query, values in group[place].extras:
                extras.setdefault(query, []).extend(values)
        for query, rows in extras.items():
            self.tx.many(query, rows)
        tell_parents(self.tx, [group[place] for place in passed])

    def _pass(self, place: int) -> None:
        self.answers[place] = self.drafts[place].answer
        self.tx.hints.add(self.drafts[place].hints)
        self.tx.news += self.drafts[place].news

    def _apply(self, place: int) -> Any:
        """Apply one transition; a refused one leaves nothing behind."""
        op = self.ops[place]
        if isinstance(op, c.SettleGraphs):
            return self._settle(op)
        if may_refuse_late(op, self._routes):
            return self._apply_carefully(op)
        try:
            return _APPLY[type(op)](self.tx, op)
        except (StoreError, RowDamaged):
            raise
        except HoldfastError as refused:
            return refused

    def _settle(self, op: c.SettleGraphs) -> c.Settled:
        """Settle graphs at the end of a transaction. That goes well, so there is nothing to go back to: two trips less."""
        try:
            return settle_graphs(self.tx, op)
        except Exception as refused:
            raise_if_passing(refused)
            raise Unsettled(op, refused) from refused

    def _apply_carefully(self, op: c.Transition) -> Any:
        tx = self.tx
        hints, news, routes = tx.hints.copy(), list(tx.news), dict(tx.new_routes)
        told = set(tx.told)
        self._db.say("SAVEPOINT holdfast_op")
        try:
            answer = _APPLY[type(op)](tx, op)
        except Exception as refused:
            raise_if_passing(refused)
            self._db.script("ROLLBACK TO SAVEPOINT holdfast_op")
            tx.hints, tx.news, tx.new_routes, answer = hints, news, routes, refused
            tx.told = told
        self._db.say("RELEASE SAVEPOINT holdfast_op")
        return answer

    def _apply_alone(self, place: int) -> Any:
        """Apply the only transition there is: to refuse it, the whole transaction is rolled back."""
        op = self.ops[place]
        try:
            return _APPLY[type(op)](self.tx, op)
        except Exception as refused:
            raise_if_passing(refused)
            if not isinstance(refused, HoldfastError) and not may_refuse_late(op, self._routes):
                raise
            self.undone, self.tx.hints, self.tx.new_routes = True, c.Hints(), {}
            return refused


def raise_if_passing(error: Exception) -> None:
    """Raise what says nothing about the transition itself: that the store is in trouble, or that it must be tried again."""
    if isinstance(error, StoreError | RowDamaged | Lost | Again):
        raise error
    if isinstance(error, psycopg.Error) and isinstance(again := translated(error, ""), Again):
        raise again from error


def _new_routes(op: c.Transition, known: dict[Route, int]) -> Iterator[Route]:
    """The route of a single start, if it is not known yet."""
    if isinstance(op, c.StartRuns) and len(op.runs) == 1 and op.runs[0].route not in known:
        yield op.runs[0].route


def _written_by(op: c.Transition) -> Iterator[str]:
    """The runs that a transition says it writes."""
    if isinstance(op, c.Advance | c.AppendFrames | c.Spend | c.Reserve):
        yield op.run_id
    elif isinstance(op, c.StartRuns):
        yield from (run.id for run in op.runs)
    elif isinstance(op, c.CompleteLeases):
        yield from (one.run_id for one in op.done)


def _touched_by(op: c.Transition) -> Iterator[str]:
    """The runs that exist and that a transition is known to touch."""
    if isinstance(op, c.Advance):
        yield op.run_id
        yield from (signal[0] for signal in op.signals)
        yield from (cancel[0] for cancel in op.cancels)
        if op.parent is not None:
            yield op.parent[0]
    elif isinstance(op, c.CompleteLeases):
        yield from (one.run_id for one in op.done)
    elif isinstance(op, c.ReplayRun):
        yield from op.runs()
    elif isinstance(op, c.ReplayRuns):
        yield from (run_id for replay in op.replays for run_id in replay.runs())
    elif isinstance(op, c.ReplayMember):
        yield from (run_id for replay in op.replays.values() for run_id in replay.runs())
    elif isinstance(
        op,
        c.AppendFrames
        | c.SignalRun
        | c.ReleaseWait
        | c.RequestCancel
        | c.ResumeRun
        | c.RevokeLease
        | c.SetPriority
        | c.OverrideRun
        | c.Spend
        | c.Reserve
        | c.Reseal
        | c.GateTransition,
    ):
        yield op.run_id
