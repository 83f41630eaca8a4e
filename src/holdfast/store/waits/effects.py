"""Apply the effects of a run on its own waits, in the order of this file."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.waits import WaitRecord
from holdfast.store.database import Transaction
from holdfast.store.effects import Commit, applies
from holdfast.store.waits.operations import CloseWait, EscalateWait, OpenWait, ReopenWait

_COLUMNS = ("run_id", "step", "id", "name", "kid", "opened_at", "until", "reason", "asked_by")


@applies(OpenWait)
def open_waits(tx: Transaction, commit: Commit, effects: Sequence[OpenWait]) -> None:
    """Insert waits. The id of an issued wait is unique, its step is unique within the run."""
    tx.many("open_wait", [_row(effect.wait) for effect in effects])


@applies(ReopenWait)
def reopen_waits(tx: Transaction, commit: Commit, effects: Sequence[ReopenWait]) -> None:
    """Open waits again that their run waits for once more."""
    tx.many("reopen_wait", [{"run_id": commit.run_id, "step": effect.step} for effect in effects])


@applies(EscalateWait)
def escalate_waits(tx: Transaction, commit: Commit, effects: Sequence[EscalateWait]) -> None:
    """Mark waits as overdue."""
    tx.many(
        "escalate_wait",
        [{"run_id": commit.run_id, "step": effect.step, "now": tx.now} for effect in effects],
    )


@applies(CloseWait)
def close_waits(tx: Transaction, commit: Commit, effects: Sequence[CloseWait]) -> None:
    """Close waits, each with its cause."""
    tx.many(
        "close_wait",
        [
            {"run_id": commit.run_id, "step": effect.step, "now": tx.now, "by": effect.by}
            for effect in effects
        ],
    )


def _row(wait: WaitRecord) -> dict[str, object]:
    return {name: getattr(wait, name) for name in _COLUMNS}
