"""One stream of output of a run: its frames, counted and sealed, and its summary."""

from __future__ import annotations

from typing import Any

from holdfast.core import associated_data
from holdfast.core.streams import rules as stream_rules
from holdfast.core.streams.model import NewFrame, Progress, StreamMode, StreamPart
from holdfast.core.streams.rules import FrameRate
from holdfast.engine.runtime.context import WorkerContext
from holdfast.errors import FrameTooBig


class OpenStream:
    """A stream of output, as its writer knows it."""

    def __init__(self, step: str, attempt: int, generation: int) -> None:
        self.step: str = step
        self.attempt: int = attempt
        self.generation: int = generation
        self.rate = FrameRate()
        self.keep: dict[str, int] = {}
        self.said = 0
        self.silent = 0
        """How many frames the replayed code will emit that are stored already."""
        self.document: dict[str, Any] = {}
        self.stored: bytes | None = None
        """The stored summary, until it is needed and decoded."""
        self.version = 0
        self.patched = False
        self.close: str | None = None
        self.ended = False

    def is_stored(self) -> bool:
        """Return whether an earlier holder has stored what the replayed code emits next, and count
        it."""
        if self.silent > 0:
            self.silent -= 1
            return True
        self.said += 1
        return False


def new_frame(
    host: WorkerContext,
    run_id: str,
    source: associated_data.Source,
    *,
    kind: str,
    value: Any,
    mode: str,
    name: str | None,
) -> tuple[NewFrame, tuple[Any, list[list[str]]]]:
    """Return a sealed frame, and the value and the paths of its nulls for a summary. Raises
    FrameTooBig."""
    nulls: list[list[str]] = []
    if mode == StreamMode.SUMMARY:
        value, nulls = stream_rules.plain(value)
    codec = host.codec
    data = codec.encode(value, label="a frame")
    size = stream_rules.frame_size(value, data)
    if size > stream_rules.LARGEST:
        raise FrameTooBig(bytes=size, run=run_id, step=source[0] or None)
    seal = host.sealer.values.seal_inline
    now = host.store.now()
    paths = None
    if nulls:
        encoded = codec.encode(nulls, label="paths")
        paths = seal(encoded, associated_data.nulls(run_id, source, now))
    sealed = seal(data, associated_data.frame(run_id, source, now))
    return NewFrame(0, kind, mode, sealed, now, name, paths), (value, nulls)


def count_frame(
    host: WorkerContext,
    run_id: str,
    stream: OpenStream,
    frame: NewFrame,
    value: Any,
    nulls: list[list[str]],
    keep: int | None,
    ttl: int,
) -> None:
    """Count a frame of a stream: merge it into the summary, or note how many frames to keep."""
    if frame.mode == StreamMode.SUMMARY:
        _recall(host, run_id, stream)
        stream.document = stream_rules.merge(stream.document, value, nulls)
        stream.version += 1
        stream.patched = True
        frame.version = stream.version
        stream.keep[frame.mode] = keep or stream_rules.KEEP_SUMMARY
    elif frame.mode == StreamMode.BEST_EFFORT:
        stream.keep[frame.mode] = stream.rate.came(frame.at, ttl)
    else:
        stream.keep[frame.mode] = keep or stream_rules.KEEP_DURABLE


def _recall(host: WorkerContext, run_id: str, stream: OpenStream) -> None:
    """Decode the stored summary of a stream of the code. Raises KeyMissing."""
    if stream.stored is None:
        return
    source = (stream.step, stream.attempt, stream.generation)
    place = associated_data.summary(run_id, source)
    plain = host.sealer.values.open(stream.stored, f"the summary of run {run_id}", place)
    stream.document = host.codec.decode(plain, label="a summary")
    stream.stored = None


def stored_streams(host: WorkerContext, run_id: str) -> dict[tuple[str, int, int], OpenStream]:
    """Return the streams of the code that an earlier holder has stored."""
    streams: dict[tuple[str, int, int], OpenStream] = {}
    for stored in host.store.streams.of_run(run_id):
        if stored.generation == 0:
            stream = OpenStream(stored.step, stored.attempt, 0)
            stream.silent = stored.said
            stream.version = stored.version
            stream.stored = stored.summary
            streams[(stored.step, stored.attempt, 0)] = stream
    return streams


def part_of(host: WorkerContext, run_id: str, stream: OpenStream) -> StreamPart:
    """Return what the next write says about a stream: its counts, and its summary if it changed."""
    said = stream.said
    stream.said = 0
    part = StreamPart(
        stream.step,
        stream.attempt,
        stream.generation,
        said,
        dict(stream.keep),
        close=stream.close,
    )
    if stream.patched:
        stream.patched = False
        document = host.codec.encode(stream.document, label="a summary")
        place = associated_data.summary(run_id, part.source)
        part.summary = host.sealer.values.seal_inline(document, place)
        part.version = stream.version
    return part


def later_progress(was: Progress | None, now: Progress) -> Progress:
    """Return the progress of a run after the reports *was* and *now*: a value that the later report
    leaves out stays as it was."""
    if was is None:
        return now
    percent = now.percent
    if percent is None:
        percent = was.percent
    message = now.message
    if message is None:
        message = was.message
    return Progress(percent, message, now.at)
