"""Group commit: whatever transitions are queued share one transaction.

It never waits for company. On the engine's loop everything that one turn of the loop submits is
committed at its end, right there: a lone run pays for no hop to another thread, and its commits
follow each other as long as nobody else is ready. A caller in another thread commits in its own
thread, together with whatever else is queued by then. Where a commit mostly waits for a server, a
large batch is committed in another thread, in parts, and the loop goes on with the runs of one part
while the next is on its way.
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

from holdfast.engine.runtime.inline_task import Completion
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
from holdfast.store.contract import Hints, Operation, Store

log = logging.getLogger("holdfast")

LARGEST = 2000
"""How many transitions share a transaction at most."""

MANY, PART = 128, 500
"""How many are worth another thread, and how many of them share a transaction there: so that the
loop has work meanwhile. Fewer are through sooner right here, where what they are about is in the
processor's memory."""

IN_A_ROW = 0.002
"""For how many seconds one commit follows another in one turn of the loop: then it looks again what
else there is."""

ENCRYPTED_SINCE = (CodecMismatch, KeyMissing)
"""What an engine without keys meets when the database has become encrypted since it was opened."""

TEMPORARY = (
    CodecMismatch,
    StoreBusy,
    StoreFull,
    StoreGone,
    StoreReadOnly,
    StoreSealed,
    StoreUnavailable,
)
"""Trouble of the store that says nothing about the run that met it, and that may be over soon or
with the next process."""


class LeaseLimit(Protocol):
    """What limits how many runs a batch leases to the worker of this process."""

    def before(self, ops: Sequence[Operation]) -> bool:
        """Limit what these may lease; return whether they may lease anything."""

    def after(self, ops: Sequence[Operation], answers: Sequence[Any]) -> None:
        """Note what they have leased."""


class ClosingOperation:
    """What is written at the end of a transaction, and who is told on the loop what came of it."""

    __slots__ = ("op", "tell")

    def __init__(self, op: Operation, tell: Callable[[Any], None]) -> None:
        self.op, self.tell = op, tell

    def done(self) -> bool:
        """Nobody stops listening."""
        return False

    def set_result(self, answer: Any) -> None:
        """It was answered."""
        self.tell(answer)

    def set_exception(self, error: BaseException) -> None:
        """It was refused."""
        self.tell(error)


Future = asyncio.Future[Any] | Completion | ClosingOperation


class _Submission:
    __slots__ = ("answer", "bell", "done", "future", "op")

    def __init__(self, op: Operation, future: Future | None) -> None:
        self.op, self.future = op, future
        self.answer: Any = None
        self.done = False
        self.bell: threading.Lock | None = None
        """Who waits for it in a thread waits for this to be released."""

    def ring(self) -> None:
        if self.bell is not None:
            with suppress(RuntimeError):  # it has rung already
                self.bell.release()


