"""Runs in a SQLite file: WAL, full sync, one writing connection per process, short tries for the
lock between processes."""

from __future__ import annotations

import os
import random
import socket
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.payload import Seal
from holdfast.core.runs import NewRun, Route
from holdfast.core.sessions import Session
from holdfast.errors import (
    HoldfastError,
    LeaseLost,
    RowDamaged,
    StoreBusy,
    StoreError,
    StoreGone,
    WriteConflict,
)
from holdfast.store import process_fork, transitions
from holdfast.store.clock import Clock, WallClock
from holdfast.store.contract import Operation, Store
from holdfast.store.contract.reading import NO_HINTS, Hints, MemberOutcome
from holdfast.store.contract.runs import Advance, Advanced, Started, StartRuns
from holdfast.store.instants import newest
from holdfast.store.reading import route_values
from holdfast.store.sealing import refusal
from holdfast.store.soundness import checked, sifted
from holdfast.store.sqlite import clear_values, library_check, migrate, sealing
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
from holdfast.store.sqlite.dialect import SQL, as_list, large_of, numbered, without_large
from holdfast.store.sqlite.file_check import OpenFiles
from holdfast.store.sqlite.liveness import liveness_locks_of
from holdfast.store.sqlite.reader import SqliteReader
from holdfast.store.sqlite.user_connection import LoanBroken
from holdfast.store.sqlite.user_transaction import SqliteUserTransaction
from holdfast.store.unstorable import translate_error

LOCK_PATIENCE = 30.0
"""Seconds for which a process tries to get the write lock before it says so."""

FEW = 8
"""So many rows are written one by one: that tells of each whether it is new."""

FORK_PATIENCE = 5.0
"""Seconds for which a fork waits for the end of a transaction."""


_EVENT, _END, _OTHER = range(3)


def _kind(op: Operation) -> int:
    if transitions.is_end(op):
        return _END
    return _EVENT if transitions.is_one_event(op) else _OTHER


class SqliteTransaction:
    """What the transitions see of an open transaction."""

    __slots__ = ("_db", "_known_routes", "graphs", "hints", "new_routes", "news", "now", "told")

    def __init__(self, db: Connection, now: int, known_routes: dict[Route, int]) -> None:
        self._db, self.now, self._known_routes = db, now, known_routes
        self.hints = Hints()
        self.news: list[MemberOutcome] = []
        self.told: set[str] = set()
        self.graphs: dict[str, Any] = {}
        self.new_routes: dict[Route, int] = {}

    def rows(self, query: str, **values: object) -> list[Any]:
        sql, in_order = numbered(query)
        return checked(sql, self._db.rows(sql, in_order(values)), values)

    def sifted(self, query: str, **values: object) -> tuple[list[Any], list[RowDamaged]]:
        sql, in_order = numbered(query)
        return sifted(sql, self._db.rows(sql, in_order(values)), values)

    def change(self, query: str, **values: object) -> int:
        sql, in_order = numbered(query)
        return self._db.change(sql, in_order(values))

    def many(self, query: str, values: Sequence[dict[str, object]]) -> int:
        if not values:
            return 0
        sql, in_order = numbered(query)
        return self._db.many(sql, map(in_order, values))

    def together(self, changes: dict[str, list[dict[str, object]]]) -> None:
        for query, values in changes.items():
            self.many(query, values)

    def insert_runs(self, rows: Sequence[dict[str, object]]) -> set[str]:
        new = rows
        if len(rows) < FEW or not self._insert_all(rows):
            new = [row for row in rows if self.change("insert_run", **without_large(row))]
        self.many("keep_input", large_of(new))
        return {str(row["id"]) for row in new}

    def _insert_all(self, rows: Sequence[dict[str, object]]) -> bool:
        """Create all of these runs, or, when one of them is there already, none; say which."""
        self._db.change(SAVEPOINT % "holdfast_many")
        whole = self.many("insert_run", list(map(without_large, rows))) == len(rows)
        self._db.change(RELEASE % "holdfast_many" if whole else ROLLBACK_TO % "holdfast_many")
        return whole

    def route_id(self, route: Route) -> int:
        known = self._known_routes.get(route) or self.new_routes.get(route)
        if known is not None:
            return known
        values = route_values(route)
        if self._db.change(SQL["insert_route"], values):
            self._db.change(SQL["note_last_route"])
        found: int = self._db.rows(SQL["find_route"], values)[0]["id"]
        self.new_routes[route] = found
        self.hints.routes = True
        return found

    def as_list(self, items: Iterable[object]) -> object:
        return as_list(items)

    def call(self, body: Callable[[Any], bytes]) -> bytes:
        data = self._db.call(body)
        if not self._db.in_transaction():  # the database did that, such as on a full disk
            raise StoreError(
                reason="the transaction was rolled back while a transactional step was running"
            )
        return data

    def lock_tables(self) -> None:
        """BEGIN IMMEDIATE has done so."""

    def seal(self, seal: Seal) -> None:
        sealing.seal(self._db, refusal(seal))

    def unseal(self) -> None:
        sealing.unseal(self._db)

    def refuse_clear_values(self) -> bool:
        clear_values.refuse_clear_values(self._db)
        return True


