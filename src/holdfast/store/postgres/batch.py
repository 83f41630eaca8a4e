"""One attempt to write a batch in one transaction: plans together, other operations one by one.

The operations of a batch are concurrent, so any order of them is correct; only operations on the
same run keep their order.

Lock order: names of messages, graphs by id, then runs by id.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import psycopg

from holdfast.core.messages import lock_number
from holdfast.core.runs import Route
from holdfast.core.status import FINAL
from holdfast.errors import HoldfastError, RowDamaged, StoreError
from holdfast.store.audit.operations import Audited
from holdfast.store.batch import APPLY, RestorePoint, needs_savepoint
from holdfast.store.budgets.operations import ReserveBudget, SpendRunBudget
from holdfast.store.database import Hints, Operation
from holdfast.store.gates.operations import (
    DecideGate,
    DelegateGate,
    ExpireGates,
    ReassignGate,
    UpdateGate,
    WithdrawGate,
)
from holdfast.store.graphs.operations import ReplayMember, ResolvedGraphs, ResolveGraphs
from holdfast.store.graphs.resolve import resolve_graphs
from holdfast.store.messages.operations import (
    CloseSubscription,
    InstructRun,
    OpenSubscription,
    PublishMessage,
    SendMessage,
    StartWithKept,
)
from holdfast.store.operations.operations import CarryOut
from holdfast.store.operations.verbs import runs_of
from holdfast.store.payloads.operations import Reseal
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
from holdfast.store.runs.operations import (
    Advance,
    Claim,
    Prune,
    ReplayRun,
    ReplayRuns,
    RequestCancel,
    ResumeRun,
    SetTags,
    StartRuns,
)
from holdfast.store.signals.operations import SignalRun
from holdfast.store.streams.apply import append_all
from holdfast.store.streams.operations import AppendFrames
from holdfast.store.subscriptions.operations import Consume
from holdfast.store.tasks.operations import (
    ClaimLeases,
    CompleteLeases,
    OverrideRun,
    RevokeLease,
    SetPriority,
)
from holdfast.store.waits.operations import ReleaseWait
from holdfast.store.wakeup import write_outbox

_APPLY: dict[type, Callable[[Any, Any], Any]] = {
    **APPLY,
    Claim: claim.claim,
    ClaimLeases: claim.claim_leases,
    CompleteLeases: claim.complete_leases,
    Prune: prune.prune,
}
T = TypeVar("T")
_NAMED = (OpenSubscription, CloseSubscription, SendMessage)
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
    """Graphs could not be resolved: the batch is retried without that, and other processes
    resolve them."""

    def __init__(self, op: ResolveGraphs, why: Exception) -> None:
        super().__init__(str(why))
        self.op = op
        self.why = why


class BatchAttempt:
    """One attempt to write a batch."""

    def __init__(
        self,
        db: Connection,
        ops: Sequence[Operation],
        now: int,
        routes: dict[Route, int],
        limited: set[str],
        *,
        plan: bool = True,
    ) -> None:
        self._db: Connection = db
        self.ops: Sequence[Operation] = ops
        self._routes: dict[Route, int] = routes
        self._limited: set[str] = limited
        self.tx = PostgresTransaction(db, now, routes)
        self.answers: dict[int, Any] = {}
        """The answers so far, by the index of the operation."""
        self.planned: dict[int, PlannedWrite] = {}
        self.unplanned: list[int] = []
        self.called: list[Operation] = []
        """The operations whose user code was called."""
        self.rolled_back = False
        """Whether the only operation was refused, so that there is nothing to commit."""
        if plan:
            self._plan(routes)
        else:
            self.unplanned = list(range(len(ops)))

    def _plan(self, routes: dict[Route, int]) -> None:
        taken: set[str] = set()
        for index, op in enumerate(self.ops):
            write = plan_write(op, self.tx.now, routes, taken, self._limited)
            if write is None:
                self.unplanned.append(index)
            else:
                self.planned[index] = write
            taken.update(_written_by(op))

    @property
    def lends(self) -> bool:
        """Return whether user code is called in the transaction."""
        return any(
            isinstance(op, Consume) or (type(op) is Advance and op.body is not None)
            for op in self.ops
        )

    def write(self) -> None:
        """Write everything, in the open transaction."""
        # Lock order of every batch: graphs by id, runs by id, then the rows below runs. So batches
        # of two processes that write the same runs wait for each other instead of deadlocking.
        self._learn_routes()
        self._lock_names()
        self._lock_graphs()
        self._lock()
        for head in _ORDER:
            self._write_group(
                {place: write for place, write in self.planned.items() if write.head == head}
            )
        self.planned = {}
        alone = len(self.ops) == 1
        # Before the single operations: these kinds are frequent, and one statement serves all of
        # them.
        self._append_frames()
        self._complete_leases()
        for place in sorted(self.unplanned):
            calls = self.tx.calls
            try:
                self.answers[place] = self._apply_alone(place) if alone else self._apply(place)
            finally:
                if self.tx.calls != calls:
                    self.called.append(self.ops[place])
        if self.tx.member_outcomes and not self.rolled_back:
            write_outbox(self.tx)

    def _learn_routes(self) -> None:
        """Create the routes of several new runs once, so that their starts can be planned after
        all."""
        new = Counter(
            route
            for place in self.unplanned
            for route in _new_routes(self.ops[place], self._routes)
        )
        # A single start creates its route itself. Several would all miss the plan, so it pays to
        # create their routes first and to plan again.
        if new.total() > 1:
            for route in new:
                self.tx.route_id(route)
            self.planned = {}
            self.unplanned = []
            self._plan({**self._routes, **self.tx.new_routes})

    def _append_frames(self) -> None:
        """Append the output of all runs together."""
        together = self._take_same_kind(AppendFrames)
        if together:
            self.answers.update(
                zip(together, append_all(self.tx, list(together.values())), strict=True)
            )

    def _complete_leases(self) -> None:
        """Complete the runs of several operations together."""
        together = self._take_same_kind(CompleteLeases)
        if together:
            self.answers.update(
                zip(together, claim.complete_all(self.tx, list(together.values())), strict=True)
            )

    def _take_same_kind(self, kind: type[T]) -> dict[int, T]:
        """Take out the operations of a kind that can be applied together, if there are several.

        Operations on a run that the batch also writes otherwise stay, to keep their order.
        """
        candidates = {
            place: op for place in self.unplanned if isinstance(op := self.ops[place], kind)
        }
        if len(candidates) < 2:
            return {}
        counts = Counter(run_id for op in self.ops for run_id in _written_by(op))
        alike: dict[int, T] = {
            place: op
            for place, op in candidates.items()
            if all(counts[run_id] == 1 for run_id in _written_by(op))
        }
        if len(alike) < 2:
            return {}
        self.unplanned = [place for place in self.unplanned if place not in alike]
        return alike

    def _lock_names(self) -> None:
        """Lock the names of messages before any run: a sender and a receiver that see neither the
        message nor the subscription of the other would miss each other."""
        names = {name for place in self.unplanned for name in _names_of(self.ops[place])}
        for number in sorted(map(lock_number, names)):
            self.tx.rows("lock_name", number=number)

    def _lock_graphs(self) -> None:
        """Lock the graphs of ended members before any run. Every writer of both uses this order."""
        if not any(isinstance(self.ops[place], ResolveGraphs) for place in self.unplanned):
            return
        ended = {
            op.graph_id
            for op in self.ops
            if type(op) is Advance and op.status in FINAL and op.graph_id is not None
        }
        graphs = self.tx.rows("lock_graphs", ids=as_list(sorted(ended))) if ended else []
        if len(self.unplanned) == 1:  # no other operation changes the graphs before they are used
            self.tx.graphs = {row["id"]: row for row in graphs}

    def _lock(self) -> None:
        """Lock the runs that are known to be written before any is written, in the order of their
        ids.

        Starts and claims wait for no run, and a resolution locks graphs first; if the batch has
        nothing else, this statement is saved.
        """
        harmless = all(
            isinstance(self.ops[place], StartRuns | Claim | ResolveGraphs)
            for place in self.unplanned
        )
        if harmless and all(write.parent is None for write in self.planned.values()):
            return
        if not self.planned and all(
            isinstance(op, CompleteLeases | ClaimLeases) for op in self.ops
        ):
            # Completions lock their runs in one statement, claims skip locked runs.
            return
        run_ids = {run_id for op in self.ops for run_id in _touched_by(op)}
        if len(run_ids) > 1:
            self.tx.rows("lock_runs", ids=as_list(sorted(run_ids)))

    def _write_group(self, group: dict[int, PlannedWrite]) -> None:
        if not group:
            return
        places = list(group)
        passed = {places[number] for number in write(self._db, list(group.values()))}
        refused = [place for place in places if place not in passed]
        # A guard does not say why it refused. The general way reads the run, and finds the reason.
        self.unplanned += refused
        self._limited.update(lanes_refused(group[place] for place in refused))
        extras: dict[str, list[dict[str, object]]] = {}
        for place in passed:
            self._accept(place)
            for query, values in group[place].extras:
                extras.setdefault(query, []).extend(values)
        for query, rows in extras.items():
            self.tx.many(query, rows)
        notify_parents(self.tx, [group[place] for place in passed])

    def _accept(self, place: int) -> None:
        self.answers[place] = self.planned[place].answer
        self.tx.hints.add(self.planned[place].hints)
        self.tx.member_outcomes += self.planned[place].member_outcomes

    def _apply(self, place: int) -> Any:
        """Apply one operation; a refused one leaves nothing behind."""
        op = self.ops[place]
        if isinstance(op, ResolveGraphs):
            return self._resolve_graphs(op)
        if needs_savepoint(op, self._routes):
            return self._apply_carefully(op)
        try:
            return _APPLY[type(op)](self.tx, op)
        except (StoreError, RowDamaged):
            raise
        except HoldfastError as refused:
            return refused

    def _resolve_graphs(self, op: ResolveGraphs) -> ResolvedGraphs:
        """Resolve graphs at the end of the transaction, without a savepoint.

        It rarely fails, so the two round trips of a savepoint are saved; a failure retries the
        batch.
        """
        try:
            return resolve_graphs(self.tx, op)
        except Exception as refused:
            raise_if_passing(refused)
            raise ResolutionFailed(op, refused) from refused

    def _apply_carefully(self, op: Operation) -> Any:
        tx = self.tx
        restore_point = RestorePoint(tx)
        self._db.execute("SAVEPOINT holdfast_op")
        try:
            answer = _APPLY[type(op)](tx, op)
        except Exception as refused:
            raise_if_passing(refused)
            self._db.script("ROLLBACK TO SAVEPOINT holdfast_op")
            restore_point.restore()
            answer = refused
        self._db.execute("RELEASE SAVEPOINT holdfast_op")
        return answer

    def _apply_alone(self, place: int) -> Any:
        """Apply the only operation. If it is refused, the whole transaction is rolled back."""
        op = self.ops[place]
        try:
            return _APPLY[type(op)](self.tx, op)
        except Exception as refused:
            raise_if_passing(refused)
            # An unexpected error of an operation that calls no user code is a fault, and must
            # surface.
            if not isinstance(refused, HoldfastError) and not needs_savepoint(op, self._routes):
                raise
            self.rolled_back = True
            # Nothing will be committed: hints and routes would describe rows that do not exist.
            self.tx.hints = Hints()
            self.tx.new_routes = {}
            return refused


def raise_if_passing(error: Exception) -> None:
    """Raise an error that is not about the operation itself: a failing store, or a retry."""
    if isinstance(error, StoreError | RowDamaged | ConnectionLost | RetryTransaction):
        raise error
    if isinstance(error, psycopg.Error) and isinstance(
        again := translated(error, ""), RetryTransaction
    ):
        raise again from error


def _names_of(op: Operation) -> Iterator[str]:
    """Yield the names of messages that an operation sends or subscribes to."""
    if isinstance(op, PublishMessage | StartWithKept):
        yield from op.names
    elif type(op) is Advance and op.effects:
        for effect in op.effects:
            if isinstance(effect, _NAMED):
                yield from effect.names


def _new_routes(op: Operation, known: dict[Route, int]) -> Iterator[Route]:
    """Yield the route of a single start, if it is not known yet."""
    if isinstance(op, StartRuns) and len(op.runs) == 1 and op.runs[0].route not in known:
        yield op.runs[0].route


def _written_by(op: Operation) -> Iterator[str]:
    """Yield the runs that an operation names as written."""
    if isinstance(op, Advance | AppendFrames | SpendRunBudget | ReserveBudget):
        yield op.run_id
    elif isinstance(op, StartRuns):
        yield from (run.id for run in op.runs)
    elif isinstance(op, CompleteLeases):
        yield from (completion.run_id for completion in op.done)


def _touched_by(op: Operation) -> Iterator[str]:
    """Yield the existing runs that an operation is known to write."""
    if isinstance(op, Advance):
        yield op.run_id
        for effect in op.effects:
            yield from effect.locks
    elif isinstance(op, CompleteLeases):
        yield from (completion.run_id for completion in op.done)
    elif isinstance(op, Audited):
        yield from () if op.op is None else _touched_by(op.op)
    elif isinstance(op, ReplayRun):
        yield from op.runs()
    elif isinstance(op, ReplayRuns):
        yield from (run_id for replay in op.replays for run_id in replay.runs())
    elif isinstance(op, ReplayMember):
        yield from (run_id for replay in op.replays.values() for run_id in replay.runs())
    elif isinstance(op, CarryOut):
        yield from (run_id for action in op.actions for run_id in runs_of(action))
    elif isinstance(
        op,
        AppendFrames
        | InstructRun
        | SignalRun
        | ReleaseWait
        | RequestCancel
        | ResumeRun
        | SetTags
        | RevokeLease
        | SetPriority
        | OverrideRun
        | SpendRunBudget
        | ReserveBudget
        | Reseal
        | DecideGate
        | DelegateGate
        | ReassignGate
        | UpdateGate
        | WithdrawGate
        | ExpireGates,
    ):
        yield op.run_id
