"""Looking into a SQLite file without disturbing whoever writes it: as many reading connections as there are readers at once."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from holdfast.errors import EngineClosed, StoreBusy
from holdfast.store.clock import Clock
from holdfast.store.contract import Checked
from holdfast.store.reading import RowReader, values_of
from holdfast.store.sqlite.driver import ApswConnection, Busy, Connection, StandardConnection
from holdfast.store.sqlite.sql import SQL, as_list, spelled
from holdfast.store.words import in_our_words

FLAWED = (3, 51, 3)
"""SQLite before this version can corrupt a WAL when two connections checkpoint at once."""

WARNING = (
    "SQLite before 3.51.3 may damage a WAL that several processes share: "
    "pip install 'holdfast[sqlite]' and set HOLDFAST_SQLITE=apsw"
)


class SqliteReader(RowReader):
    """What can be asked of a SQLite file, by any thread at any time."""

    def __init__(self, path: str, connect: type[StandardConnection] | type[ApswConnection], clock: Clock) -> None:
        self._reader_path, self._open, self.clock = path, connect, clock
        self._idle: list[Connection] = []
        self._closed: str | None = None

    def now(self) -> int:
        """The time by which this store lives."""
        return self.clock.now()

    def _refuse_when_closed(self) -> None:
        if self._closed is not None:
            raise EngineClosed(database=self._reader_path, why=self._closed)

    def _borrow(self) -> Connection:
        self._refuse_when_closed()
        try:
            return self._idle.pop()
        except IndexError:
            return self._open_reader()

    def _open_reader(self) -> Connection:
        db = self._open(self._reader_path)
        db.rows("PRAGMA busy_timeout = 5000")
        db.rows("PRAGMA query_only = 1")
        db.rows("PRAGMA wal_autocheckpoint = 0")  # only the writer checkpoints
        return db

    def _give_back(self, db: Connection) -> None:
        self._idle.append(db)
        if self._closed is not None:  # closed meanwhile, perhaps just now
            self._close_idle()

    def _close_idle(self) -> None:
        """Close what no thread is using; whoever uses one now closes it when done."""
        while self._idle:
            try:
                db = self._idle.pop()
            except IndexError:
                return
            db.close()

    def _rows(self, query: str, **values: object) -> list[Any]:
        return self._ask(SQL[query], values)

    def _ask(self, sql: str, values: Any = ()) -> list[Any]:
        db = self._borrow()
        try:
            return db.rows(sql, values)
        except Busy as error:
            raise StoreBusy(path=self._reader_path) from error
        except (UnicodeEncodeError, OverflowError) as error:
            raise in_our_words(error) from error
        finally:
            self._give_back(db)

    def _spelled(self, sql: str) -> str:
        return spelled(sql)

    def _as_list(self, items: Iterable[object]) -> object:
        return as_list(items)

    def check(self, progress: Checked | None = None) -> list[str]:
        found = [values_of(row)[0] for row in self._ask("PRAGMA quick_check")]
        return [f"the file is damaged: {damage}" for damage in found if damage != "ok"] + self._broken_laws(progress)

    def facts(self) -> dict[str, object]:
        db = self._open
        version = tuple(int(part) for part in db.version.split("."))
        settings = {name: values_of(self._ask(f"PRAGMA {name}")[0])[0] for name in ("journal_mode", "page_size")}
        warning = {"warning": WARNING}
        return {
            "database": self._reader_path,
            "driver": db.kind,
            "sqlite": db.version,
            **settings,
            "schema": max(row["number"] for row in self._ask("SELECT number FROM holdfast_migration")),
            "bytes": os.path.getsize(self._reader_path),
            **(warning if version < FLAWED else {}),
        }

    def close(self) -> None:
        self._closed = self._closed or "it was closed"
        self._close_idle()
