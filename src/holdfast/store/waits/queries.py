"""Queries about waits."""

from __future__ import annotations

from typing import Any

from holdfast.core.waits import WaitCursor, WaitRecord
from holdfast.store.reader import Reader

FIRST = WaitCursor(-1, -1, "", "")
"""The place before the first wait."""

LAST_INSTANT = 2**62
"""The timeout of a wait without one, in the order of a list."""


def cursor_of(wait: WaitRecord, *, escalated: bool) -> WaitCursor:
    """Return the place of a wait in the list that ``find`` returns."""
    due = wait.escalated_at if escalated else wait.until
    return WaitCursor(LAST_INSTANT if due is None else due, wait.opened_at, wait.run_id, wait.step)


class WaitQueries:
    """Queries about waits."""

    def __init__(self, reader: Reader) -> None:
        self._reader: Reader = reader

    def find(
        self,
        run_id: str | None = None,
        *,
        escalated: bool = False,
        after: WaitCursor = FIRST,
        limit: int = 100,
        namespace: str | None = None,
    ) -> list[WaitRecord]:
        """Return the waits of a run, open and closed, oldest first; without a run, the open waits
        of all runs that have not ended, or of those of a namespace, in the order of their timeouts.
        With *escalated*, only open waits that need a person. *after* is the place of the last wait
        that was read before."""
        place = {"opened_at": after.opened_at, "step": after.step, "limit": limit}
        if run_id is not None:
            return self._reader.listed(
                _wait, "waits_of_run", run_id=run_id, escalated=int(escalated), **place
            )
        query = "escalated_waits" if escalated else "open_waits"
        return self._reader.listed(
            _wait, query, due=after.due, after_run=after.run_id, namespace=namespace, **place
        )

    def incidents(
        self,
        run_id: str | None = None,
        *,
        after: WaitCursor = FIRST,
        limit: int = 100,
        namespace: str | None = None,
    ) -> list[WaitRecord]:
        """Return the open incidents of a run, of all runs, or of the runs of a namespace, oldest
        first. *after* is the place of the last incident of the previous page."""
        place = {
            "due": after.due,
            "opened_at": after.opened_at,
            "after_run": after.run_id,
            "step": after.step,
            "limit": limit,
        }
        if run_id is not None:
            return self._reader.listed(_wait, "incidents_of_run", run_id=run_id, **place)
        return self._reader.listed(_wait, "incidents", namespace=namespace, **place)

    def of_step(self, run_id: str, step: str) -> WaitRecord | None:
        """Return the wait of a step, open or closed, or None."""
        return self._reader.first(_wait, "wait_of_step", run_id=run_id, step=step)

    def get(self, wait_id: str) -> WaitRecord | None:
        """Return the wait that was issued under this id, or None."""
        return self._reader.first(_wait, "wait_by_id", wait_id=wait_id)


def _wait(row: Any) -> WaitRecord:
    return WaitRecord(**dict(row))
