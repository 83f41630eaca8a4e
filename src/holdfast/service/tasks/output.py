"""Requests for the output of an explicit lease: progress and frames. Each is durable when its call
returns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.core import associated_data, duration
from holdfast.core.duration import Duration
from holdfast.core.streams import rules as stream_rules
from holdfast.core.streams.model import (
    FrameKind,
    NewFrame,
    Output,
    Progress,
    StreamMode,
    StreamPart,
)
from holdfast.core.text import is_one_of, is_storable
from holdfast.core.validation import checked_text
from holdfast.errors import BadOption, FrameTooBig
from holdfast.service.requests import Request
from holdfast.service.runs import RunService
from holdfast.service.tasks.lease_state import Emitted, LeaseState
from holdfast.store.streams.operations import AppendFrames


class TaskOutput:
    """Builds the operations that write a holder's output."""

    def __init__(self, client: RunService) -> None:
        self._store = client.store
        self._codec = client.codec
        self._sealer = client.sealer

    def progress(
        self, held: LeaseState, percent: float | None, message: str | None
    ) -> Request[Any]:
        """Report the progress of a run. A value that is None stays as it was. Raises BadOption."""
        if percent is None and message is None:
            raise BadOption(option="percent", why="give a percentage, a message, or both")
        if percent is not None and (
            isinstance(percent, bool)
            or not isinstance(percent, int | float)
            or not 0 <= percent <= 100
        ):
            raise BadOption(option="percent", value=percent, why="give a number from 0 to 100")
        if message is not None and (
            not isinstance(message, str) or len(message) > 1000 or not is_storable(message)
        ):
            raise BadOption(
                option="message", value=message, why="give a text of at most 1000 characters"
            )
        sealed = None
        if message is not None:
            sealed = self._sealer.values.seal_text(message, associated_data.progress(held.run.id))
        progress = Progress(None if percent is None else float(percent), sealed, self._store.now())
        return self._request(held, Output([], [], progress))

    def append(
        self,
        held: LeaseState,
        values: Sequence[Any],
        *,
        kind: str,
        name: str | None,
        mode: str,
        keep: int | None,
        ttl: Duration | None,
        place: int | None,
    ) -> Request[Any]:
        """Append frames, all of them or none. *place* is the number of frames that the attempt has
        appended before: a repeated call with the same place appends nothing. The answer is
        Emitted. Raises BadOption, FrameTooBig."""
        _check(values, kind, mode, keep, place)
        checked_text("name", name)
        part = StreamPart("", held.attempt, self._generation(held), place=place)
        now = self._store.now()
        if mode == StreamMode.SUMMARY:
            frames = self._patches(held, part, values, now)
            part.keep = {mode: keep or stream_rules.KEEP_SUMMARY}
        else:
            frames = [self._frame(held, part, kind, mode, value, now, name) for value in values]
            lifetime = duration.parse(ttl) if ttl is not None else stream_rules.TTL
            if keep is None and mode == StreamMode.BEST_EFFORT:
                keep = held.frames_to_keep(len(values), now, lifetime)
            part.keep = {mode: stream_rules.KEEP_DURABLE if keep is None else keep}
        return self._request(held, Output([part], frames))

    def _generation(self, held: LeaseState) -> int:
        """Return the generation of the stream of this attempt: that of the lease which opened it.
        The stream of a run that was suspended or delayed is still open."""
        if held.proof.generation == 1:
            return 1
        if held.stream_generation is None:
            open_streams = [
                stream
                for stream in self._store.streams.of_run(held.run.id)
                if stream.closed_at is None and stream.is_of_lease
            ]
            held.stream_generation = held.proof.generation
            if open_streams and open_streams[-1].attempt == held.attempt:
                held.stream_generation = open_streams[-1].generation
        return held.stream_generation

    def _patches(
        self, held: LeaseState, part: StreamPart, values: Sequence[Any], now: int
    ) -> list[NewFrame]:
        """Return a frame for each patch, and let *part* compute the summary after them."""
        frames = []
        patches = [stream_rules.plain(value) for value in values]
        for changes, nulls in patches:
            frame = self._frame(held, part, FrameKind.EVENT, StreamMode.SUMMARY, changes, now, None)
            if nulls:
                place = associated_data.nulls(held.run.id, part.source, now)
                frame.nulls = self._sealer.values.seal_inline(
                    self._codec.encode(nulls, label="paths"), place
                )
            frames.append(frame)
        place = associated_data.summary(held.run.id, part.source)

        def apply(stored: bytes | None) -> bytes:
            document: Any = {}
            if stored is not None:
                label = f"the summary of run {held.run.id}"
                plain = self._sealer.values.open(stored, label, place)
                document = self._codec.decode(plain, label="a summary")
            for changes, nulls in patches:
                document = stream_rules.merge(document, changes, nulls)
            encoded = self._codec.encode(document, label="a summary")
            return self._sealer.values.seal_inline(encoded, place)

        part.patches = apply
        return frames

    def _frame(
        self,
        held: LeaseState,
        part: StreamPart,
        kind: str,
        mode: str,
        value: Any,
        now: int,
        name: str | None,
    ) -> NewFrame:
        data = self._codec.encode(value, label="a frame")
        size = stream_rules.frame_size(value, data)
        if size > stream_rules.LARGEST:
            raise FrameTooBig(bytes=size, run=held.run.id)
        sealed = self._sealer.values.seal_inline(
            data, associated_data.frame(held.run.id, part.source, now)
        )
        return NewFrame(0, kind, mode, sealed, now, name)

    def _request(self, held: LeaseState, output: Output) -> Request[Any]:
        return Request(
            AppendFrames(held.run.id, held.proof.generation, output),
            lambda answer: Emitted(answer.last_seq, answer.frames, answer.version),
        )


def _check(
    values: Sequence[Any], kind: str, mode: str, keep: int | None, place: int | None
) -> None:
    if not values:
        raise BadOption(option="values", why="give at least one value to append")
    if not is_one_of(kind, list(FrameKind)):
        raise BadOption(option="kind", value=kind, known=", ".join(FrameKind))
    if not is_one_of(mode, list(StreamMode)):
        raise BadOption(option="mode", value=mode, known=", ".join(StreamMode))
    if kind in (FrameKind.STDOUT, FrameKind.STDERR) and not all(
        isinstance(value, str) for value in values
    ):
        raise BadOption(option="kind", value=kind, why="values of this kind must be texts")
    if kind == FrameKind.BLOB and not all(isinstance(value, bytes) for value in values):
        raise BadOption(option="kind", value=kind, why="values of this kind must be bytes")
    for option, number, least in (("keep", keep, 1), ("place", place, 0)):
        if number is not None and (
            isinstance(number, bool) or not isinstance(number, int) or number < least
        ):
            raise BadOption(
                option=option, value=number, why=f"give a number of frames, {least} or more"
            )
