"""Queue the writes of a resolution, and flush them together before its next read."""

from __future__ import annotations

from holdfast.store.database import Row, Transaction


class QueuedWrites:
    """Writes about graphs that no read has needed yet.

    A resolution writes many small changes between its reads. Together they are few statements; on
    PostgreSQL they are one.
    """

    def __init__(self, tx: Transaction) -> None:
        self._tx: Transaction = tx
        self._queued: dict[str, list[dict[str, object]]] = {}

    def queue(self, query: str, rows: list[dict[str, object]]) -> None:
        """Queue rows to be written before the next read."""
        if rows:
            self._queued.setdefault(query, []).extend(rows)

    def flush(self) -> None:
        """Write the queued rows."""
        if self._queued:
            queued = self._queued
            self._queued = {}
            self._tx.together(queued)

    def ask(self, query: str, **values: object) -> list[Row]:
        """Run a named query, after flushing the queued writes."""
        self.flush()
        return self._tx.rows(query, **values)
