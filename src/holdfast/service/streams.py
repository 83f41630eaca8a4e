"""Read the output of runs: a range of frames, or all frames until the run has ended."""

from __future__ import annotations

from typing import Any, NamedTuple

from holdfast.core import associated_data
from holdfast.core.codec import Codec
from holdfast.core.status import FINAL
from holdfast.core.streams.model import Frame, FrameKind, Progress, StreamRecord
from holdfast.core.validation import checked_count, checked_flag, checked_string
from holdfast.errors import BadCursor, BadOption, RunNotFound
from holdfast.payloads.sealer import PayloadSealer
from holdfast.store.store import Store
from holdfast.store.streams.operations import StoredFrame

PAGE = 1000
"""Frames that a follower reads at once."""

MOST = 10_000
"""Frames that one read returns, at most."""


class StreamFilter(NamedTuple):
    """Which frames of a run to read: those of a step, of an attempt, or all of them; without
    *best_effort*, only frames that are kept."""

    step: str | None = None
    attempt: int | None = None
    best_effort: bool = True


def stream_filter(step: str | None, attempt: int | None, best_effort: bool = True) -> StreamFilter:
    """Return the filter of a caller. Raises BadOption."""
    number = None if attempt is None else checked_count("attempt", attempt, least=1)
    return StreamFilter(
        checked_string("step", step), number, checked_flag("best_effort", best_effort)
    )


class StreamService:
    """Reads and decodes the frames, summaries and progress of runs."""

    def __init__(self, store: Store, codec: Codec, sealer: PayloadSealer) -> None:
        self.store = store
        self.codec = codec
        self.sealer = sealer

    def read(
        self,
        run_id: str,
        after: int,
        until: int | None,
        limit: int,
        part: StreamFilter,
    ) -> list[Frame]:
        """Return the frames of a run, in order, from *after* (exclusive) to *until*. If the engine
        has no key at all, a text stands in place of each encrypted value. Raises BadOption,
        KeyMissing."""
        if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MOST:
            raise BadOption(
                option="limit", value=limit, why=f"give a number of frames from 1 to {MOST}"
            )
        if until is not None:
            check_cursor("until", until)
        frames = self.store.streams.frames(
            run_id,
            after,
            until=until,
            limit=limit,
            step=part.step,
            attempt=part.attempt,
            best_effort=part.best_effort,
        )
        by_number = (
            {stream.number: stream for stream in self.store.streams.of_run(run_id)}
            if frames
            else {}
        )
        return [
            self._frame(frame, by_number[frame.stream])
            for frame in frames
            if frame.stream in by_number
        ]

    def check(self, run_id: str, after: int) -> None:
        """Raise BadCursor if the run has not emitted the frame *after* yet. Raises BadOption."""
        check_cursor("after", after)
        if after and after > (
            last := sum(stream.frames for stream in self.store.streams.of_run(run_id))
        ):
            raise BadCursor(
                cursor=str(after),
                why=f"this run has emitted {last} frames: the cursor is from another run",
            )

    def _frame(self, frame: StoredFrame, stream: StreamRecord) -> Frame:
        return Frame(
            seq=frame.seq,
            stream=frame.stream,
            step=stream.step,
            attempt=stream.attempt,
            generation=stream.generation,
            kind=frame.kind,
            mode=frame.mode,
            at=frame.at,
            value=self._value(frame, stream),
            name=frame.name,
            nulls=self._nulls(frame, stream),
            version=frame.version,
            supersedes=stream.supersedes,
            superseded_by=stream.superseded_by,
        )

    def _value(self, frame: StoredFrame, stream: StreamRecord) -> Any:
        label = f"frame {frame.seq} of run {stream.run_id}"
        plain = self.sealer.values.open_output(
            frame.data, label, associated_data.frame(stream.run_id, stream.source, frame.at)
        )
        if plain is None:
            return self.sealer.display.placeholder(frame.data)
        return self.codec.decode(
            plain, bytes if frame.kind == FrameKind.BLOB else Any, label="a frame"
        )

    def _nulls(self, frame: StoredFrame, stream: StreamRecord) -> Any:
        if frame.nulls is None:
            return None
        label = f"frame {frame.seq} of run {stream.run_id}"
        plain = self.sealer.values.open_output(
            frame.nulls, label, associated_data.nulls(stream.run_id, stream.source, frame.at)
        )
        if plain is None:
            return None
        return self.codec.decode(plain, label=label)

    def latest_summary(self, run_id: str, part: StreamFilter) -> Any:
        """Return the document of the latest stream with patches; None if there is none."""
        streams = [
            stream
            for stream in self.store.streams.of_run(run_id)
            if stream.summary is not None
            and part.step in (None, stream.step)
            and part.attempt in (None, stream.attempt)
        ]
        return self.summary(streams[-1]) if streams else None

    def summary(self, stream: StreamRecord) -> Any:
        """Return the document that results from all patches of a stream; None if there were none.
        Raises KeyMissing."""
        if stream.summary is None:
            return None
        place = associated_data.summary(stream.run_id, stream.source)
        plain = self.sealer.values.open_output(
            stream.summary, f"the summary of run {stream.run_id}", place
        )
        if plain is None:
            return self.sealer.display.placeholder(stream.summary)
        return self.codec.decode(plain, label="a summary")

    def progress(self, run_id: str) -> Progress | None:
        """Return the last progress that a run reported; None if it never reported any. If the
        message cannot be read here, the reason stands in its place."""
        progress = self.store.streams.progress(run_id)
        if progress is None or progress.message is None:
            return progress
        return Progress(
            progress.percent,
            self.sealer.display.text(progress.message, associated_data.progress(run_id)),
            progress.at,
        )


class StreamFollower:
    """Reads the frames of a run page by page, and knows when there can be no more."""

    def __init__(self, frames: StreamService, run_id: str, after: int, part: StreamFilter) -> None:
        frames.check(run_id, after)
        self._frames: StreamService = frames
        self._run_id: str = run_id
        self._after: int = after
        self._part: StreamFilter = part
        self._ended: bool = False

    def page(self) -> list[Frame]:
        """Return the next frames; none if there are none yet. Raises RunNotFound."""
        # Read the run before its frames, not after: if it has ended by then, all its frames are
        # there.
        run = self._frames.store.runs.get(self._run_id)
        if run is None:
            raise RunNotFound(run=self._run_id)
        page = self._frames.read(self._run_id, self._after, None, PAGE, self._part)
        if page:
            self._after = page[-1].seq
        self._ended = len(page) < PAGE and run.status in FINAL
        return page

    @property
    def is_over(self) -> bool:
        """Whether there can be no more frames: the run has ended, and all its frames were read."""
        return self._ended


def check_cursor(option: str, seq: object) -> None:
    """Raise BadOption if *seq* is not a place in the output of a run."""
    if isinstance(seq, bool) or not isinstance(seq, int) or not 0 <= seq < 2**62:
        raise BadOption(
            option=option,
            value=seq,
            why="give the seq of a frame, such as that of the last frame that was read",
        )
