"""Queries about the children of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.core.runs import ChildRecord
from holdfast.core.status import Status
from holdfast.store.reader import Reader
from holdfast.store.rows import bytes_or_none


class ChildQueries:
    """Queries about the children of a run: those of single steps and those of maps."""

    def __init__(self, reader: Reader) -> None:
        self._reader: Reader = reader

    def all(self, run_id: str, steps: Sequence[str] | None = None) -> list[ChildRecord]:
        """Return the children of a run in order; with *steps*, of these steps only."""
        if steps is None:
            return self._reader.all(_child, "children", run_id=run_id)
        return [
            child
            for step in steps
            for child in self._reader.all(_child, "children_of_step", run_id=run_id, step=step)
        ]

    def page(self, run_id: str, step: str, first: int, limit: int) -> list[str]:
        """Return the ids of children of a ``map``, in order, from the index *first* on."""
        rows = self._reader.rows(
            "children_page", run_id=run_id, step=step, first=first, limit=limit
        )
        return [row["id"] for row in rows]

    def ended(
        self, run_id: str, steps: Sequence[str] | None = None, *, since: int = 0
    ) -> list[ChildRecord]:
        """Return the children of these steps that have ended, in any order; without *steps*, the
        children that ended after the run had the revision *since*, apart from those of maps."""
        if steps is None:
            return self._reader.all(_child, "children_ended_since", run_id=run_id, revision=since)
        if not steps:
            return []
        return self._reader.all(
            _child, "ended_children", run_id=run_id, steps=self._reader.as_list(steps)
        )

    def map_progress(self, run_id: str) -> dict[str, int]:
        """Return, by step, how many children of each ``map`` of a run have ended."""
        rows, _ = self._reader.sound_rows("map_progress", run_id=run_id)
        return {
            str(row["step"]): max(row["last_index"] + 1 - row["remaining"], 0)
            for row in rows
            # damaged rows are left out here, and reported by `holdfast db check`
            if isinstance(row["last_index"], int) and isinstance(row["remaining"], int)
        }

    def open(self, run_id: str, limit: int) -> list[str]:
        """Return the ids of the children that have not ended, and have to end before their parent
        does."""
        return [row["id"] for row in self._reader.rows("open_children", run_id=run_id, limit=limit)]


def _child(row: Any) -> ChildRecord:
    return ChildRecord(
        id=row["id"],
        parent_step=row["parent_step"],
        parent_index=row["parent_index"],
        status=Status(row["status"]),
        result=bytes_or_none(row["result"]),
        error=bytes_or_none(row["error"]),
        finished_at=row["finished_at"],
        on_parent_end=row["on_parent_end"],
        cancel_reason=row["cancel_reason"],
        cancel_cause=row["cancel_cause"],
        cancelled_at=row["cancelled_at"],
    )
