"""Queries about waits."""

from __future__ import annotations

from typing import Any

from holdfast.core.waits import WaitRecord
from holdfast.store.reader import Queries


class WaitQueries(Queries):
    """Queries about waits."""

    def waits(
        self,
        run_id: str | None = None,
        *,
        escalated: bool = False,
        limit: int = 100,
        namespace: str | None = None,
    ) -> list[WaitRecord]:
        if run_id is not None:
            waits = self._listed(_wait, "waits_of_run", run_id=run_id, limit=limit)
            if not escalated:
                return waits
            return [
                wait for wait in waits if wait.escalated_at is not None and wait.closed_at is None
            ]
        query = "escalated_waits" if escalated else "open_waits"
        return self._listed(_wait, query, limit=limit, namespace=namespace)

    def wait(self, wait_id: str) -> WaitRecord | None:
        return self._one(_wait, "wait_by_id", wait_id=wait_id)


def _wait(row: Any) -> WaitRecord:
    return WaitRecord(**dict(row))
