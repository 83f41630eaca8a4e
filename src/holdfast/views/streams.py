"""Views of the output of runs: frames, streams, progress."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from holdfast.core.streams.model import Frame, FrameKind, Progress, StreamMode, StreamRecord
from holdfast.views.values import instant, optional_instant


class FrameView(msgspec.Struct, kw_only=True):
    """One piece of output.

    ``seq`` grows within the run: it is the cursor of readers. ``supersedes`` is the stream that the
    stream of this frame replaces. ``superseded_by`` is the stream of a later attempt at the step,
    if there was one when the frame was read. ``nulls`` are the paths of a patch that are set to
    null and not deleted."""

    seq: int
    stream: int
    step: str
    attempt: int
    generation: int
    kind: FrameKind
    mode: StreamMode
    at: datetime
    value: Any
    name: str | None
    nulls: list[list[str]] | None
    version: int | None
    supersedes: int | None
    superseded_by: int | None


class StreamView(msgspec.Struct, kw_only=True):
    """The stream of one attempt at a step, or of the workflow's own code, whose ``generation`` is
    0. ``frames`` is the number of frames that were emitted; ``reason`` says why it was closed."""

    run_id: str
    number: int
    step: str
    attempt: int
    generation: int
    frames: int
    version: int
    opened_at: datetime
    written_at: datetime
    closed_at: datetime | None
    reason: str | None
    supersedes: int | None
    superseded_by: int | None


class ProgressView(msgspec.Struct, kw_only=True):
    """The last progress that a run reported."""

    percent: float | None
    message: str | None
    at: datetime


def of(frame: Frame) -> FrameView:
    """Return the view of a frame."""
    return FrameView(
        seq=frame.seq,
        stream=frame.stream,
        step=frame.step,
        attempt=frame.attempt,
        generation=frame.generation,
        kind=FrameKind(frame.kind),
        mode=StreamMode(frame.mode),
        at=instant(frame.at),
        value=frame.value,
        name=frame.name,
        nulls=frame.nulls,
        version=frame.version,
        supersedes=frame.supersedes,
        superseded_by=frame.superseded_by,
    )


def stream_of(stream: StreamRecord) -> StreamView:
    """Return the view of a stream."""
    return StreamView(
        run_id=stream.run_id,
        number=stream.number,
        step=stream.step,
        attempt=stream.attempt,
        generation=stream.generation,
        frames=stream.frames,
        version=stream.version,
        opened_at=instant(stream.opened_at),
        written_at=instant(stream.written_at),
        closed_at=optional_instant(stream.closed_at),
        reason=stream.reason,
        supersedes=stream.supersedes,
        superseded_by=stream.superseded_by,
    )


def progress_of(progress: Progress) -> ProgressView:
    """Return the view of a run's progress, whose message is opened."""
    return ProgressView(percent=progress.percent, message=progress.message, at=instant(progress.at))
