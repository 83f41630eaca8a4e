"""The writing connection as user code gets it: a psycopg connection that refuses harmful
statements.

Invariants:
- While it is lent, it refuses to end the transaction, to close, to use the savepoints of Holdfast,
  and to change its session.
- The server refuses a COMMIT that bypasses this class, as through ``connection.pgconn``: a
  transaction that lends the connection holds a cursor that cannot be kept beyond its end. Such a
  COMMIT rolls everything back, and is detected after the step.
- A setting that user code changes in an undetected way, as in a function, is detected after the
  step, which fails: the rollback to its savepoint restores the setting.
- After the step the connection and its cursors refuse everything. The store uses its own cursors.
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

SETTLES = (
    "a step must not begin, commit or roll back: the engine commits it together with its record"
)
"""Why user code must not end the transaction."""
_KEEPS = (
    "the connection belongs to the engine: a step must not close it, nor change its session; use"
    " SET LOCAL"
)
_ENDED = "the connection was lent to a step that has ended: ask for connection() in each step"
_SET = (
    "the step has changed settings of the connection that other runs use: it must restore the"
    " role, search_path, timeouts and modes"
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
"""Makes the server refuse to commit this transaction until the loan is closed."""

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
    """The writing connection, which is lent to user code."""

    is_lent: bool | None = None
    """None before the first loan: until then only the store uses the connection."""

    _settings: str | None = None
    """The settings of the connection before it was first lent."""

    def commit(self) -> None:
        if self.is_lent is not None:
            refuse()
        super().commit()

    def rollback(self) -> None:
        if self.is_lent is not None:
            refuse()
        super().rollback()

    def close(self) -> None:
        """Refuse: the store closes the connection with ``release``."""
        if self.is_lent is not None:
            refuse(_KEEPS)
        super().close()

    def release(self) -> None:
        """Close the connection."""
        super().close()

    def call(self, body: Callable[[Any], T]) -> T:
        """Call *body* with this connection as if it were new, and restore the attributes that it
        sets."""
        if self._settings is None:
            self._settings, _ = self._session_settings()
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
        """Raise BadOption if other runs cannot use this session, and ConnectionEnded if they
        cannot use this transaction."""
        status = self.info.transaction_status
        if self.closed or status == pq.TransactionStatus.IDLE:
            return  # the store replaces the connection
        if status != pq.TransactionStatus.INTRANS:
            refuse(
                "the step ignored an error of the database, after which its transaction cannot"
                " continue"
            )
        settings, is_same_transaction = self._session_settings()
        if settings is not None and not is_same_transaction:
            raise ConnectionEnded(SETTLES)
        if settings != self._settings:
            refuse(_SET)

    def _session_settings(self) -> tuple[str | None, bool]:
        """Return the settings that the store relies on (None: connection lost), and whether the
        loan is open."""
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
        # The step has ended the transaction: further writes would be committed at once.
        refuse()
    objection = objection_to(_text(query, connection))
    if objection is not None:
        refuse(objection)


def _text(query: Any, connection: Any) -> str:
    if isinstance(query, bytes):
        return query.decode(errors="replace")
    return query if isinstance(query, str) else str(query.as_string(connection))


def objection_to(sql: str) -> str | None:
    """Return why user code must not execute these statements, or None. Its own savepoints are
    allowed."""
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
    """Raise the error of a forbidden statement."""
    raise BadOption(option="transactional step", why=why)
