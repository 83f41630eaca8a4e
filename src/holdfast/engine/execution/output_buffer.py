"""Where the output of a held run goes: gathered for a moment, then appended in one go, together
with that of other runs.

Nobody waits for a frame to be written, so frames may wait for company. What a step has put out is
written at the latest with its outcome, in the same transaction. What the workflow's own code puts
out is written with what led to it: a program is fed before its outcomes are committed, and what it
said about them must not be told before they are true.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import Any

from holdfast.core import associated_data
from holdfast.core.events import Event, EventKind
from holdfast.core.runs import RunRecord
from holdfast.core.streams import rules as stream_rules
from holdfast.core.streams.model import (
    CloseReason,
    NewFrame,
    Output,
    Progress,
    StreamMode,
    StreamPart,
)
from holdfast.core.streams.rules import FrameRate
from holdfast.engine.runtime.context import WorkerContext
from holdfast.errors import EngineClosed, FrameTooBig, LeaseLost, StoreError, StreamClosed
from holdfast.store.contract import AppendFrames

log = logging.getLogger("holdfast")

MANY = 500
"""So many frames do not wait for company any longer."""

FULL = 5000
"""Whoever puts out more than this before it is written, in a thread of its own, waits."""

PATIENCE = 60.0
"""Seconds for which it waits at most."""

_REASONS = {
    EventKind.STEP_COMPLETED: CloseReason.COMPLETED,
    EventKind.STEP_FAILED: CloseReason.FAILED,
    EventKind.STEP_RETRIED: CloseReason.RETRIED,
    EventKind.STEP_DROPPED: CloseReason.DROPPED,
}


class _OpenStream:
    """A stream, as far as its writer must know it."""

    def __init__(self, step: str, attempt: int, generation: int) -> None:
        self.step, self.attempt, self.generation = step, attempt, generation
        self.rate = FrameRate()
        self.keep: dict[str, int] = {}
        self.said = 0
        self.silent = 0
        """How often the code will say what it has said before."""
        self.document: dict[str, Any] = {}
        self.stored: bytes | None = None
        """The document as it was stored, as long as nobody needs it."""
        self.version = 0
        self.patched = False
        self.close: str | None = None
        self.ended = False


_Entry = tuple[_OpenStream, NewFrame | Progress | None]
"""Something said, or that a stream has ended."""


class OutputBuffer:
    """The output of one held run, from any thread. It does not know who holds the run: two who know
    each other, for each run that ends, are work for the garbage collector."""

    __slots__ = (
        "_deferred",
        "_frames",
        "_generation",
        "_guard",
        "_host",
        "_later",
        "_loop_thread",
        "_lost",
        "_recalled",
        "_room",
        "_run_id",
        "_scheduled",
        "_streams",
        "_thread",
        "captures",
        "life",
        "replayed",
        "speculative",
        "writing",
    )

    def __init__(self, run: RunRecord, host: WorkerContext) -> None:
        self._host, self._run_id, self._generation = host, run.id, run.generation
        self._guard = threading.Lock()
        self._thread = threading.get_ident()
        self._loop_thread = self._thread if host.program_loop is None else host.program_loop.thread
        self._streams: dict[tuple[str, int, int], _OpenStream] | None = None
        self._recalled = False
        self._deferred: list[Callable[[], None]] = []
        """What the code said on the program's loop before the streams of the run were read, which
        is not done there."""
        self._frames: list[_Entry] = []
        self._later: list[_Entry] = []
        self._scheduled = False
        self._lost: LeaseLost | None = None
        self._room: threading.Event | None = None
        self.writing: asyncio.Future[None] | None = None
        self.captures = host.captures
        self.replayed = False
        """Whether the run comes from elsewhere, so that its code may have said something
        already."""
        self.speculative = True
        """Whether the code runs ahead of what is committed."""
        self.life = 1
        """How often the run was put back to work after its end, and once more: its code says
        everything again."""

    # What the run calls

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
        ttl: int = stream_rules.TTL,
    ) -> None:
        """Append a frame."""
        nulls: list[list[str]] = []
        if mode == StreamMode.SUMMARY:
            value, nulls = stream_rules.plain(value)
        codec = self._host.codec
        data = codec.encode(value, what="a frame")
        if len(data) > stream_rules.LARGEST:
            raise FrameTooBig(bytes=len(data), run=self._run_id, step=step or None)
        seal, now, source = (
            self._host.sealer.values.inline,
            self._host.store.now(),
            self._source(step, attempt, code=code),
        )
        paths = (
            seal(
                codec.encode(nulls, what="paths"), associated_data.nulls(self._run_id, source, now)
            )
            if nulls
            else None
        )
        frame = NewFrame(
            0,
            kind,
            mode,
            seal(data, associated_data.frame(self._run_id, source, now)),
            now,
            name,
            paths,
        )
        self._make_room(mode)
        with self._guard:
            if code and self._must_defer():
                self._deferred.append(
                    partial(self._put, step, attempt, frame, code, (value, nulls, keep, ttl))
                )
            else:
                self._put(step, attempt, frame, code, (value, nulls, keep, ttl))

    def _put(
        self, step: str, attempt: int, frame: NewFrame, code: bool, counted: tuple[Any, ...]
    ) -> None:
        stream = self._open(step, attempt, code=code)
        if self._is_said(stream, code) or (
            frame.mode == StreamMode.BEST_EFFORT and len(self._frames) >= FULL
        ):
            return
        self._count(stream, frame, *counted)
        self._add(stream, frame, code)

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
        told = (
            None
            if message is None
            else self._host.sealer.values.text(message, associated_data.progress(self._run_id))
        )
        said = Progress(percent, told, self._host.store.now())
        with self._guard:
            if code and self._must_defer():
                self._deferred.append(partial(self._advance, step, attempt, said, code))
            else:
                self._advance(step, attempt, said, code)

    def _advance(self, step: str, attempt: int, said: Progress, code: bool) -> None:
        stream = self._open(step, attempt, code=code)
        if not self._is_said(stream, code):
            self._add(stream, said, code)

    def _must_defer(self) -> bool:
        """Return whether what the code says is kept for the writer's thread: it needs what is
        stored of the run, and this is the program's loop, where nothing is read."""
        if self._recalled or not self.replayed or self._loop_thread == self._thread:
            return False
        if threading.get_ident() != self._loop_thread:
            return False
        if self._lost is not None:
            raise self._lost
        return True

    def _catch_up(self) -> None:
        """Make the calls that were kept for the writer's thread, which is this one."""
        deferred, self._deferred = self._deferred, []
        for call in deferred:
            call()

    def _open(self, step: str, attempt: int, *, code: bool) -> _OpenStream:
        if self._lost is not None:
            raise self._lost
        if self._streams is None:
            self._streams = {}
        if code and not self._recalled:
            self._streams.update(self._known())
            self._recalled = True
        key = self._source(step, attempt, code=code)
        found = self._streams.get(key)
        if found is None:
            found = self._streams[key] = _OpenStream(*key)
        if found.ended:
            raise StreamClosed(run=self._run_id, step=step, attempt=attempt)
        return found

    def _source(self, step: str, attempt: int, *, code: bool) -> associated_data.Source:
        return (step, self.life, 0) if code else (step, attempt, self._generation)

    def _known(self) -> dict[tuple[str, int, int], _OpenStream]:
        """What the code of a run that comes from elsewhere has said already."""
        found: dict[tuple[str, int, int], _OpenStream] = {}
        for stored in self._host.store.streams(self._run_id) if self.replayed else []:
            if stored.generation == 0:
                stream = found[(stored.step, stored.attempt, 0)] = _OpenStream(
                    stored.step, stored.attempt, 0
                )
                stream.silent, stream.version = stored.said, stored.version
                stream.stored = stored.summary
        return found

    def _is_said(self, stream: _OpenStream, code: bool) -> bool:
        if not code:
            return False
        if stream.silent > 0:
            stream.silent -= 1
            return True
        stream.said += 1
        return False

    def _count(
        self,
        stream: _OpenStream,
        frame: NewFrame,
        value: Any,
        nulls: list[list[str]],
        keep: int | None,
        ttl: int,
    ) -> None:
        if frame.mode == StreamMode.SUMMARY:
            self._recall(stream)
            stream.document = stream_rules.merge(stream.document, value, nulls)
            stream.version += 1
            stream.patched = True
            frame.version = stream.version
            stream.keep[frame.mode] = keep or stream_rules.KEEP_SUMMARY
        elif frame.mode == StreamMode.BEST_EFFORT:
            stream.keep[frame.mode] = stream.rate.came(frame.at, ttl)
        else:
            stream.keep[frame.mode] = keep or stream_rules.KEEP_DURABLE

    def _recall(self, stream: _OpenStream) -> None:
        """Open the document that the code of a run that comes from elsewhere has made. Raises
        KeyMissing."""
        if stream.stored is not None:
            host, what = self._host, f"the summary of run {self._run_id}"
            place = associated_data.summary(
                self._run_id, (stream.step, stream.attempt, stream.generation)
            )
            plain = host.sealer.values.open(stream.stored, what, place)
            stream.document, stream.stored = host.codec.decode(plain, what="a summary"), None

    def _add(self, stream: _OpenStream, said: NewFrame | Progress, code: bool) -> None:
        (self._later if code and self.speculative else self._frames).append((stream, said))
        if not self._scheduled and not (code and self.speculative):
            self._schedule()

    def _make_room(self, mode: str) -> None:
        """Wait, in a thread other than the one that writes, until not too much is waiting to be
        written."""
        if len(self._frames) < FULL or mode == StreamMode.BEST_EFFORT:
            return
        if threading.get_ident() in (self._thread, self._loop_thread):
            return
        with self._guard:
            room = self._room = self._room or threading.Event()
        if len(self._frames) >= FULL:
            room.wait(PATIENCE)

    # What the driver calls

    @property
    def has_something(self) -> bool:
        """Whether there is anything to write."""
        return bool(self._frames or self._later or self._deferred)

    @property
    def is_used(self) -> bool:
        """Whether the run puts anything out at all."""
        return bool(self._streams or self._deferred)

    async def wait_until_written(self) -> None:
        """Wait for the write that is on its way: what comes later must not be written before it,
        and a commit that releases the run would let it be refused."""
        while self.writing is not None:  # another may begin before this coroutine goes on
            await self.writing

    def hold(self) -> None:
        """Append nothing until ``resume``: a commit of the run carries output, and must not be
        overtaken by later output while it is tried again."""
        if self.writing is None:
            self.writing = self._host.loop.create_future()

    def resume(self) -> None:
        """Append again what has come together meanwhile."""
        writing, self.writing = self.writing, None
        if writing is not None and not writing.done():
            writing.set_result(None)
        with self._guard:
            self._scheduled = False
            if self._room is not None and not self._frames:
                self._room.set()
                self._room = None
            if self._frames and self._lost is None:
                self._schedule()

    def ended(self, event: Event) -> None:
        """An attempt has ended: its stream is closed with its outcome."""
        if self._streams and event.kind in _REASONS:
            self.close_attempt(event.step or "", event.attempt, _REASONS[event.kind])

    def close_attempt(self, step: str, attempt: int, reason: str) -> None:
        """Close the stream of an attempt, if it has one, with the next commit of the run."""
        if not self._streams:
            return
        with self._guard:
            stream = self._streams.get((step, attempt, self._generation))
            if stream is not None and not stream.ended:
                stream.ended, stream.close = True, reason
                self._later.append((stream, None))

    def reopen(self, output: Output | None, event: Event) -> None:
        """An attempt has not completed after all: its stream is not closed by what is about to be
        written."""
        for part in output.streams if output is not None else ():
            if (part.step, part.attempt) == (event.step, event.attempt):
                part.close = None
        stream = (self._streams or {}).get((event.step or "", event.attempt, self._generation))
        if stream is not None:
            stream.ended, stream.close = False, None

    def take(self, close_others: str | None = None, *, only_steps: bool = False) -> Output | None:
        """Return all that is to be written, the words of the code and the ends of streams
        included."""
        if not self.is_used:
            return None
        with self._guard:
            self._catch_up()
            entries, self._frames, self._later = self._frames + self._later, [], []
            output = self._output(entries)
        if close_others is not None:
            output.close_others, output.only_steps = close_others, only_steps
        return output if entries or close_others is not None else None

    def begin_anew(self, step: str, attempt: int) -> None:
        """An attempt is made once more because its transaction was rolled back: what it has said
        was not said."""
        if self._streams is None:
            return
        with self._guard:
            gone = self._streams.pop((step, attempt, self._generation), None)
            self._frames = [entry for entry in self._frames if entry[0] is not gone]

    def take_attempt(self, step: str, attempt: int) -> Output | None:
        """Return what one attempt has put out, which has completed, and nothing else."""
        self.close_attempt(step, attempt, CloseReason.COMPLETED)
        if not self._streams:
            return None
        with self._guard:
            stream = self._streams.get((step, attempt, self._generation))
            entries = [entry for entry in self._frames + self._later if entry[0] is stream]
            self._frames = [entry for entry in self._frames if entry[0] is not stream]
            self._later = [entry for entry in self._later if entry[0] is not stream]
            return self._output(entries) if entries else None

    def release(self) -> None:
        """Nothing else is to be committed: what the code said is true already."""
        with self._guard:
            self._catch_up()
            self._frames += self._later
            self._later = []
            if self._frames and not self._scheduled:
                self._schedule()

    def _output(self, entries: list[_Entry]) -> Output:
        parts: dict[int, int] = {}
        output = Output([], [])
        for stream, said in entries:
            place = parts.get(id(stream))
            if place is None:
                place = parts[id(stream)] = len(output.streams)
                output.streams.append(self._part(stream))
            if isinstance(said, NewFrame):
                said.stream = place
                output.frames.append(said)
            elif said is not None:
                output.progress = _later_of(output.progress, said)
        if self._room is not None:
            self._room.set()
            self._room = None
        return output

    def _part(self, stream: _OpenStream) -> StreamPart:
        said, stream.said = stream.said, 0
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
            document = self._host.codec.encode(stream.document, what="a summary")
            part.summary = self._host.sealer.values.inline(
                document, associated_data.summary(self._run_id, part.source)
            )
            part.version = stream.version
        return part

    # Writing

    def _schedule(self) -> None:
        self._scheduled = True
        loop, soon = self._host.loop, self._host.stream_window
        if threading.get_ident() == self._thread:
            self._set_off(loop, soon)
            return
        try:
            loop.call_soon_threadsafe(self._set_off, loop, soon)
        except RuntimeError:  # the loop is closed: nobody is here to write
            return

    def _set_off(self, loop: asyncio.AbstractEventLoop, soon: float) -> None:
        if soon <= 0 or len(self._frames) >= MANY:
            loop.call_soon(self._flush)
        else:
            loop.call_later(soon, self._flush)

    def _flush(self) -> None:
        """Append what has come together, unless something is on its way already."""
        if self.writing is not None:
            return  # whoever is done with that looks again
        with self._guard:
            self._scheduled = False
            entries, self._frames = self._frames, []
            if not entries or self._lost is not None:
                return
            output = self._output(entries)
        self.writing = self._host.loop.create_future()
        self._submit(AppendFrames(self._run_id, self._generation, output), 0.05)

    def _submit(self, op: AppendFrames, pause: float) -> None:
        self._host.writer.submit(op).add_done_callback(lambda done: self._written(done, op, pause))

    def _written(self, done: asyncio.Future[Any], op: AppendFrames, pause: float) -> None:
        error = None if done.cancelled() else done.exception()
        if isinstance(error, StoreError):
            log.warning(
                "the output of run %s cannot be written now, will try again: %s", op.run_id, error
            )
            self._host.loop.call_later(pause, self._submit, op, min(pause * 2, 5.0))
            return
        if isinstance(error, LeaseLost):
            self._lost = error
        elif error is not None and not isinstance(error, EngineClosed):
            log.error("output of run %s was refused", op.run_id, exc_info=error)
        self.resume()


def _later_of(was: Progress | None, now: Progress) -> Progress:
    """Return how far a run is when it first said one thing and then another."""
    if was is None:
        return now
    percent = was.percent if now.percent is None else now.percent
    return Progress(percent, was.message if now.message is None else now.message, now.at)