class SqliteStore(SqliteReader):
    """A store in a SQLite file."""

    overlaps = False

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        clock: Clock | None = None,
        driver: str | None = None,
        codec: str = "json",
        create: bool = True,
    ) -> None:
        self.path = os.path.abspath(path)
        self.url = f"sqlite:///{self.path}"
        self.commits = 0
        super().__init__(self.path, library_check.enter(self.path, driver), clock or WallClock())
        self._lock, self._quiet = threading.RLock(), False
        self._is_broken = False
        """Whether user code has broken the writing connection, and it could not be replaced yet."""
        self._routes: dict[Route, int] = {}
        self._hints, self._hints_guard = Hints(), threading.Lock()
        self._has_hints: bool = False
        try:
            self._db = migrate.open_writer(self._open, self.path, self._begin, codec, create=create)
            self._open_writer = partial(
                migrate.open_writer, self._open, self.path, self._begin, codec, create=False
            )
            self._begin_where_others_ended()
            self._files = OpenFiles(self.path)
        except BaseException:
            library_check.leave(self.path, self._open.kind)
            raise
        process_fork.watch(self)

    def _begin_where_others_ended(self) -> None:
        try:
            self._db.guard()
            self._version = self._data_version()
            latest = self._db.rows(SQL["newest"])[0]
        except BaseException:
            self._db.close()
            raise
        written = [latest[name] for name in ("event_at", "run_at", "beat_at")]
        self.clock.not_before(newest(written, self.now()))

    def apply(self, batch: Sequence[Operation]) -> list[Any]:
        """Apply all transitions in one transaction, and answer each."""
        self._refuse_when_closed()
        with self._lock:
            if self._is_broken:
                self._replace_writer()
            try:
                op = batch[0] if len(batch) == 1 else None
                return (
                    self._append(op)
                    if op is not None and transitions.is_one_event(op)
                    else self._transaction(batch)
                )
            except WriteConflict:
                if len(batch) == 1:
                    raise
            except StoreError:
                self._refuse_when_gone()  # what SQLite says then is a consequence, not the cause
                raise
            except RowDamaged as damage:
                if len(batch) == 1:
                    return [self._apply_around_damage(batch[0], damage)]
            except (HoldfastError, MemoryError):
                raise
            except Exception as error:
                if len(batch) == 1:
                    return [self._apply_around_damage(batch[0], error)]
            return [self._alone(op) for op in batch]

    def _only(self, op: Operation) -> Any:
        return self._transaction([op])[0]

    def _append(self, op: Advance) -> list[Any]:
        """Write one event. The statement is a transaction by itself: there is nothing to begin and
        nothing to commit."""
        now = self.now()
        sql, in_order = numbered("append_guarded")
        if not self._lock_patiently(
            self._db, sql, in_order(transitions.guarded(op, op.events[0], now))
        ):
            return [LeaseLost(run=op.run_id, generation=op.generation)]
        self._refuse_when_gone()  # before the commit is acknowledged
        self.commits += 1
        return [Advanced(now=now)]

    def _alone(self, op: Operation) -> Any:
        """One of a batch is faulty, or meets a damaged row: find out which, so that the others are
        not harmed."""
        try:
            return self._only(op)
        except Exception as error:
            return self._answer_to(op, error)

    def _transaction(self, batch: Sequence[Operation]) -> list[Any]:
        """Apply all in one transaction. Without a transition whose user code ends it, everything is
        done again."""
        try:
            return self._transact(batch)
        except LoanBroken as broken:
            self._replace_writer()
            rest = [op for op in batch if op is not broken.op]
            answers = iter(self._transaction(rest) if rest else [])
            return [broken.refusal if op is broken.op else next(answers) for op in batch]

    def _replace_writer(self) -> None:
        """Open another writing connection: user code has broken this one. Until that succeeds,
        every write tries it first."""
        self._is_broken = True
        with suppress(Exception):
            self._db.close()
        self._db = self._open_writer()
        self._db.guard()
        self._version = -1  # whatever others have committed is noticed
        self._is_broken = False

    def _transact(self, batch: Sequence[Operation]) -> list[Any]:
        self._refuse_when_closed()
        self._begin(self._db)
        try:
            tx = SqliteTransaction(self._db, self.now(), self._routes)
            answers = self._answers(tx, batch)
            if tx.news:
                transitions.write_outbox(tx)
            self._db.change(COMMIT)
        except BaseException as error:
            self._undo()
            if isinstance(error, WriteLockBusy):
                raise StoreBusy(path=self.path) from error
            raise
        self._refuse_when_gone()  # before the commit is acknowledged
        self.commits += 1
        self._routes.update(tx.new_routes)
        with self._hints_guard:
            self._hints.add(tx.hints)
            self._has_hints = True
        return answers

    def _answers(self, tx: SqliteTransaction, batch: Sequence[Operation]) -> list[Any]:
        """Apply one by one, but those together of which there are many alike in a row."""
        answers: list[Any] = []
        for kind, found in groupby(batch, _kind):
            ops: list[Any] = list(found)
            if kind == _EVENT:
                answers += transitions.append_each(tx, ops)
            else:
                ended = self._end_all(tx, ops) if kind == _END and len(ops) >= FEW else None
                answers += [self._answer(tx, op) for op in ops] if ended is None else ended
        return answers

    def _end_all(self, tx: SqliteTransaction, ops: list[Advance]) -> list[Advanced] | None:
        """End all of these runs, or, when one of them must not be ended, none; then the answer is
        None."""
        self._db.change(SAVEPOINT % "holdfast_many")
        answers = transitions.end_each(tx, ops)
        self._db.change(
            ROLLBACK_TO % "holdfast_many" if answers is None else RELEASE % "holdfast_many"
        )
        return answers

    def _answer(self, tx: SqliteTransaction, op: Operation) -> Any:
        """Apply one transition; a refused one leaves nothing behind."""
        try:
            if transitions.may_refuse_late(op, self._routes):
                return self._answer_carefully(tx, op)
            return transitions.APPLY[type(op)](tx, op)
        except (StoreError, StoreGone, RowDamaged, WriteConflict):
            raise  # of the latter two a part may be written: the whole transaction is rolled back
        except LoanBroken as broken:
            broken.op = op
            raise
        except HoldfastError as refused:
            return refused

    def _answer_carefully(self, tx: SqliteTransaction, op: Operation) -> Any:
        hints, news, routes = tx.hints.copy(), list(tx.news), dict(tx.new_routes)
        told = set(tx.told)
        self._db.change(SAVEPOINT % "holdfast_op")
        try:
            answer = transitions.APPLY[type(op)](tx, op)
        except (StoreError, RowDamaged, LoanBroken):
            raise
        except Exception as refused:
            if not self._db.in_transaction():
                translate(refused, self.path)  # the database itself has rolled everything back
            self._db.change(ROLLBACK_TO % "holdfast_op")
            tx.hints, tx.news, tx.new_routes, answer = (
                hints,
                news,
                routes,
                translate_error(refused, op),
            )
            tx.told = told
        self._db.change(RELEASE % "holdfast_op")
        return answer

    def _refuse_when_gone(self) -> None:
        """Raise StoreGone if the files are no longer those that were opened. From then on
        everything is refused."""
        loss = self._files.loss() if self._loss is None else self._loss
        if loss is not None:
            # closing deletes the WAL: a reader that is late has lost nothing
            self._refuse_when_closed()
            self._loss = loss
            raise StoreGone(path=self.path, why=self._loss)

    def _begin(self, db: Connection) -> None:
        self._lock_patiently(db, "BEGIN IMMEDIATE")

    def _lock_patiently(self, db: Connection, sql: str, values: Values = ()) -> int:
        """Take the write lock, with *sql*, by short tries: SQLite's own waiting lets one of two
        writers starve."""
        began = 0.0
        while True:
            try:
                return db.change(sql, values)
            except WriteLockBusy:
                began = began or time.monotonic()
                waited = time.monotonic() - began
                if waited > LOCK_PATIENCE:
                    raise StoreBusy(path=self.path, waited=f"{LOCK_PATIENCE:g} s") from None
            # Whoever commits begins again at once: only a short pause has a fair chance to hit the
            # moment between.
            time.sleep((0.0002 if waited < 1 else 0.002) * (0.5 + random.random()))

    def _undo(self) -> None:
        try:
            if self._db.in_transaction():
                self._db.change(ROLLBACK)
        except Exception:  # the transaction is gone already, with the error that is being raised
            return

    def hints(self) -> Hints:
        """What the commits since the last call touched."""
        if not self._has_hints:
            return NO_HINTS
        with self._hints_guard:
            hints, self._hints = self._hints, Hints()
            self._has_hints = False
        return hints

    def routes(self) -> dict[int, Route]:
        found = super().routes()
        for route, number in list(self._routes.items()):
            if (
                number not in found
            ):  # its row is damaged or gone: what is started from now on gets another one
                self._routes.pop(route, None)
        return found

    def changed(self) -> bool:
        """Whether another connection committed since the last call."""
        with self._lock:
            self._refuse_when_closed()
            self._refuse_when_gone()
            version = self._data_version()
            if version == self._version:
                return False
            self._version = version
            return True

    def _data_version(self) -> int:
        try:
            found: int = self._db.rows("PRAGMA data_version")[0]["data_version"]
        except WriteLockBusy:
            return -1  # somebody is busy with the file: look
        return found

    def listen(self, session_id: str, call: Callable[[str | None], None]) -> bool:
        """Nobody tells us: whoever wants to know asks ``changed``."""
        return False

    def start_within(self, connection: Any, runs: Sequence[NewRun]) -> list[Started]:
        """Create runs in the caller's own open transaction on the same file. None is born leased:
        who knows when it commits?"""
        unleased = [msgspec.structs.replace(run, session_id=None) for run in runs]
        self._refuse_when_closed()
        self._refuse_when_gone()
        with SqliteUserTransaction(connection, self._db, self.now()) as tx:
            return transitions.start_runs(tx, StartRuns(unleased))

    def is_alive(self, session: Session) -> bool | None:
        """Whether the process of a session lives."""
        if session.host != socket.gethostname():
            return None
        return liveness_locks_of(self.path).is_alive(session.slot, session.pid)

    def was_away(self) -> bool:
        """A file is always in reach."""
        return False

    def take_slot(self) -> int:
        """Lock a byte by which others see that this process lives."""
        return liveness_locks_of(self.path).take()

    def keep_slot(self, slot: int) -> bool:
        """Lock it again if its lock or the file is gone, and return whether it is locked."""
        return liveness_locks_of(self.path).keep(slot)

    def free_slot(self, slot: int) -> None:
        """Unlock it."""
        liveness_locks_of(self.path).free(slot)

    def close(self) -> None:
        """Let go of the file."""
        if self._closed is not None:
            return
        with self._lock:
            super().close()
            if self._files.are_replaced():
                self._db.abandon()
            else:
                self._db.close()
        library_check.leave(self.path, self._db.kind)

    def before_fork(self) -> None:
        """Wait for the end of a transaction that another thread is in."""
        self._quiet = self._lock.acquire(timeout=FORK_PATIENCE)

    def after_fork(self, *, in_child: bool) -> None:
        """Go on; in the child let go of the file, unless somebody was in the middle of a
        transaction: that is the parent's."""
        if in_child and self._closed is None:
            super().close()
            self._closed = "the process was forked: open it anew in the child"
            if self._quiet and not self._db.in_transaction():
                self._db.close()
                library_check.leave(self.path, self._db.kind)
        if self._quiet:
            self._lock.release()


if TYPE_CHECKING:
    _promise: type[Store] = SqliteStore
