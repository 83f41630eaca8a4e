"""Queries about tasks and their leases."""

from __future__ import annotations

from holdfast.store.reader import Reader


class TaskQueries:
    """Queries about tasks and their leases."""

    def __init__(self, reader: Reader) -> None:
        self._reader: Reader = reader

    def next_attempt_end(self) -> int | None:
        """Return when the next attempt exceeds its timeout; None if none can."""
        ends_at: int | None = self._reader.rows("next_attempt_end")[0]["attempt_until"]
        return ends_at
