"""A connection behind one small face: it executes a statement and returns all its rows, addressed
by column name.

It commits each statement by itself unless ``begin`` was called. Driver errors leave as ours.
Nothing here relies on what a session remembers, unless the connection is known to be direct: behind
a pooler each transaction may meet another session.
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
from holdfast.store.postgres.prepared import PreparedAppend, PreparedStatements, said
from holdfast.store.postgres.user_connection import (
    CLOSE_LOAN,
    OPEN_LOAN,
    SETTLES,
    GuardedConnection,
)

T = TypeVar("T")
OLDEST = 140000
"""The oldest version of PostgreSQL that we know, as it calls it itself."""

PREPARE_AFTER = 3
"""How often a statement is executed before the server is asked to remember it."""

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
"""What is longer than 2 kB is compressed by the server: by its newer way, which takes half the
time, if it was built with it."""

_forked: list[object] = []
"""Connections of the parent, in a forked child: to forget them would be to close them, for the
parent too."""


class Connection:
    """One connection to PostgreSQL."""

    def __init__(self, address: Address, conninfo: str | None = None) -> None:
        self.address = address
        try:
            self.raw = GuardedConnection.connect(
                conninfo or address.conninfo, autocommit=True, prepare_threshold=None
            )
        except psycopg.Error as error:
            raise unreachable(error, address.shown) from error
        try:
            self._meet()
        except ConnectionLost as lost:
            self.close()
            raise TemporarilyUnavailable(
                StoreUnavailable(database=address.shown, reason=str(lost)), soon=True
            ) from lost
        except BaseException:
            self.close()
            raise

    def _meet(self) -> None:
        """See who is at the other end."""
        self._cursor = psycopg.Cursor(self.raw, row_factory=dict_row)  # not a cursor of user code
        self._cursor.format = pq.Format.BINARY
        self._quick: PreparedStatements | None = None
        self._lends: bool = False
        arrays.register(self._cursor.adapters)
        self._script = psycopg.Cursor(self.raw)
        self.version = self.raw.info.server_version
        if self.version < OLDEST:
            raise StoreUnavailable(
                database=self.address.shown,
                why=f"PostgreSQL {self.version // 10000} is too old: 14 is needed",
            )
        (who,) = self.rows(_WHO)
        self.encoding, self.standby, self.since = who["encoding"], who["standby"], who["since"]
        self.pid: int = who["pid"]
        # A pooler tells its clients a number of its own; only the server itself tells the one that
        # it uses.
        self.direct = self.pid == self.raw.info.backend_pid
        if self.direct:
            self.script(
                _SETTINGS + ("; SET synchronous_commit TO on" if who["durable"] == "off" else "")
            )
            self.script(_COMPRESSION)
            self.raw.prepare_threshold = PREPARE_AFTER if self.address.prepare else None
        remembers = self.direct and self.address.prepare
        self._append = PreparedAppend(self.raw) if remembers else None
        if remembers:
            self._quick = PreparedStatements(self.raw)

    def must_be_writable(self) -> None:
        """Raise StoreReadOnly or StoreUnavailable when we cannot write here, or not all that we
        write."""
        if self.standby:
            why = (
                "it is a standby: connect to the primary, e.g. with target_session_attrs=read-write"
                " in the URL"
            )
            raise StoreReadOnly(database=self.address.shown, why=why)
        if self.encoding != "UTF8":
            why = (
                f"its encoding is {self.encoding}: CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE"
                " template0"
            )
            raise StoreUnavailable(database=self.address.shown, why=why)

    def find_by_index(self) -> None:
        """Let whoever writes find rows by index and nothing else, and let no statement be compiled:
        each is short. A planner keeps what it has planned while tables were small, and would read
        all that has ever been until it counts them again."""
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
        """Write one guarded event, in no transaction, and return how many rows were written."""
        if self._append is None:
            return self.change(SQL["append_guarded"], values)
        try:
            return self._append(values)
        except psycopg.Error as error:
            self.fail(error)

    def alone(self, query: str, values: dict[str, Any]) -> list[Any]:
        """Execute a named query, in no transaction, and return all rows."""
        if self._quick is None:
            return self.rows(SQL[query], values)
        try:
            return self._quick(query, values)
        except psycopg.Error as error:
            self.fail(error)

    def rows_within(self, query: str, values: dict[str, Any]) -> list[Any]:
        """Execute a named query whose values are lists, text or said to be BIGINT, in a
        transaction, and return all rows."""
        if self._quick is None:
            return self.rows(SQL[query], values)
        try:
            return self._quick.rows(query, values)
        except psycopg.Error as error:
            self.fail(error)

    def change_within(self, query: str, values: dict[str, Any]) -> int:
        """The same for one that has no rows; return how many it changed."""
        if self._quick is None:
            return self.change(SQL[query], values)
        try:
            return self._quick.change(query, values)
        except psycopg.Error as error:
            self.fail(error)

    def as_text(self, query: str, values: dict[str, int]) -> str:
        """Return a named query, with numbers for values, as a statement that can travel with others
        in one message."""
        if self._quick is None:
            return SQL[query] % values
        try:
            return self._quick.as_text(query, values)
        except psycopg.Error as error:
            self.fail(error)

    def many(self, sql: str, values: Sequence[dict[str, object]]) -> int:
        """Execute once per set of values, without waiting in between, and return how many rows
        changed in all."""
        try:
            self._cursor.executemany(sql, values)
            return self._cursor.rowcount
        except psycopg.Error as error:
            self.fail(error)

    def script(self, sql: str) -> list[Any]:
        """Execute several statements in one go and return the rows of the last one, if it has
        any."""
        try:
            cursor = self._script.execute(sql, prepare=False)
            if self._quick is not None and sql.startswith("ROLLBACK"):
                self._quick.forget()
            while cursor.nextset():
                pass
            return cursor.fetchall() if cursor.description else []
        except psycopg.Error as error:
            self.fail(error)

    def say(self, sql: str) -> Any:
        """Execute what has no values and cannot but go well, in one go, with no driver in between;
        return what came of the last statement."""
        try:
            return said(self.raw, sql)
        except psycopg.Error as error:
            self.fail(error)

    def begin(self, *, lends: bool = False) -> None:
        """Begin a transaction. One that *lends* the connection to user code is committed by
        ``commit`` and by nothing else."""
        self._lends = lends
        self.say("BEGIN ISOLATION LEVEL READ COMMITTED" + (f"; {OPEN_LOAN}" if lends else ""))

    def commit(self, *, also: str = "") -> None:
        """Commit, together with the last statements."""
        statements = [CLOSE_LOAN if self._lends else "", also, "COMMIT"]
        if self.say("; ".join(filter(None, statements))).command_status != b"COMMIT":
            self.script("ROLLBACK")  # so that the driver hears of it
            raise HoldfastError(
                reason="the transaction was rolled back because of an error that was passed over"
            )

    def rollback(self) -> None:
        """Undo the transaction, if there is one; a broken connection has done so already."""
        if self.raw.closed or self.raw.info.transaction_status == pq.TransactionStatus.IDLE:
            return
        try:
            self.script("ROLLBACK")
        except ConnectionLost:
            return

    def call(self, body: Callable[[Any], T]) -> T:
        """Call a user's function with the driver's own connection. Raises Lost when the connection
        has ended meanwhile, and Ended when only the transaction has."""
        try:
            result = self.raw.call(body)
        except ConnectionEnded:
            self.close()
            raise
        except Exception as error:
            self._lose_if_ended(error)
            raise
        finally:
            if self._quick is not None:
                self._quick.forget()
        self._lose_if_ended(None)
        return result

    def _lose_if_ended(self, error: Exception | None) -> None:
        if self.raw.closed:
            raise ConnectionLost(str(error or "the connection was closed")) from error
        if self.raw.info.transaction_status == pq.TransactionStatus.IDLE:
            self.close()
            raise ConnectionEnded(SETTLES) from error

    def fail(self, error: psycopg.Error) -> NoReturn:
        """Raise our error for theirs."""
        gone = self.raw.closed or (
            isinstance(error, psycopg.OperationalError) and error.sqlstate is None
        )
        found = (
            ConnectionLost(str(error).strip()) if gone else translated(error, self.address.shown)
        )
        if isinstance(found, ConnectionLost):
            self.close()
        raise found from (None if found is error else error)

    def close(self) -> None:
        """Let go of the server."""
        self.raw.release()

    def abandon(self) -> None:
        """In a forked child: let go of the socket without a word, for the words would be the
        parent's."""
        _forked.append(self.raw)
        if not self.raw.closed:
            os.close(self.raw.fileno())
