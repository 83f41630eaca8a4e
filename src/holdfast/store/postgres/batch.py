"""One try to write a batch: what is simple travels together, the rest is applied one by one, all in
one transaction.

Any order of the transitions in a batch is as good as any other, for they are concurrent; only those
about one run keep theirs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import psycopg

from holdfast.core.graphs.model import graph_of
from holdfast.core.runs import Route
from holdfast.core.status import FINAL
from holdfast.errors import HoldfastError, RowDamaged, StoreError
from holdfast.store.contract import GateOperation, Operation
from holdfast.store.contract.budgets import ReserveBudget, SpendRunBudget
from holdfast.store.contract.graphs import ReplayMember, ResolvedGraphs, ResolveGraphs
from holdfast.store.contract.leases import (
    ClaimLeases,
    CompleteLeases,
    OverrideRun,
    RevokeLease,
    SetPriority,
)
from holdfast.store.contract.payloads import Reseal
from holdfast.store.contract.reading import Hints
from holdfast.store.contract.runs import (
    Advance,
    Claim,
    Prune,
    ReplayRun,
    ReplayRuns,
    RequestCancel,
    ResumeRun,
    SignalRun,
    StartRuns,
)
from holdfast.store.contract.streams import AppendFrames
from holdfast.store.contract.subscriptions import Consume
from holdfast.store.contract.waits import ReleaseWait
from holdfast.store.postgres import claim, prune
from holdfast.store.postgres.connection import Connection
from holdfast.store.postgres.dialect import as_list
from holdfast.store.postgres.errors import ConnectionLost, RetryTransaction, translated
from holdfast.store.postgres.planned_writes import (
    SPENDING,
    PlannedWrite,
    lanes_refused,
    notify_parents,
    plan_write,
    write,
)
from holdfast.store.postgres.transaction import PostgresTransaction
from holdfast.store.transitions import APPLY, may_refuse_late, write_outbox
from holdfast.store.transitions.graphs import resolve_graphs
from holdfast.store.transitions.streaming import append_all

_APPLY: dict[type, Callable[[Any, Any], Any]] = {
    **APPLY,
    Claim: claim.claim,
    ClaimLeases: claim.claim_leases,
    CompleteLeases: claim.complete_leases,
    Prune: prune.prune,
}
T = TypeVar("T")
_ABOUT_ONE = (SignalRun, RequestCancel, ResumeRun, ReplayRun, RevokeLease, SetPriority, OverrideRun)
_ORDER = (
    "insert_run",
    SPENDING,
    "append_guarded",
    "move_run",
    "release_run",
    "finish_run",
    "release_lease",
    "finish_lease",
)


class ResolutionFailed(Exception):
    """What the ends of members lead to could not be done: all is to be written anew without it, and
    others will see to it."""

    def __init__(self, op: ResolveGraphs, why: Exception) -> None:
        super().__init__(str(why))
        self.op, self.why = op, why


class BatchAttempt:
    """One try."""

    def __init__(
        self,
        db: Connection,
        ops: Sequence[Operation],
        now: int,
        routes: dict[Route, int],
        limited: set[str],
        *,
        drafts: bool = True,
    ) -> None:
        self._db, self.ops, self._routes, self._limited = db, ops, routes, limited
        self.tx = PostgresTransaction(db, now, routes)
        self.answers: dict[int, Any] = {}
        """What is decided, by the place of the transition."""
        self.drafts: dict[int, PlannedWrite] = {}
        self.slow: list[int] = []
        self.called: list[Operation] = []
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
            found = plan_write(op, self.tx.now, routes, taken, self._limited)
            if found is None:
                self.slow.append(place)
            else:
                self.drafts[place] = found
            taken.update(_written_by(op))

    @property
    def lends(self) -> bool:
        """Whether user code is called in the transaction."""
        return any(
            isinstance(op, Consume) or (type(op) is Advance and op.body is not None)
            for op in self.ops
        )

    def write(self) -> None:
        """Write all of it, in the transaction that is open."""
        self._learn_routes()
        self._lock_graphs()
        self._lock()
        for head in _ORDER:
            self._write_group(
                {place: one for place, one in self.drafts.items() if one.head == head}
            )
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
            write_outbox(self.tx)

    def _learn_routes(self) -> None:
        """Many runs of a workflow that was never started here: find its route once, and let them
        travel together after all."""
        new = Counter(
            route for place in self.slow for route in _new_routes(self.ops[place], self._routes)
        )
        if new.total() > 1:
            for route in new:
                self.tx.route_id(route)
            self.drafts, self.slow = {}, []
            self._draft({**self._routes, **self.tx.new_routes})

    def _append_frames(self) -> None:
        """Append the output of all runs together."""
        together = self._alike(AppendFrames)
        if together:
            self.answers.update(
                zip(together, append_all(self.tx, list(together.values())), strict=True)
            )

    def _complete_leases(self) -> None:
        """End together what several have completed."""
        together = self._alike(CompleteLeases)
        if together:
            self.answers.update(
                zip(together, claim.complete_all(self.tx, list(together.values())), strict=True)
            )

    def _alike(self, kind: type[T]) -> dict[int, T]:
        """Take out what can be done together, if there are several of a kind: not what is about
        runs of which the batch has more to say, for that keeps its order."""
        found = {place: op for place in self.slow if isinstance(op := self.ops[place], kind)}
        if len(found) < 2:
            return {}
        names = Counter(run_id for op in self.ops for run_id in _written_by(op))
        alike: dict[int, T] = {
            place: op
            for place, op in found.items()
            if all(names[run_id] == 1 for run_id in _written_by(op))
        }
        if len(alike) < 2:
            return {}
        self.slow = [place for place in self.slow if place not in alike]
        return alike

    def _lock_graphs(self) -> None:
        """Lock the graphs that hear of an end before any run: so do all who change both, and nobody
        waits for each other."""
        if not any(isinstance(self.ops[place], ResolveGraphs) for place in self.slow):
            return
        ended = {
            graph_of(op.run_id) or ""
            for op in self.ops
            if type(op) is Advance and op.status in FINAL
        } - {""}
        found = self.tx.rows("graphs_to_settle", ids=as_list(sorted(ended))) if ended else []
        if len(self.slow) == 1:  # only who settles them changes them
            self.tx.graphs = {row["id"]: row for row in found}

    def _lock(self) -> None:
        """Lock the runs that are known to be touched before any is touched, if there are several.
        Who only starts or claims waits for no run; and whoever settles graphs locks them, and then
        what it changes."""
        harmless = all(
            isinstance(self.ops[place], StartRuns | Claim | ResolveGraphs) for place in self.slow
        )
        if harmless and all(one.parent is None for one in self.drafts.values()):
            return
        if not self.drafts and all(isinstance(op, CompleteLeases | ClaimLeases) for op in self.ops):
            # what ends is locked in one statement, and what is claimed only if nobody has locked it
            return
        known = {run_id for op in self.ops for run_id in _touched_by(op)}
        if len(known) > 1:
            self.tx.rows("lock_runs", ids=as_list(sorted(known)))

    def _write_group(self, group: dict[int, PlannedWrite]) -> None:
        if not group:
            return
        places = list(group)
        passed = {places[number] for number in write(self._db, list(group.values()))}
        refused = [place for place in places if place not in passed]
        self.slow += refused
        self._limited.update(lanes_refused(group[place] for place in refused))
        extras: dict[str, list[dict[str, object]]] = {}
        for place in passed:
            self._pass(place)
            for query, values in group[place].extras:
                extras.setdefault(query, []).extend(values)
        for query, rows in extras.items():
            self.tx.many(query, rows)
        notify_parents(self.tx, [group[place] for place in passed])

    def _pass(self, place: int) -> None:
        self.answers[place] = self.drafts[place].answer
        self.tx.hints.add(self.drafts[place].hints)
        self.tx.news += self.drafts[place].news

    def _apply(self, place: int) -> Any:
        """Apply one transition; a refused one leaves nothing behind."""
        op = self.ops[place]
        if isinstance(op, ResolveGraphs):
            return self._settle(op)
        if may_refuse_late(op, self._routes):
            return self._apply_carefully(op)
        try:
            return _APPLY[type(op)](self.tx, op)
        except (StoreError, RowDamaged):
            raise
        except HoldfastError as refused:
            return refused

    def _settle(self, op: ResolveGraphs) -> ResolvedGraphs:
        """Settle graphs at the end of a transaction. That goes well, so there is nothing to go back
        to: two trips less."""
        try:
            return resolve_graphs(self.tx, op)
        except Exception as refused:
            raise_if_passing(refused)
            raise ResolutionFailed(op, refused) from refused

    def _apply_carefully(self, op: Operation) -> Any:
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
        """Apply the only transition there is: to refuse it, the whole transaction is rolled
        back."""
        op = self.ops[place]
        try:
            return _APPLY[type(op)](self.tx, op)
        except Exception as refused:
            raise_if_passing(refused)
            if not isinstance(refused, HoldfastError) and not may_refuse_late(op, self._routes):
                raise
            self.undone, self.tx.hints, self.tx.new_routes = True, Hints(), {}
            return refused


def raise_if_passing(error: Exception) -> None:
    """Raise what says nothing about the transition itself: that the store is in trouble, or that it
    must be tried again."""
    if isinstance(error, StoreError | RowDamaged | ConnectionLost | RetryTransaction):
        raise error
    if isinstance(error, psycopg.Error) and isinstance(
        again := translated(error, ""), RetryTransaction
    ):
        raise again from error


def _new_routes(op: Operation, known: dict[Route, int]) -> Iterator[Route]:
    """The route of a single start, if it is not known yet."""
    if isinstance(op, StartRuns) and len(op.runs) == 1 and op.runs[0].route not in known:
        yield op.runs[0].route


def _written_by(op: Operation) -> Iterator[str]:
    """The runs that a transition says it writes."""
    if isinstance(op, Advance | AppendFrames | SpendRunBudget | ReserveBudget):
        yield op.run_id
    elif isinstance(op, StartRuns):
        yield from (run.id for run in op.runs)
    elif isinstance(op, CompleteLeases):
        yield from (one.run_id for one in op.done)


def _touched_by(op: Operation) -> Iterator[str]:
    """The runs that exist and that a transition is known to touch."""
    if isinstance(op, Advance):
        yield op.run_id
        yield from (signal[0] for signal in op.signals)
        yield from (cancel[0] for cancel in op.cancels)
        if op.parent is not None:
            yield op.parent[0]
    elif isinstance(op, CompleteLeases):
        yield from (one.run_id for one in op.done)
    elif isinstance(op, ReplayRun):
        yield from op.runs()
    elif isinstance(op, ReplayRuns):
        yield from (run_id for replay in op.replays for run_id in replay.runs())
    elif isinstance(op, ReplayMember):
        yield from (run_id for replay in op.replays.values() for run_id in replay.runs())
    elif isinstance(
        op,
        AppendFrames
        | SignalRun
        | ReleaseWait
        | RequestCancel
        | ResumeRun
        | RevokeLease
        | SetPriority
        | OverrideRun
        | SpendRunBudget
        | ReserveBudget
        | Reseal
        | GateOperation,
    ):
        yield op.run_id
