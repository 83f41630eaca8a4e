"""Start runs within the user's own transaction, on the user's connection to the same database."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, TypeVar

import psycopg
from psycopg import pq
from psycopg.rows import dict_row

from holdfast.core.runs import Route
from holdfast.errors import BadOption, RowDamaged
from holdfast.store.database import Hints, MemberOutcome
from holdfast.store.postgres import arrays
from holdfast.store.postgres.dialect import CHANNEL, NUMBERED, SQL, as_list
from holdfast.store.postgres.errors import ConnectionLost, RetryTransaction, translated
from holdfast.store.postgres.transaction import RUN_COLUMNS, columns
from holdfast.store.runs.queries import route_values
from holdfast.store.soundness import checked, sound_rows
from holdfast.store.user_connections import (
    ASYNCHRONOUS,
    LoopBoundConnection,
    is_asynchronous,
    unwrapped,
)

T = TypeVar("T")
SAVEPOINT = "holdfast_start"
ACCEPTED = (
    "a connection of psycopg or asyncpg, or a connection or session of SQLAlchemy over one of them"
)
_THERE = "SELECT to_regclass('holdfast.setting') AS ours, current_database() AS name"


class DriverAdapter(Protocol):
    """The operations of a user's connection, whichever library it belongs to."""

    def is_idle(self) -> bool:
        """Return whether no transaction is open, and none would be begun by a statement."""

    def is_closed(self) -> bool: ...

    def execute(self, sql: str) -> list[Any]:
        """Execute a statement without parameters and return its rows."""

    def rows(self, query: str, values: dict[str, object]) -> list[Any]:
        """Execute a named query and return its rows, addressed by column name."""

    def change(self, query: str, values: dict[str, object]) -> int:
        """Execute a named query and return how many rows it changed."""


class PsycopgAdapter:
    """A blocking connection of psycopg. Uses its own cursor, so that the user's row factory does
    not matter."""

    def __init__(self, raw: psycopg.Connection[Any]) -> None:
        self._raw = raw
        self._cursor = psycopg.Cursor(raw, row_factory=dict_row)
        arrays.register(self._cursor.adapters)

    def is_idle(self) -> bool:
        return (
            self._raw.autocommit and self._raw.info.transaction_status == pq.TransactionStatus.IDLE
        )

    def is_closed(self) -> bool:
        return self._raw.closed

    def execute(self, sql: str) -> list[Any]:
        cursor = self._cursor.execute(sql)
        return cursor.fetchall() if cursor.description else []

    def rows(self, query: str, values: dict[str, object]) -> list[Any]:
        return self._cursor.execute(SQL[query], values).fetchall()

    def change(self, query: str, values: dict[str, object]) -> int:
        return self._cursor.execute(SQL[query], values).rowcount


class AsyncPsycopgAdapter:
    """An asynchronous connection of psycopg."""

    def __init__(self, held: LoopBoundConnection) -> None:
        self._raw = held.connection
        self._wait_for = held.wait_for
        self._cursor = psycopg.AsyncCursor(self._raw, row_factory=dict_row)
        arrays.register(self._cursor.adapters)

    def is_idle(self) -> bool:
        return bool(
            self._raw.autocommit and self._raw.info.transaction_status == pq.TransactionStatus.IDLE
        )

    def is_closed(self) -> bool:
        return bool(self._raw.closed)

    def execute(self, sql: str) -> list[Any]:
        return self._wait_for(self._all(sql, None))

    def rows(self, query: str, values: dict[str, object]) -> list[Any]:
        return self._wait_for(self._all(SQL[query], values))

    def change(self, query: str, values: dict[str, object]) -> int:
        self.rows(query, values)
        return self._cursor.rowcount

    async def _all(self, sql: Any, values: Any) -> list[Any]:
        cursor = await self._cursor.execute(sql, values)
        return await cursor.fetchall() if cursor.description else []


class AsyncpgAdapter:
    """A connection of asyncpg. Parameters are numbered, and it knows their types from the
    server."""

    def __init__(self, held: LoopBoundConnection) -> None:
        self._raw = held.connection
        self._wait_for = held.wait_for

    def is_idle(self) -> bool:
        return not self._raw.is_in_transaction()

    def is_closed(self) -> bool:
        return bool(self._raw.is_closed())

    def execute(self, sql: str) -> list[Any]:
        return self._wait_for(self._raw.fetch(sql))

    def rows(self, query: str, values: dict[str, object]) -> list[Any]:
        sql, names = NUMBERED[query]
        return self._wait_for(self._raw.fetch(sql, *(values[name] for name in names)))

    def change(self, query: str, values: dict[str, object]) -> int:
        sql, names = NUMBERED[query]
        # The tag of the command, such as "UPDATE 3", is all that asyncpg returns.
        done: str = self._wait_for(self._raw.execute(sql, *(values[name] for name in names)))
        return int(done.rpartition(" ")[2])


