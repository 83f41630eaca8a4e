"""Execute prepared statements through libpq (`psycopg.pq`), without the upper layers of psycopg.

The most frequent writes are single statements: a recorded step, a delivered signal. For those,
psycopg spends two thirds of the time on rows, types and cursors that are not needed here.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Mapping
from typing import Any

import psycopg
from psycopg import pq
from psycopg.errors import error_from_result

from holdfast.store import sql_files
from holdfast.store.postgres.arrays import ENCODERS
from holdfast.store.postgres.dialect import NUMBERED

_number = struct.Struct("!q").pack
_as_number = struct.Struct("!q").unpack
_TEXT = (25, str.encode)
_NUMBER = (20, _number)
_BLOB = (17, bytes)
_KINDS: dict[str, tuple[int, Callable[[Any], bytes]]] = {
    "run_id": _TEXT,
    "generation": _NUMBER,
    "seq": _NUMBER,
    "kind": _TEXT,
    "step": _TEXT,
    "attempt": _NUMBER,
    "data": _BLOB,
    "error": _BLOB,
    "started_at": _NUMBER,
    "at": _NUMBER,
    "role": _TEXT,
}
_NAMES = list(_KINDS)
_FORMATS = [pq.Format.BINARY] * len(_NAMES)
_NAME = b"holdfast_append"
_FORGOTTEN = "26000"


def _numbered(sql: str) -> bytes:
    return re.sub(r"(?<!:):([a-z_]+)", lambda match: f"${_NAMES.index(match[1]) + 1}", sql).encode()


_SQL = _numbered(sql_files.load("postgres")["append_guarded"])


_ENCODERS: dict[type, Callable[[Any], bytes]] = {
    str: str.encode,
    int: _number,
    bytes: bytes,
    **ENCODERS,
}
_DECODERS: dict[int, Callable[[bytes], Any]] = {
    16: lambda value: value == b"\x01",
    17: bytes,
    20: lambda value: _as_number(value)[0],
    25: lambda value: str(value, "utf-8"),
    2278: lambda value: None,
}
"""By the OID of the column's type: BOOLEAN, BYTEA, BIGINT, TEXT and VOID."""


