"""Read a PostgreSQL database: as many connections as concurrent readers, a few of them kept."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg

from holdfast.errors import EngineClosed, StoreBusy, StoreUnavailable, WriteConflict
from holdfast.store.all_queries import StoreQueries
from holdfast.store.clock import Clock
from holdfast.store.database import CheckProgress
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
from holdfast.store.runs.queries import NextDue

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


class PostgresReader(StoreQueries):
    """The queries of a PostgreSQL database, for any thread at any time."""

    _dialect = "postgres"
    _garbled = psycopg.DataError

    def __init__(self, address: Address, clock: Clock) -> None:
        self.address = address
        self.clock = clock
        self.now = clock.now
        self._idle: list[Connection] = []
        self._closed: str | None = None
        self._lost_at: float = -math.inf
        """When a reader last lost its connection, or could not connect, by the monotonic clock."""
        self._reported: set[str] = set()
        self._notified: dict[str, tuple[int, frozenset[tuple[int, str]]]] = {}
        """For each session: up to where notifications were returned in order, and those beyond
        that were returned early because an older transaction was still open."""

    def _refuse_when_closed(self) -> None:
        if self._closed is not None:
            raise EngineClosed(database=self.address.shown, why=self._closed)

    def _connect(self) -> Connection:
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
            self._refuse_when_closed()
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

    def _fetch(self, sql: str, values: Any = ()) -> list[Any]:
        return self.persist(lambda: self._ask_once(sql, values or None))

    @contextmanager
    def snapshot(self) -> Iterator[PostgresReader]:
        db = self.persist(self._begun)
        try:
            yield _PostgresSnapshot(self, db)
        finally:
            db.rollback()
            self._give_back(db)

    def _begun(self) -> Connection:
        """Return a connection with a transaction that reads one snapshot."""
        db = self._borrow()
        # The server takes the snapshot at the first read, not at BEGIN.
        db.script("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SELECT 1")
        return db

    def _borrow(self) -> Connection:
        try:
            return self._idle.pop()
        except IndexError:
            return self._connect()

    def _ask_once(self, sql: str, values: Any) -> list[Any]:
        try:
            return self._ask_idle(sql, values)
        except (ConnectionLost, TemporarilyUnavailable):
            self._lost_at = time.monotonic()
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
        if db.raw.closed or len(self._idle) >= KEPT:
            db.close()
            return
        self._idle.append(db)
        if self._closed is not None:  # after the append: `close` may have emptied the list before
            self._close_idle()

    def _close_idle(self) -> None:
        """Close idle connections. A thread that uses one closes it when done."""
        while self._idle:
            try:
                db = self._idle.pop()
            except IndexError:
                return
            db.close()

    def _query(self, query: str) -> str:
        return SQL[query]

    def _spelled(self, sql: str) -> str:
        return spelled(sql)

    def _as_list(self, items: Iterable[object]) -> object:
        return as_list(items)

    def notifications(self, session_id: str, after: int) -> list[tuple[int, str]]:
        rows = self._rows("notifications", session_id=session_id, after=after)
        cursor, returned_early = self._notified.get(session_id, (0, frozenset()))
        # A caller that continues from the cursor already has the notifications returned early.
        if cursor == after:
            rows = [row for row in rows if (row["number"], row["run_id"]) not in returned_early]
        if rows:
            new = frozenset((row["number"], row["run_id"]) for row in rows)
            last = rows[-1]["id"]
            self._notified[session_id] = (
                last,
                frozenset(
                    notification for notification in new | returned_early if notification[0] > last
                ),
            )
        return [(row["id"], row["run_id"]) for row in rows]

    def next_look(self) -> NextDue:
        (due,) = self._fetch(SQL["next_look"])
        work = [due["wake_at"]]
        if due["rated"]:
            work.append(self._next_admission())
        return NextDue(
            min((time for time in work if time is not None), default=None),
            *(
                due[name]
                for name in (
                    "deadline",
                    "schedule",
                    "flow_at",
                    "attempt_until",
                    "news_at",
                    "stage_at",
                )
            ),
        )

    def check(self, progress: CheckProgress | None = None) -> list[str]:
        return self._damage_found() + self._broken_laws(progress)

    def facts(self) -> dict[str, object]:
        columns = ", ".join(f"current_setting('{name}') AS {name}" for name in _SETTINGS)
        (settings,) = self._ask(
            f"SELECT {columns}, current_setting('server_version') AS postgres,"
            " pg_database_size(current_database()) AS bytes"
        )
        (schema,) = self._ask("SELECT MAX(number) AS schema FROM holdfast.migration")
        lossy = [
            name
            for name in ("fsync", "synchronous_commit", "full_page_writes")
            if settings[name] == "off"
        ]
        text = f"a crash of the server may lose what was committed: {', '.join(lossy)} off"
        warning = {"warnings": [text]} if lossy else {}
        return {
            "database": self.address.shown,
            "driver": f"psycopg {psycopg.__version__}",
            **settings,
            **schema,
            **warning,
        }

    def close(self) -> None:
        self._closed = self._closed or "it was closed"
        self._close_idle()


class _PostgresSnapshot(PostgresReader):
    """A reader whose queries all run in one transaction of another reader."""

    def __init__(self, reader: PostgresReader, db: Connection) -> None:
        super().__init__(reader.address, reader.clock)
        self._db = db

    def persist(self, attempt: Callable[[], T]) -> T:
        """Make one attempt: another connection would read another snapshot."""
        try:
            return attempt()
        except (ConnectionLost, RetryTransaction, TemporarilyUnavailable) as error:
            raise StoreUnavailable(database=self.address.shown, reason=str(error)) from error

    def _borrow(self) -> Connection:
        return self._db

    def _give_back(self, db: Connection) -> None:
        """Keep the transaction open: the reader that began it ends it."""
