"""Queries about signals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.core.waits import Signal
from holdfast.store.reader import Reader


class SignalQueries:
    """Queries about signals."""

    def __init__(self, reader: Reader) -> None:
        self._reader: Reader = reader

    def of_run(self, run_id: str) -> list[Signal]:
        """Return the signals that no wait has consumed, oldest first."""
        return self._reader.all(signal_from, "signals", run_id=run_id)

    def of_runs(self, run_ids: Sequence[str]) -> dict[str, list[Signal]]:
        """Return the same for several runs, by id."""
        signals: dict[str, list[Signal]] = {run_id: [] for run_id in run_ids}
        for row in (
            self._reader.rows("signals_of", ids=self._reader.as_list(run_ids)) if run_ids else []
        ):
            signals[row["run_id"]].append(signal_from(row))
        return signals


def signal_from(row: Any) -> Signal:
    """Return the signal of a row."""
    return Signal(
        id=row["id"],
        name=row["name"],
        payload=bytes(row["payload"]),
        at=row["at"],
        number=row["number"],
        wait_id=row["wait_id"],
        source=row["source"],
        step=row["step"],
    )
