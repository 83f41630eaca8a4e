"""Queries about the output of runs."""

from __future__ import annotations

from typing import Any

from holdfast.core.streams.model import Progress, StreamMode, StreamRecord
from holdfast.store.reader import Reader
from holdfast.store.streams.operations import StoredFrame

_LAST = 2**62


class StreamQueries:
    """Queries about the output of runs."""

    def __init__(self, reader: Reader) -> None:
        self._reader: Reader = reader

    def frames(
        self,
        run_id: str,
        after: int = 0,
        *,
        until: int | None = None,
        limit: int = 1000,
        step: str | None = None,
        attempt: int | None = None,
        best_effort: bool = True,
    ) -> list[StoredFrame]:
        """Return the frames of a run in order whose ``seq`` is above *after* and not above *until*;
        with *step* or *attempt*, only those of this step or attempt. Without *best_effort*, frames
        of that mode are left out."""
        values = {
            "after": after,
            "until": _LAST if until is None else until,
            "limit": limit,
            "best_effort": int(best_effort),
        }
        if step is None and attempt is None:
            return self._reader.listed(_frame, "frames", run_id=run_id, **values)
        return self._reader.listed(
            _frame, "frames_of_streams", run_id=run_id, step=step, attempt=attempt, **values
        )

    def of_run(self, run_id: str) -> list[StreamRecord]:
        """Return the streams of a run in the order in which they were opened."""
        streams = self._reader.listed(_stream, "streams", run_id=run_id)
        by_number = {stream.number: stream for stream in streams}
        for stream in streams:
            if stream.supersedes is not None and stream.supersedes in by_number:
                by_number[stream.supersedes].superseded_by = stream.number
        return streams

    def progress(self, run_id: str) -> Progress | None:
        """Return the last progress that a run reported; None if it never did."""
        rows = self._reader.rows("progress", run_id=run_id)
        if not rows:
            return None
        return Progress(rows[0]["percent"], rows[0]["message"], rows[0]["progress_at"])


def _frame(row: Any) -> StoredFrame:
    return StoredFrame(
        row["seq"],
        row["stream"],
        row["kind"],
        row["mode"],
        row["name"],
        bytes(row["data"]),
        None if row["nulls"] is None else bytes(row["nulls"]),
        row["version"],
        row["at"],
    )


def _stream(row: Any) -> StreamRecord:
    values = dict(row)
    kept = {mode.value: values.pop(f"kept_{mode.value}") for mode in StreamMode}
    summary = values.pop("summary")
    return StreamRecord(**values, kept=kept, summary=None if summary is None else bytes(summary))
