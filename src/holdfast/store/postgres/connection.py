"""A connection that executes statements and returns all their rows, addressed by column name.

It autocommits each statement unless ``begin`` was called. Driver errors are translated. Nothing
here relies on the state of a session, unless the connection is known to be direct: behind a pooler
each transaction may use another session.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

import psycopg
from psycopg import pq
from psycopg.rows import dict_row

from holdfast.errors import HoldfastError, StoreReadOnly, StoreUnavailable
from holdfast.store.postgres import arrays
from holdfast.store.postgres.address import Address
from holdfast.store.postgres.dialect import SQL
from holdfast.store.postgres.errors import (
    ConnectionEnded,
    ConnectionLost,
    TemporarilyUnavailable,
    translated,
    unreachable,
)
from holdfast.store.postgres.prepared import PreparedAppend, PreparedStatements, execute_text
from holdfast.store.postgres.user_connection import (
    CLOSE_LOAN,
    OPEN_LOAN,
    SETTLES,
    GuardedConnection,
)

T = TypeVar("T")
OLDEST = 140000
"""The oldest supported version of PostgreSQL, as the server reports it."""

PREPARE_AFTER = 3
"""How often a statement is executed before it is prepared."""

_WHO = """SELECT pg_backend_pid() AS pid, pg_is_in_recovery() AS standby,
    current_setting('server_encoding') AS encoding,
    CAST(current_setting('server_version_num') AS BIGINT) AS version,
    current_setting('synchronous_commit') AS durable,
    (SELECT backend_start FROM pg_stat_activity WHERE pid = pg_backend_pid()) AS since"""
_SETTINGS = (
    "SET default_transaction_isolation TO 'read committed'; SET lock_timeout TO '10s'; SET"
    " idle_session_timeout TO 0"
)
_BY_INDEX = "SET enable_seqscan TO off; SET jit TO off"
_COMPRESSION = """DO $$ BEGIN
    IF current_setting('default_toast_compression') = 'pglz' THEN
        PERFORM set_config('default_toast_compression', 'lz4', FALSE);
    END IF;
