"""Streams, frames and progress, as they are stored."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Protocol

import msgspec

from holdfast.core.streams.rules import TTL


class StreamMode(StrEnum):
    """How well a frame is kept."""

    DURABLE = "durable"
    SUMMARY = "summary"
    BEST_EFFORT = "best_effort"


class FrameKind(StrEnum):
    """What a frame is."""

    STDOUT = "stdout"
    STDERR = "stderr"
    EVENT = "event"
    BLOB = "blob"


class CloseReason:
    """Why a stream was closed, besides the status with which its run has ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    RETRIED = "retried"
    DROPPED = "dropped"
    TAKEN_OVER = "taken over"
    TAKEN_BACK = "taken back"
    RELEASED = "released"
    STUCK = "stuck"


class NewFrame(msgspec.Struct):
    """A frame to be appended. ``stream`` is its place among the streams that it is appended
    with."""

    stream: int
    kind: str
    mode: str
    data: bytes
    at: int
    name: str | None = None
    nulls: bytes | None = None
    version: int | None = None


class StreamPart(msgspec.Struct):
    """What is appended to one stream, besides its frames."""

    step: str
    attempt: int
    generation: int
    said: int = 0
    keep: dict[str, int] = {}
    """How many of each mode are kept; those not named are all kept."""
    summary: bytes | None = None
    version: int = 0
    close: str | None = None
    place: int | None = None
    """How many frames the stream has before these: what was appended already is not appended again,
    and answered the same."""
    since: int | None = None
    """The version that the summary was made of; the patch of another is refused."""

    @property
    def source(self) -> tuple[str, int, int]:
        """What identifies the stream within its run."""
        return self.step, self.attempt, self.generation


class Progress(msgspec.Struct):
    """How far a run says that it is."""

    percent: float | None = None
    message: str | None = None
    at: int = 0


class Output(msgspec.Struct):
    """What a run puts out, in order."""

    streams: list[StreamPart] = []
    frames: list[NewFrame] = []
    progress: Progress | None = None
    close_others: str | None = None
    """Close whatever else is open, for this reason."""
    only_steps: bool = False
    """Whether that leaves out what the code of the workflow puts out, for that may go on."""


class StreamRecord(msgspec.Struct, kw_only=True):
    """What one attempt has put out, as stored. ``step`` of the workflow's own code is its branch,
    with ``generation`` 0."""

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
    def source(self) -> tuple[str, int, int]:
        """What identifies the stream within its run."""
        return self.step, self.attempt, self.generation


class Frame(msgspec.Struct, kw_only=True):
    """One piece of output. ``seq`` grows within its run: it is the cursor. ``superseded_by`` is the
    stream, if there was one when this was read, in which the step was done again; ``supersedes`` is
    the one that this stream replaces."""

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
    """Where the output of a run goes while a worker holds it. May be called from any thread."""

    captures: bool
    """Whether what steps print and log belongs there, unless they say otherwise."""

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
        """Append a frame. Raises FrameTooBig, BadPatch, NotEncodable, StreamClosed, LeaseLost."""

    def advanced(
        self,
        step: str,
        attempt: int,
        percent: float | None,
        message: str | None,
        *,
        code: bool = False,
    ) -> None:
        """Say how far the run is."""
