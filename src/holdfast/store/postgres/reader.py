"""Read a PostgreSQL database: as many connections as concurrent readers, a few of them kept."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg

from holdfast.errors import EngineClosed, StoreBusy, StoreUnavailable, WriteConflict
from holdfast.store.clock import Clock
from holdfast.store.database import Dialect
from holdfast.store.postgres.address import Address
from holdfast.store.postgres.connection import Connection
from holdfast.store.postgres.dialect import SQL, as_list, spelled
from holdfast.store.postgres.errors import (
    UNSENDABLE,
    ConnectionLost,
    RetryTransaction,
    SnapshotConflict,
    TemporarilyUnavailable,
    translate_error,
)

T = TypeVar("T")

PATIENCE = 30.0
"""Seconds for which a lost connection is retried before the caller gets an error."""

CONFLICTS = 4
"""How many attempts with the same conflict show that a retry does not help."""

KEPT = 4
"""How many idle connections are kept."""

_SETTINGS = (
    "fsync",
    "synchronous_commit",
    "full_page_writes",
    "max_connections",
    "server_encoding",
)


DIALECT = Dialect("postgres", SQL, spelled, as_list, (psycopg.DataError,))


class PostgresReader:
    """A pool of reading connections, for any thread at any time."""

    def __init__(self, address: Address) -> None:
        self.address: Address = address
        self.idle: list[Connection] = []
        self.closed: str | None = None
        """Why the pool is closed."""
        self.lost_at: float = -math.inf
        """When a reader last lost its connection, or could not connect, by the monotonic clock."""

    def refuse_when_closed(self) -> None:
        """Raise EngineClosed if the pool is closed."""
        if self.closed is not None:
            raise EngineClosed(database=self.address.shown, why=self.closed)

    def connect(self) -> Connection:
        """Return a new connection."""
        return Connection(self.address)

    def persist(self, attempt: Callable[[], T]) -> T:
        """Repeat an attempt while the connection is lost or conflicts occur, for at most PATIENCE
        seconds.

        Raises StoreUnavailable, StoreBusy, WriteConflict.
        """
        deadline = time.monotonic() + PATIENCE
        pause = 0.01
        conflicts = 0
        while True:
            self.refuse_when_closed()
            try:
                return attempt()
            except TemporarilyUnavailable as unavailable:
                if time.monotonic() > deadline:
                    raise unavailable.error from unavailable
            except (ConnectionLost, RetryTransaction) as error:
                conflicts += isinstance(error, SnapshotConflict)
                if conflicts >= CONFLICTS:
                    raise WriteConflict(database=self.address.shown, reason=str(error)) from error
                if time.monotonic() > deadline:
                    kind = StoreBusy if isinstance(error, RetryTransaction) else StoreUnavailable
                    raise kind(database=self.address.shown, reason=str(error)) from error
            # Jitter: many processes lose their connections at the same moment.
            time.sleep(pause * (0.5 + random.random()))
            pause = min(pause * 2, 1.0)

    def fetch(self, sql: str, values: Any = ()) -> list[Any]:
        """Return the rows of a statement."""
        return self.persist(lambda: self._ask_once(sql, values or None))

    @contextmanager
    def snapshot(self, clock: Clock) -> Iterator[PostgresSnapshot]:
        """Return a source of rows that executes all queries in one transaction."""
        db = self.persist(self._begun)
        try:
            yield PostgresSnapshot(self.address, db, clock)
        finally:
            db.rollback()
            self._give_back(db)

    def _begun(self) -> Connection:
        """Return a connection with a transaction that reads one snapshot."""
        db = self._borrow()
        try:
            # The server takes the snapshot at the first read, not at BEGIN.
            db.script("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT 1")
        except BaseException:
            db.close()
            raise
        return db

    def _borrow(self) -> Connection:
        try:
            return self.idle.pop()
        except IndexError:
            return self.connect()

    def _ask_once(self, sql: str, values: Any) -> list[Any]:
        try:
            return self._ask_idle(sql, values)
        except (ConnectionLost, TemporarilyUnavailable):
            self.lost_at = time.monotonic()
            raise

    def _ask_idle(self, sql: str, values: Any) -> list[Any]:
        db = self._borrow()
        try:
            return db.rows(sql, values)
        except UNSENDABLE as error:
            raise translate_error(error) from error
        finally:
            self._give_back(db)

    def _give_back(self, db: Connection) -> None:
        if db.raw.closed or len(self.idle) >= KEPT:
            db.close()
            return
        self.idle.append(db)
        if self.closed is not None:  # after the append: `close` may have emptied the list before
            self._close_idle()

    def _close_idle(self) -> None:
        """Close idle connections. A thread that uses one closes it when done."""
        while self.idle:
            try:
                db = self.idle.pop()
            except IndexError:
                return
            db.close()

    def close(self) -> None:
        """Close the idle connections; a thread that uses one closes it when done."""
        self.closed = self.closed or "it was closed"
        self._close_idle()


class PostgresSnapshot:
    """A source of rows that executes all queries in one open transaction."""

    dialect = DIALECT

    def __init__(self, address: Address, db: Connection, clock: Clock) -> None:
        self._address: Address = address
        self._db: Connection = db
        self.clock: Clock = clock

    def fetch(self, sql: str, values: Any = ()) -> list[Any]:
        """Return the rows of a statement, in one attempt: another connection would read another
        snapshot."""
        try:
            return self._db.rows(sql, values or None)
        except UNSENDABLE as error:
            raise translate_error(error) from error
        except (ConnectionLost, RetryTransaction, TemporarilyUnavailable) as error:
            raise StoreUnavailable(database=self._address.shown, reason=str(error)) from error


def info(fetch: Callable[[str], list[Any]], shown: str) -> dict[str, object]:
    """Return the versions, settings and sizes that `doctor` shows."""
    columns = ", ".join(f"current_setting('{name}') AS {name}" for name in _SETTINGS)
    (settings,) = fetch(
        f"SELECT {columns}, current_setting('server_version') AS postgres,"
        " pg_database_size(current_database()) AS bytes"
    )
    (schema,) = fetch("SELECT MAX(number) AS schema FROM holdfast.migration")
    lossy = [
        name
        for name in ("fsync", "synchronous_commit", "full_page_writes")
        if settings[name] == "off"
    ]
    text = f"a crash of the server may lose what was committed: {', '.join(lossy)} off"
    warning = {"warnings": [text]} if lossy else {}
    return {
        "database": shown,
        "driver": f"psycopg {psycopg.__version__}",
        **settings,
        **schema,
        **warning,
    }
