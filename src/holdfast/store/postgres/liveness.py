"""Process liveness: each worker holds an advisory lock, its slot, on the server.

The server releases the lock when the connection of its process ends, so other processes notice a
death at once. A missing lock alone proves nothing: its holder may be about to reconnect.
"""

from __future__ import annotations

import time

from holdfast.core.sessions import Session
from holdfast.store.postgres.dialect import SQL
from holdfast.store.postgres.notifier import SPACE, Notifier
from holdfast.store.postgres.reader import PostgresReader

GRACE = 1.0
"""Seconds for which a lock must be missing before its holder counts as dead: the holder may have
lost its connection and reconnect soon."""

RETURN = 2.0
"""Seconds that processes get to reconnect after the server was lost. No lock survives the
server, so a missing lock says nothing about its holder during that time."""

SEEN = 0.1
"""Seconds for which the set of live slots is cached."""


class PostgresLiveness:
    """The liveness of the processes that share one database of a server."""

    def __init__(self, reader: PostgresReader, notifier: Notifier) -> None:
        self._reader: PostgresReader = reader
        self._notifier: Notifier = notifier
        self._missing_locks: dict[int, tuple[int, float]] = {}
        """By slot: the last heartbeat of its holder, and since when the lock is missing."""
        self._live_slots: tuple[float, frozenset[int]] = (-SEEN, frozenset())

    def is_alive(self, session: Session) -> bool | None:
        """Return whether the process of a session is alive, by the advisory lock that it holds;
        None if unknown.

        A process whose lock is missing but whose heartbeat continues may be unable to open another
        connection: it is alive.
        """
        slot = session.slot
        if slot < 0:
            return None
        if slot in self._notifier.slots or slot in self._locked_slots():
            self._missing_locks.pop(slot, None)
            return True
        beat_at, since = self._missing_locks.get(slot, (None, 0.0))
        if beat_at != session.beat_at:
            since = time.monotonic()
            self._missing_locks[slot] = (session.beat_at, since)
        missing_since = max(since, self._reader.lost_at + RETURN)
        return False if time.monotonic() - missing_since > GRACE else None

    def was_away(self) -> bool:
        """Return whether the server was lost until a moment ago. Sessions that missed heartbeats
        meanwhile are about to reconnect."""
        return time.monotonic() - self._reader.lost_at < RETURN + GRACE

    def acquire(self) -> int:
        """Lock a slot by which other processes see that this process is alive."""
        return self._notifier.take_slot()

    def keep(self, slot: int) -> bool:
        """Return whether a slot is locked; if not, lock it soon."""
        return self._notifier.keep_slot(slot)

    def release(self, slot: int) -> None:
        """Unlock a slot."""
        self._notifier.free_slot(slot)
        self._live_slots = (-SEEN, frozenset())

    def _locked_slots(self) -> frozenset[int]:
        """Return the slots of all live processes, cached for SEEN seconds: one query for many
        sessions."""
        asked, slots = self._live_slots
        if time.monotonic() - asked > SEEN:
            slots = frozenset(
                row["slot"] for row in self._reader.fetch(SQL["locked_slots"], {"space": SPACE})
            )
            self._live_slots = (time.monotonic(), slots)
        return slots
