"""SQLite through the standard library or, when asked for, through apsw, behind one small face.

A connection here executes a statement and returns all its rows, addressed by column name. It never
begins or commits by itself. Driver errors leave as ours.
"""

from __future__ import annotations

import ctypes
import os
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, NoReturn, TypeVar
from urllib.parse import quote

from holdfast.core.text import is_one_of
from holdfast.errors import (
    BadOption,
    StoreCorrupt,
    StoreForeign,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
    WriteConflict,
)
from holdfast.store import clear_values, sealing
from holdfast.store.sqlite.user_connection import (
    ApswLentConnection,
    LentConnection,
    Loan,
    code_of,
    extended_code,
)

try:
    import apsw
except ImportError:  # pragma: no cover - both ways are tested, each in its own environment
    apsw = None  # type: ignore[assignment, unused-ignore]

T = TypeVar("T")
Values = Mapping[str, object] | tuple[object, ...]

COMMIT, ROLLBACK = "COMMIT /* holdfast */", "ROLLBACK /* holdfast */"
SAVEPOINT, RELEASE, ROLLBACK_TO = (
    "SAVEPOINT %s /* holdfast */",
    "RELEASE %s /* holdfast */",
    "ROLLBACK TO %s /* holdfast */",
)
"""Not the texts that a user's function executes: drivers keep prepared statements by their text,
and those of users are refused when they are prepared."""


DRIVER_ERRORS: tuple[type[Exception], ...] = (
    (sqlite3.Error,) if apsw is None else (sqlite3.Error, apsw.Error)
)
"""What the drivers raise."""


class WriteLockBusy(Exception):
    """Somebody else has the write lock right now."""


_ERROR, _PERM, _BUSY, _LOCKED, _READONLY, _IOERR, _CORRUPT = 1, 3, 5, 6, 8, 10, 11
_FULL, _CANTOPEN, _PROTOCOL, _NOTADB = 13, 14, 15, 26
_UNIQUE = frozenset({1555, 2067})
"""The extended codes of a primary key and of a unique index."""

_MEANING = {
    _PERM: StoreUnavailable,
    _READONLY: StoreReadOnly,
    _CORRUPT: StoreCorrupt,
    _NOTADB: StoreCorrupt,
    _FULL: StoreFull,
    _CANTOPEN: StoreUnavailable,
    _IOERR: StoreUnavailable,
}
_TABLES_DIFFER = ("no such table", "no such column", "has no column named")


def translate(error: Exception, path: str) -> NoReturn:
    """Raise our error for theirs."""
    code = code_of(error)
    if code in (_BUSY, _LOCKED, _PROTOCOL):
        raise WriteLockBusy from error
    refused = sealing.refused(str(error), path) or clear_values.refused(str(error), path)
    if refused is not None:
        raise refused from error
    if extended_code(error) in _UNIQUE:
        raise WriteConflict(path=path, reason=str(error)) from error
    if code in _MEANING:
        raise _MEANING[code](path=path, reason=str(error)) from error
    if code == _ERROR and any(words in str(error) for words in _TABLES_DIFFER):
        raise StoreForeign(path=path, reason=str(error)) from error
    raise error


def _text_or_bytes(data: bytes) -> str | bytes:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data


def _text_of(cell: Any, kind: object) -> Any:
    """Return a value of the declared kind; a text, which comes as bytes, as text if it is
    Unicode."""
    return _text_or_bytes(cell) if kind == "text" else cell


