"""Queries about sessions: the workers that are open, the runs that they hold, their
notifications."""

from __future__ import annotations

from holdfast.core.sessions import Session
from holdfast.store.reader import Reader
from holdfast.store.rows import damaged_session, session_from

ALL = 2**62
"""The limit of a query that has none."""


class SessionQueries:
    """Queries about sessions, and the runs and notifications of a session."""

    def __init__(self, reader: Reader) -> None:
        self._reader: Reader = reader
        self._notified: dict[str, tuple[int, frozenset[tuple[int, str]]]] = {}
        """For each session: up to where notifications were returned in order, and those beyond
        that were returned early."""

    def all(self, limit: int = -1) -> list[Session]:
        """Return the sessions that have not ended, oldest first, those without a process (that only
        hold leases) last; at most *limit*, or all if it is negative."""
        rows, damaged = self._reader.sound_rows("sessions", limit=ALL if limit < 0 else limit)
        # A session whose id is not text is left out: no run can name it, no statement can end it.
        ids = [damage.place["id"] for damage in damaged]
        return [
            *map(session_from, rows),
            *(damaged_session(session_id) for session_id in ids if isinstance(session_id, str)),
        ]

    def held_by(self, session_id: str) -> list[tuple[str, int, int]]:
        """Return the runs that a session holds: id, generation, revision. Damaged ones are left
        out."""
        rows, _ = self._reader.sound_rows("held", session_id=session_id)
        return [(row["id"], row["generation"], row["revision"]) for row in rows]

    def at_work(self) -> dict[str, int]:
        """Return the number of runs that each session holds and that do not wait, by its id. A
        session that holds none is left out."""
        rows, _ = self._reader.sound_rows("held_by_session")
        return {row["session_id"]: row["held"] for row in rows}

    def notifications(self, session_id: str, after: int) -> list[tuple[int, str]]:
        """Return the notifications of a session with a number above *after*: the number and the run
        that changed.

        The number is the place to continue from. On PostgreSQL it stays below the notifications of
        a transaction that is still open, so that some are returned early; they are not returned
        again.
        """
        # The others must come through: a damaged one is not set aside, only deleted with the next
        # heartbeats.
        rows, _ = self._reader.sound_rows("notifications", session_id=session_id, after=after)
        cursor, returned_early = self._notified.get(session_id, (0, frozenset()))
        if cursor == after:
            rows = [row for row in rows if (row["number"], row["run_id"]) not in returned_early]
        if rows:
            new = frozenset((row["number"], row["run_id"]) for row in rows)
            last = rows[-1]["id"]
            early = frozenset(entry for entry in new | returned_early if entry[0] > last)
            self._notified[session_id] = (last, early)
        return [(row["id"], row["run_id"]) for row in rows]
