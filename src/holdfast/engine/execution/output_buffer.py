"""Collect the output of a run for a moment, then append it together with that of other runs.

Invariants:
- No code waits for a frame to be written, so frames are collected for ``stream_window`` seconds.
- The output of a step is written with its outcome at the latest, in the same transaction.
- The output of the workflow's own code is written with the events that led to it: a program is fed
  before its outcomes are committed, and what it emits about them must not be visible before.
- Output of a run is never written out of order: a commit that carries output holds later output
  back.
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
)
from holdfast.engine.execution.open_stream import (
    OpenStream,
    count_frame,
    later_progress,
    new_frame,
    part_of,
    stored_streams,
)
from holdfast.engine.runtime.context import WorkerContext
from holdfast.errors import EngineClosed, LeaseLost, StoreError, StreamClosed
from holdfast.store.streams.operations import AppendFrames

log = logging.getLogger("holdfast")

MANY = 500
"""The number of collected frames that are written at once."""

FULL = 5000
"""The number of unwritten frames at which the thread of a step waits before it emits more."""

PATIENCE = 60.0
"""Seconds for which such a thread waits at most."""

_REASONS = {
    EventKind.STEP_COMPLETED: CloseReason.COMPLETED,
    EventKind.STEP_FAILED: CloseReason.FAILED,
    EventKind.STEP_RETRIED: CloseReason.RETRIED,
    EventKind.STEP_DROPPED: CloseReason.DROPPED,
}


_Entry = tuple[OpenStream, NewFrame | Progress | None]
"""A frame or progress of a stream; None for the end of the stream."""


class OutputBuffer:
    """The output of one run, from any thread.

    It does not refer to the execution: a cycle of references for each run would be work for the
    garbage collector.
    """

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
        "_workflow",
        "captures",
        "fed_before_commit",
        "is_used",
        "life",
        "replayed",
        "writing",
    )

    def __init__(self, run: RunRecord, host: WorkerContext) -> None:
        self._host: WorkerContext = host
        self._run_id: str = run.id
        self._workflow: str = run.workflow
        self._generation: int = run.generation
        self._guard = threading.Lock()
        """Held while streams and frames change: threads of steps emit, and the loop writes."""
        self._thread = threading.get_ident()
        self._loop_thread = self._thread
        if host.program_loop is not None:
            self._loop_thread = host.program_loop.thread
        self._streams: dict[tuple[str, int, int], OpenStream] | None = None
        self._recalled = False
        self._deferred: list[Callable[[], None]] = []
        """Calls made on the program's loop, which must not read the stored streams of the run."""
        self._frames: list[_Entry] = []
        self._later: list[_Entry] = []
        self._scheduled = False
        self._lost: LeaseLost | None = None
        self._room: threading.Event | None = None
        self.writing: asyncio.Future[None] | None = None
        self.is_used = False
        """Whether the run has emitted anything here. Each turn asks: a property would cost it a
        call."""
        self.captures = host.captures
        self.replayed = False
        """Whether an earlier holder may have stored output of the code already."""
        self.fed_before_commit = True
        """Whether the code is fed before the commit."""
        self.life = 1
        """One more than the number of replays after the end of the run: each time the code emits
        everything again."""

    # Called by the code of the run

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
        source = self._source(step, attempt, code=code)
        frame, counted = new_frame(
            self._host, self._run_id, source, kind=kind, value=value, mode=mode, name=name
        )
        self._make_room(mode)
        with self._guard:
            self.is_used = True
            if code and self._must_defer():
                self._deferred.append(
                    partial(self._put, step, attempt, frame, code, (*counted, keep, ttl))
                )
            else:
                self._put(step, attempt, frame, code, (*counted, keep, ttl))

    def _put(
        self, step: str, attempt: int, frame: NewFrame, code: bool, counted: tuple[Any, ...]
    ) -> None:
        stream = self._open(step, attempt, code=code)
        if (code and stream.is_stored()) or (
            frame.mode == StreamMode.BEST_EFFORT and len(self._frames) >= FULL
        ):
            return
        count_frame(self._host, self._run_id, stream, frame, *counted)
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
        """Emit the progress of the run."""
        if message is not None:
            place = associated_data.progress(self._run_id)
            message = self._host.sealer.values.seal_text(message, place)
        progress = Progress(percent, message, self._host.store.now())
        with self._guard:
            self.is_used = True
            if code and self._must_defer():
                self._deferred.append(partial(self._advance, step, attempt, progress, code))
            else:
                self._advance(step, attempt, progress, code)

    def _advance(self, step: str, attempt: int, progress: Progress, code: bool) -> None:
        stream = self._open(step, attempt, code=code)
        if not (code and stream.is_stored()):
            self._add(stream, progress, code)

    def _must_defer(self) -> bool:
        """Return whether a call of the code is deferred to the worker's thread: it needs the stored
        streams of the run, and this is the program's loop, which must not read them."""
        if self._recalled or not self.replayed or self._loop_thread == self._thread:
            return False
        if threading.get_ident() != self._loop_thread:
            return False
        if self._lost is not None:
            raise self._lost
        return True

    def _catch_up(self) -> None:
        """Make the deferred calls, on the worker's thread."""
        deferred = self._deferred
        self._deferred = []
        for call in deferred:
            call()

    def _open(self, step: str, attempt: int, *, code: bool) -> OpenStream:
        if self._lost is not None:
            raise self._lost
        if self._streams is None:
            self._streams = {}
        if code and not self._recalled:
            if self.replayed:
                self._streams.update(stored_streams(self._host, self._run_id))
            self._recalled = True
        key = self._source(step, attempt, code=code)
        stream = self._streams.get(key)
        if stream is None:
            stream = OpenStream(*key)
            self._streams[key] = stream
        if stream.ended:
            raise StreamClosed(run=self._run_id, step=step, attempt=attempt)
        return stream

    def _source(self, step: str, attempt: int, *, code: bool) -> associated_data.Source:
        if code:
            return (step, self.life, 0)
        return (step, attempt, self._generation)

    def _add(self, stream: OpenStream, said: NewFrame | Progress, code: bool) -> None:
        if code and self.fed_before_commit:
            # The next commit takes it, together with the events that the code emits it about.
            self._later.append((stream, said))
            return
        self._frames.append((stream, said))
        if not self._scheduled:
            self._schedule()

    def _make_room(self, mode: str) -> None:
        """Let the thread of a step wait while too many frames are unwritten."""
        if len(self._frames) < FULL or mode == StreamMode.BEST_EFFORT:
            return
        if threading.get_ident() in (self._thread, self._loop_thread):
            return  # the loops write the frames, so a loop that waits would wait for itself
        with self._guard:
            room = self._room = self._room or threading.Event()
        # Checked again: if the frames were taken before the event existed, it is not set.
        if len(self._frames) >= FULL:
            room.wait(PATIENCE)

    # Called by the execution

    @property
    def has_something(self) -> bool:
        """Whether there is anything to write."""
        return bool(self._frames or self._later or self._deferred)

    async def wait_until_written(self) -> None:
        """Wait for the write in progress: later output must not overtake it, and a commit that
        releases the run would let it be refused."""
        while self.writing is not None:  # another write may begin before this coroutine resumes
            await self.writing

    def hold(self) -> None:
        """Write nothing until ``resume``: a commit that carries output must not be overtaken by
        later output while it is tried again."""
        if self.writing is None:
            self.writing = self._host.loop.create_future()

    def resume(self) -> None:
        """Write the output that was collected meanwhile."""
        writing = self.writing
        self.writing = None
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
        """Close the stream of an attempt with its outcome."""
        if self._streams and event.kind in _REASONS:
            self.close_attempt(event.step or "", event.attempt, _REASONS[event.kind])

    def close_attempt(self, step: str, attempt: int, reason: str) -> None:
        """Close the stream of an attempt, if it has one, with the next commit of the run."""
        if not self._streams:
            return
        with self._guard:
            stream = self._streams.get((step, attempt, self._generation))
            if stream is not None and not stream.ended:
                stream.ended = True
                stream.close = reason
                self._later.append((stream, None))

    def reopen(self, output: Output | None, event: Event) -> None:
        """Open the stream of an attempt again, whose outcome was refused."""
        if output is not None:
            for part in output.streams:
                if (part.step, part.attempt) == (event.step, event.attempt):
                    part.close = None
        stream = (self._streams or {}).get((event.step or "", event.attempt, self._generation))
        if stream is not None:
            stream.ended = False
            stream.close = None

    def take(self, close_others: str | None = None, *, only_steps: bool = False) -> Output | None:
        """Return all output that is to be written, with that of the code and the ends of
        streams."""
        if not self.is_used:
            return None
        with self._guard:
            self._catch_up()
            entries = self._frames + self._later
            self._frames = []
            self._later = []
            output = self._output(entries)
        if close_others is not None:
            output.close_others = close_others
            output.only_steps = only_steps
        if entries or close_others is not None:
            return output
        return None

    def discard_attempt(self, step: str, attempt: int) -> None:
        """Forget the output of an attempt whose transaction was rolled back and is repeated."""
        if self._streams is None:
            return
        with self._guard:
            gone = self._streams.pop((step, attempt, self._generation), None)
            self._frames = [entry for entry in self._frames if entry[0] is not gone]

    def take_attempt(self, step: str, attempt: int) -> Output | None:
        """Return the output of one completed attempt, and nothing else."""
        self.close_attempt(step, attempt, CloseReason.COMPLETED)
        if not self._streams:
            return None
        with self._guard:
            stream = self._streams.get((step, attempt, self._generation))
            entries = [entry for entry in self._frames + self._later if entry[0] is stream]
            self._frames = [entry for entry in self._frames if entry[0] is not stream]
            self._later = [entry for entry in self._later if entry[0] is not stream]
            if not entries:
                return None
            return self._output(entries)

    def release(self) -> None:
        """Write the output of the code: the events that led to it are committed already."""
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
                output.streams.append(part_of(self._host, self._run_id, stream))
            if isinstance(said, NewFrame):
                said.stream = place
                output.frames.append(said)
            elif said is not None:
                output.progress = later_progress(output.progress, said)
        if self._room is not None:
            self._room.set()
            self._room = None
        return output

    # Writing

    def _schedule(self) -> None:
        self._scheduled = True
        loop = self._host.loop
        soon = self._host.stream_window
        if threading.get_ident() == self._thread:
            self._set_off(loop, soon)
            return
        try:
            loop.call_soon_threadsafe(self._set_off, loop, soon)
        except RuntimeError:  # the loop is closed: no worker is left to write
            return

    def _set_off(self, loop: asyncio.AbstractEventLoop, soon: float) -> None:
        if soon <= 0 or len(self._frames) >= MANY:
            loop.call_soon(self._flush)
        else:
            loop.call_later(soon, self._flush)

    def _flush(self) -> None:
        """Write the collected output, unless a write is in progress."""
        if self.writing is not None:
            return  # ``resume`` writes the rest
        with self._guard:
            self._scheduled = False
            entries = self._frames
            self._frames = []
            if not entries or self._lost is not None:
                return
            output = self._output(entries)
        self.writing = self._host.loop.create_future()
        self._submit(AppendFrames(self._run_id, self._generation, output), 0.05)

    def _submit(self, op: AppendFrames, pause: float) -> None:
        self._host.writer.submit(op).add_done_callback(lambda done: self._written(done, op, pause))

    def _written(self, done: asyncio.Future[Any], op: AppendFrames, pause: float) -> None:
        error = None
        if not done.cancelled():
            error = done.exception()
        if isinstance(error, StoreError):
            log.warning(
                "the output of run %s cannot be written now, will try again: %s",
                op.run_id,
                error,
                extra=self._log_fields(),
            )
            self._host.loop.call_later(pause, self._submit, op, min(pause * 2, 5.0))
            return
        if isinstance(error, LeaseLost):
            self._lost = error
        elif error is not None and not isinstance(error, EngineClosed):
            log.error(
                "output of run %s was refused",
                op.run_id,
                exc_info=error,
                extra=self._log_fields(),
            )
        self.resume()

    def _log_fields(self) -> dict[str, Any]:
        return {"run": self._run_id, "workflow": self._workflow, "step": None, "attempt": None}