class StandardConnection:
    """A connection of the standard library."""

    version = sqlite3.sqlite_version
    kind = "sqlite3"
    api: type = sqlite3.Connection

    def __init__(self, path: str) -> None:
        self.path = path
        self._loan = Loan()
        try:
            self.raw: Any = sqlite3.connect(
                # never creates a file: it may have been moved a moment ago
                f"file:{quote(path)}?mode=rw",
                uri=True,
                isolation_level=None,
                cached_statements=256,
                check_same_thread=False,
                timeout=0,
                factory=LentConnection,
            )
        except sqlite3.Error as error:
            translate(error, path)
        self.raw.loan = self._loan
        self.raw.row_factory = sqlite3.Row
        plain: Any = super(
            LentConnection, self.raw
        )  # the methods of the library itself, which the loan does not guard
        self._execute: Callable[..., sqlite3.Cursor] = plain.execute
        self._execute_many: Callable[..., sqlite3.Cursor] = plain.executemany

    def rows(self, sql: str, values: Values = ()) -> list[Any]:
        """Execute and return all rows."""
        try:
            found: list[Any] = self._execute(sql, values).fetchall()
            return found
        except sqlite3.Error as error:
            if "decode to UTF-8" in str(error) and sql.startswith(("SELECT", "WITH")):
                return self._rows_with_damaged_text(sql, values)
            translate(error, self.path)

    def _rows_with_damaged_text(self, sql: str, values: Values) -> list[Any]:
        """Execute once more. A text that is not Unicode comes as bytes, so that only its own row is
        refused."""
        self.raw.text_factory = _text_or_bytes
        try:
            found: list[Any] = self._execute(sql, values).fetchall()
            return found
        except sqlite3.Error as error:
            translate(error, self.path)
        finally:
            self.raw.text_factory = str

    def change(self, sql: str, values: Values = ()) -> int:
        """Execute and return how many rows an INSERT, UPDATE or DELETE changed."""
        try:
            count: int = self._execute(sql, values).rowcount
            return count
        except sqlite3.Error as error:
            translate(error, self.path)

    def many(self, sql: str, values: Iterable[tuple[object, ...]]) -> int:
        """Execute once per set of values and return how many rows changed in all."""
        try:
            count: int = self._execute_many(sql, values).rowcount
            return count
        except sqlite3.Error as error:
            translate(error, self.path)

    def guard(self) -> None:
        """Get ready to be lent to user code."""
        sqlite3.Connection.set_authorizer(self.raw, self._loan.authorize)

    def call(self, body: Callable[[Any], T]) -> T:
        """Call a user's function with the driver's own connection; what it sets or leaves open
        there is undone."""
        self.raw.row_factory = None  # plain tuples, as on any connection
        try:
            return self._loan.call(body, self.raw)
        finally:
            self.raw.row_factory = sqlite3.Row
            self.raw.text_factory = str

    def in_transaction(self) -> bool:
        return bool(self.raw.in_transaction)

    def close(self) -> None:
        sqlite3.Connection.close(self.raw)

    def abandon(self) -> None:
        """Never close the connection: SQLite would delete the WAL that now has the name of its
        own."""
        _leak(self.raw)


