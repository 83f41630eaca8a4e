"""Markers: rows by which a process recognises its own commits after a lost connection.

A connection can be lost while it commits. The number of the transaction does not tell its outcome:
a server that crashed gives numbers that it had not written to disk to other transactions. So each
transaction inserts a row with an id of its own right before its COMMIT, and a process that got no
answer looks for that row.

Invariants:
- A marker is inserted by its transaction or, void, by the process that asks for it. Its id is
  unique, so one excludes the other: once the void marker is committed, the transaction cannot
  commit any more, even if its session is still alive behind a pooler.
- A transaction that has written nothing has no marker: it is repeated.
- A process deletes its own markers, many at once. Markers of killed processes are deleted after
  `OLD`.
"""

from __future__ import annotations

import random
from contextlib import suppress

import psycopg

from holdfast.errors import StoreError
from holdfast.store.postgres.connection import Connection
from holdfast.store.postgres.dialect import SQL
from holdfast.store.postgres.errors import ConnectionLost, RetryTransaction

KEPT = 100
"""How many markers are written before they are deleted together."""

OLD = 7 * 86_400_000_000
"""Microseconds after which no process needs a marker any more."""

ID_BITS = 52
"""Two transactions that draw the same id conflict, and the later one is retried with another id."""

_random = random.SystemRandom()


class CommitMarkers:
    """The markers of one process."""

    def __init__(self) -> None:
        self._written: list[int] = []
        """Markers that may be in the table and that this process will not ask for."""

    @staticmethod
    def new_id() -> int:
        """Return the id for a transaction that is about to commit."""
        return _random.getrandbits(ID_BITS)

    def statements(self, db: Connection, marker: int, now: int) -> str:
        """Return the statements to execute right before the COMMIT, as text sent in the same
        message."""
        insert = db.as_text("mark_commit", {"id": marker, "now": now})
        # Deleted together, because one row per commit would double the writes.
        if len(self._written) < KEPT:
            return insert
        return f"{_deletion(self._written)}; {insert}"

    def committed(self, marker: int) -> None:
        """Record that the transaction has committed, and with it the result of ``statements``."""
        # The statements of this transaction have deleted them.
        if len(self._written) >= KEPT:
            self._written.clear()
        self._written.append(marker)

    def has_committed(self, db: Connection, marker: int, now: int) -> bool:
        """Return whether the transaction has committed; if not, it never will."""
        # First the void marker, then the read: this insert waits for a commit that is still in
        # progress.
        db.change(SQL["void_commit"], {"id": marker, "now": now})
        (row,) = db.rows(SQL["commit_marker"], {"id": marker})
        self._written.append(marker)
        return not row["void"]

    def delete(self, db: Connection) -> None:
        """Delete all markers of this process, if the database can be reached, without waiting
        for the disk."""
        if not self._written or db.raw.closed:
            return
        with suppress(ConnectionLost, RetryTransaction, StoreError, psycopg.Error):
            db.script(
                f"BEGIN; SET LOCAL synchronous_commit TO off; {_deletion(self._written)}; COMMIT"
            )
            self._written.clear()


def delete_old(db: Connection, now: int) -> None:
    """Delete the markers of killed processes, if this role may."""
    with suppress(StoreError, RetryTransaction):  # another process may be deleting the same ones
        db.change(SQL["forget_old_commits"], {"before": now - OLD})


def _deletion(markers: list[int]) -> str:
    ids = ",".join(map(str, markers))
    return SQL["forget_commits"] % {"ids": f"'{{{ids}}}'"}
