"""The writing connection as user code gets it: a real connection of psycopg that refuses what would
harm other runs.

Invariants:
- While it is lent, it refuses to end the transaction, to close, to reach the savepoints of
  Holdfast, and to change its session.
- The server refuses a COMMIT that does not go through this class, as one by ``connection.pgconn``:
  a transaction that lends the connection holds a cursor that cannot be kept beyond its end. Such a
  COMMIT rolls all back, and is noticed after the step.
- A setting that user code changes in a way that is not recognised, as in a function, is noticed
  after the step, which fails: the rollback to its savepoint restores the setting.
- After the step the connection and its cursors refuse everything. The store uses cursors of its
  own.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import psycopg
from psycopg import pq
from psycopg.rows import tuple_row

from holdfast.errors import BadOption
from holdfast.store.postgres.errors import ConnectionEnded

T = TypeVar("T")

_WORDS = re.compile(
    r"""[eE]'(?:[^'\\]|\\.|'')*' | '(?:[^']|'')*' | "[^"]*" | --[^\n]* | /\*.*?\*/ |
    \$(\w*)\$.*?\$\1\$
        | (?P<word>\w+) | (?P<end>;)""",
    re.VERBOSE | re.DOTALL,
)
_ENDING = frozenset({"abort", "begin", "commit", "end", "rollback", "start"})
_SESSION = frozenset({"deallocate", "discard", "listen", "load", "reset", "set", "unlisten"})
"""Statements whose effect outlasts the transaction."""

SETTLES = "it must not begin, commit or roll back: that is done for it, together with its record"
_KEEPS = (
    "the connection belongs to the engine: a step must not close it, nor change its session; use"
    " SET LOCAL"
)
_ENDED = "the connection was lent to a step that has ended: ask for connection() in each step"
_SET = (
    "it has changed settings of the connection that other runs use: it must set back the role,"
    " search_path, timeouts and modes"
)

_RELIED_ON = (
    "search_path",
    "default_transaction_isolation",
    "transaction_read_only",
    "lock_timeout",
    "statement_timeout",
    "idle_in_transaction_session_timeout",
    "enable_seqscan",
    "jit",
    "synchronous_commit",
    "session_replication_role",
    "row_security",
    "client_encoding",
)
"""Settings that other runs of the same transaction, or later ones, rely on."""

_values = ", ".join(f"current_setting('{name}')" for name in _RELIED_ON)
_has_loan = "EXISTS (SELECT FROM pg_cursors WHERE name = 'holdfast_loan')"
_SETTINGS = f"SELECT concat_ws('|', current_user, {_values}), {_has_loan}".encode()

# A cursor WITH HOLD is read to its end by COMMIT; this one has a row that cannot be read, and the
# failure undoes the transaction. The random number, of which nothing is used, keeps the planner
# from reading that row at once.
OPEN_LOAN = """DECLARE holdfast_loan CURSOR WITH HOLD FOR
    SELECT CAST('a transactional step must not commit' || left(CAST(random() AS TEXT), 0) AS
    INTEGER)"""
"""Let the server refuse to commit this transaction until the loan is closed."""

CLOSE_LOAN = "CLOSE holdfast_loan"


class GuardedCursor(psycopg.Cursor[Any]):
    """A cursor of user code."""

    def execute(self, query: Any, *arguments: Any, **options: Any) -> Any:
        _check(self.connection, query)
        return super().execute(query, *arguments, **options)

    def executemany(self, query: Any, *arguments: Any, **options: Any) -> None:
        _check(self.connection, query)
        super().executemany(query, *arguments, **options)

    def stream(self, query: Any, *arguments: Any, **options: Any) -> Any:
        _check(self.connection, query)
        return super().stream(query, *arguments, **options)

    def copy(self, statement: Any, *arguments: Any, **options: Any) -> Any:
        _check(self.connection, statement)
        return super().copy(statement, *arguments, **options)


class GuardedConnection(psycopg.Connection[Any]):
    """The writing connection."""

    is_lent: bool | None = None
    """None before the first loan: the store itself is the only one that has the connection."""

    _settings: str | None = None
    """The settings of the connection as they were before it was lent for the first time."""

    def commit(self) -> None:
        if self.is_lent is not None:
            refuse()
        super().commit()

    def rollback(self) -> None:
        if self.is_lent is not None:
            refuse()
        super().rollback()

    def close(self) -> None:
        """Refuse: the store closes it by ``release``."""
        if self.is_lent is not None:
            refuse(_KEEPS)
        super().close()

    def release(self) -> None:
        """Close it."""
        super().close()

    def call(self, body: Callable[[Any], T]) -> T:
        """Call *body* with this connection as it would be if it were new; the attributes that it
        sets are set back."""
        if self._settings is None:
            self._settings, _ = self._look()
        self._reset()
        self.is_lent = True
        try:
            result = body(self)
        finally:
            self._reset()
            self.is_lent = False
        self._check_session()
        return result

    def _reset(self) -> None:
        self.row_factory = tuple_row
        self.cursor_factory = GuardedCursor

    def _check_session(self) -> None:
        """Raise BadOption if other runs cannot go on in this session, and Ended if they cannot go
        on in this transaction."""
        status = self.info.transaction_status
        if self.closed or status == pq.TransactionStatus.IDLE:
            return  # the store replaces the connection
        if status != pq.TransactionStatus.INTRANS:
            refuse(
                "an error of the database was passed over in it, and after that its transaction"
                " cannot go on"
            )
        settings, is_same_transaction = self._look()
        if settings is not None and not is_same_transaction:
            raise ConnectionEnded(SETTLES)
        if settings != self._settings:
            refuse(_SET)

    def _look(self) -> tuple[str | None, bool]:
        """Return the settings on which the store relies, None if the connection is lost; and
        whether the loan is still open."""
        result = self.pgconn.exec_(_SETTINGS)
        if result.status != pq.ExecStatus.TUPLES_OK:
            return None, False
        return (result.get_value(0, 0) or b"").decode(), result.get_value(0, 1) == b"t"


def _check(connection: Any, query: Any) -> None:
    is_lent = getattr(connection, "is_lent", None)
    if is_lent is None:
        return
    if not is_lent:
        refuse(_ENDED)
    if connection.info.transaction_status == pq.TransactionStatus.IDLE:
        # the step has ended the transaction: what it writes now would be committed at once
        refuse()
    objection = objection_to(_text(query, connection))
    if objection is not None:
        refuse(objection)


def _text(query: Any, connection: Any) -> str:
    if isinstance(query, bytes):
        return query.decode(errors="replace")
    return query if isinstance(query, str) else str(query.as_string(connection))


def objection_to(sql: str) -> str | None:
    """Return why user code must not execute these statements; None if it may. Its own savepoints
    are all right."""
    words: list[str] = []
    for match in _WORDS.finditer(sql + ";"):
        if match["word"]:
            words.append(match["word"].lower())
        elif match["end"]:
            if words and (objection := _objection(words)) is not None:
                return objection
            words = []
    return None


def _objection(words: list[str]) -> str | None:
    first = words[0]
    returns = first == "rollback" and "to" in words[1:3]
    if (first in _ENDING and not returns) or words[:2] == ["prepare", "transaction"]:
        return SETTLES
    if (returns or first == "release") and words[-1].startswith("holdfast"):
        return SETTLES
    if words[:2] in (["close", "all"], ["close", "holdfast_loan"]):
        return _KEEPS
    if first in _SESSION and words[1:2] not in (["local"], ["constraints"]):
        return _KEEPS
    return None


def refuse(why: str = SETTLES) -> NoReturn:
    """Raise what user code gets that tries what it must not."""
    raise BadOption(option="transactional step", why=why)