class GroupCommit:
    """The one way to write to a store from this process."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.listeners: list[Callable[[Hints], None]] = []
        self.closing: list[Callable[[Sequence[Operation]], ClosingOperation | None]] = []
        """Asked before transitions are committed, by whichever thread: what else belongs into their
        transaction, at its end?"""
        self.capacity: LeaseLimit | None = None
        """Limits what a batch may lease to the worker of this process, while there is one."""
        self.troubled = False
        """Whether the store was in trouble: then not everybody who was told so knows what was
        written all the same."""
        self.answer: Callable[[list[_Submission], Sequence[Callable[[], None]]], None] = _resolve
        """Called on the loop to answer what was committed there, and then to make the calls of
        ``call_after``."""
        self._after: list[Callable[[], None]] = []
        self._commits_here = False
        """Whether the loop's thread commits at this moment."""
        self._interrupted = False
        self._queue: deque[_Submission] = deque()
        self._lock = threading.Lock()
        self._line: deque[_Submission] = deque()
        """Threads that wait for somebody else's commit: each is woken when it has its answer, or to
        commit for the rest."""
        self._loop: asyncio.AbstractEventLoop | None = None
        self._committing = self._company = 0
        self._scheduled = self._gathering = self._flushing = self._held_back = False
        self._aside, self._guard = False, threading.Lock()
        self._dead: EngineClosed | None = None

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Commit for this loop, in its own thread, at the end of each of its turns."""
        self._loop = loop

    def submit(self, op: Operation) -> asyncio.Future[Any]:
        """Queue a transition, on the loop's thread; the future has its answer, or raises it."""
        assert self._loop is not None
        future = self._loop.create_future()
        self._enqueue(_Submission(op, future))
        return future

    def post(self, op: Operation) -> Completion:
        """The same for a strand, which goes on as soon as there is an answer."""
        pause = Completion()
        self._enqueue(_Submission(op, pause))
        return pause

    def submit_aside(self, op: Operation) -> asyncio.Future[Any]:
        """Like ``submit``, but let a thread begin at once, while the loop has other things to
        do."""
        assert self._loop is not None
        future = self._loop.create_future()
        self._queue.append(_Submission(op, future))
        self._go_aside(self._loop)
        return future

    def _enqueue(self, entry: _Submission) -> None:
        self._queue.append(entry)
        if not (self._scheduled or self._flushing):
            self._scheduled = True
            self._loop.call_soon(self._flush)  # type: ignore[union-attr]

    def hold_back(self) -> None:
        """Queue what is submitted until ``release``, on the loop's thread: several calls of it
        share a commit."""
        self._held_back = not (self._scheduled or self._flushing)
        self._scheduled = self._scheduled or self._held_back

    def release(self) -> None:
        """Commit what was held back, in this turn of the loop."""
        if not self._held_back:
            return  # it is committed by what was under way already
        self._held_back = False
        if self._queue:
            self._flush()
        else:
            self._scheduled = False

    def call(self, op: Operation) -> Any:
        """Commit a transition in this thread and return its answer, or raise it."""
        if self._committing == threading.get_ident():
            raise BadOption(
                option="engine",
                why="a transactional step is part of a commit and cannot wait for another one",
            )
        entry = _Submission(op, None)
        self._queue.append(entry)
        self._see_to(entry)
        if isinstance(entry.answer, BaseException):
            cause = entry.answer.__cause__
            raise cause if isinstance(cause, KeyboardInterrupt | SystemExit) else entry.answer
        return entry.answer

    def call_all(self, ops: Sequence[Operation]) -> list[Any]:
        """Commit transitions together in this thread and return their answers, refusals among
        them."""
        if self._committing == threading.get_ident():
            raise BadOption(
                option="engine",
                why="a transactional step is part of a commit and cannot wait for another one",
            )
        entries = [_Submission(op, None) for op in ops]
        self._queue.extend(entries)
        for entry in entries:
            self._see_to(entry)
        return [entry.answer for entry in entries]

    def _see_to(self, entry: _Submission) -> None:
        """Commit until this one is done, or wait until somebody else has done so."""
        if self._company > 1:
            time.sleep(0)  # those who were answered together may go first: they have more to commit
        while not entry.done:
            if not self._lock.acquire(blocking=False):
                entry.bell = entry.bell or threading.Lock()
                entry.bell.acquire(blocking=False)
                self._line.append(entry)
                if entry.done or not self._lock.acquire(blocking=False):
                    self._wait_for(entry)
                    continue
            try:
                while not entry.done:
                    self._pass_on(self._commit())
            finally:
                self._lock.release()
                self._hand_on()
        if self._interrupted and threading.current_thread() is threading.main_thread():
            self._interrupted = False
            raise KeyboardInterrupt

    def interrupt(self) -> None:
        """A KeyboardInterrupt was raised in a step that is part of the commit in this thread. In
        the main thread it may be a real one (Ctrl-C) that met the step by chance: the call that
        commits raises it when it is done."""
        self._interrupted = threading.current_thread() is threading.main_thread()

    def _wait_for(self, entry: _Submission) -> None:
        assert entry.bell is not None
        try:
            if not entry.done:
                entry.bell.acquire()
        except (
            BaseException
        ):  # this thread waits no more: if it was to commit for the rest, somebody else must
            entry.done = True
            self._hand_on()
            raise

    def _hand_on(self) -> None:
        """Nobody commits now: wake one of those who wait for a commit, if there are any."""
        while self._line:
            try:
                entry = self._line.popleft()
            except IndexError:  # somebody else was quicker
                return
            if not entry.done:
                entry.ring()
                return

    async def call_aside(self, op: Operation) -> Any:
        """Commit a transition in a thread, together with all that this turn of the loop asks for,
        and return its answer."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        self._queue.append(_Submission(op, future))
        if not self._gathering:
            self._gathering = True
            loop.call_soon(self._go_aside, loop)
        return await future

    def _go_aside(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let a thread commit what is queued; one that is at it already looks once more before it
        goes."""
        self._gathering = False
        with self._guard:
            if self._aside:
                return
            self._aside = True
        loop.run_in_executor(None, self._commit_aside)

    def _commit_aside(self) -> None:
        part = PART if self.store.overlaps else LARGEST
        while self._is_needed_aside():
            with suppress(BaseException), self._lock:  # a simulated crash: whoever asked was told
                self._pass_on(self._commit(part))
            self._hand_on()

    def _is_needed_aside(self) -> bool:
        with self._guard:
            self._aside = bool(self._queue)
            return self._aside

    def refuse_when_closed(self) -> None:
        """Raise EngineClosed if nothing is written any more."""
        if self._dead is not None:
            raise self._dead

    def close(self) -> None:
        """Refuse whatever still comes."""
        self._dead = self._dead or EngineClosed(database=self.store.url)

    def _flush(self) -> None:
        """Commit what is queued, and what that leads to at once, as long as the loop has nothing
        else to do."""
        self._scheduled = False
        assert self._loop is not None
        others, now = getattr(self._loop, "_ready", (None,)), self._loop.time
        until, self._flushing, here = now() + IN_A_ROW, True, True
        try:
            while (here := self._flush_once()) and self._queue and not others and now() < until:
                pass  # one run alone goes on from commit to commit
        finally:
            self._flushing = False
        if here and self._queue and not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._flush)

    def _flush_once(self) -> bool:
        """Commit what is queued; say so, unless a thread sees to it, and to whatever comes while it
        is at it."""
        assert self._loop is not None
        if self.store.overlaps and (len(self._queue) >= MANY or self._lock.locked()):
            self._go_aside(self._loop)
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
        # a simulated crash: whoever asked was told that the engine is gone, and so are those who
        # still ask
        except BaseException:
            pass
        self._interrupted = False  # nobody calls from here: asyncio has its own way with Ctrl-C
        if self._line:
            self._hand_on()
        after: Sequence[Callable[[], None]] = ()
        if self._after:
            after, self._after = tuple(self._after), []
        self.answer(done, after)  # with no lock: those who waited go on right here
        return True

    def call_after(self, call: Callable[[], None]) -> bool:
        """Make a call in this turn of the loop, when what is being committed is answered. Return
        False, and do nothing, if it is not the loop's thread that commits. For listeners."""
        if self._commits_here:
            self._after.append(call)
        return self._commits_here

    def _commit(self, most: int = LARGEST) -> list[_Submission]:
        """Commit what is queued and return those who are still to be told."""
        queue = self._queue
        if not queue:
            return []
        batch = (
            [queue.popleft()]
            if len(queue) == 1
            else [queue.popleft() for _ in range(min(len(queue), most))]
        )
        self._company = len(batch)
        ops = [entry.op for entry in batch]
        for call in self.closing:
            word = call(ops)
            if word is not None:
                batch.append(_Submission(word.op, word))
                ops.append(word.op)
        capacity = self.capacity
        leases = capacity is not None and capacity.before(ops)
        try:
            if self._dead is not None:
                raise self._dead
            self._committing = threading.get_ident()
            answers = self.store.apply(ops)
        except Exception as error:
            self.troubled = True
            answers = [error] * len(batch)
        except BaseException as crash:  # a simulated crash: this engine is dead from here on
            self._dead = EngineClosed(why=f"the engine crashed: {crash}")
            self._pass_on(_answered(batch, [self._dead] * len(batch)))
            raise
        finally:
            self._committing = 0
        if capacity is not None and leases:
            capacity.after(ops, answers)
        waiting = _answered(batch, answers)
        self._tell(self.store.hints())
        return waiting

    def _tell(self, hints: Hints) -> None:
        """Tell those who listen. It is committed already: whoever cannot hear it keeps nobody from
        being answered."""
        for listener in tuple(self.listeners):  # any thread may come or go meanwhile
            try:
                listener(hints)
            except Exception:
                log.exception("somebody could not be told what was committed")

    def _pass_on(self, entries: list[_Submission]) -> None:
        """Let those who wait hear it on their own loop."""
        loops: dict[asyncio.AbstractEventLoop | None, list[_Submission]] = {}
        for entry in entries:
            loop = (
                entry.future.get_loop() if isinstance(entry.future, asyncio.Future) else self._loop
            )
            loops.setdefault(loop, []).append(entry)
        for loop, waiting in loops.items():
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                if loop is not None:
                    loop.call_soon_threadsafe(_resolve, waiting)


def _answered(batch: list[_Submission], answers: list[Any]) -> list[_Submission]:
    """Take down the answers and return those who wait for them on a loop."""
    for entry, answer in zip(batch, answers, strict=True):
        entry.answer, entry.done = answer, True
        if entry.bell is not None:
            entry.ring()
    return [entry for entry in batch if entry.future is not None]


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
            log.exception("somebody could not be told what was committed")