class ApswConnection:
    """A connection of apsw, which brings a newer SQLite."""

    version = apsw.sqlite_lib_version() if apsw is not None else ""
    kind = "apsw"
    api: type = apsw.Connection if apsw is not None else object

    def __init__(self, path: str) -> None:
        self.path = path
        self._loan = Loan()
        self._columns: dict[str, list[str]] = {}
        try:
            self.raw: Any = ApswLentConnection(
                path, flags=apsw.SQLITE_OPEN_READWRITE, statementcachesize=256
            )
        except apsw.Error as error:
            translate(error, path)
        self.raw.loan = self._loan
        self._cursor: Callable[[], apsw.Cursor] = partial(apsw.Cursor, self.raw)

    def rows(self, sql: str, values: Values = ()) -> list[Any]:
        """Execute and return all rows."""
        try:
            cursor = self._cursor().execute(sql, values or None)
            found = cursor.fetchone()
            if found is None:
                return []
            names = self._columns.get(sql)
            if names is None:
                names = self._columns[sql] = [column[0] for column in cursor.get_description()]
            return [dict(zip(names, row, strict=True)) for row in (found, *cursor)]
        except UnicodeDecodeError:
            return self._rows_with_damaged_text(sql, values)
        except apsw.Error as error:
            translate(error, self.path)

    def _rows_with_damaged_text(self, sql: str, values: Values) -> list[Any]:
        """Execute once more. A text that is not Unicode comes as bytes, so that only its own row is
        refused. apsw has no setting for that: the database is asked for the bytes of each text
        instead."""
        try:
            names = [
                column[0]
                for column in self._cursor().execute(sql, values or None).get_description()
            ]
            quoted = [f'"{name}"' for name in names]
            cells = [
                f"CASE typeof({name}) WHEN 'text' THEN CAST({name} AS BLOB) ELSE {name} END"
                for name in quoted
            ]
            kinds = [f"typeof({name})" for name in quoted]
            wrapped = f"SELECT {', '.join([*cells, *kinds])} FROM ({sql.rstrip().rstrip(';')})"
            rows = self._cursor().execute(wrapped, values or None).fetchall()
        except apsw.Error as error:
            translate(error, self.path)
        return [
            dict(zip(names, map(_text_of, row, row[len(names) :]), strict=True)) for row in rows
        ]

    def change(self, sql: str, values: Values = ()) -> int:
        """Execute and return how many rows an INSERT, UPDATE or DELETE changed; after anything else
        it means nothing."""
        try:
            self._cursor().execute(sql, values or None)
        except apsw.Error as error:
            translate(error, self.path)
        return int(self.raw.changes())

    def many(self, sql: str, values: Iterable[tuple[object, ...]]) -> int:
        """Execute once per set of values and return how many rows changed in all."""
        before = self.raw.total_changes()
        try:
            self._cursor().executemany(sql, values)
        except apsw.Error as error:
            translate(error, self.path)
        return int(self.raw.total_changes() - before)

    def guard(self) -> None:
        """Get ready to be lent to user code."""
        vars(apsw.Connection)["authorizer"].__set__(self.raw, self._loan.authorize)

    def call(self, body: Callable[[Any], T]) -> T:
        """Call a user's function with the driver's own connection; what it sets or leaves open
        there is undone."""
        try:
            return self._loan.call(body, self.raw)
        finally:
            with suppress(apsw.ConnectionClosedError):
                self.raw.row_trace = None
                self.raw.exec_trace = None

    def in_transaction(self) -> bool:
        return bool(self.raw.in_transaction)

    def close(self) -> None:
        apsw.Connection.close(self.raw)

    def abandon(self) -> None:
        """Never close the connection: SQLite would delete the WAL that now has the name of its
        own."""
        _leak(self.raw)


Connection = StandardConnection | ApswConnection


def _leak(raw: object) -> None:
    """Keep an object alive until the process ends: one reference too many, for the interpreter
    clears all others at its end."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(raw))


FLAWED = (3, 51, 3)
"""SQLite before this version can corrupt a WAL when two connections write or checkpoint at once."""


def is_flawed(version: str) -> bool:
    """Return whether that version of SQLite can corrupt a WAL."""
    return tuple(int(part) for part in version.split(".")) < FLAWED


def safest() -> str | None:
    """Return the driver whose SQLite cannot corrupt a WAL, unless the user names one; None if that
    makes no difference."""
    if apsw is None or os.environ.get("HOLDFAST_SQLITE"):
        return None
    better = is_flawed(StandardConnection.version) and not is_flawed(ApswConnection.version)
    return "apsw" if better else None


def connection_type(wanted: str | None = None) -> type[StandardConnection] | type[ApswConnection]:
    """Return the wanted driver; the setting HOLDFAST_SQLITE names one too, else it is that of the
    standard library.

    apsw is not chosen unasked: it brings an SQLite of its own, and two of them in one process, one
    here and one that the program itself opens the same file with, undo each other's locks and
    destroy the file."""
    if wanted is None:
        wanted = os.environ.get("HOLDFAST_SQLITE") or None
    if wanted is not None and not is_one_of(wanted, ("sqlite3", "apsw")):
        raise BadOption(option="driver", value=wanted, why="there are sqlite3 and apsw")
    if wanted == "apsw" and apsw is None:
        raise BadOption(
            option="driver", value=wanted, why="it is not installed: pip install 'holdfast[sqlite]'"
        )
    return ApswConnection if wanted == "apsw" else StandardConnection


def statements(sql: str) -> list[str]:
    """Split a script into its statements; our scripts have no semicolons but at their ends, and
    within triggers."""
    text = "\n".join(line.split("--", 1)[0] for line in sql.splitlines())
    found, begun = [], ""
    for part in text.split(";"):
        begun += part
        if begun.strip() and sqlite3.complete_statement(f"{begun};"):
            found.append(begun.strip())
            begun = ""
        elif begun.strip():
            begun += ";"
    return found
