"""The SQLite adapter: a store in one file, in WAL mode with full sync.

Invariants:
- A process has one writing connection; ``SqliteDatabase._lock`` serialises its transactions.
  Reads use connections of their own (``SqliteReader``).
- Processes compete for the write lock of SQLite by short tries; see ``_take_write_lock``.
- Before a commit is acknowledged, the store checks that its files are still in place.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec

from holdfast.core.runs import NewRun, Route
from holdfast.errors import (
    HoldfastError,
    LeaseLost,
    RowDamaged,
    StoreBusy,
    StoreError,
    StoreGone,
    WriteConflict,
)
from holdfast.store import process_fork
from holdfast.store.batch import (
    APPLY,
    CollectedHints,
    RestorePoint,
    forget_missing_routes,
    needs_savepoint,
)
from holdfast.store.clock import Clock, WallClock
from holdfast.store.damage import DamageBypass
from holdfast.store.database import Database, Hints, Operation, ProcessLiveness, Started
from holdfast.store.instants import newest
from holdfast.store.runs.advance import (
    append_single_events,
    end_each,
    guarded_row,
    is_end,
    is_one_event,
)
from holdfast.store.runs.operations import Advance, Advanced, StartRuns
from holdfast.store.runs.start import start_runs
from holdfast.store.sqlite import inspection, library_check, migrate
from holdfast.store.sqlite.backup import Progress
from holdfast.store.sqlite.connection import (
    COMMIT,
    RELEASE,
    ROLLBACK,
    ROLLBACK_TO,
    SAVEPOINT,
    Connection,
    Values,
    WriteLockBusy,
    translate,
)
from holdfast.store.sqlite.dialect import SQL, positional
from holdfast.store.sqlite.file_check import OpenFiles
from holdfast.store.sqlite.liveness import SqliteLiveness
from holdfast.store.sqlite.reader import DIALECT, SqliteReader, SqliteSnapshot
from holdfast.store.sqlite.transaction import FEW, SqliteTransaction
from holdfast.store.sqlite.user_connection import LoanBroken
from holdfast.store.sqlite.user_transaction import SqliteUserTransaction
from holdfast.store.unstorable import translate_error
from holdfast.store.wakeup import write_outbox

LOCK_PATIENCE = 30.0
"""Seconds for which a process tries to get the write lock before it raises StoreBusy."""

FORK_PATIENCE = 5.0
"""Seconds for which a fork waits for the end of a transaction."""


_EVENT, _END, _OTHER = range(3)


def _kind(op: Operation) -> int:
    if is_end(op):
        return _END
    return _EVENT if is_one_event(op) else _OTHER


class SqliteDatabase:
    """A database in a SQLite file."""

    dialect = DIALECT
    overlaps_commits = False

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        clock: Clock | None = None,
        driver: str | None = None,
        codec: str = "json",
        create: bool = True,
        on_close: Callable[[], None] = lambda: None,
    ) -> None:
        self.path: str = os.path.abspath(path)
        self.url: str = f"sqlite:///{self.path}"
        self.liveness: ProcessLiveness = SqliteLiveness(self.path)
        self.commits: int = 0
        self.clock: Clock = clock or WallClock()
        self._now: Callable[[], int] = self.clock.now
        self._open = library_check.enter(self.path, driver)
        self._reader = SqliteReader(self.path, self._open, self._refuse_when_gone)
        self._damage = DamageBypass(self, self._apply_alone)
        self._on_close: Callable[[], None] = on_close
        self._lock = threading.RLock()
        self._locked_for_fork: bool = False
        self._is_broken = False
        """Whether user code has broken the writing connection, which has not been replaced yet."""
        self._routes: dict[Route, int] = {}
        self._hints = CollectedHints()
        self.hints: Callable[[], Hints] = self._hints.take
        try:
            self._db = migrate.open_writer(self._open, self.path, self._begin, codec, create=create)
            self._open_writer = partial(
                migrate.open_writer, self._open, self.path, self._begin, codec, create=False
            )
            self._start_clock()
            self._files = OpenFiles(self.path)
        except BaseException:
            library_check.leave(self.path, self._open.kind)
            raise
        process_fork.watch(self)

    def _start_clock(self) -> None:
        """Start the clock after the newest instant that the file holds."""
        try:
            self._db.guard()
            self._version = _data_version(self._db)
            latest = self._db.rows(SQL["newest"])[0]
        except BaseException:
            self._db.close()
            raise
        written = [latest[name] for name in ("event_at", "run_at", "beat_at")]
        self.clock.not_before(newest(written, self._now()))

    def apply(self, batch: Sequence[Operation]) -> list[Any]:
        """Apply all operations in one transaction, and return one answer per operation.

        If the transaction fails because of one operation, each of the batch is applied in a
        transaction of its own, so that the others do not fail with it.
        """
        self._reader.refuse_when_closed()
        with self._lock:
            if self._is_broken:
                self._replace_writer()
            try:
                op = batch[0] if len(batch) == 1 else None
                return (
                    self._append(op)
                    if op is not None and is_one_event(op)
                    else self._transaction(batch)
                )
            except WriteConflict:
                if len(batch) == 1:
                    raise
            except StoreError:
                self._refuse_when_gone()  # a missing file is the cause of the error
                raise
            except RowDamaged as damage:
                if len(batch) == 1:
                    return [self._damage.apply(batch[0], damage)]
            except (HoldfastError, MemoryError):
                raise
            except Exception as error:
                if len(batch) == 1:
                    return [self._damage.apply(batch[0], error)]
            return [self._alone(op) for op in batch]

    def _apply_alone(self, op: Operation) -> Any:
        return self._transaction([op])[0]

    def _append(self, op: Advance) -> list[Any]:
        """Write one event without BEGIN and COMMIT: a fast path that saves two statements per step.

        A statement outside a transaction is a transaction by itself.
        """
        event = op.events[0]
        now = (
            event.at or self._now()
        )  # the event of a step has its instant: saves reading the clock
        sql, in_order = positional("append_guarded")
        values = in_order(guarded_row(op, event, now))
        try:
            written = self._db.change(sql, values)
        except WriteLockBusy:
            written = self._take_write_lock(self._db, sql, values)
        if not written:
            return [LeaseLost(run=op.run_id, generation=op.generation)]
        loss = self._files.loss()  # before the commit is acknowledged
        if loss is not None:
            self._refuse(loss)
        self.commits += 1
        return [Advanced(now=now)]

    def _alone(self, op: Operation) -> Any:
        """Apply one operation of a failed batch in a transaction of its own, and return
        its answer."""
        try:
            return self._apply_alone(op)
        except Exception as error:
            return self._damage.answer_to(op, error)

    def _transaction(self, batch: Sequence[Operation]) -> list[Any]:
        """Apply all operations in one transaction. If the user code of an operation ends the
        transaction, apply the others again without it."""
        try:
            return self._transact(batch)
        except LoanBroken as broken:
            self._replace_writer()
            rest = [op for op in batch if op is not broken.op]
            answers = iter(self._transaction(rest) if rest else [])
            return [broken.refusal if op is broken.op else next(answers) for op in batch]

    def _replace_writer(self) -> None:
        """Open another writing connection in place of one that user code has broken. Until that
        succeeds, every write tries it first."""
        self._is_broken = True
        with suppress(Exception):
            self._db.close()
        self._db = self._open_writer()
        self._db.guard()
        self._version = -1  # the next call of `changed` returns True: commits may have been missed
        self._is_broken = False

    def _transact(self, batch: Sequence[Operation]) -> list[Any]:
        self._reader.refuse_when_closed()
        self._begin(self._db)
        try:
            tx = SqliteTransaction(self._db, self._now(), self._routes)
            answers = self._answers(tx, batch)
            if tx.member_outcomes:
                write_outbox(tx)
            self._db.change(COMMIT)
        except BaseException as error:
            _roll_back(self._db)
            if isinstance(error, WriteLockBusy):
                raise StoreBusy(path=self.path) from error
            raise
        self._refuse_when_gone()  # before the commit is acknowledged
        self.commits += 1
        self._routes.update(tx.new_routes)
        self._hints.add(tx.hints)
        return answers

    def _answers(self, tx: SqliteTransaction, batch: Sequence[Operation]) -> list[Any]:
        """Apply operations one by one, but consecutive single events together, and so consecutive
        ends."""
        answers: list[Any] = []
        for kind, group in groupby(batch, _kind):
            ops: list[Any] = list(group)
            if kind == _EVENT:
                answers += append_single_events(tx, ops)
            else:
                ended = self._end_all(tx, ops) if kind == _END and len(ops) >= FEW else None
                answers += [self._answer(tx, op) for op in ops] if ended is None else ended
        return answers

    def _end_all(self, tx: SqliteTransaction, ops: list[Advance]) -> list[Advanced] | None:
        """End all of these runs and return the answers; end none and return None if one of them
        must not be ended in this way."""
        self._db.change(SAVEPOINT % "holdfast_many")
        answers = end_each(tx, ops)
        self._db.change(
            ROLLBACK_TO % "holdfast_many" if answers is None else RELEASE % "holdfast_many"
        )
        return answers

    def _answer(self, tx: SqliteTransaction, op: Operation) -> Any:
        """Apply one operation; a refused one leaves no trace in the transaction."""
        try:
            if needs_savepoint(op, self._routes):
                return self._answer_in_savepoint(tx, op)
            return APPLY[type(op)](tx, op)
        except (StoreError, StoreGone, RowDamaged, WriteConflict):
            # After RowDamaged or WriteConflict, a part of the operation may be written: the whole
            # transaction is rolled back.
            raise
        except LoanBroken as broken:
            broken.op = op
            raise
        except HoldfastError as refused:
            return refused

    def _answer_in_savepoint(self, tx: SqliteTransaction, op: Operation) -> Any:
        """Apply an operation that may be refused after its first write."""
        restore_point = RestorePoint(tx)
        self._db.change(SAVEPOINT % "holdfast_op")
        try:
            answer = APPLY[type(op)](tx, op)
        except (StoreError, RowDamaged, LoanBroken):
            raise
        except Exception as refused:
            if not self._db.in_transaction():
                translate(refused, self.path)  # the database itself has rolled everything back
            self._db.change(ROLLBACK_TO % "holdfast_op")
            restore_point.restore()
            answer = translate_error(refused, op)
        self._db.change(RELEASE % "holdfast_op")
        return answer

    def _refuse_when_gone(self) -> None:
        """Raise StoreGone if other files have taken the place of the opened ones. From then on,
        every call raises it."""
        loss = self._files.loss() if self._reader.loss is None else self._reader.loss
        if loss is not None:
            self._refuse(loss)

    def _refuse(self, loss: str) -> NoReturn:
        # Closing deletes the WAL: a late reader of a closed store gets EngineClosed instead.
        self._reader.refuse_when_closed()
        self._reader.loss = loss
        raise StoreGone(path=self.path, why=loss)

    def _begin(self, db: Connection) -> None:
        self._take_write_lock(db, "BEGIN IMMEDIATE")

    def _take_write_lock(self, db: Connection, sql: str, values: Values = ()) -> int:
        """Take the write lock by executing *sql*, in short tries: with SQLite's own busy handler,
        one of two busy writers starves. Raises StoreBusy."""
        began = 0.0
        while True:
            try:
                return db.change(sql, values)
            except WriteLockBusy:
                began = began or time.monotonic()
                waited = time.monotonic() - began
                if waited > LOCK_PATIENCE:
                    raise StoreBusy(path=self.path, waited=f"{LOCK_PATIENCE:g} s") from None
            # A process that commits begins again at once: only short pauses have a fair chance to
            # hit the moment in between.
            time.sleep((0.0002 if waited < 1 else 0.002) * (0.5 + random.random()))

    def keep_routes(self, numbers: Collection[int]) -> None:
        """Forget the cached numbers of routes whose rows are damaged or gone: the next run of such
        a route gets another row."""
        forget_missing_routes(self._routes, numbers)

    def fetch(self, sql: str, values: Any = ()) -> list[Any]:
        """Return the rows of a statement, on a connection that does not block the writer."""
        return self._reader.fetch(sql, values)

    def snapshot(self) -> AbstractContextManager[SqliteSnapshot]:
        """Return a source of rows that all show the same committed state."""
        return self._reader.snapshot(self.clock)

    def back_up(self, path: str, progress: Progress) -> None:
        """Copy the database, as it stands now, to the new file *path*. *progress* gets the number
        of pages copied, and of all."""
        self._refuse_when_gone()
        self._reader.back_up(path, progress)

    def integrity(self) -> list[str]:
        """Describe the damage to the file and its indexes."""
        return inspection.integrity(self._reader.fetch)

    def info(self) -> dict[str, object]:
        """Return the versions, settings and sizes that `doctor` shows."""
        return inspection.info(self._reader.fetch, self.path, self._open)

    def changed(self) -> bool:
        """Return whether another connection has committed since the last call."""
        with self._lock:
            self._reader.refuse_when_closed()
            self._refuse_when_gone()
            version = _data_version(self._db)
            if version == self._version:
                return False
            self._version = version
            return True

    def listen(self, session_id: str, call: Callable[[str | None], None]) -> bool:
        """Return False: SQLite does not notify of commits, so callers poll ``changed``."""
        return False

    def start_within(self, connection: Any, runs: Sequence[NewRun]) -> list[Started]:
        """Create runs in the caller's open transaction on the same file. None is leased at its
        start, because the time of the commit is unknown."""
        unleased = [msgspec.structs.replace(run, session_id=None) for run in runs]
        self._reader.refuse_when_closed()
        self._refuse_when_gone()
        with SqliteUserTransaction(connection, self._db, self._now()) as tx:
            return start_runs(tx, StartRuns(unleased))

    def apply_within(self, connection: Any, op: Operation) -> Any:
        """Apply an operation on a managed flow in the caller's open transaction."""
        self._reader.refuse_when_closed()
        self._refuse_when_gone()
        with SqliteUserTransaction(connection, self._db, self._now()) as tx:
            return APPLY[type(op)](tx, op)

    def close(self) -> None:
        """Close all connections, unless SQLite would delete the files of another database."""
        if self._reader.closed is not None:
            return
        with self._lock:
            self._reader.close()
            if self._files.are_replaced():
                self._db.abandon()
            else:
                self._db.close()
        library_check.leave(self.path, self._db.kind)
        self._on_close()

    def before_fork(self) -> None:
        """Wait until no other thread is in a transaction, for FORK_PATIENCE at most."""
        self._locked_for_fork = self._lock.acquire(timeout=FORK_PATIENCE)

    def after_fork(self, *, in_child: bool) -> None:
        """Continue in the parent. In the child, close the connections, unless the fork happened
        within a transaction, which belongs to the parent."""
        if in_child and self._reader.closed is None:
            self._reader.close()
            self._reader.closed = "the process was forked: open the database again in the child"
            if self._locked_for_fork and not self._db.in_transaction():
                self._db.close()
                library_check.leave(self.path, self._db.kind)
        if self._locked_for_fork:
            self._lock.release()


def _roll_back(db: Connection) -> None:
    try:
        if db.in_transaction():
            db.change(ROLLBACK)
    except Exception:  # the connection is unusable; the caller raises the error behind it
        return


def _data_version(db: Connection) -> int:
    try:
        version: int = db.rows("PRAGMA data_version")[0]["data_version"]
    except WriteLockBusy:
        return -1  # another process writes: counts as a change
    return version


if TYPE_CHECKING:
    _promise: type[Database] = SqliteDatabase
