"""Read a SQLite file: a pool of reading connections that do not block the writer.

There are as many connections as threads that read at the same time. Invariant: they are read-only
and never checkpoint; only the writing connection does.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from holdfast.errors import EngineClosed, StoreBusy, StoreError, StoreGone
from holdfast.store.all_queries import StoreQueries
from holdfast.store.clock import Clock
from holdfast.store.database import CheckProgress
from holdfast.store.runs.queries import values_of
from holdfast.store.soundness import as_dict
from holdfast.store.sqlite.connection import (
    DRIVER_ERRORS,
    ApswConnection,
    Connection,
    StandardConnection,
    WriteLockBusy,
    is_flawed,
)
from holdfast.store.sqlite.dialect import SQL, as_list, spelled
from holdfast.store.unstorable import translate_error

WARNING = (
    "SQLite before 3.51.3 may damage a WAL that several processes share: "
    "pip install 'holdfast[sqlite]' and set HOLDFAST_SQLITE=apsw"
)


class SqliteReader(StoreQueries):
    """The queries of a SQLite file, for any thread at any time."""

    _dialect = "sqlite"
    _garbled = DRIVER_ERRORS

    def __init__(
        self, path: str, connect: type[StandardConnection] | type[ApswConnection], clock: Clock
    ) -> None:
        self._reader_path: str = path
        self._open: type[StandardConnection] | type[ApswConnection] = connect
        self.clock: Clock = clock
        self.now = clock.now
        self._idle: list[Connection] = []
        self._closed: str | None = None
        self._loss: str | None = None
        """What happened to the files while they were open."""
        self._reported: set[str] = set()

    def _refuse_when_closed(self) -> None:
        if self._closed is not None:
            raise EngineClosed(database=self._reader_path, why=self._closed)
        if self._loss is not None:
            raise StoreGone(path=self._reader_path, why=self._loss)

    def _refuse_when_gone(self) -> None:
        """Raise StoreGone if the opened files are no longer in place."""

    def _take_connection(self) -> Connection:
        self._refuse_when_closed()
        try:
            return self._idle.pop()
        except IndexError:
            return self._open_reader()

    def _open_reader(self) -> Connection:
        self._refuse_when_gone()  # before SQLite creates a new file under that name
        db = self._open(self._reader_path)
        db.rows("PRAGMA busy_timeout = 5000")
        db.rows("PRAGMA query_only = 1")
        db.rows("PRAGMA wal_autocheckpoint = 0")  # only the writer checkpoints
        return db

    def _return_connection(self, db: Connection) -> None:
        self._idle.append(db)
        if self._closed is not None:  # closed meanwhile, perhaps just now
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

    def _query(self, query: str) -> str:
        return SQL[query]

    def _fetch(self, sql: str, values: Any = ()) -> list[Any]:
        db = self._take_connection()
        try:
            return db.rows(sql, values)
        except WriteLockBusy as error:
            raise StoreBusy(path=self._reader_path) from error
        except StoreError:
            self._refuse_when_gone()  # a missing file is the cause of the error
            raise
        except (UnicodeEncodeError, OverflowError, sqlite3.Error, TypeError) as error:
            raise translate_error(error) from error
        finally:
            self._return_connection(db)

    @contextmanager
    def snapshot(self) -> Iterator[SqliteReader]:
        db = self._take_connection()
        try:
            db.change("BEGIN DEFERRED")
            try:
                # SQLite fixes the state of the snapshot at the first read, not at BEGIN.
                db.rows("SELECT number FROM holdfast_migration LIMIT 1")
                yield _SqliteSnapshot(self, db)
            finally:
                db.change("ROLLBACK TRANSACTION")
        finally:
            self._return_connection(db)

    def _spelled(self, sql: str) -> str:
        return spelled(sql)

    def _as_list(self, items: Iterable[object]) -> object:
        return as_list(items)

    def check(self, progress: CheckProgress | None = None) -> list[str]:
        reports = [values_of(row)[0] for row in self._fetch("PRAGMA integrity_check")]
        damaged = [f"the file is damaged: {report}" for report in reports if report != "ok"]
        damaged += [
            f"the file is damaged: index {name} does not have the entries of its table"
            for name in self._miscounted()
        ]
        return damaged + self._damage_found() + self._broken_laws(progress)

    def _miscounted(self) -> Iterator[str]:
        """Yield the partial indexes that have more or fewer entries than there are rows for them:
        the integrity check of some versions of SQLite does not count these."""
        partial = "type = 'index' AND sql LIKE '% WHERE %' AND name LIKE 'holdfast%'"
        for index in map(
            as_dict, self._fetch(f"SELECT name, tbl_name, sql FROM sqlite_master WHERE {partial}")
        ):
            table = index["tbl_name"]
            condition = index["sql"].split(" WHERE ", 1)[1]
            entries = (
                f"SELECT COUNT(*) AS number FROM {table} INDEXED BY {index['name']} WHERE"
                f" {condition}"
            )
            # Without a WHERE clause SQLite cannot use a partial index: this counts the rows of the
            # table itself.
            rows = (
                f"SELECT COALESCE(SUM(CASE WHEN {condition} THEN 1 ELSE 0 END), 0) AS number FROM"
                f" {table}"
            )
            if self._fetch(entries)[0]["number"] != self._fetch(rows)[0]["number"]:
                yield index["name"]

    def facts(self) -> dict[str, object]:
        db = self._open
        settings = {
            name: values_of(self._ask(f"PRAGMA {name}")[0])[0]
            for name in ("journal_mode", "page_size")
        }
        warnings = [WARNING] if is_flawed(db.version) else []
        if os.name == "posix" and os.stat(self._reader_path).st_mode & 0o007:
            warnings.append(
                f"any user of this host can open the database file: chmod 600 {self._reader_path}"
            )
        if os.stat(self._reader_path).st_nlink > 1:
            warnings.append(
                "the file has several names (hard links): opening it under two of them damages it"
            )
        return {
            "database": self._reader_path,
            "driver": db.kind,
            "sqlite": db.version,
            **settings,
            "schema": max(
                row["number"] for row in self._ask("SELECT number FROM holdfast_migration")
            ),
            "bytes": os.path.getsize(self._reader_path),
            **({"warnings": warnings} if warnings else {}),
        }

    def close(self) -> None:
        self._closed = self._closed or "the store was closed"
        self._close_idle()


class _SqliteSnapshot(SqliteReader):
    """A reader that executes all queries in one transaction of another reader."""

    def __init__(self, reader: SqliteReader, db: Connection) -> None:
        super().__init__(reader._reader_path, reader._open, reader.clock)
        self._refuse_when_gone = reader._refuse_when_gone  # type: ignore[method-assign]
        self._db = db

    def _take_connection(self) -> Connection:
        return self._db

    def _return_connection(self, db: Connection) -> None:
        """Keep the transaction open: the reader that began it ends it."""
