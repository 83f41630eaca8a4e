"""Connections to SQLite through the standard library or, on request, through apsw, with one
interface.

A connection executes a statement and returns all its rows, addressed by column name. It never
begins or commits by itself. It translates driver errors to errors of Holdfast.
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
except ImportError:  # pragma: no cover - tested in an environment of its own
    apsw = None  # type: ignore[assignment, unused-ignore]

T = TypeVar("T")
Values = Mapping[str, object] | tuple[object, ...]

# The comments make these texts differ from statements of user code: drivers cache prepared
# statements by their text, and the authorizer refuses the user's only when they are prepared.
COMMIT = "COMMIT /* holdfast */"
ROLLBACK = "ROLLBACK /* holdfast */"
SAVEPOINT = "SAVEPOINT %s /* holdfast */"
RELEASE = "RELEASE %s /* holdfast */"
ROLLBACK_TO = "ROLLBACK TO %s /* holdfast */"


DRIVER_ERRORS: tuple[type[Exception], ...] = (
    (sqlite3.Error,) if apsw is None else (sqlite3.Error, apsw.Error)
)
"""The base classes of the errors that the drivers raise."""


class WriteLockBusy(Exception):
    """Another connection has the write lock."""


# Result codes of SQLite.
_ERROR = 1
_PERM = 3
_BUSY = 5
_LOCKED = 6
_READONLY = 8
_IOERR = 10
_CORRUPT = 11
_FULL = 13
_CANTOPEN = 14
_PROTOCOL = 15
_NOTADB = 26
_UNIQUE = frozenset({1555, 2067})
"""The extended codes for a violated primary key and a violated unique index."""

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
    """Raise the error of Holdfast for an error of a driver; an unknown one is raised unchanged."""
    code = code_of(error)
    # First, because it is frequent and no fault: the caller waits and tries again.
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
    """Return a cell of the given storage class; a text arrives as bytes, and is decoded if it is
    UTF-8."""
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
                # mode=rw never creates a file: the database may have been moved a moment ago
                f"file:{quote(path)}?mode=rw",
                uri=True,
                # No implicit BEGIN: transactions are begun by hand.
                isolation_level=None,
                cached_statements=256,
                # One thread at a time uses it. The adapter waits for the write lock by itself.
                check_same_thread=False,
                timeout=0,
                factory=LentConnection,
            )
        except sqlite3.Error as error:
            translate(error, path)
        self.raw.loan = self._loan
        self.raw.row_factory = sqlite3.Row
        # The methods of the base class, which do not check whether the connection is lent.
        unguarded: Any = super(LentConnection, self.raw)
        self._execute: Callable[..., sqlite3.Cursor] = unguarded.execute
        self._execute_many: Callable[..., sqlite3.Cursor] = unguarded.executemany

    def rows(self, sql: str, values: Values = ()) -> list[Any]:
        """Execute and return all rows."""
        try:
            rows: list[Any] = self._execute(sql, values).fetchall()
            return rows
        except sqlite3.Error as error:
            # The driver has no code for this. Only reads are repeated: a write may have taken
            # effect.
            if "decode to UTF-8" in str(error) and sql.startswith(("SELECT", "WITH")):
                return self._rows_with_damaged_text(sql, values)
            translate(error, self.path)

    def _rows_with_damaged_text(self, sql: str, values: Values) -> list[Any]:
        """Execute a query again, so that a text that is not UTF-8 is returned as bytes: then only
        its own row is refused."""
        self.raw.text_factory = _text_or_bytes
        try:
            rows: list[Any] = self._execute(sql, values).fetchall()
            return rows
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
        """Install the authorizer that checks user code while the connection is lent."""
        sqlite3.Connection.set_authorizer(self.raw, self._loan.authorize)

    def call(self, body: Callable[[Any], T]) -> T:
        """Call a user's function with the driver's connection, and reset afterwards what it has set
        or left open."""
        self.raw.row_factory = None  # plain tuples, as on any connection
        try:
            return self._loan.call(body, self.raw)
        finally:
            self.raw.row_factory = sqlite3.Row
            self.raw.text_factory = str

    def copy_to(self, target: Any, pages: int, progress: Callable[[int, int], None]) -> None:
        """Copy all pages of the database to *target*, some at a time."""
        try:
            sqlite3.Connection.backup(
                self.raw,
                target.raw,
                pages=pages,
                progress=lambda _, left, total: progress(total - left, total),
            )
        except sqlite3.Error as error:
            translate(error, target.path)

    def in_transaction(self) -> bool:
        return bool(self.raw.in_transaction)

    def close(self) -> None:
        sqlite3.Connection.close(self.raw)

    def abandon(self) -> None:
        """Never close the connection: SQLite would delete a WAL by name that belongs to another
        database now."""
        _leak(self.raw)


class ApswConnection:
    """A connection of apsw, which contains a newer SQLite."""

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
            first = cursor.fetchone()
            if first is None:
                return []
            # The names of the columns are the same each time, so they are read once.
            names = self._columns.get(sql)
            if names is None:
                names = self._columns[sql] = [column[0] for column in cursor.get_description()]
            return [dict(zip(names, row, strict=True)) for row in (first, *cursor)]
        except UnicodeDecodeError:
            return self._rows_with_damaged_text(sql, values)
        except apsw.Error as error:
            translate(error, self.path)

    def _rows_with_damaged_text(self, sql: str, values: Values) -> list[Any]:
        """Execute a query again, so that a text that is not UTF-8 is returned as bytes: then only
        its own row is refused. apsw has no setting for that, so the query casts each text to bytes.
        """
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
        """Execute and return how many rows an INSERT, UPDATE or DELETE changed; meaningless after
        other statements."""
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
        """Install the authorizer that checks user code while the connection is lent."""
        # Past `ApswLentConnection`, which refuses an authorizer of user code.
        vars(apsw.Connection)["authorizer"].__set__(self.raw, self._loan.authorize)

    def call(self, body: Callable[[Any], T]) -> T:
        """Call a user's function with the driver's connection, and reset afterwards what it has set
        or left open."""
        try:
            return self._loan.call(body, self.raw)
        finally:
            with suppress(apsw.ConnectionClosedError):
                self.raw.row_trace = None
                self.raw.exec_trace = None

    def copy_to(self, target: Any, pages: int, progress: Callable[[int, int], None]) -> None:
        """Copy all pages of the database to *target*, some at a time."""
        try:
            with apsw.Connection.backup(target.raw, "main", self.raw, "main") as copy:
                while not copy.done:
                    copy.step(pages)
                    progress(copy.page_count - copy.remaining, copy.page_count)
        except apsw.Error as error:
            translate(error, target.path)

    def in_transaction(self) -> bool:
        return bool(self.raw.in_transaction)

    def close(self) -> None:
        apsw.Connection.close(self.raw)

    def abandon(self) -> None:
        """Never close the connection: SQLite would delete a WAL by name that belongs to another
        database now."""
        _leak(self.raw)


Connection = StandardConnection | ApswConnection


def _leak(raw: object) -> None:
    """Keep an object alive until the process ends, by one reference too many: the interpreter
    clears all ordinary references at its end."""
    # The C API of CPython: no object of Python outlives the interpreter.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(raw))


FLAWED = (3, 51, 3)
"""SQLite before this version can corrupt a WAL if two connections write or checkpoint at the same
time."""


def is_flawed(version: str) -> bool:
    """Return whether this version of SQLite can corrupt a WAL."""
    return tuple(int(part) for part in version.split(".")) < FLAWED


def safest() -> str | None:
    """Return the driver whose SQLite cannot corrupt a WAL; None if both are equal, or the user
    names a driver in HOLDFAST_SQLITE."""
    if apsw is None or os.environ.get("HOLDFAST_SQLITE"):
        return None
    better = is_flawed(StandardConnection.version) and not is_flawed(ApswConnection.version)
    return "apsw" if better else None


def connection_type(wanted: str | None = None) -> type[StandardConnection] | type[ApswConnection]:
    """Return the connection class of the wanted driver, or of HOLDFAST_SQLITE, or of the standard
    library. Raises BadOption.

    apsw is not chosen unless it is asked for, because it contains its own SQLite: two copies of
    SQLite in one process that open the same file drop each other's locks and destroy the file.
    """
    if wanted is None:
        wanted = os.environ.get("HOLDFAST_SQLITE") or None
    if wanted is not None and not is_one_of(wanted, ("sqlite3", "apsw")):
        raise BadOption(option="driver", value=wanted, why="the drivers are sqlite3 and apsw")
    if wanted == "apsw" and apsw is None:
        raise BadOption(
            option="driver", value=wanted, why="it is not installed: pip install 'holdfast[sqlite]'"
        )
    return ApswConnection if wanted == "apsw" else StandardConnection


def statements(sql: str) -> list[str]:
    """Split a script into its statements. In our scripts, semicolons occur only at the end of
    statements and within triggers."""
    text = "\n".join(line.split("--", 1)[0] for line in sql.splitlines())
    complete = []
    statement = ""
    for part in text.split(";"):
        statement += part
        if statement.strip() and sqlite3.complete_statement(f"{statement};"):
            complete.append(statement.strip())
            statement = ""
        elif statement.strip():
            statement += ";"  # the semicolon is within a trigger
    return complete
