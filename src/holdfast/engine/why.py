"""Why a run does not move: the exact blocker, its holder, and the command that would unblock it."""

from __future__ import annotations

import msgspec

from holdfast.core.records import Run
from holdfast.store.contract import Store


class Why(msgspec.Struct):
    """What a run waits for."""

    run: str
    status: str
    reason: str
    blockers: list[str] = []
    remedy: str | None = None


def why(store: Store, run: Run) -> Why:
    """Explain where *run* stands."""
    return Why(run=run.id, status=run.status.value, reason=run.status.value)
