"""Looking at waits."""

from __future__ import annotations

from holdfast.core.records import Wait
from holdfast.store.reading.asking import Asking


class WaitReader(Asking):
    """What can be asked about waits."""

    def waits(self, run_id: str | None = None, *, escalated: bool = False, limit: int = 100) -> list[Wait]:
        if run_id is not None:
            found = [Wait(**dict(row)) for row in self._rows("waits_of_run", run_id=run_id, limit=limit)]
            return [wait for wait in found if wait.escalated_at is not None and wait.closed_at is None] if escalated else found
        return [Wait(**dict(row)) for row in self._rows("escalated_waits" if escalated else "open_waits", limit=limit)]

    def wait(self, wait_id: str) -> Wait | None:
        found = self._rows("wait_by_id", wait_id=wait_id)
        return Wait(**dict(found[0])) if found else None
