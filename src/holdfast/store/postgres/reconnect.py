"""Replace a lost writing connection, after its session on the server has ended."""

from __future__ import annotations

import time

from holdfast.store.postgres.connection import Connection
from holdfast.store.postgres.errors import ConnectionLost
from holdfast.store.postgres.reader import PostgresReader

TERMINATE_PATIENCE = 5.0
"""Seconds for which the end of the session of a lost connection is awaited."""

_TERMINATE = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid = %(pid)s AND backend_start ="
    " %(since)s"
)


def reconnect(reader: PostgresReader, lost: Connection) -> Connection:
    """Return a new writing connection, after the session of the lost one has ended."""
    db = reader.connect()
    try:
        db.must_be_writable()
        db.find_by_index()
        _terminate_session(db, lost)
    except BaseException:
        db.close()
        raise
    return db


def _terminate_session(db: Connection, old: Connection) -> None:
    """End the session of a lost connection: it may hold locks, or be about to commit.

    Raises ConnectionLost if it does not end in time.
    """
    deadline = time.monotonic() + TERMINATE_PATIENCE
    while old.direct and db.rows(_TERMINATE, {"pid": old.pid, "since": old.since}):
        if time.monotonic() > deadline:
            raise ConnectionLost("the session that was lost has not ended yet")
        time.sleep(0.002)
