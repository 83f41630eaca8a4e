"""Queries about waits."""

from __future__ import annotations

from typing import Any

from holdfast.core.waits import WaitRecord
from holdfast.store.reader import Reader


class WaitQueries:
    """Queries about waits."""

    def __init__(self, reader: Reader) -> None:
        self._reader: Reader = reader

    def find(
        self,
        run_id: str | None = None,
        *,
        escalated: bool = False,
        limit: int = 100,
        namespace: str | None = None,
    ) -> list[WaitRecord]:
        """Return the waits of a run, open and closed, oldest first; without a run, the open waits
        of all runs that have not ended, or of those of a namespace. With *escalated*, only open
        waits that need a person."""
        if run_id is not None:
            waits = self._reader.listed(_wait, "waits_of_run", run_id=run_id, limit=limit)
            if not escalated:
                return waits
            return [
                wait for wait in waits if wait.escalated_at is not None and wait.closed_at is None
            ]
        query = "escalated_waits" if escalated else "open_waits"
        return self._reader.listed(_wait, query, limit=limit, namespace=namespace)

    def get(self, wait_id: str) -> WaitRecord | None:
        """Return the wait that was issued under this id, or None."""
        return self._reader.first(_wait, "wait_by_id", wait_id=wait_id)


def _wait(row: Any) -> WaitRecord:
    return WaitRecord(**dict(row))
