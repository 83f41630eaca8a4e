"""Group commit: all operations that are queued share one transaction.

It never waits for more operations.
- On the engine's loop, everything that one turn submits is committed at its end, on the loop's
  thread: a lone run pays for no switch to another thread, and its commits follow each other as long
  as the loop has no other work.
- A caller in another thread commits in its own thread, together with everything that is queued.
- If commits overlap with other work (``overlaps_commits``), a large batch is committed by another
  thread in parts, and the loop continues the runs of one part while the next is being committed.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Protocol

from holdfast.engine.runtime.eager_task import loop_has_other_work
from holdfast.engine.runtime.graph_follow_up import GraphFollowUp
from holdfast.engine.runtime.inline_task import Completion
from holdfast.engine.runtime.metrics import EngineMetrics
from holdfast.engine.runtime.notifier import CommitNotifier
from holdfast.errors import (
    BadOption,
    CodecMismatch,
    EngineClosed,
    KeyMissing,
    StoreBusy,
    StoreFull,
    StoreGone,
    StoreReadOnly,
    StoreSealed,
    StoreUnavailable,
)
from holdfast.store.database import Operation
from holdfast.store.runs.operations import Advance
from holdfast.store.store import Store

log = logging.getLogger("holdfast")

LARGEST = 2000
"""How many operations share a transaction at most."""

MANY = 128
PART = 500
"""From MANY operations on another thread commits, PART of them per transaction, so that the loop
has work meanwhile. Fewer are committed sooner on the loop's thread, whose caches hold their
data."""

IN_A_ROW = 0.002
"""For how many seconds commits may follow each other within one turn of the loop."""

ENCRYPTED_SINCE = (CodecMismatch, KeyMissing)
"""Errors of an engine without keys if the database was encrypted after it was opened."""

TEMPORARY = (
    CodecMismatch,
    StoreBusy,
    StoreFull,
    StoreGone,
    StoreReadOnly,
    StoreSealed,
    StoreUnavailable,
)
"""Errors of the store that are not about the run, and that may pass or not affect another
process."""


class LeaseLimit(Protocol):
    """Limits how many runs a batch leases to the worker of this process."""

    def before(self, ops: Sequence[Operation]) -> bool:
        """Limit what these operations may lease. Return whether they may lease anything."""

    def after(self, ops: Sequence[Operation], answers: Sequence[Any]) -> None:
        """Record what they have leased."""


class ClosingOperation:
    """The last operation of a transaction, and the function that gets its answer on the loop."""

    __slots__ = ("on_answer", "op")

    def __init__(self, op: Operation, on_answer: Callable[[Any], None]) -> None:
        self.op = op
        self.on_answer = on_answer

    def done(self) -> bool:
        """Return False: it cannot be cancelled."""
        return False

    def set_result(self, answer: Any) -> None:
        """Pass the answer on."""
        self.on_answer(answer)

    def set_exception(self, error: BaseException) -> None:
        """Pass the error on."""
        self.on_answer(error)


class Receiver(Protocol):
    """Gets the answer to an operation, on the loop. It raises nothing."""

    def done(self) -> bool:
        """Return whether the answer is not wanted any more."""

    def set_result(self, answer: Any, /) -> None:
        """Process the answer."""

    def set_exception(self, error: Any, /) -> None:
        """Process the error that is the answer."""


Future = asyncio.Future[Any] | Receiver


class _Submission:
    __slots__ = ("answer", "done", "future", "op", "wakeup")

    def __init__(self, op: Operation, future: Future | None) -> None:
        self.op = op
        self.future = future
        self.answer: Any = None
        self.done = False
        self.wakeup: threading.Lock | None = None
        """Held while a thread waits for the answer; released to wake it."""

    def wake(self) -> None:
        if self.wakeup is not None:
            with suppress(RuntimeError):  # woken already
                self.wakeup.release()


class GroupCommit:
    """The only way to write to a store from this process."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.notifier = CommitNotifier(store)
        self.metrics = EngineMetrics()
        self.closing: list[Callable[[Sequence[Operation]], ClosingOperation | None]] = []
        """Called before each commit, by the committing thread: return an operation for the end
        of the transaction, or None."""
        self.follow_up: GraphFollowUp | None = None
        """Resolves graphs while no worker of this process does, that is, while *closing* is
        empty."""
        self.capacity: LeaseLimit | None = None
        """Limits what a batch may lease to the worker of this process, while there is one."""
        self.had_errors = False
        """Whether a commit has failed: it may have leased runs all the same, without their
        caller knowing."""
        self.answer: Callable[[list[_Submission], Sequence[Callable[[], None]]], None] = _resolve
        """Called on the loop to resolve the operations that were committed there, and then to make
        the calls of ``call_after``."""
        self._after: list[Callable[[], None]] = []
        self._commits_here = False
        """Whether the loop's thread commits at this moment."""
        self._interrupted = False
        self._queue: deque[_Submission] = deque()
        self._lock = threading.Lock()
        self._waiting: deque[_Submission] = deque()
        """Threads that wait for another thread's commit. Each is woken with its answer, or to
        commit for the rest."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._committing = self._batch_size = 0
        self._scheduled = self._flushing = self._held_back = False
        self._thread_runs = False
        self._guard = threading.Lock()
        self._dead: EngineClosed | None = None

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Commit for this loop, on its own thread, at the end of each of its turns."""
        self._loop = loop

    def submit(self, op: Operation) -> asyncio.Future[Any]:
        """Queue an operation, on the loop's thread. The future has its answer, or raises it."""
        assert self._loop is not None
        future = self._loop.create_future()
        self._enqueue(_Submission(op, future))
        return future

    def post(self, op: Operation) -> Completion:
        """Queue an operation for an inline task, which resumes as soon as there is an answer."""
        completion = Completion()
        self._enqueue(_Submission(op, completion))
        return completion

    def post_for(self, op: Operation, receiver: Receiver) -> None:
        """Queue an operation. *receiver* gets the answer on the loop."""
        self._enqueue(_Submission(op, receiver))

    def submit_to_thread(self, op: Operation) -> asyncio.Future[Any]:
        """Queue an operation, and let a thread commit at once, while the loop does other work."""
        assert self._loop is not None
        future = self._loop.create_future()
        self._queue.append(_Submission(op, future))
        self._start_commit_thread(self._loop)
        return future

    def _enqueue(self, entry: _Submission) -> None:
        self._queue.append(entry)
        if not (self._scheduled or self._flushing):
            self._scheduled = True
            self._loop.call_soon(self._flush)  # type: ignore[union-attr]

    def hold_back(self) -> None:
        """Queue operations until ``release``, on the loop's thread, so that they share a commit."""
        self._held_back = not (self._scheduled or self._flushing)
        self._scheduled = self._scheduled or self._held_back

    def release(self) -> None:
        """Commit the held-back operations in this turn of the loop."""
        if not self._held_back:
            return  # a flush was scheduled already, and commits them
        self._held_back = False
        if self._queue:
            self._flush()
        else:
            self._scheduled = False

    def call(self, op: Operation) -> Any:
        """Commit an operation in this thread. Return its answer, or raise it."""
        if self._committing == threading.get_ident():
            raise BadOption(
                option="engine",
                why="a transactional step is part of a commit and cannot wait for another one",
            )
        entry = _Submission(op, None)
        self._queue.append(entry)
        self._commit_until_done(entry)
        if isinstance(entry.answer, BaseException):
            cause = entry.answer.__cause__
            raise cause if isinstance(cause, KeyboardInterrupt | SystemExit) else entry.answer
        return entry.answer

    def call_all(self, ops: Sequence[Operation]) -> list[Any]:
        """Commit operations together in this thread. Return their answers, errors among them."""
        if self._committing == threading.get_ident():
            raise BadOption(
                option="engine",
                why="a transactional step is part of a commit and cannot wait for another one",
            )
        entries = [_Submission(op, None) for op in ops]
        self._queue.extend(entries)
        for entry in entries:
            # The first commit has done most of them; each further call would yield the interpreter.
            if not entry.done:
                self._commit_until_done(entry)
        return [entry.answer for entry in entries]

    def _commit_until_done(self, entry: _Submission) -> None:
        """Commit until this operation is done, or wait until another thread has committed it."""
        if self._batch_size > 1:
            # Yield once: callers that were answered by the same commit may queue more operations,
            # which this commit then includes.
            time.sleep(0)
        while not entry.done:
            if not self._lock.acquire(blocking=False):
                entry.wakeup = entry.wakeup or threading.Lock()
                entry.wakeup.acquire(blocking=False)
                self._waiting.append(entry)
                if entry.done or not self._lock.acquire(blocking=False):
                    self._wait_for(entry)
                    continue
            try:
                while not entry.done:
                    self._resolve_on_loops(self._commit())
            finally:
                self._lock.release()
                self._wake_next_committer()
        if self._interrupted and threading.current_thread() is threading.main_thread():
            self._interrupted = False
            raise KeyboardInterrupt

    def interrupt(self) -> None:
        """Note that a KeyboardInterrupt was raised in a step of the commit in this thread.

        In the main thread it may be a real one (Ctrl-C) that hit the step by chance: the committing
        call raises it when it is done.
        """
        self._interrupted = threading.current_thread() is threading.main_thread()

    def _wait_for(self, entry: _Submission) -> None:
        assert entry.wakeup is not None
        try:
            if not entry.done:
                entry.wakeup.acquire()
        except BaseException:
            # Interrupted: if this thread was chosen to commit for the rest, another one must.
            entry.done = True
            self._wake_next_committer()
            raise

    def _wake_next_committer(self) -> None:
        """Wake one of the threads that wait for a commit, because no thread commits now."""
        while self._waiting:
            try:
                entry = self._waiting.popleft()
            except IndexError:  # another thread has taken the last one
                return
            if not entry.done:
                entry.wake()
                return

    def _start_commit_thread(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let a thread commit the queue. A thread that is running checks the queue again before
        it ends."""
        with self._guard:
            if self._thread_runs:
                return
            self._thread_runs = True
        loop.run_in_executor(None, self._commit_in_thread)

    def _commit_in_thread(self) -> None:
        part = PART if self.store.overlaps_commits else LARGEST
        while self._thread_is_needed():
            # A simulated crash: its callers have got EngineClosed.
            with suppress(BaseException), self._lock:
                self._resolve_on_loops(self._commit(part))
            self._wake_next_committer()

    def _thread_is_needed(self) -> bool:
        with self._guard:
            self._thread_runs = bool(self._queue)
            return self._thread_runs

    def refuse_when_closed(self) -> None:
        """Raise EngineClosed if nothing can be written any more."""
        if self._dead is not None:
            raise self._dead

    def close(self) -> None:
        """Refuse all further operations."""
        self._dead = self._dead or EngineClosed(database=self.store.url)

    def _flush(self) -> None:
        """Commit the queue, and what follows from it at once, as long as the loop has no other
        work."""
        self._scheduled = False
        assert self._loop is not None
        loop = self._loop
        until = time.perf_counter() + IN_A_ROW
        self._flushing = True
        here = True
        try:
            # A lone run continues from commit to commit.
            while (here := self._flush_once()) and self._queue:
                if loop_has_other_work(loop) or time.perf_counter() >= until:
                    break
        finally:
            self._flushing = False
        if here and self._queue and not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._flush)

    def _flush_once(self) -> bool:
        """Commit the queue. Return False if a thread commits it instead, and all that comes
        meanwhile."""
        assert self._loop is not None
        if self.store.overlaps_commits and (len(self._queue) >= MANY or self._lock.locked()):
            self._start_commit_thread(self._loop)
            return False
        done: list[_Submission] = []
        try:
            with self._lock:
                self._commits_here = True
                try:
                    done = self._commit()
                finally:
                    self._commits_here = False
        except (KeyboardInterrupt, SystemExit):
            raise
        # A simulated crash: its callers have got EngineClosed, and all later ones will.
        except BaseException:
            pass
        self._interrupted = False  # no caller to raise it in: asyncio handles Ctrl-C itself
        if self._waiting:
            self._wake_next_committer()
        after: Sequence[Callable[[], None]] = ()
        if self._after:
            after = tuple(self._after)
            self._after = []
        self.answer(done, after)  # without the lock: inline tasks resume inside this call
        return True

    def call_after(self, call: Callable[[], None]) -> bool:
        """Make a call in this turn of the loop, after the current commit is answered. For
        listeners.

        Return False, and do nothing, if it is not the loop's thread that commits.
        """
        if self._commits_here:
            self._after.append(call)
        return self._commits_here

    def _commit(self, most: int = LARGEST) -> list[_Submission]:
        """Commit the queue. Return the submissions whose futures must still be resolved."""
        queue = self._queue
        if not queue:
            return []
        batch = [queue.popleft()]
        while queue and len(batch) < most:
            batch.append(queue.popleft())
        ops = [entry.op for entry in batch]
        self._batch_size = len(batch)
        capacity = self.capacity
        leases = False
        op = ops[0]
        if len(ops) > 1 or type(op) is not Advance or op.effects or op.status is not None:
            # A lone event leases no run and ends no member of a graph: saves a step three calls.
            self._add_closing(batch, ops)
            leases = capacity is not None and capacity.before(ops)
        try:
            if self._dead is not None:
                raise self._dead
            self._committing = threading.get_ident()
            began = time.perf_counter()
            answers = self.store.apply(ops)
            self.metrics.count_commit(time.perf_counter() - began, len(ops))
            hints = self.store.hints()
            if hints.graphs and self.follow_up is not None and not self.closing:
                # Before the answers: a caller that has ended a member finds its graph resolved.
                hints.add(self.follow_up.resolve())
        except Exception as error:
            self.had_errors = True
            answers = [error] * len(batch)
            hints = self.store.hints()
        except BaseException as crash:  # a simulated crash: this engine is dead from here on
            self._dead = EngineClosed(why=f"the engine crashed: {crash}")
            self._resolve_on_loops(_answered(batch, [self._dead] * len(batch)))
            raise
        finally:
            self._committing = 0
        if capacity is not None and leases:
            capacity.after(ops, answers)
        waiting = _answered(batch, answers)
        self.notifier.committed(hints)
        return waiting

    def _add_closing(self, batch: list[_Submission], ops: list[Operation]) -> None:
        """Add the operations that end the transaction of a batch."""
        for call in self.closing:
            last = call(ops)
            if last is not None:
                batch.append(_Submission(last.op, last))
                ops.append(last.op)
        if not self.closing and self.follow_up is not None:
            resolution = self.follow_up.closing_operation(ops)
            if resolution is not None:
                batch.append(_Submission(resolution, None))
                ops.append(resolution)

    def _resolve_on_loops(self, entries: list[_Submission]) -> None:
        """Resolve submissions on the loops of their futures."""
        loops: dict[asyncio.AbstractEventLoop | None, list[_Submission]] = {}
        for entry in entries:
            loop = (
                entry.future.get_loop() if isinstance(entry.future, asyncio.Future) else self._loop
            )
            loops.setdefault(loop, []).append(entry)
        for loop, waiting in loops.items():
            with suppress(RuntimeError):  # the loop is closed, and with it every waiter
                if loop is not None:
                    loop.call_soon_threadsafe(_resolve, waiting)


def _answered(batch: list[_Submission], answers: list[Any]) -> list[_Submission]:
    """Set the answers and wake waiting threads. Return the submissions with a future."""
    with_future: list[_Submission] = []
    for entry, answer in zip(batch, answers, strict=True):
        if entry.future is not None:
            with_future.append(entry)
        entry.answer = answer
        entry.done = True
        if entry.wakeup is not None:
            entry.wake()
    return with_future


def _resolve(entries: list[_Submission], after: Sequence[Callable[[], None]] = ()) -> None:
    for entry in entries:
        future = entry.future
        if future is None or future.done():
            continue
        if isinstance(entry.answer, BaseException):
            future.set_exception(entry.answer)
        else:
            future.set_result(entry.answer)
    for call in after:
        try:
            call()
        except Exception:
            log.exception("a call after a commit failed")
