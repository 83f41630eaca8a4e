"""The PostgreSQL store: one writing connection per process, a few for readers, one to listen.

A connection may be lost at any moment, even while it commits. Then a new one is opened, and before
anything is written again the outcome of the uncertain write is read: nothing is written twice, and
nothing that was answered is lost.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, suppress
from typing import TYPE_CHECKING, Any

import msgspec
import psycopg

from holdfast.core.runs import NewRun, Route
from holdfast.errors import BadOption, EngineClosed, StoreError, StoreReadOnly, StoreUnavailable
from holdfast.store import process_fork
from holdfast.store.batch import APPLY, CollectedHints, forget_missing_routes
from holdfast.store.clock import Clock
from holdfast.store.damage import DamageBypass
from holdfast.store.database import Database, Hints, Operation, ProcessLiveness, Started
from holdfast.store.instants import newest
from holdfast.store.postgres import address, claim, migrate
from holdfast.store.postgres.answers import RecordedAnswers, SuspectOperations
from holdfast.store.postgres.batch import BatchAttempt, ResolutionFailed
from holdfast.store.postgres.clock import DatabaseClock
from holdfast.store.postgres.commit_markers import CommitMarkers, delete_old
from holdfast.store.postgres.connection import Connection
from holdfast.store.postgres.dialect import CHANNEL, SQL
from holdfast.store.postgres.errors import (
    UNSENDABLE,
    ConnectionEnded,
    ConnectionLost,
    RetryTransaction,
    translate_error,
)
from holdfast.store.postgres.liveness import PostgresLiveness
from holdfast.store.postgres.notifier import Notifier
from holdfast.store.postgres.one_statement_signal import (
    Announcer,
    OutgoingSignal,
    insert_signal,
    outgoing_signal,
)
from holdfast.store.postgres.planned_writes import (
    PlannedWrite,
    lanes_refused,
    plan_write,
    write_autocommit,
)
from holdfast.store.postgres.reader import DIALECT, PostgresReader, PostgresSnapshot, info
from holdfast.store.postgres.reconnect import reconnect
from holdfast.store.postgres.uncertain_write import UncertainWrite
from holdfast.store.postgres.user_transaction import PostgresUserTransaction
from holdfast.store.runs.advance import guarded_row, is_one_event
from holdfast.store.runs.operations import Advanced, Claim, ClaimedRuns, StartRuns
from holdfast.store.runs.start import start_runs
from holdfast.store.tasks.operations import ClaimLeases

FORK_PATIENCE = 5.0
"""Seconds for which a fork waits for the end of a transaction."""


class PostgresDatabase:
    """A PostgreSQL database."""

    dialect = DIALECT
    overlaps_commits = True

    def __init__(
        self,
        url: str,
        *,
        clock: Clock | None = None,
        codec: str = "json",
        create: bool = True,
        listen: str | None = None,
        notify: bool | None = None,
    ) -> None:
        self.address = address.read(url, listen=listen, notify=notify)
        self.clock: Clock = clock or DatabaseClock()
        self._now: Callable[[], int] = self.clock.now
        self._reader = PostgresReader(self.address)
        self._damage = DamageBypass(self, self._only)
        self.url = self.address.shown
        self.commits = 0
        self._lock = threading.RLock()
        self._quiet = False
        self._routes: dict[Route, int] = {}
        self._limited: set[str] = set()
        """Lanes in which a new run could not be leased at once, since other processes last
        announced a change."""
        self._hints = CollectedHints()
        self.hints: Callable[[], Hints] = self._hints.take
        self._notifier = Notifier(self.address)
        self.liveness: ProcessLiveness = PostgresLiveness(self._reader, self._notifier)
        self._uncertain: UncertainWrite | None = None
        self._markers = CommitMarkers()
        self._expects_work = False
        """Whether the last claim of a remote worker found runs, or a change was announced since.
        Then the next claim does not check first whether there is work."""
        self._answers = RecordedAnswers()
        self._suspects = SuspectOperations()
        self._writer, self.identity = migrate.open_writer(
            self._reader.connect, codec, create=create
        )
        try:
            self._synchronise_clock()
        except BaseException as error:
            self._writer.close()
            if isinstance(error, ConnectionLost):
                raise StoreUnavailable(database=self.url, reason=str(error)) from error
            raise
        process_fork.watch(self)

    def _synchronise_clock(self) -> None:
        if isinstance(self.clock, DatabaseClock):
            self.clock.measure(self._writer, times=3)
        delete_old(self._writer, self._now())
        latest = self._writer.rows(SQL["newest"])[0]
        written = [latest[name] for name in ("event_at", "run_at", "beat_at")]
        self.clock.not_before(newest(written, self._now()))

    # Writing

    def apply(self, batch: Sequence[Operation]) -> list[Any]:
        """Apply all operations in one transaction, and return an answer for each."""
        self._reader.refuse_when_closed()
        # Answers are kept by the identity of the operation, so no object may occur twice.
        if len(batch) > 1 and len({id(op) for op in batch}) < len(batch):
            batch = [msgspec.structs.replace(op) for op in batch]
        with self._lock:
            try:
                return self._answered(batch)
            except (StoreError, EngineClosed, MemoryError):
                raise
            except Exception as error:
                if len(batch) == 1:
                    return [self._damage.apply(batch[0], error)]
            # Each alone: only the faulty operation is refused.
            return [self._apply_alone(op) for op in batch]

    def _only(self, op: Operation) -> Any:
        return self._answered([op])[0]

    def _apply_alone(self, op: Operation) -> Any:
        """Apply one operation of a batch of which one is faulty or meets a damaged row."""
        try:
            return self._only(op)
        except Exception as error:
            return self._damage.answer_to(op, error)

    def _answered(self, batch: Sequence[Operation]) -> list[Any]:
        try:
            self._reader.persist(lambda: self._write(self._answers.missing(batch)))
        except StoreReadOnly:
            self._writer.close()  # after a failover the next connection finds the new primary
            raise
        except UNSENDABLE as error:
            raise translate_error(error, batch[0]) from error
        finally:
            self._suspects.clear()
        return [translate_error(self._answers.pop(op), op) for op in batch]

    def _write(self, ops: Sequence[Operation]) -> None:
        """Try to write the operations, by the fastest way that applies, and record the answers."""
        db = self._connected()
        now = self._now()
        # After `_connected`: it may have found out that an uncertain write was committed.
        ops = self._answers.missing(ops)
        if not ops or (len(ops) == 1 and db.direct and self._append(db, ops[0], now)):
            return
        if self._nothing_to_claim(db, ops, now):
            return
        # Autocommitted statements need a direct connection: behind a pooler the old session cannot
        # be terminated, so an uncertain write might still be committed later.
        signal = outgoing_signal(ops, now) if db.direct else None
        if signal is not None and self._send_signal(db, signal):
            return
        simple = self._simple(ops, now) if db.direct else []
        if simple and self._write_one_statement(db, simple):
            return
        left = self._answers.missing(ops)
        # Each suspect in a transaction of its own, so that the operation that ends the connection
        # is found.
        for op in self._suspects.among(left):
            self._transact(db, BatchAttempt(db, [op], now, self._routes, self._limited))
        left = self._answers.missing(left)
        if left:
            self._transact(
                db, BatchAttempt(db, left, now, self._routes, self._limited, plan=not simple)
            )

    def _append(self, db: Connection, op: Operation, now: int) -> bool:
        """Write one event in one autocommitted statement, without a plan: a fast path for a step
        in sequence. Return whether it was written; if not, the general way tells why."""
        if not is_one_event(op):
            return False
        try:
            if not db.append(guarded_row(op, op.events[0], now)):
                return False
        except ConnectionLost:
            write = plan_write(op, now, self._routes, ())
            assert write is not None
            self._uncertain = UncertainWrite([write])
            raise
        self.commits += 1
        self._answers.record([(op, Advanced(now=now))])
        return True

    def _simple(self, ops: Sequence[Operation], now: int) -> list[PlannedWrite]:
        """Return plans for all of these operations, if one statement can write them; else
        nothing."""
        writes: list[PlannedWrite] = []
        taken: set[str] = set()
        for op in ops:
            write = plan_write(op, now, self._routes, taken, self._limited)
            # One statement has one head. Mixed kinds need a transaction.
            if write is None or not write.simple or (writes and write.head != writes[0].head):
                return []
            writes.append(write)
            taken.add(write.run_id)
        return writes

    def _nothing_to_claim(self, db: Connection, ops: Sequence[Operation], now: int) -> bool:
        """Answer claims without a transaction if there is nothing to claim, which is the usual
        case."""
        # The check costs a round trip, and while runs arrive it would be wasted.
        if self._expects_work and any(isinstance(op, ClaimLeases) for op in ops):
            return False
        if not all(
            isinstance(op, Claim | ClaimLeases) and not claim.is_worth_while(db, op, now)
            for op in ops
        ):
            return False
        self._answers.record([(op, ClaimedRuns()) for op in ops])
        return True

    def _write_one_statement(self, db: Connection, writes: list[PlannedWrite]) -> bool:
        """Write in one autocommitted statement and record the answers. Return whether all passed
        the guards."""
        try:
            passed = write_autocommit(db, writes)
        except ConnectionLost:
            self._uncertain = UncertainWrite(writes)
            raise
        hints = Hints()
        for place in passed:
            hints.add(writes[place].hints)
        self._answers.record([(writes[place].op, writes[place].answer) for place in passed])
        self._limited.update(
            lanes_refused(write for place, write in enumerate(writes) if place not in passed)
        )
        if passed:
            self.commits += 1
            self._publish(hints)
            if _worth_announcing(hints) and not self._notifier.running:
                # Only a hint: the write itself is committed.
                with suppress(ConnectionLost, StoreError, psycopg.Error):
                    db.rows_autocommit(
                        "notify_channel", {"channel": CHANNEL, "name": self._notifier.name}
                    )
        return len(passed) == len(writes)

    def _send_signal(self, db: Connection, signal: OutgoingSignal) -> bool:
        """Deliver a signal with one autocommitted statement. Return whether it was written."""
        announcer = Announcer(
            self._notifier.name, self._notifier.session_id, self._notifier.running
        )
        try:
            delivered = insert_signal(db, signal, announcer)
        except ConnectionLost:
            self._uncertain = UncertainWrite([], signal=signal)
            raise
        if delivered is not None:
            self.commits += 1
            self._answers.record([(signal.op, delivered[0])])
            self._hints.add(delivered[1])
            if delivered[1].ready and announcer.speaks:
                self._notifier.announce()
        return delivered is not None

    def _transact(self, db: Connection, attempt: BatchAttempt) -> None:
        db.begin(lends=attempt.lends)
        try:
            attempt.write()
            answers = [(op, attempt.answers[place]) for place, op in enumerate(attempt.ops)]
            if attempt.rolled_back:
                db.rollback()
            else:
                self._commit(
                    db,
                    attempt,
                    UncertainWrite([], self._markers.new_id(), answers, attempt.tx.hints),
                )
        except ConnectionEnded as ended:
            self._answers.record(
                [(attempt.called[-1], BadOption(option="transactional step", why=str(ended)))]
            )
            raise
        except ConnectionLost:
            db.rollback()
            self._answers.record(self._suspects.count_loss(attempt.called))
            raise
        except ResolutionFailed as failure:
            db.rollback()
            self._answers.record([(failure.op, failure.why)])
            raise RetryTransaction(f"without graphs: {failure}") from failure
        except BaseException:
            db.rollback()
            raise
        self._answers.record(answers)
        for op, answer in answers:
            # A claim that found runs is likely followed by another that does.
            if isinstance(op, ClaimLeases):
                self._expects_work = bool(answer)

    def _commit(self, db: Connection, attempt: BatchAttempt, uncertain: UncertainWrite) -> None:
        assert uncertain.marker is not None
        statements = self._markers.statements(db, uncertain.marker, attempt.tx.now)
        if _worth_announcing(attempt.tx.hints) and not self._notifier.running:
            # Without a notifier thread the announcement is part of the commit.
            statements = f"{statements}; SELECT pg_notify('{CHANNEL}', '{self._notifier.name}')"
        try:
            db.commit(also=statements)
        except ConnectionLost:
            self._uncertain = uncertain
            raise
        self._markers.committed(uncertain.marker)
        self.commits += 1
        self._routes.update(attempt.tx.new_routes)
        self._publish(attempt.tx.hints)

    def _publish(self, hints: Hints) -> None:
        if hints.frames or hints.routes or hints.subscriptions or _worth_announcing(hints):
            self._hints.add(hints)
        if _worth_announcing(hints) and self._notifier.running:
            self._notifier.announce()

    # The writing connection

    def _connected(self) -> Connection:
        """Return the writing connection, reconnected if it was lost, with no uncertain write
        left."""
        if self._writer.raw.closed:
            self._writer = reconnect(self._reader, self._writer)
        self._resolve_uncertain(self._writer)
        if isinstance(self.clock, DatabaseClock) and self.clock.is_stale():
            self.clock.measure(self._writer)
        return self._writer

    def _resolve_uncertain(self, db: Connection) -> None:
        """Find out whether the uncertain write was committed, and record its answers if so."""
        uncertain = self._uncertain
        if uncertain is None:
            return
        for committed in uncertain.committed(db, self._markers, self._now()):
            self._answers.record(committed.answers)
            self._publish(committed.hints)
        self._uncertain = None

    # Reading

    def fetch(self, sql: str, values: Any = ()) -> list[Any]:
        """Return the rows of a statement, on a connection of its own."""
        return self._reader.fetch(sql, values)

    def snapshot(self) -> AbstractContextManager[PostgresSnapshot]:
        """Return a source of rows that all show the same committed state."""
        return self._reader.snapshot(self.clock)

    def integrity(self) -> list[str]:
        """Return []: the server has no check that every role may run."""
        return []

    def info(self) -> dict[str, object]:
        """Return the versions, settings and sizes that `doctor` shows."""
        return info(self._reader.fetch, self.address.shown)

    # Notifications

    def keep_routes(self, numbers: Collection[int]) -> None:
        """Forget the cached numbers of routes whose rows are damaged or deleted: the next start of
        such a route creates another one."""
        forget_missing_routes(self._routes, numbers)

    def changed(self) -> bool:
        """Return whether another process has committed since the last call, or may have."""
        self._reader.refuse_when_closed()
        heard = self._notifier.changed()
        self._expects_work = self._expects_work or heard
        if heard:
            self._limited.clear()
        return heard

    def listen(self, session_id: str, call: Callable[[str | None], None]) -> bool:
        """Call *call* for each announcement of another process."""

        def heard(run_id: str | None) -> None:
            self._expects_work = self._expects_work or run_id is None
            call(run_id)

        self._notifier.listen(session_id, heard)
        return True

    def start_within(self, connection: Any, runs: Sequence[NewRun]) -> list[Started]:
        """Create runs in the caller's own open transaction.

        None is leased at its start, because the instant of the commit is unknown.
        """
        unleased = [msgspec.structs.replace(run, session_id=None) for run in runs]
        with PostgresUserTransaction(
            connection, self.address.shown, self.identity, self._now()
        ) as tx:
            return start_runs(tx, StartRuns(unleased))

    def apply_within(self, connection: Any, op: Operation) -> Any:
        """Apply an operation on a managed flow in the caller's open transaction."""
        with PostgresUserTransaction(
            connection, self.address.shown, self.identity, self._now()
        ) as tx:
            return APPLY[type(op)](tx, op)

    def close(self) -> None:
        """Close all connections and stop the notifier."""
        if self._reader.closed is not None:
            return
        self._reader.close()
        self._notifier.close()
        with self._lock:
            self._markers.delete(self._writer)
            self._writer.close()

    def before_fork(self) -> None:
        """Wait for the end of a transaction of another thread."""
        self._quiet = self._lock.acquire(timeout=FORK_PATIENCE)

    def after_fork(self, *, in_child: bool) -> None:
        """Continue; in the child, abandon all connections without a message to the server."""
        if in_child and self._reader.closed is None:
            self._reader.closed = "the process was forked: open the store again in the child"
            for db in (self._writer, *self._reader.idle):
                db.abandon()
            self._reader.idle.clear()
            self._notifier.abandon()
        if self._quiet:
            self._lock.release()


def _worth_announcing(hints: Hints) -> bool:
    return bool(hints.ready or hints.runs or hints.finished or hints.graphs)


if TYPE_CHECKING:
    _promise: type[Database] = PostgresDatabase
