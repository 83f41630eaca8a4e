"""Read a SQLite file: a pool of reading connections that do not block the writer.

There are as many connections as threads that read at the same time. Invariant: they are read-only
and never checkpoint; only the writing connection does.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from holdfast.errors import EngineClosed, StoreBusy, StoreError, StoreGone
from holdfast.store.clock import Clock
from holdfast.store.database import Dialect
from holdfast.store.sqlite.backup import Progress, copy_pages
from holdfast.store.sqlite.connection import (
    DRIVER_ERRORS,
    ApswConnection,
    Connection,
    StandardConnection,
    WriteLockBusy,
)
from holdfast.store.sqlite.dialect import SQL, as_list, spelled
from holdfast.store.unstorable import translate_error

DIALECT = Dialect("sqlite", SQL, spelled, as_list, DRIVER_ERRORS)


def fetch_from(
    db: Connection, sql: str, values: Any, path: str, refuse_when_gone: Callable[[], None]
) -> list[Any]:
    """Return the rows of a statement on one connection, with the errors of the driver
    translated."""
    try:
        return db.rows(sql, values)
    except WriteLockBusy as error:
        raise StoreBusy(path=path) from error
    except StoreError:
        refuse_when_gone()  # a missing file is the cause of the error
        raise
    except (UnicodeEncodeError, OverflowError, sqlite3.Error, TypeError) as error:
        raise translate_error(error) from error


class SqliteReader:
    """A pool of reading connections, for any thread at any time."""

    def __init__(
        self,
        path: str,
        connect: type[StandardConnection] | type[ApswConnection],
        refuse_when_gone: Callable[[], None],
    ) -> None:
        self._path: str = path
        self._open: type[StandardConnection] | type[ApswConnection] = connect
        self._refuse_when_gone: Callable[[], None] = refuse_when_gone
        """Raises StoreGone if the opened files are no longer in place."""
        self._idle: list[Connection] = []
        self.closed: str | None = None
        """Why the pool is closed."""
        self.loss: str | None = None
        """What happened to the files while they were open."""

    def refuse_when_closed(self) -> None:
        """Raise EngineClosed or StoreGone if the files cannot be read any more."""
        if self.closed is not None:
            raise EngineClosed(database=self._path, why=self.closed)
        if self.loss is not None:
            raise StoreGone(path=self._path, why=self.loss)

    def _take_connection(self) -> Connection:
        self.refuse_when_closed()
        try:
            return self._idle.pop()
        except IndexError:
            return self._open_reader()

    def _open_reader(self) -> Connection:
        self._refuse_when_gone()  # before SQLite creates a new file under that name
        db = self._open(self._path)
        db.rows("PRAGMA busy_timeout = 5000")
        db.rows("PRAGMA query_only = 1")
        db.rows("PRAGMA wal_autocheckpoint = 0")  # only the writer checkpoints
        return db

    def _return_connection(self, db: Connection) -> None:
        self._idle.append(db)
        if self.closed is not None:  # closed meanwhile, perhaps just now
            self._close_idle()

    def _close_idle(self) -> None:
        """Close the connections that no thread uses; a thread that uses one closes it when it
        returns it."""
        while self._idle:
            try:
                db = self._idle.pop()
            except IndexError:
                return
            db.close()

    def fetch(self, sql: str, values: Any = ()) -> list[Any]:
        """Return the rows of a statement."""
        db = self._take_connection()
        try:
            return fetch_from(db, sql, values, self._path, self._refuse_when_gone)
        finally:
            self._return_connection(db)

    def back_up(self, path: str, progress: Progress) -> None:
        """Copy the database, as it stands now, to the new file *path*."""
        with self._transaction() as db:
            try:
                copy_pages(db, path, self._open, progress)
            except WriteLockBusy as error:
                raise StoreBusy(path=path) from error

    @contextmanager
    def _transaction(self) -> Iterator[Connection]:
        """Lend a connection with an open transaction that shows the current state."""
        db = self._take_connection()
        try:
            db.change("BEGIN DEFERRED")
            try:
                # SQLite fixes the state of the snapshot at the first read, not at BEGIN.
                db.rows("SELECT number FROM holdfast_migration LIMIT 1")
                yield db
            finally:
                db.change("ROLLBACK TRANSACTION")
        finally:
            self._return_connection(db)

    @contextmanager
    def snapshot(self, clock: Clock) -> Iterator[SqliteSnapshot]:
        """Return a source of rows that executes all queries in one transaction."""
        with self._transaction() as db:
            yield SqliteSnapshot(self._path, db, clock, self._refuse_when_gone)

    def close(self) -> None:
        self.closed = self.closed or "the store was closed"
        self._close_idle()


class SqliteSnapshot:
    """A source of rows that executes all queries in one open transaction."""

    dialect = DIALECT

    def __init__(
        self, path: str, db: Connection, clock: Clock, refuse_when_gone: Callable[[], None]
    ) -> None:
        self._path: str = path
        self._db: Connection = db
        self.clock: Clock = clock
        self._refuse_when_gone: Callable[[], None] = refuse_when_gone

    def fetch(self, sql: str, values: Any = ()) -> list[Any]:
        """Return the rows of a statement."""
        return fetch_from(self._db, sql, values, self._path, self._refuse_when_gone)
