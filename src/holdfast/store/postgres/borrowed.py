"""A user's own connection to the same database, on which runs are started within the user's own transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import psycopg
from psycopg import pq
from psycopg.rows import dict_row

from holdfast.core.records import Route
from holdfast.errors import BadOption
from holdfast.store.contract import Hints
from holdfast.store.postgres import arrays
from holdfast.store.postgres.sql import CHANNEL, SQL, as_list
from holdfast.store.postgres.transaction import RUN_COLUMNS, columns
from holdfast.store.postgres.trouble import Again, Lost, translated
from holdfast.store.reading import route_values

SAVEPOINT = "holdfast_start"


class BorrowedTransaction:
    """The caller's transaction, as the transitions see it. What they raise there is the driver's own, but what we can name."""

    def __init__(self, connection: Any, shown: str, identity: str, now: int) -> None:
        self._raw, self._shown = _raw(connection), shown
        self._cursor = psycopg.Cursor(self._raw, row_factory=dict_row)
        arrays.register(self._cursor.adapters)
        self.now, self.hints = now, Hints()
        if self._raw.autocommit and self._raw.info.transaction_status == pq.TransactionStatus.IDLE:
            raise BadOption(option="connection", why="it has no open transaction that the runs could be part of")
        self._identity = identity

    def __enter__(self) -> BorrowedTransaction:
        if self._whose() != self._identity:
            raise BadOption(option="connection", why=f"it is open on another database than {self._shown}")
        self._execute(f"SAVEPOINT {SAVEPOINT}")
        return self

    def _whose(self) -> str:
        """Say which database this is, as it is said when one is opened."""
        (there,) = self._execute("SELECT to_regclass('holdfast.setting') AS ours, current_database() AS name").fetchall()
        found = self.rows("setting", name="database") if there["ours"] is not None else []
        return f"{found[0]['value']} {there['name']}" if found else ""

    def __exit__(self, kind: object, *_: object) -> None:
        if self._raw.closed:
            return
        if kind is not None:
            self._execute(f"ROLLBACK TO SAVEPOINT {SAVEPOINT}")
        self._execute(f"RELEASE SAVEPOINT {SAVEPOINT}")
        if kind is None and self.hints.ready:
            self._execute(f"SELECT pg_notify('{CHANNEL}', '')")

    def rows(self, query: str, **values: object) -> list[Any]:
        return self._execute(SQL[query], values).fetchall()

    def change(self, query: str, **values: object) -> int:
        return self._execute(SQL[query], values).rowcount

    def many(self, query: str, values: Sequence[dict[str, object]]) -> int:
        return sum(self.change(query, **each) for each in values)

    def insert_runs(self, rows: Sequence[dict[str, object]]) -> set[str]:
        return {row["id"] for row in self.rows("insert_runs", **columns(RUN_COLUMNS, rows))}

    def route_id(self, route: Route) -> int:
        self.change("insert_route", **route_values(route))
        found: int = self.rows("find_route", **route_values(route))[0]["id"]
        return found

    def as_list(self, items: Iterable[object]) -> object:
        return as_list(items)

    def call(self, body: Callable[[Any], bytes]) -> bytes:
        return body(self._raw)

    def _execute(self, sql: str, values: Any = None) -> psycopg.Cursor[Any]:
        """Execute on a cursor of our own, whatever rows the user wants to see on theirs."""
        try:
            return self._cursor.execute(sql, values)
        except psycopg.Error as error:
            found = translated(error, self._shown)
            if found is error or isinstance(found, Lost | Again):
                raise  # the transaction is the caller's, and so is what to do now
            raise found from error


def _raw(connection: Any) -> psycopg.Connection[Any]:
    """Return the driver's connection: the user may hold one of psycopg or of SQLAlchemy."""
    raw = getattr(getattr(connection, "connection", None), "driver_connection", connection)
    if isinstance(raw, psycopg.AsyncConnection):
        raise BadOption(option="connection", why="it is asynchronous; start the run on a blocking one of psycopg")
    if not isinstance(raw, psycopg.Connection):
        raise BadOption(
            option="connection", why=f"{type(connection).__name__} is no connection of psycopg, nor one of SQLAlchemy over it"
        )
    return raw
