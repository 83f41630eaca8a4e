"""What PostgreSQL and the network say, in our words. Three kinds: try again, connect again, and
tell the user what to do."""

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
    """The connection is gone. What was not committed is undone."""


class ConnectionEnded(ConnectionLost):
    """User code has ended the transaction in which it was called; the connection is closed."""


class RetryTransaction(Exception):
    """Two transactions were in each other's way and ours gave way: nothing was written, the same
    will do a moment later."""


class SnapshotConflict(RetryTransaction):
    """A row that was to be written is there already, although the statement expected none: whoever
    tries again sees it."""


class TemporarilyUnavailable(Exception):
    """There is no connection at this moment; there may be one soon."""

    def __init__(self, story: StoreError, *, soon: bool = False) -> None:
        super().__init__(str(story))
        self.story, self.soon = story, soon


OUR_SCHEMA = "holdfast"
_UNIQUE = "23505"
SEALED = "HF001"
"""What the triggers of a sealed database raise."""

ENCRYPTED = "HF002"
"""What the triggers of an encrypted database raise."""

_REFUSED: dict[str, Callable[[str, str], StoreError | None]] = {
    SEALED: sealing.refused,
    ENCRYPTED: clear_values.refused,
}

_AGAIN = frozenset({"40001", "40P01"})
_LOST = frozenset({"57P01", "57P02", "57P03", "57P05", "25P03", "25P04", "26000"})
"""The server ends the session, or has forgotten what it knew of it."""

_MEANING: dict[str, tuple[type[StoreError], str]] = {
    "25006": (
        StoreReadOnly,
        (
            "it is a standby or read-only: connect to the primary, e.g. with"
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
        "somebody keeps a row locked: look for idle transactions in pg_stat_activity",
    ),
    "57014": (StoreBusy, "the statement was cancelled, by somebody or by statement_timeout"),
    "XX001": (StoreCorrupt, "the server found damaged data"),
    "XX002": (StoreCorrupt, "the server found a damaged index: REINDEX may help"),
}
_MIXED = re.compile(
    r"operator does not exist: (text|character varying) \S+ (smallint|integer|bigint|numeric|double"
    r" precision|boolean)"
)
"""A number is compared with a text: that is what was asked for, and not how the tables are."""

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
        "no server answers there: start it, or mend the address",
        False,
    ),
]
"""What may be over soon."""

_HOPELESS: list[tuple[str, str]] = [
    (
        r"password|authentication|no password supplied",
        "the server does not accept this user or password",
    ),
    (
        r'database ".*" does not exist',
        "there is no such database: CREATE DATABASE it, or mend the name",
    ),
    (r'role ".*" does not exist', "there is no such role: CREATE ROLE it, or mend the user"),
    (r"pg_hba", "the server does not admit this user from here: see its pg_hba.conf"),
    (
        r"translate host name|Name or service|resolve|nodename",
        "there is no such host: mend the address",
    ),
    (r"SSL|certificate", "the encrypted connection could not be made: see sslmode"),
    (
        r"permission denied for database|CONNECT privilege",
        "this role may not connect: GRANT CONNECT ON DATABASE",
    ),
]


def translated(error: Exception, shown: str) -> Exception:
    """Return our error for theirs, whichever driver raised it; theirs when it means nothing in
    particular."""
    code = getattr(error, "sqlstate", None) or ""
    reason = first_line(error)
    if code in _AGAIN:
        return RetryTransaction(reason)
    refused = _REFUSED[code](str(error), shown) if code in _REFUSED else None
    if refused is not None:
        return refused
    if code == _UNIQUE and _schema_of(error) == OUR_SCHEMA:
        return SnapshotConflict(reason)
    if code in _MEANING:
        kind, why = _MEANING[code]
        return kind(database=shown, why=why, reason=reason)
    if code == "42883" and _MIXED.search(reason):
        return BadOption(option="text", why="ids, names and keys are texts, and this is none")
    if code in _TABLES_DIFFER:
        return StoreForeign(database=shown, reason=reason)
    if code.startswith("08") or code in _LOST or (code == "0A000" and "cached plan" in reason):
        return ConnectionLost(reason)
    return error


def _schema_of(error: Exception) -> str | None:
    """Return the schema of the table that an error is about: a unique row of a user's own table is
    the user's matter."""
    found: str | None = getattr(getattr(error, "diag", error), "schema_name", None)
    return found


def unreachable(error: psycopg.Error, shown: str) -> TemporarilyUnavailable | HoldfastError:
    """Say why there is no connection, and what to do."""
    text = redacted(str(error))
    for pattern, kind, why, soon in _UNREACHABLE:
        if re.search(pattern, text, re.IGNORECASE):
            return TemporarilyUnavailable(
                kind(database=shown, why=why, reason=_reason(text)), soon=soon
            )
    for pattern, why in _HOPELESS:
        if re.search(pattern, text):
            return StoreUnavailable(database=shown, why=why, reason=_reason(text))
    return TemporarilyUnavailable(StoreUnavailable(database=shown, reason=_reason(text)))


UNSENDABLE = (psycopg.DataError, UnicodeEncodeError, OverflowError)
"""What is raised for a value that the database cannot store."""

_NUL = ("NUL", "0x00", "\\u0000")


def translate_error(answer: Any, op: object = None) -> Any:
    """Return an answer, or our word for what the database cannot store."""
    if isinstance(answer, psycopg.DataError) and any(word in str(answer) for word in _NUL):
        return BadOption(
            option="text", why="PostgreSQL stores no NUL characters in ids, names, keys and tags"
        )
    return unstorable.translate_error(answer, op)


def first_line(error: BaseException) -> str:
    """Return what an error says, in one line."""
    return redacted(str(error)).strip().split("\n", 1)[0]


def _reason(text: str) -> str:
    """Of all that libpq says, return the last line that the server or the system itself has
    said."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [line for line in lines if "FATAL" in line or "error:" in line] or lines or [""]
    return re.split(r"FATAL:\s*|error:\s*", telling[0])[-1].strip()
