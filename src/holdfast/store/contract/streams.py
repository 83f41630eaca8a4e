"""Operations on the output of runs, and the queries that read it."""

from __future__ import annotations

from typing import Protocol

import msgspec

from holdfast.core.streams.model import Output, Progress, StreamRecord


class AppendFrames(msgspec.Struct):
    """Append output, as the holder of the run: frames in order, progress, and the streams that are
    closed.

    Answers:
        Appended
    Raises (nothing is written):
        LeaseLost     *generation* is not the run's current generation, or the run has no holder
        StreamClosed  a stream is closed
        BadOption     the writer expects another number of frames, or version of the summary
    """

    run_id: str
    generation: int
    output: Output


class Appended(msgspec.Struct):
    """The output was written; ``last_seq`` is the number of its last frame."""

    last_seq: int


class StoredFrame(msgspec.Struct):
    """A frame as it is stored; only the codec can interpret its data."""

    seq: int
    stream: int
    kind: str
    mode: str
    name: str | None
    data: bytes
    nulls: bytes | None
    version: int | None
    at: int


class StreamReader(Protocol):
    """Queries about the output of runs."""

    def frames(
        self,
        run_id: str,
        after: int = 0,
        *,
        until: int | None = None,
        limit: int = 1000,
        step: str | None = None,
        best_effort: bool = True,
    ) -> list[StoredFrame]:
        """Return the frames of a run in order whose ``seq`` is above *after* and not above *until*;
        with *step*, of this step only. Without *best_effort*, frames of that mode are left out."""

    def streams(self, run_id: str) -> list[StreamRecord]:
        """Return the streams of a run in the order in which they were opened."""

    def progress(self, run_id: str) -> Progress | None:
        """Return the last progress that a run reported; None if it never did."""
