"""The writing connection as user code gets it: a real connection of its driver that refuses
whatever would harm other runs.

Invariants:
- While the connection is lent, SQLite's authorizer refuses statements that end the transaction,
  reach the savepoints of Holdfast, create or change its tables (a temporary table of such a name
  would hide the real one), attach other files or change settings. Methods that close or configure
  the connection are refused at any time; the store calls those of the base class.
- After the step, the connection and its cursors refuse everything.
- SQL can still roll back the whole transaction (``INSERT OR ROLLBACK``). From then on every
  statement is refused, because it would commit by itself, and the store raises ``LoanBroken``.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from holdfast.errors import BadOption

try:
    import apsw
except ImportError:  # apsw is optional
    apsw = None  # type: ignore[assignment]

T = TypeVar("T")

_ENDS_TRANSACTION = (
    "a step must not begin, commit or roll back: the engine commits its writes together with its"
    " record"
)
_ENGINE_OWNS = (
    "the connection belongs to the engine: a step must not close it, nor change its settings or"
    " hooks"
)
_STEP_ENDED = "the connection was lent to a step that has ended: ask for connection() in each step"
_ONE_FILE = (
    "a step must not attach or detach databases: its writes commit together with its record, in"
    " one file"
)
_RESERVED_NAMES = (
    "names that begin with holdfast_ belong to the engine: a step must not create, change or drop"
    " what has such a name"
)
_BROKEN = (
    "the step has rolled back the whole transaction, as INSERT OR ROLLBACK does, or closed the"
    " connection"
)

_PREFIX = "holdfast_"
_AUTH = 23
_ROLL_BACK = frozenset({7, 10, 13})
"""Errors upon which SQLite itself may roll back the transaction: out of memory, I/O error, disk
full."""

# Action codes of SQLite's authorizer.
_PRAGMA = 19
_TRANSACTION = 22
_ATTACH = 24
_DETACH = 25
_SAVEPOINT = 32

_DEFINITIONS = frozenset({*range(1, 9), *range(10, 18), 26, 29, 30})
"""Actions that create, drop or alter tables, indexes, views and triggers, temporary ones
included."""

_HARMLESS_PRAGMAS = frozenset(
    {
        "database_list",
        "defer_foreign_keys",
        "foreign_key_check",
        "foreign_key_list",
        "function_list",
        "index_info",
        "index_list",
        "index_xinfo",
        "integrity_check",
        "quick_check",
        "table_info",
        "table_list",
        "table_xinfo",
    }
)
"""Pragmas that take an argument and change nothing beyond the transaction."""


class LoanBroken(Exception):
    """User code has ended the transaction of the whole batch, or closed the connection."""

    def __init__(self) -> None:
        super().__init__(_BROKEN)
        self.refusal: BadOption = _refusal(_BROKEN)
        self.op: object = None
        """The operation whose user code did it."""


class Loan:
    """The state of a connection that is lent to user code."""

    def __init__(self) -> None:
        self.is_lent: bool | None = None
        """None before the first loan: until then only the store has the connection."""
        self._objection: str = ""
        self._cursors: list[Any] = []
        self._failed_by_itself: bool = False
        """Whether SQLite reported an error upon which it rolls back by itself."""

    def authorize(
        self, action: int, first: object = None, second: object = None, *_: object
    ) -> int:
        """Answer SQLite, which asks before it prepares a statement: 0 allows it, 1 refuses it."""
        # Statements of the store itself pass.
        if not self.is_lent:
            return 0
        objection = _objection(action, str(first or ""), second)
        if objection is None:
            return 0
        self._objection = objection
        return 1

    def call(self, body: Callable[[Any], T], raw: Any) -> T:
        """Call *body* with the connection. Raises BadOption if it tried something that is refused,
        LoanBroken if it ended the transaction."""
        self.is_lent = True
        self._failed_by_itself = False
        try:
            result = body(raw)
        except Exception as error:
            if code_of(error) == _AUTH:
                # SQLite says only that the statement was not authorized.
                raise _refusal(self._objection) from error
            if not self._is_intact(raw):
                raise LoanBroken from error
            raise
        finally:
            self.is_lent = False
            self._close_cursors()
        if not self._is_intact(raw):
            raise LoanBroken
        return result

    def lend(self, cursor: Any) -> Any:
        """Register a cursor of user code: nothing can be committed while one of its statements is
        unfinished."""
        self._cursors.append(cursor)
        return cursor

    def execute(self, raw: Any, call: Callable[[], T]) -> T:
        """Execute a statement of user code."""
        self.check()
        if self.is_lent and not raw.in_transaction:
            raise _refusal(_BROKEN)
        try:
            return call()
        except Exception as error:
            self._failed_by_itself = self._failed_by_itself or code_of(error) in _ROLL_BACK
            raise

    def check(self) -> None:
        """Raise BadOption if the connection was lent to a step that has ended."""
        if self.is_lent is False:
            raise _refusal(_STEP_ENDED)

    def _is_intact(self, raw: Any) -> bool:
        """Return whether the transaction is still open, or SQLite has ended it by itself: that is
        not the fault of the body."""
        if self._failed_by_itself:
            return True
        try:
            return bool(raw.in_transaction)
        except Exception:  # apsw: the connection is closed
            return False

    def _close_cursors(self) -> None:
        cursors = self._cursors
        self._cursors = []
        for cursor in cursors:
            close_cursor(cursor)


def close_cursor(cursor: Any) -> None:
    """Close a cursor of either driver, and ignore an error: its connection may be closed."""
    try:
        if isinstance(cursor, sqlite3.Cursor):
            cursor.close()
        else:
            cursor.close(force=True)
    except Exception:
        return


def code_of(error: BaseException) -> int:
    """Return SQLite's primary error code for an exception of a driver, 0 if it has none."""
    # The low byte of an extended code is the primary one.
    return extended_code(error) & 0xFF


