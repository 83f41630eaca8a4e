"""Reading the output of runs: by range, or on and on until the run has ended."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.core import associated_data
from holdfast.core.codec import Codec
from holdfast.core.status import FINAL
from holdfast.core.streams.model import Frame, FrameKind, Progress, StreamRecord
from holdfast.core.validation import checked_flag, checked_string
from holdfast.errors import BadCursor, BadOption, RunNotFound
from holdfast.payloads.sealer import PayloadSealer
from holdfast.store.contract import Store, StoredFrame

PAGE = 1000
"""How many frames are read at once while following."""

MOST = 10_000
"""How many frames one read returns at most."""


class StreamService:
    """Reads frames, and says what they hold."""

    def __init__(self, store: Store, codec: Codec, sealer: PayloadSealer) -> None:
        self.store, self.codec, self.sealer = store, codec, sealer

    def read(
        self,
        run_id: str,
        after: int,
        until: int | None,
        limit: int,
        step: str | None,
        *,
        best_effort: bool,
    ) -> list[Frame]:
        """Return the frames of a run in order. Raises KeyMissing; where no key is known at all
        there are words instead."""
        if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MOST:
            raise BadOption(
                option="limit", value=limit, why=f"it is a number of frames from 1 to {MOST}"
            )
        if until is not None:
            check_cursor("until", until)
        checked_string("step", step)
        checked_flag("best_effort", best_effort)
        found = self.store.frames(
            run_id, after, until=until, limit=limit, step=step, best_effort=best_effort
        )
        by_number = (
            {stream.number: stream for stream in self.store.streams(run_id)} if found else {}
        )
        return [self._frame(one, by_number[one.stream]) for one in found if one.stream in by_number]

    def check(self, run_id: str, after: int) -> None:
        """Refuse a place that the output of a run has not come to. Raises BadOption, BadCursor."""
        check_cursor("after", after)
        if after and after > (last := sum(stream.frames for stream in self.store.streams(run_id))):
            raise BadCursor(
                cursor=str(after), why=f"the run has put out {last} frames: it is from another run"
            )

    def _frame(self, one: StoredFrame, stream: StreamRecord) -> Frame:
        return Frame(
            seq=one.seq,
            stream=one.stream,
            step=stream.step,
            attempt=stream.attempt,
            generation=stream.generation,
            kind=one.kind,
            mode=one.mode,
            at=one.at,
            value=self._value(one, stream),
            name=one.name,
            nulls=self._nulls(one, stream),
            version=one.version,
            supersedes=stream.supersedes,
            superseded_by=stream.superseded_by,
        )

    def _value(self, one: StoredFrame, stream: StreamRecord) -> Any:
        what = f"frame {one.seq} of run {stream.run_id}"
        plain = self.sealer.values.output(
            one.data, what, associated_data.frame(stream.run_id, stream.source, one.at)
        )
        if plain is None:
            return self.sealer.hidden(one.data)
        return self.codec.decode(
            plain, bytes if one.kind == FrameKind.BLOB else Any, what="a frame"
        )

    def _nulls(self, one: StoredFrame, stream: StreamRecord) -> Any:
        if one.nulls is None:
            return None
        what = f"frame {one.seq} of run {stream.run_id}"
        plain = self.sealer.values.output(
            one.nulls, what, associated_data.nulls(stream.run_id, stream.source, one.at)
        )
        return None if plain is None else self.codec.decode(plain, what=what)

    def summary(self, stream: StreamRecord) -> Any:
        """Return the document that the patches of a stream have come to; None when there were none.
        Raises KeyMissing."""
        if stream.summary is None:
            return None
        place = associated_data.summary(stream.run_id, stream.source)
        plain = self.sealer.values.output(
            stream.summary, f"the summary of run {stream.run_id}", place
        )
        if plain is None:
            return self.sealer.hidden(stream.summary)
        return self.codec.decode(plain, what="a summary")

    def progress(self, run_id: str) -> Progress | None:
        """Return how far a run says that it is; None when it never said anything. There are words
        instead of what cannot be read here."""
        found = self.store.progress(run_id)
        if found is None or found.message is None:
            return found
        return Progress(
            found.percent,
            self.sealer.text_shown(found.message, associated_data.progress(run_id)),
            found.at,
        )


class StreamFollower:
    """One who reads on from a place: page after page, and then whether that was the end."""

    def __init__(
        self, frames: StreamService, run_id: str, after: int, step: str | None, *, best_effort: bool
    ) -> None:
        frames.check(run_id, after)
        self._frames, self._run_id, self._after, self._step, self._best_effort = (
            frames,
            run_id,
            after,
            step,
            best_effort,
        )
        self._ended = False

    def page(self) -> list[Frame]:
        """Return the next frames, if there are any."""
        # The run is looked at before its frames: what was put out before it ended is there when it
        # has ended.
        run = self._frames.store.run(self._run_id)
        if run is None:
            raise RunNotFound(run=self._run_id)
        page = self._frames.read(
            self._run_id, self._after, None, PAGE, self._step, best_effort=self._best_effort
        )
        if page:
            self._after = page[-1].seq
        self._ended = len(page) < PAGE and run.status in FINAL
        return page

    @property
    def is_over(self) -> bool:
        """Whether nothing can come any more: the run has ended, and all that it put out was
        read."""
        return self._ended


def check_cursor(option: str, seq: object) -> None:
    """Refuse what is no place in the output of a run. Raises BadOption."""
    if isinstance(seq, bool) or not isinstance(seq, int) or not 0 <= seq < 2**62:
        raise BadOption(
            option=option,
            value=seq,
            why="it is the seq of a frame, such as the last one that was seen",
        )


def as_json(frame: Frame) -> dict[str, Any]:
    """Return a frame as plain data; bytes become base64, as everywhere."""
    found: dict[str, Any] = msgspec.to_builtins(frame)
    return found
