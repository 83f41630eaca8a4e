"""Translate errors of PostgreSQL and the network: retry, reconnect, or tell the user what to do."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import psycopg

from holdfast.core.redaction import redacted
from holdfast.errors import (
    BadOption,
    HoldfastError,
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreForeign,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from holdfast.store import clear_values, sealing, unstorable


class ConnectionLost(Exception):
    """The connection is gone. Uncommitted writes are rolled back."""


class ConnectionEnded(ConnectionLost):
    """User code has ended the transaction in which it was called; the connection is closed."""


class RetryTransaction(Exception):
    """The transaction lost a conflict with another one: nothing was written, retry it."""


class SnapshotConflict(RetryTransaction):
    """A row to be inserted exists, although the statement did not see it. A retry sees it."""


class TemporarilyUnavailable(Exception):
    """There is no connection at this moment; there may be one soon."""

    def __init__(self, error: StoreError, *, soon: bool = False) -> None:
        super().__init__(str(error))
        self.error = error
        self.soon = soon


OUR_SCHEMA = "holdfast"
_UNIQUE = "23505"
SEALED = "HF001"
"""The error code of the triggers of a sealed database."""

ENCRYPTED = "HF002"
"""The error code of the triggers of an encrypted database."""

_REFUSED: dict[str, Callable[[str, str], StoreError | None]] = {
    SEALED: sealing.refused,
    ENCRYPTED: clear_values.refused,
}

# A serialization failure and a deadlock: the server has rolled the transaction back.
_AGAIN = frozenset({"40001", "40P01"})
_LOST = frozenset({"57P01", "57P02", "57P03", "57P05", "25P03", "25P04", "26000"})
"""The server ends the session, or has dropped its prepared statements."""

_MEANING: dict[str, tuple[type[StoreError], str]] = {
    "25006": (
        StoreReadOnly,
        (
            "the server is a standby or read-only: connect to the primary, e.g. with"
            " target_session_attrs=read-write"
        ),
    ),
    "42501": (
        StoreUnavailable,
        "this role lacks rights: `holdfast doctor` prints the GRANT statements that it needs",
    ),
    "53100": (StoreFull, "the disk of the server is full"),
    "53200": (StoreBusy, "the server is out of memory"),
    "53300": (
        StoreBusy,
        "all connections are in use: close some, raise max_connections, or put a pooler in between",
    ),
    "53400": (StoreFull, "a limit that was set on the server is reached"),
    "55P03": (
        StoreBusy,
        "another transaction keeps a row locked: look for idle transactions in pg_stat_activity",
    ),
    "57014": (StoreBusy, "the statement was cancelled, by an operator or by statement_timeout"),
    "XX001": (StoreCorrupt, "the server found damaged data"),
    "XX002": (StoreCorrupt, "the server found a damaged index: REINDEX may help"),
}
_MIXED = re.compile(
    r"operator does not exist: (text|character varying) \S+ (smallint|integer|bigint|numeric|double"
    r" precision|boolean)"
)
"""A comparison of a number with a text: an error of the request, not of the tables."""

_TABLES_DIFFER = frozenset({"42P01", "42703", "3F000", "42883"})

_UNREACHABLE: list[tuple[str, type[StoreError], str, bool]] = [
    (
        r"starting up|shutting down|recovery mode|not yet accepting",
        StoreUnavailable,
        "the server is starting or stopping",
        True,
    ),
    (
        r"too many clients|connection slots|too many connections",
        StoreBusy,
        _MEANING["53300"][1],
        False,
    ),
    (
        (
            r"refused|No such file|Is the server running|timeout|timed out|unreachable|closed the"
            r" connection|reset by peer|Broken pipe"
        ),
        StoreUnavailable,
        "no server answers at this address: start it, or correct the address",
        False,
    ),
]
"""Reasons that may pass."""

_HOPELESS: list[tuple[str, str]] = [
    (
        r"password|authentication|no password supplied",
        "the server does not accept this user or password",
    ),
    (
        r'database ".*" does not exist',
        "the database does not exist: create it with CREATE DATABASE, or correct the name",
    ),
    (
        r'role ".*" does not exist',
        "the role does not exist: create it with CREATE ROLE, or correct the user",
    ),
    (r"pg_hba", "the server does not admit this user from here: see its pg_hba.conf"),
    (
        r"translate host name|Name or service|resolve|nodename",
        "the host does not exist: correct the address",
    ),
    (r"SSL|certificate", "the encrypted connection could not be established: see sslmode"),
    (
        r"permission denied for database|CONNECT privilege",
        "this role may not connect: GRANT CONNECT ON DATABASE",
    ),
]


def translated(error: Exception, shown: str) -> Exception:
    """Return our error for an error of any driver, or the same error if it means nothing in
    particular."""
    code = getattr(error, "sqlstate", None) or ""
    reason = first_line(error)
    if code in _AGAIN:
        return RetryTransaction(reason)
    refused = _REFUSED[code](str(error), shown) if code in _REFUSED else None
    if refused is not None:
        return refused
    # The other row was committed after our statement had taken its snapshot.
    if code == _UNIQUE and _schema_of(error) == OUR_SCHEMA:
        return SnapshotConflict(reason)
    if code in _MEANING:
        kind, why = _MEANING[code]
        return kind(database=shown, why=why, reason=reason)
    if code == "42883" and _MIXED.search(reason):
        return BadOption(option="text", why="ids, names and keys must be texts, not numbers")
    if code in _TABLES_DIFFER:
        return StoreForeign(database=shown, reason=reason)
    # "cached plan must not change result type": a migration has changed a table, and the prepared
    # statements of this connection are of no use any more.
    if code.startswith("08") or code in _LOST or (code == "0A000" and "cached plan" in reason):
        return ConnectionLost(reason)
    return error


def _schema_of(error: Exception) -> str | None:
    """Return the schema of the table that an error is about.

    A unique violation in a table of the user is not ours to handle.
    """
    schema: str | None = getattr(getattr(error, "diag", error), "schema_name", None)
    return schema


def unreachable(error: psycopg.Error, shown: str) -> TemporarilyUnavailable | HoldfastError:
    """Return the error that says why there is no connection, and what to do."""
    text = redacted(str(error))
    for pattern, kind, why, soon in _UNREACHABLE:
        if re.search(pattern, text, re.IGNORECASE):
            return TemporarilyUnavailable(
                kind(database=shown, why=why, reason=_reason(text)), soon=soon
            )
    for pattern, why in _HOPELESS:
        if re.search(pattern, text):
            return StoreUnavailable(database=shown, why=why, reason=_reason(text))
    # An unknown reason may pass: to give up needs a certain one.
    return TemporarilyUnavailable(StoreUnavailable(database=shown, reason=_reason(text)))


UNSENDABLE = (psycopg.DataError, UnicodeEncodeError, OverflowError)
"""Errors of a value that the database cannot store."""

_NUL = ("NUL", "0x00", "\\u0000")


def translate_error(answer: Any, op: object = None) -> Any:
    """Return an answer; an error of a value that cannot be stored becomes BadOption."""
    if isinstance(answer, psycopg.DataError) and any(word in str(answer) for word in _NUL):
        return BadOption(
            option="text", why="PostgreSQL stores no NUL characters in ids, names, keys and tags"
        )
    return unstorable.translate_error(answer, op)


def first_line(error: BaseException) -> str:
    """Return the first line of the text of an error, without passwords."""
    return redacted(str(error)).strip().split("\n", 1)[0]


def _reason(text: str) -> str:
    """Return the last message of the server or the system in the text of libpq."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    messages = [line for line in lines if "FATAL" in line or "error:" in line] or lines or [""]
    return re.split(r"FATAL:\s*|error:\s*", messages[0])[-1].strip()
