"""A connection that belongs to the user: what it is, whoever wrapped it, and how a thread uses one
that lives on a loop."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from typing import Any, TypeVar

from holdfast.errors import BadOption

T = TypeVar("T")


class LoopBoundConnection:
    """A user's asynchronous connection. It is used by one thread while its loop, in another, runs
    what that thread asks for."""

    def __init__(self, connection: Any, loop: asyncio.AbstractEventLoop) -> None:
        self.connection, self._loop = connection, loop

    def wait_for(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Let the loop run this, and return what it returns."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()


def unwrapped(connection: Any) -> Any:
    """Return the driver's own connection: the user may hold it, or a connection or session of
    SQLAlchemy over it."""
    if _is(
        connection,
        "sqlalchemy.ext.asyncio",
        "AsyncConnection",
        "AsyncSession",
        "async_scoped_session",
    ):
        raise BadOption(option="connection", why=ASYNCHRONOUS)
    if _is(connection, "sqlalchemy.orm", "Session", "scoped_session"):
        connection = connection.connection()
    if _is(connection, "sqlalchemy.engine", "Connection") and not connection.in_transaction():
        # as its first statement would: else it would not know that there is something to commit
        connection.begin()
    return getattr(getattr(connection, "connection", None), "driver_connection", connection)


ASYNCHRONOUS = (
    "it is asynchronous: start the run with `await AsyncEngine(...).start(..., connection=...)`, or"
    " on a blocking one"
)


async def unwrapped_async(connection: Any) -> Any:
    """The same for an asynchronous connection of a driver, or an asynchronous connection or session
    of SQLAlchemy."""
    if _is(connection, "sqlalchemy.ext.asyncio", "AsyncSession", "async_scoped_session"):
        connection = await connection.connection()
    if not _is(connection, "sqlalchemy.ext.asyncio", "AsyncConnection"):
        return connection
    if not connection.in_transaction():
        await connection.begin()
    await connection.exec_driver_sql(
        "SELECT 1"
    )  # SQLAlchemy begins over asyncpg with the first statement, and not before
    return (await connection.get_raw_connection()).driver_connection


def is_asynchronous(connection: Any) -> bool:
    """Say whether this is a connection that only its loop may use, as far as we know such."""
    return (
        _is(connection, "psycopg", "AsyncConnection")
        or _is(connection, "asyncpg.connection", "Connection")
        or _is(connection, "asyncpg.pool", "PoolConnectionProxy")
        or _is(connection, "aiosqlite", "Connection")
        or _is(
            connection,
            "sqlalchemy.ext.asyncio",
            "AsyncConnection",
            "AsyncSession",
            "async_scoped_session",
        )
    )


def _is(thing: Any, module: str, *names: str) -> bool:
    """Say whether this is one of those classes, without importing what the user does not use."""
    found = sys.modules.get(module)
    return any(
        isinstance(thing, kind)
        for name in names
        if isinstance(kind := getattr(found, name, None), type)
    )
