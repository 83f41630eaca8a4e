"""SQLite through the standard library or, when asked for, through apsw, behind one small face.

A connection here executes a statement and returns all its rows, addressed by column name. It never begins or commits by
itself. Driver errors leave as ours.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn, TypeVar

from holdfast.errors import BadOption, StoreCorrupt, StoreForeign, StoreFull, StoreReadOnly, StoreUnavailable

try:
    import apsw
except ImportError:  # pragma: no cover - both ways are tested, each in its own environment
    apsw = None  # type: ignore[assignment, unused-ignore]

T = TypeVar("T")
Values = Mapping[str, object] | tuple[object, ...]

COMMIT, ROLLBACK = "COMMIT /* holdfast */", "ROLLBACK /* holdfast */"
"""Not the words that a user's function would say: drivers keep prepared statements by their text, and theirs are refused."""


class Busy(Exception):
    """Somebody else has the write lock right now."""


_ERROR, _PERM, _BUSY, _LOCKED, _READONLY, _IOERR, _CORRUPT = 1, 3, 5, 6, 8, 10, 11
_FULL, _CANTOPEN, _PROTOCOL, _AUTH, _NOTADB = 13, 14, 15, 23, 26
_TRANSACTION = 22  # the action, as SQLite's authorizer calls it
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


def code_of(error: BaseException) -> int:
    """Return SQLite's code for what a driver raised, 0 when it has none."""
    code = getattr(error, "sqlite_errorcode", None) or getattr(error, "extendedresult", None)
    return code & 0xFF if isinstance(code, int) else 0


def translate(error: Exception, path: str) -> NoReturn:
    """Raise our error for theirs."""
    code = code_of(error)
    if code in (_BUSY, _LOCKED, _PROTOCOL):
        raise Busy from error
    if code in _MEANING:
        raise _MEANING[code](path=path, reason=str(error)) from error
    if code == _ERROR and any(words in str(error) for words in _TABLES_DIFFER):
        raise StoreForeign(path=path, reason=str(error)) from error
    raise error


class _Guard:
    """What SQLite asks before it prepares a statement: a user's function may do all but end the transaction it is called in."""

    def __init__(self) -> None:
        self.up = False

    def __call__(self, action: int, *_: object) -> int:
        return 1 if self.up and action == _TRANSACTION else 0

    def call(self, body: Callable[[Any], T], raw: Any) -> T:
        """Call *body* with the connection. Raises BadOption when it tries to end the transaction."""
        self.up = True
        try:
            return body(raw)
        except Exception as error:
            if code_of(error) != _AUTH:
                raise
            why = "it must not begin, commit or roll back: that is done for it, together with its record"
            raise BadOption(option="transactional step", why=why) from error
        finally:
            self.up = False


class _Open(sqlite3.Connection):
    """One that lets us set attributes."""


class StandardConnection:
    """A connection of the standard library."""

    version = sqlite3.sqlite_version
    kind = "sqlite3"
    api: type = sqlite3.Connection

    def __init__(self, path: str) -> None:
        self.path = path
        self._guard = _Guard()
        try:
            self.raw: Any = sqlite3.connect(
                path, isolation_level=None, cached_statements=256, check_same_thread=False, timeout=0, factory=_Open
            )
        except sqlite3.Error as error:
            translate(error, path)
        self.raw.row_factory = sqlite3.Row

    def rows(self, sql: str, values: Values = ()) -> list[Any]:
        """Execute and return all rows."""
        try:
            found: list[Any] = self.raw.execute(sql, values).fetchall()
            return found
        except sqlite3.Error as error:
            translate(error, self.path)

    def change(self, sql: str, values: Values = ()) -> int:
        """Execute and return how many rows an INSERT, UPDATE or DELETE changed."""
        try:
            count: int = self.raw.execute(sql, values).rowcount
            return count
        except sqlite3.Error as error:
            translate(error, self.path)

    def many(self, sql: str, values: Iterable[tuple[object, ...]]) -> int:
        """Execute once per set of values and return how many rows changed in all."""
        try:
            count: int = self.raw.executemany(sql, values).rowcount
            return count
        except sqlite3.Error as error:
            translate(error, self.path)

    def guard(self) -> None:
        """Get ready for user code, which must not end a transaction."""
        self.raw.set_authorizer(self._guard)

    def call(self, body: Callable[[Any], T]) -> T:
        """Call a user's function with the driver's own connection; whatever it sets or leaves open there is undone."""
        used: list[sqlite3.Cursor] = []

        def cursor(*arguments: Any) -> sqlite3.Cursor:
            used.append(sqlite3.Connection.cursor(self.raw, *arguments))
            return used[-1]

        def by_cursor(name: str) -> Callable[..., Any]:
            return lambda *arguments: getattr(cursor(), name)(*arguments)

        self.raw.row_factory = None  # plain tuples, as on any connection
        shortcuts = ("execute", "executemany", "executescript")
        self.raw.__dict__.update(cursor=cursor, **{name: by_cursor(name) for name in shortcuts})
        try:
            return self._guard.call(body, self.raw)
        finally:
            self.raw.__dict__.clear()
            for one in used:
                one.close()  # nothing can be committed while a statement has not come to its end
            self.raw.row_factory, self.raw.text_factory = sqlite3.Row, str

    def in_transaction(self) -> bool:
        return bool(self.raw.in_transaction)

    def close(self) -> None:
        self.raw.close()


