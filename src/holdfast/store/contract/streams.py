"""What can be done to streams, and asked of them."""

from __future__ import annotations

from typing import Protocol

import msgspec

from holdfast.core.streams.model import Output, Progress, StreamRecord


class AppendFrames(msgspec.Struct):
    """The holder's output: frames in order, how far it is, and which streams are closed now.
    Answers Appended. Raises LeaseLost when the generation is not the run's own, StreamClosed when a
    stream was closed before, BadOption when it is not where its writer believes it to be; then
    nothing is written."""

    run_id: str
    generation: int
    output: Output


class Appended(msgspec.Struct):
    """The output stands; ``last_seq`` is the number of its last frame."""

    last_seq: int


class StoredFrame(msgspec.Struct):
    """A frame as it is stored; what it holds is for the codec to say."""

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
    """What can be asked about the output of runs."""

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
        """The frames of a run in order, those with a higher ``seq`` than *after*, and not above
        *until*; of one step only, or without those of best effort, if so asked."""

    def streams(self, run_id: str) -> list[StreamRecord]:
        """The streams of a run, in the order in which they were opened."""

    def progress(self, run_id: str) -> Progress | None:
        """How far a run says that it is; None when it never said anything."""