def extended_code(error: BaseException) -> int:
    """Return SQLite's extended error code for an exception of a driver, 0 if it has none."""
    code = getattr(error, "sqlite_errorcode", None) or getattr(error, "extendedresult", None)
    return code if isinstance(code, int) else 0


def _objection(action: int, first: str, second: object) -> str | None:
    """Return why user code must not perform this action; None if it may."""
    if action == _TRANSACTION:
        return _ENDS_TRANSACTION
    if action == _SAVEPOINT and str(second or "").lower().startswith("holdfast"):
        return _ENDS_TRANSACTION
    if action in (_ATTACH, _DETACH):
        return _ONE_FILE
    if action in _DEFINITIONS and _PREFIX in (
        first[: len(_PREFIX)].lower(),
        str(second or "")[: len(_PREFIX)].lower(),
    ):
        return _RESERVED_NAMES
    if action == _PRAGMA and second is not None and first.lower() not in _HARMLESS_PRAGMAS:
        return f"{_ENGINE_OWNS} (PRAGMA {first})"
    return None


def _refusal(why: str) -> BadOption:
    return BadOption(option="transactional step", why=why)


def _refuse_setting(*_: object, **__: object) -> NoReturn:
    raise _refusal(_ENGINE_OWNS)


def _refuse_to_end(*_: object, **__: object) -> NoReturn:
    raise _refusal(_ENDS_TRANSACTION)


class LentCursor(sqlite3.Cursor):
    """A cursor of the standard library for user code."""

    def execute(self, *arguments: Any) -> Any:
        connection: Any = self.connection
        return connection.loan.execute(
            connection, lambda: super(LentCursor, self).execute(*arguments)
        )

    def executemany(self, *arguments: Any) -> Any:
        connection: Any = self.connection
        return connection.loan.execute(
            connection, lambda: super(LentCursor, self).executemany(*arguments)
        )

    def executescript(self, *arguments: Any) -> Any:
        connection: Any = self.connection
        return connection.loan.execute(
            connection, lambda: super(LentCursor, self).executescript(*arguments)
        )


class LentConnection(sqlite3.Connection):
    """The writing connection of the standard library."""

    loan: Loan

    def cursor(self, *arguments: Any, **options: Any) -> Any:
        self.loan.check()
        # A cursor class of the caller is used as it is: the authorizer still guards its statements.
        if not arguments and not options:
            arguments = (LentCursor,)
        return self.loan.lend(super().cursor(*arguments, **options))

    def execute(self, *arguments: Any) -> Any:
        return self.cursor().execute(*arguments)

    def executemany(self, *arguments: Any) -> Any:
        return self.cursor().executemany(*arguments)

    def executescript(self, *arguments: Any) -> Any:
        return self.cursor().executescript(*arguments)


# `backup` is refused because it would wait forever for the end of the step's own transaction.
_STANDARD_SETTINGS = """backup close deserialize enable_load_extension interrupt load_extension
    set_authorizer
    set_progress_handler setconfig setlimit"""
_APSW_SETTINGS = """aclose autovacuum_pages backup close config deserialize enable_load_extension
    enableloadextension file_control
    filecontrol interrupt limit load_extension loadextension reserve_bytes set_authorizer
    set_busy_handler set_busy_timeout
    set_commit_hook set_progress_handler set_rollback_hook set_wal_hook setauthorizer
    setbusyhandler setbusytimeout setcommithook
    setprogresshandler setrollbackhook setwalhook wal_autocheckpoint"""


def _refuse(kind: type, methods: str, refuse: Callable[..., NoReturn]) -> None:
    """Make connections of *kind* refuse these methods, as far as their base class has them."""
    for name in methods.split():
        # Which methods there are depends on the versions of Python and apsw.
        if hasattr(kind.__mro__[1], name):
            setattr(kind, name, refuse)


def _freeze(kind: type, attributes: str) -> None:
    """Make connections of *kind* refuse to set these attributes."""
    for name in attributes.split():
        attribute = getattr(kind.__mro__[1], name, None)
        if attribute is not None:
            setattr(kind, name, property(attribute.__get__, _refuse_setting))


_refuse(LentConnection, _STANDARD_SETTINGS, _refuse_setting)
_refuse(LentConnection, "commit rollback", _refuse_to_end)
_freeze(LentConnection, "autocommit isolation_level")

if apsw is None:
    ApswLentConnection: Any = None
else:

    class ApswLentCursor(apsw.Cursor):
        """A cursor of user code."""

        def execute(self, *arguments: Any, **options: Any) -> Any:
            connection: Any = self.connection
            return connection.loan.execute(
                connection, lambda: super(ApswLentCursor, self).execute(*arguments, **options)
            )

        def executemany(self, *arguments: Any, **options: Any) -> Any:
            connection: Any = self.connection
            return connection.loan.execute(
                connection, lambda: super(ApswLentCursor, self).executemany(*arguments, **options)
            )

    class ApswLentConnection(apsw.Connection):  # type: ignore[no-redef]
        """The writing connection of apsw."""

        loan: Loan

        def cursor(self) -> Any:
            self.loan.check()
            return self.loan.lend(ApswLentCursor(self))

    _refuse(ApswLentConnection, _APSW_SETTINGS, _refuse_setting)
    _freeze(ApswLentConnection, "authorizer cursor_factory transaction_mode")