class ApswConnection:
    """A connection of apsw, which brings a newer SQLite."""

    version = apsw.sqlite_lib_version() if apsw is not None else ""
    kind = "apsw"
    api: type = apsw.Connection if apsw is not None else object

    def __init__(self, path: str) -> None:
        self.path = path
        self._guard = _Guard()
        self._columns: dict[str, list[str]] = {}
        try:
            self.raw = apsw.Connection(path, statementcachesize=256)
        except apsw.Error as error:
            translate(error, path)

    def rows(self, sql: str, values: Values = ()) -> list[Any]:
        """Execute and return all rows."""
        try:
            cursor = self.raw.execute(sql, values or None)
            found = cursor.fetchone()
            if found is None:
                return []
            names = self._columns.get(sql)
            if names is None:
                names = self._columns[sql] = [column[0] for column in cursor.get_description()]
            return [dict(zip(names, row, strict=True)) for row in (found, *cursor)]
        except apsw.Error as error:
            translate(error, self.path)

    def change(self, sql: str, values: Values = ()) -> int:
        """Execute and return how many rows an INSERT, UPDATE or DELETE changed; after anything else it means nothing."""
        try:
            self.raw.execute(sql, values or None)
        except apsw.Error as error:
            translate(error, self.path)
        return self.raw.changes()

    def many(self, sql: str, values: Iterable[tuple[object, ...]]) -> int:
        """Execute once per set of values and return how many rows changed in all."""
        before = self.raw.total_changes()
        try:
            self.raw.executemany(sql, values)
        except apsw.Error as error:
            translate(error, self.path)
        return self.raw.total_changes() - before

    def guard(self) -> None:
        """Get ready for user code, which must not end a transaction."""
        self.raw.authorizer = self._guard

    def call(self, body: Callable[[Any], T]) -> T:
        """Call a user's function with the driver's own connection; whatever it sets or leaves open there is undone."""
        used: list[apsw.Cursor] = []

        def cursor(connection: apsw.Connection) -> apsw.Cursor:
            used.append(apsw.Cursor(connection))
            return used[-1]

        self.raw.cursor_factory = cursor
        try:
            return self._guard.call(body, self.raw)
        finally:
            self.raw.cursor_factory = apsw.Cursor
            for one in used:
                one.close(force=True)  # nothing can be committed while a statement has not come to its end
            self.raw.row_trace = self.raw.exec_trace = None

    def in_transaction(self) -> bool:
        return self.raw.in_transaction

    def close(self) -> None:
        self.raw.close()


Connection = StandardConnection | ApswConnection


def connection_type(wanted: str | None = None) -> type[StandardConnection] | type[ApswConnection]:
    """Return the wanted driver; the setting HOLDFAST_SQLITE names one too, else it is that of the standard library.

    apsw is not chosen unasked: it brings an SQLite of its own, and two of them in one process, one here and one that the
    program itself opens the same file with, undo each other's locks and destroy the file."""
    wanted = wanted or os.environ.get("HOLDFAST_SQLITE") or None
    if wanted not in (None, "sqlite3", "apsw"):
        raise BadOption(option="driver", value=wanted, why="there are sqlite3 and apsw")
    if wanted == "apsw" and apsw is None:
        raise BadOption(option="driver", value=wanted, why="it is not installed: pip install 'holdfast[sqlite]'")
    return ApswConnection if wanted == "apsw" else StandardConnection


def statements(sql: str) -> list[str]:
    """Split a script into its statements; our scripts have no semicolons but at their ends, and within triggers."""
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