EXCEPTION WHEN OTHERS THEN NULL; END $$"""
"""Compress values over 2 kB with lz4, which takes half the time, if the server was built with
it."""

_forked: list[object] = []
"""Connections of the parent in a forked child. Kept, because their finalizer would close them
for the parent, too."""


class Connection:
    """One connection to PostgreSQL."""

    def __init__(self, address: Address, conninfo: str | None = None) -> None:
        self.address = address
        try:
            # Autocommit: `begin` opens transactions, and single statements need none.
            self.raw = GuardedConnection.connect(
                conninfo or address.conninfo, autocommit=True, prepare_threshold=None
            )
        except psycopg.Error as error:
            raise unreachable(error, address.shown) from error
        try:
            self._configure()
        except ConnectionLost as lost:
            self.close()
            raise TemporarilyUnavailable(
                StoreUnavailable(database=address.shown, reason=str(lost)), soon=True
            ) from lost
        except BaseException:
            self.close()
            raise

    def _configure(self) -> None:
        """Read the properties of the server, and set the session accordingly."""
        self._cursor = psycopg.Cursor(self.raw, row_factory=dict_row)  # not a cursor of user code
        # Binary: most values are numbers and bytes, which would be escaped and parsed as text.
        self._cursor.format = pq.Format.BINARY
        self._prepared: PreparedStatements | None = None
        self._lends: bool = False
        arrays.register(self._cursor.adapters)
        self._script = psycopg.Cursor(self.raw)
        self.version = self.raw.info.server_version
        if self.version < OLDEST:
            raise StoreUnavailable(
                database=self.address.shown,
                why=f"PostgreSQL {self.version // 10000} is too old: use version 14 or later",
            )
        (who,) = self.rows(_WHO)
        self.encoding = who["encoding"]
        self.standby = who["standby"]
        self.since = who["since"]
        self.pid: int = who["pid"]
        # A pooler reports a process id of its own; only a direct connection reports the server's.
        self.direct = self.pid == self.raw.info.backend_pid
        if self.direct:
            self.script(
                _SETTINGS + ("; SET synchronous_commit TO on" if who["durable"] == "off" else "")
            )
            self.script(_COMPRESSION)
            # Not through a pooler: the next transaction may run in a server process that has not
            # prepared the statement.
            self.raw.prepare_threshold = PREPARE_AFTER if self.address.prepare else None
        prepares = self.direct and self.address.prepare
        self._append = PreparedAppend(self.raw) if prepares else None
        if prepares:
            self._prepared = PreparedStatements(self.raw)

    def must_be_writable(self) -> None:
        """Raise StoreReadOnly or StoreUnavailable if not everything can be written here."""
        if self.standby:
            why = (
                "the server is a standby: connect to the primary, e.g. with"
                " target_session_attrs=read-write in the URL"
            )
            raise StoreReadOnly(database=self.address.shown, why=why)
        if self.encoding != "UTF8":
            why = (
                f"its encoding is {self.encoding}: CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE"
                " template0"
            )
            raise StoreUnavailable(database=self.address.shown, why=why)

    def find_by_index(self) -> None:
        """Make the planner use indexes only, and no JIT: every statement of the writer is short.

        The planner keeps plans that it made while tables were small, and would scan whole tables
        until their statistics are updated.
        """
        if self.direct:
            self.script(_BY_INDEX)

    def rows(self, sql: str, values: Any = None) -> list[Any]:
        """Execute and return all rows."""
        try:
            return self._cursor.execute(sql, values or {}).fetchall()
        except psycopg.Error as error:
            self.fail(error)

    def change(self, sql: str, values: Any = None) -> int:
        """Execute and return how many rows an INSERT, UPDATE or DELETE changed."""
        try:
            return self._cursor.execute(sql, values or {}).rowcount
        except psycopg.Error as error:
            self.fail(error)

    def append(self, values: dict[str, Any]) -> int:
        """Insert one guarded event outside a transaction. Return how many rows were written."""
        if self._append is None:
            return self.change(SQL["append_guarded"], values)
        try:
            return self._append(values)
        except psycopg.Error as error:
            self.fail(error)

    def rows_autocommit(self, query: str, values: dict[str, Any]) -> list[Any]:
        """Execute a named query outside a transaction and return all rows."""
        if self._prepared is None:
            return self.rows(SQL[query], values)
        try:
            return self._prepared(query, values)
        except psycopg.Error as error:
            self.fail(error)

    def rows_within(self, query: str, values: dict[str, Any]) -> list[Any]:
        """Execute a named query inside a transaction and return all rows.

        Its values are lists, texts, or integers that the query casts to BIGINT.
        """
        if self._prepared is None:
            return self.rows(SQL[query], values)
        try:
            return self._prepared.rows(query, values)
        except psycopg.Error as error:
            self.fail(error)

    def change_within(self, query: str, values: dict[str, Any]) -> int:
        """Execute such a query without rows. Return how many rows it changed."""
        if self._prepared is None:
            return self.change(SQL[query], values)
        try:
            return self._prepared.change(query, values)
        except psycopg.Error as error:
            self.fail(error)

    def as_text(self, query: str, values: dict[str, int]) -> str:
        """Return a named query with integer values as a statement to be sent with others in one
        message."""
        if self._prepared is None:
            return SQL[query] % values
        try:
            return self._prepared.as_text(query, values)
        except psycopg.Error as error:
            self.fail(error)

    def many(self, sql: str, values: Sequence[dict[str, object]]) -> int:
        """Execute once per set of values in a pipeline. Return how many rows changed in all."""
        try:
            self._cursor.executemany(sql, values)
            return self._cursor.rowcount
        except psycopg.Error as error:
            self.fail(error)

    def script(self, sql: str) -> list[Any]:
        """Execute several statements in one message. Return the rows of the last one, if it has
        any."""
        try:
            cursor = self._script.execute(sql, prepare=False)
            # psycopg may deallocate all prepared statements after a rollback, ours included.
            if self._prepared is not None and sql.startswith("ROLLBACK"):
                self._prepared.forget()
            while cursor.nextset():
                pass
            return cursor.fetchall() if cursor.description else []
        except psycopg.Error as error:
            self.fail(error)

    def execute(self, sql: str) -> Any:
        """Execute statements without parameters in one message, through libpq; return the last
        result.

        Only for statements that are expected to succeed.
        """
        try:
            return execute_text(self.raw, sql)
        except psycopg.Error as error:
            self.fail(error)

    def begin(self, *, lends: bool = False) -> None:
        """Begin a transaction. One that *lends* the connection to user code can only be
        committed by ``commit``."""
        self._lends = lends
        self.execute("BEGIN ISOLATION LEVEL READ COMMITTED" + (f"; {OPEN_LOAN}" if lends else ""))

    def commit(self, *, also: str = "") -> None:
        """Commit, in one message with the statements *also*."""
        statements = [CLOSE_LOAN if self._lends else "", also, "COMMIT"]
        if self.execute("; ".join(filter(None, statements))).command_status != b"COMMIT":
            self.script("ROLLBACK")  # through psycopg, which must know of it
            raise HoldfastError(
                reason="the transaction was rolled back because of an error that was ignored"
            )

    def rollback(self) -> None:
        """Roll the transaction back, if there is one; a lost connection has done so already."""
        if self.raw.closed or self.raw.info.transaction_status == pq.TransactionStatus.IDLE:
            return
        try:
            self.script("ROLLBACK")
        except ConnectionLost:
            return

    def call(self, body: Callable[[Any], T]) -> T:
        """Call a user's function with the connection of psycopg.

        Raises ConnectionLost if the connection has ended, ConnectionEnded if only the transaction
        has.
        """
        try:
            result = self.raw.call(body)
        except ConnectionEnded:
            self.close()
            raise
        except Exception as error:
            self._lose_if_ended(error)
            raise
        finally:
            if self._prepared is not None:
                self._prepared.forget()
        self._lose_if_ended(None)
        return result

    def _lose_if_ended(self, error: Exception | None) -> None:
        if self.raw.closed:
            raise ConnectionLost(str(error or "the connection was closed")) from error
        if self.raw.info.transaction_status == pq.TransactionStatus.IDLE:
            self.close()
            raise ConnectionEnded(SETTLES) from error

    def fail(self, error: psycopg.Error) -> NoReturn:
        """Raise the translated error."""
        # An operational error without a code comes from libpq, not from the server.
        gone = self.raw.closed or (
            isinstance(error, psycopg.OperationalError) and error.sqlstate is None
        )
        translation = (
            ConnectionLost(str(error).strip()) if gone else translated(error, self.address.shown)
        )
        if isinstance(translation, ConnectionLost):
            self.close()
        raise translation from (None if translation is error else error)

    def close(self) -> None:
        """Close the connection."""
        self.raw.release()

    def abandon(self) -> None:
        """Close the socket in a forked child without a message, which would end the parent's
        session."""
        _forked.append(self.raw)
        if not self.raw.closed:
            os.close(self.raw.fileno())
