"""Records of streams, frames and progress, and the sink that receives the output of a run."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any, Protocol

import msgspec

from holdfast.core.streams.rules import TTL


class StreamMode(StrEnum):
    """The durability of a frame."""

    DURABLE = "durable"
    SUMMARY = "summary"
    BEST_EFFORT = "best_effort"


class FrameKind(StrEnum):
    """The kind of a frame."""

    STDOUT = "stdout"
    STDERR = "stderr"
    EVENT = "event"
    BLOB = "blob"


class CloseReason:
    """The reasons for closing a stream; another reason is the final status of its run."""

    COMPLETED = "completed"
    FAILED = "failed"
    RETRIED = "retried"
    DROPPED = "dropped"
    TAKEN_OVER = "taken over"
    TAKEN_BACK = "taken back"
    RELEASED = "released"
    STUCK = "stuck"


ApplyPatches = Callable[[bytes | None], bytes]
"""Return the summary after the patches of an append, from the stored summary before them; None if
there is none yet. Raises KeyMissing, BadData."""


class NewFrame(msgspec.Struct):
    """A frame to append. ``stream`` is the index of its stream in ``Output.streams``."""

    stream: int
    kind: str
    mode: str
    data: bytes
    at: int
    name: str | None = None
    nulls: bytes | None = None
    version: int | None = None


class StreamPart(msgspec.Struct):
    """One stream of an append: its identity and its new state, besides its frames."""

    step: str
    attempt: int
    generation: int
    said: int = 0
    keep: dict[str, int] = {}
    """How many frames of each mode are kept. All frames of a mode that is missing here are kept."""
    summary: bytes | None = None
    version: int = 0
    close: str | None = None
    place: int | None = None
    """How many frames the stream has before these. Frames that were appended already are not
    appended again, and the answer is the same: a retry of the append is safe."""
    patches: ApplyPatches | None = None
    """Computes the summary within the transaction, where no other writer can change it: several
    processes may patch one summary. The store then counts the versions. It may be called again."""

    @property
    def source(self) -> tuple[str, int, int]:
        """The identity of the stream within its run."""
        return self.step, self.attempt, self.generation


class Progress(msgspec.Struct):
    """The progress that a run reports."""

    percent: float | None = None
    message: str | None = None
    at: int = 0


class Output(msgspec.Struct):
    """The output that one append writes, in order."""

    streams: list[StreamPart] = []
    frames: list[NewFrame] = []
    progress: Progress | None = None
    close_others: str | None = None
    """The reason with which all other open streams of the run are closed; None closes none."""
    only_steps: bool = False
    """Whether ``close_others`` spares the streams of the workflow's own code, which may go on."""


class StreamRecord(msgspec.Struct, kw_only=True):
    """The stream of one attempt, as stored. For the workflow's own code, ``step`` is the branch and
    ``generation`` is 0."""

    run_id: str
    number: int
    step: str
    attempt: int
    generation: int
    frames: int
    said: int
    kept: dict[str, int]
    version: int
    opened_at: int
    written_at: int
    closed_at: int | None = None
    reason: str | None = None
    summary: bytes | None = None
    supersedes: int | None = None
    superseded_by: int | None = None

    @property
    def is_of_lease(self) -> bool:
        """Whether the holder of an explicit lease writes it, and not a step or the code of a
        workflow."""
        return self.generation > 0 and self.step == ""

    @property
    def source(self) -> tuple[str, int, int]:
        """The identity of the stream within its run."""
        return self.step, self.attempt, self.generation


class Frame(msgspec.Struct, kw_only=True):
    """One piece of output.

    ``seq`` grows within the run: it is the cursor of readers. ``supersedes`` is the stream that the
    stream of this frame replaces. ``superseded_by`` is the stream of a later attempt at the step,
    if there was one when the frame was read.
    """

    seq: int
    stream: int
    step: str
    attempt: int
    generation: int
    kind: str
    mode: str
    at: int
    value: Any = None
    name: str | None = None
    nulls: list[list[str]] | None = None
    version: int | None = None
    supersedes: int | None = None
    superseded_by: int | None = None


class OutputSink(Protocol):
    """The receiver of the output of a run while a worker holds it. Its methods may be called from
    any thread."""

    captures: bool
    """Whether printed and logged lines of steps are captured, unless a step sets ``capture``."""

    def put(
        self,
        step: str,
        attempt: int,
        kind: str,
        value: Any,
        *,
        code: bool = False,
        mode: str = StreamMode.DURABLE,
        name: str | None = None,
        keep: int | None = None,
        ttl: int = TTL,
    ) -> None:
        """Append a frame; *ttl* is in microseconds. Raises FrameTooBig, BadPatch, NotEncodable,
        StreamClosed, LeaseLost."""

    def advanced(
        self,
        step: str,
        attempt: int,
        percent: float | None,
        message: str | None,
        *,
        code: bool = False,
    ) -> None:
        """Record the progress of the run."""
