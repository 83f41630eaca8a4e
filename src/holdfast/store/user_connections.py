"""Connections of the user: find the driver's connection behind a wrapper, and use an asynchronous
one from a thread."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Coroutine
from typing import Any, TypeVar

from holdfast.errors import BadOption

T = TypeVar("T")


class LoopBoundConnection:
    """A user's asynchronous connection. One thread uses it, while the loop of the connection runs
    in another thread and executes what the first one asks for."""

    def __init__(self, connection: Any, loop: asyncio.AbstractEventLoop) -> None:
        self.connection = connection
        self._loop = loop

    def wait_for(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop, and return its result."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()


def unwrapped(connection: Any) -> Any:
    """Return the driver's connection behind a connection or session of SQLAlchemy; any other object
    is returned as it is. Raises BadOption for an asynchronous one."""
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
        # As its first statement would do. Otherwise SQLAlchemy would not know that there is
        # something to commit.
        connection.begin()
    return getattr(getattr(connection, "connection", None), "driver_connection", connection)


ASYNCHRONOUS = (
    "the connection is asynchronous: start the run with `await AsyncEngine(...).start(...,"
    " connection=...)`, or use a blocking connection"
)


async def unwrapped_async(connection: Any) -> Any:
    """Return the driver's connection behind an asynchronous connection or session of SQLAlchemy;
    any other object is returned as it is."""
    if _is(connection, "sqlalchemy.ext.asyncio", "AsyncSession", "async_scoped_session"):
        connection = await connection.connection()
    if not _is(connection, "sqlalchemy.ext.asyncio", "AsyncConnection"):
        return connection
    if not connection.in_transaction():
        await connection.begin()
    # Over asyncpg, SQLAlchemy begins the transaction with the first statement, not before.
    await connection.exec_driver_sql("SELECT 1")
    return (await connection.get_raw_connection()).driver_connection


def is_asynchronous(connection: Any) -> bool:
    """Return whether this is a known kind of connection that only its loop may use."""
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
    """Return whether *thing* is an instance of one of these classes, without importing their
    module."""
    imported = sys.modules.get(module)
    return any(
        isinstance(thing, kind)
        for name in names
        if isinstance(kind := getattr(imported, name, None), type)
    )