class PreparedStatements:
    """Named queries as prepared statements, on a direct connection."""

    def __init__(self, raw: psycopg.Connection[Any]) -> None:
        self._raw = raw
        self._prepared: dict[str, tuple[bytes, list[str], list[pq.Format]]] = {}
        self._columns: dict[str, list[tuple[str, Callable[[bytes], Any]]]] = {}
        self._forgotten = 0

    def __call__(self, query: str, values: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Execute a query outside a transaction and return its rows."""
        result = self._execute(query, values)
        if result.status != pq.ExecStatus.TUPLES_OK:
            _raise_unless_forgotten(result)
            # Repeated at once: outside a transaction, the failed execution has written nothing.
            del self._prepared[query]
            return self(query, values)
        return self._rows(query, result)

    def rows(self, query: str, values: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Execute a query inside a transaction and return its rows."""
        result = self._execute(query, values)
        if result.status != pq.ExecStatus.TUPLES_OK:
            raise _error(result)
        return self._rows(query, result)

    def change(self, query: str, values: Mapping[str, Any]) -> int:
        """Execute a query inside a transaction and return how many rows it changed."""
        result = self._execute(query, values)
        if result.status != pq.ExecStatus.COMMAND_OK:
            raise _error(result)
        return result.command_tuples or 0

    def as_text(self, query: str, values: Mapping[str, int]) -> str:
        """Return a query with integer values as a statement that can be sent with others in one
        message."""
        name, names, _ = self._prepared.get(query) or self._prepare(query)
        arguments = ", ".join(str(int(values[parameter])) for parameter in names)
        return f"EXECUTE {name.decode()}({arguments})"

    def forget(self) -> None:
        """Drop all prepared statements, because the driver has made the server drop them, or may
        have.

        Done in advance: inside a transaction the failed execution would abort it.
        """
        self._forgotten += bool(self._prepared)
        self._prepared.clear()

    def _execute(self, query: str, values: Mapping[str, Any]) -> Any:
        name, names, formats = self._prepared.get(query) or self._prepare(query)
        arguments: list[Any] = [_encoded(values[parameter]) for parameter in names]
        # `pgconn` is a public part of psycopg, but bypasses its bookkeeping: hence `forget`.
        return self._raw.pgconn.exec_prepared(name, arguments, formats, pq.Format.BINARY)

    def _rows(self, query: str, result: Any) -> list[dict[str, Any]]:
        # The columns of a query never change, so their names and types are looked up once.
        columns = self._columns.get(query) or self._learn(query, result)
        return [
            {
                column: None if (value := result.get_value(row, index)) is None else decode(value)
                for index, (column, decode) in enumerate(columns)
            }
            for row in range(result.ntuples)
        ]

    def _prepare(self, query: str) -> tuple[bytes, list[str], list[pq.Format]]:
        sql, names = NUMBERED[query]
        # A new name after each `forget`: the server may still have the old statement.
        name = f"holdfast_{query}_{self._forgotten}".encode()
        result = self._raw.pgconn.prepare(name, sql.encode())
        if result.status != pq.ExecStatus.COMMAND_OK:
            raise _error(result)
        self._prepared[query] = (name, names, [pq.Format.BINARY] * len(names))
        return self._prepared[query]

    def _learn(self, query: str, result: Any) -> list[tuple[str, Callable[[bytes], Any]]]:
        columns = [
            (result.fname(index).decode(), _DECODERS[result.ftype(index)])
            for index in range(result.nfields)
        ]
        self._columns[query] = columns
        return columns


def execute_text(raw: psycopg.Connection[Any], sql: str) -> Any:
    """Execute statements without parameters, and return the result of the last one."""
    result = raw.pgconn.exec_(sql.encode())
    if result.status not in (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.TUPLES_OK):
        raise _error(result)
    return result


def _encoded(value: Any) -> bytes | None:
    if value is None:
        return None
    encode = _ENCODERS.get(type(value))
    if encode is None:  # a member of a StrEnum
        return str(value).encode()
    return encode(value)


def _error(result: Any) -> psycopg.Error:
    """Return the error of a result."""
    error = error_from_result(result)
    if error.sqlstate is None:  # not from the server: the connection is gone
        return psycopg.OperationalError(str(error))
    return error


def _raise_unless_forgotten(result: Any) -> None:
    """Raise the error of a result, unless the server has dropped the prepared statement.

    psycopg makes it drop all of them after some errors (DEALLOCATE ALL).
    """
    error = _error(result)
    if error.sqlstate != _FORGOTTEN:
        raise error


class PreparedAppend:
    """``append_guarded`` on a direct connection, outside a transaction."""

    def __init__(self, raw: psycopg.Connection[Any]) -> None:
        self._raw = raw
        self._prepared = False

    def __call__(self, values: Mapping[str, Any]) -> int:
        """Execute it and return how many rows were written."""
        arguments: list[Any] = [
            None if values[name] is None else encode(values[name])
            for name, (_, encode) in _KINDS.items()
        ]
        if not self._prepared:
            self._prepare()
        result = self._raw.pgconn.exec_prepared(_NAME, arguments, _FORMATS)
        if result.status != pq.ExecStatus.COMMAND_OK:
            _raise_unless_forgotten(result)
            self._prepare()
            return self(values)
        return result.command_tuples or 0

    def _prepare(self) -> None:
        result = self._raw.pgconn.prepare(_NAME, _SQL, [oid for oid, _ in _KINDS.values()])
        if result.status != pq.ExecStatus.COMMAND_OK:
            raise _error(result)
        self._prepared = True