class PostgresUserTransaction:
    """The caller's transaction, as the operations use it.

    Errors of the driver are raised unchanged, unless they can be translated.
    """

    def __init__(self, connection: Any, shown: str, identity: str, now: int) -> None:
        self._driver = driver_of(connection)
        self._shown: str = shown
        self._identity: str = identity
        self.now: int = now
        self.hints = Hints()
        self.member_outcomes: list[MemberOutcome] = []
        self.woken_parents: set[str] = set()
        self.graphs: dict[str, Any] = {}
        if self._driver.is_idle():
            raise BadOption(
                option="connection",
                why="the connection has no open transaction: begin one before starting runs in it",
            )

    def __enter__(self) -> PostgresUserTransaction:
        if self._whose() != self._identity:
            raise BadOption(
                option="connection",
                why=f"the connection is open on another database than {self._shown}",
            )
        # A refused start must leave the statements of the caller in place.
        self._do(self._driver.execute, f"SAVEPOINT {SAVEPOINT}")
        return self

    def _whose(self) -> str:
        """Return the identity of the database, as it is computed when a store is opened."""
        (database,) = self._do(self._driver.execute, _THERE)
        settings = self.rows("setting", name="database") if database["ours"] is not None else []
        return f"{settings[0]['value']} {database['name']}" if settings else ""

    def __exit__(self, kind: object, *_: object) -> None:
        if self._driver.is_closed():
            return
        if kind is not None:
            self._do(self._driver.execute, f"ROLLBACK TO SAVEPOINT {SAVEPOINT}")
        # In both cases: ROLLBACK TO leaves the savepoint itself in place.
        self._do(self._driver.execute, f"RELEASE SAVEPOINT {SAVEPOINT}")
        if kind is None and self.hints.ready:
            # The server sends it when the caller commits, and never after a rollback.
            self._do(self._driver.execute, f"SELECT pg_notify('{CHANNEL}', '')")

    def rows(self, query: str, **values: object) -> list[Any]:
        return checked(SQL[query], self._do(self._driver.rows, query, values), values)

    def sound_rows(self, query: str, **values: object) -> tuple[list[Any], list[RowDamaged]]:
        return sound_rows(SQL[query], self._do(self._driver.rows, query, values), values)

    def change(self, query: str, **values: object) -> int:
        return self._do(self._driver.change, query, values)

    def many(self, query: str, values: Sequence[dict[str, object]]) -> int:
        return sum(self.change(query, **row) for row in values)

    def together(self, changes: dict[str, list[dict[str, object]]]) -> None:
        for query, values in changes.items():
            self.many(query, values)

    def insert_runs(self, rows: Sequence[dict[str, object]]) -> set[str]:
        return {
            row["id"] for row in self.rows("insert_runs", asked=0, **columns(RUN_COLUMNS, rows))
        }

    def route_id(self, route: Route) -> int:
        self.change("insert_route", **route_values(route))
        number: int = self.rows("find_route", **route_values(route))[0]["id"]
        return number

    def as_list(self, items: Iterable[object]) -> object:
        return as_list(items)

    def _do(self, call: Callable[..., T], *arguments: Any) -> T:
        try:
            return call(*arguments)
        except Exception as error:
            translation = translated(error, self._shown)
            if translation is error or isinstance(translation, ConnectionLost | RetryTransaction):
                raise  # the caller owns the transaction, and decides whether to retry it
            raise translation from error


def driver_of(connection: Any) -> DriverAdapter:
    """Return the adapter of a user's connection. Raises BadOption."""
    if isinstance(connection, LoopBoundConnection):
        if isinstance(connection.connection, psycopg.AsyncConnection):
            return AsyncPsycopgAdapter(connection)
        if hasattr(connection.connection, "is_in_transaction"):
            return AsyncpgAdapter(connection)
        raw = connection.connection
    else:
        raw = unwrapped(connection)
        if isinstance(raw, psycopg.Connection):
            return PsycopgAdapter(raw)
        if is_asynchronous(raw):
            raise BadOption(option="connection", why=ASYNCHRONOUS)
    raise BadOption(
        option="connection",
        why=f"{type(raw).__module__}.{type(raw).__name__} is not accepted: give {ACCEPTED}",
    )
