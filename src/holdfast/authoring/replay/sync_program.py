"""The program of a ``def`` workflow: its function in a thread, each parallel branch in another.

Invariants:
- The program is idle when every thread waits for an outcome, runs a step inline, or has ended;
  only then does the engine get the new commands.
- A step without a timeout runs inline, in the thread that calls it. Therefore outcomes are
  committed before they are fed: see ``feeds_before_commit``.
- ``_lock`` guards the threads' bookkeeping and the state of ``ReplayProgram``, because several
  threads of the workflow issue commands. It is reentrant and never held while a thread waits.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import Context, copy_context
from functools import partial
from types import FrameType
from typing import Any

from holdfast.authoring.replay.identity import Branch, current_branch
from holdfast.authoring.replay.replay import (
    CHILDREN,
    Evicted,
    ReplayProgram,
    current_program,
)
from holdfast.authoring.replay.source import CodeSource
from holdfast.core.budgets.ledger import current_spending
from holdfast.core.commands import Command, EndChildren, Finish, RunStep, SetTimer
from holdfast.core.events import Event, EventKind
from holdfast.core.exits import as_exception
from holdfast.core.program import CodeThreads, Pause, ProgramContext
from holdfast.core.runs import RunRecord
from holdfast.core.step_info import StepInfo

PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
"""The folder of the package; its frames are left out when frames of the workflow are listed."""


CallEnd = tuple[int, Any, BaseException | None]
"""The end of one of several parallel calls: its index, its value, its error."""


class _LineWaiter:
    """A thread of the workflow that waits for an outcome.

    ``ready`` is held until the waiter is resumed, with either ``event`` or ``error`` set.
    """

    __slots__ = ("error", "event", "line", "ready", "thread")

    def __init__(self, line: _ExecutionLine) -> None:
        self.line = line
        self.thread = threading.get_ident()
        self.ready = threading.Lock()
        self.ready.acquire()
        self.event: Event | None = None
        self.error: BaseException | None = None


class _ExecutionLine:
    """A thread of the workflow and the lines that it has started, which are cancelled together."""

    def __init__(self, outer: _ExecutionLine | None = None) -> None:
        self.inner: list[_ExecutionLine] = []
        self.waiter: _LineWaiter | None = None
        self.cancel: BaseException | None = None
        """The error to raise at the next command, if the line was cancelled while it was busy."""
        if outer is not None:
            outer.inner.append(self)


class _LineTimeout:
    """A timer that cancels a line of execution when it fires."""

    __slots__ = ("error", "line", "thread")

    def __init__(self, line: _ExecutionLine) -> None:
        self.line = line
        self.thread = threading.get_ident()
        self.error = TimeoutError("the time for this block is up")


_line = threading.local()
"""``_line.current`` is the line of the current thread, in threads of a workflow."""


class SyncProgram(ReplayProgram):
    """A ``def`` workflow in one run, advanced as far as history and outcomes allow."""

    feeds_before_commit = False

    def __init__(
        self,
        run: RunRecord,
        context: ProgramContext,
        source: CodeSource,
        call: Callable[[], bytes],
        *,
        stop_undoing: bool,
    ) -> None:
        super().__init__(run, context, source, stop_undoing=stop_undoing)
        self._call: Callable[[], bytes] = call
        self._lock: threading.RLock = threading.RLock()
        self._active: int = 0
        """How many threads run workflow code: neither wait, nor run a step inline, nor ended."""
        self._idle: Pause | None = None
        self._main: _ExecutionLine = _ExecutionLine()
        self._waiters: set[_LineWaiter] = set()
        self._threads: CodeThreads
        self._cancelled: bool = False

    # On the engine's loop

    async def _start(self) -> None:
        self._threads = self.context.code_threads or ThreadPerCall()
        self._start_thread(self._main, self.root, self._run_workflow)
        await self._wait_until_idle()

    async def _deliver(self, waiter: _LineWaiter | _LineTimeout, event: Event) -> None:
        if isinstance(waiter, _LineTimeout):
            self._cancel_line(waiter.line, waiter.error)
        else:
            waiter.event = event
            self._resume(waiter)
        await self._wait_until_idle()

    async def _cancel(self, reason: str) -> None:
        if not self._cancelled and not self.stopping:
            self._cancelled = True
            self._cancel_line(self._main, asyncio.CancelledError(reason))
            await self._wait_until_idle()

    def _evict(self) -> None:
        with self._lock:
            for waiter in list(self._waiters):
                waiter.error = Evicted()
                self._resume(waiter)

    async def _wait_until_idle(self) -> None:
        with self._lock:
            if self._active == 0:
                return
            idle = self._threads.new_pause()
            self._idle = idle
        await idle  # not self._idle: the last thread to pause sets that to None

    def _live_frames(self) -> Iterator[FrameType]:
        threads = {waiter.thread for waiter in self._waiters}
        if hasattr(_line, "current"):
            threads.add(threading.get_ident())
        for thread in threads:
            yield from _frames_of(thread)

    def _waiting_frame(self, waiter: _LineWaiter | _LineTimeout) -> FrameType | None:
        return next(_frames_of(waiter.thread), None)

    # In the threads of the workflow

    def _start_thread(self, line: _ExecutionLine, branch: Branch, work: Callable[[], None]) -> None:
        context = copy_context()

        def run() -> None:
            threading.current_thread().name = f"holdfast {self.run.id}"
            current_program.set(self)
            current_branch.set(branch)
            _line.current = line
            try:
                work()
            except Evicted:
                return
            finally:
                del _line.current  # the thread runs code of another workflow next
                self._pause()

        with self._lock:
            self._active += 1
        self._threads.start(partial(context.run, run))

    def _run_workflow(self) -> None:
        """Run the workflow function, compensate if it fails, and tell the engine how it ended."""
        try:
            try:
                result = self._call()
            except Evicted:
                raise  # the run leaves memory: nothing is compensated
            except BaseException:
                self._compensate_all()
                raise
        except Evicted:
            raise
        except BaseException as raised:
            finish = Finish("cancelled", failed_compensations=self.failed_compensations)
            if not isinstance(raised, asyncio.CancelledError) or not self._cancelled:
                finish.status = "failed"
                finish.error = as_exception(raised, "workflow")
            self._finish(finish)
        else:
            self._finish(Finish("completed", result=result))

    def _finish(self, finish: Finish) -> None:
        with self._lock:
            self.tell(finish)

    def _compensate_all(self) -> None:
        """End the children, then run the compensations, the last registered one first."""
        self.stopping = True
        if self.open_children:
            self.call(EndChildren(self.identify(CHILDREN)))
        while self.compensations:
            compensation = self.compensations.pop()
            event = self.call(compensation.make(compensation.id))
            if event.kind == EventKind.STEP_FAILED:
                self.failed_compensations.append(compensation.id)
                if self.stop_undoing:
                    return

    def call(self, command: Command) -> Event:
        """Block until *command* has an outcome, and return it; run a new step inline if possible.

        Raises Evicted if the run leaves memory, or the error by which the line was cancelled.
        """
        line: _ExecutionLine = _line.current
        waiter = _LineWaiter(line)
        with self._lock:
            self._raise_if_cancelled(line)
            inline = self._can_run_inline(command)
            if inline:
                self._check_before_inline(command, waiter)
                command.own = True  # type: ignore[union-attr]
            event = self.request(command, waiter)
            if event is not None:
                return event
            self._suspend(waiter)
        if inline:
            self._run_inline(command)  # type: ignore[arg-type]
        return self._receive(waiter, command)

    def _check_before_inline(self, command: Command, waiter: _LineWaiter) -> None:
        """Raise Evicted if the code has diverged.

        A step that runs inline begins before the engine gets its command, so the check of
        ``_take_commands`` would come too late.
        """
        if self._leftovers.events:
            self._check_leftovers([command], waiter)
            if self._divergence is not None:
                raise Evicted

    @contextmanager
    def limited(self, command: SetTimer) -> Iterator[None]:
        """Cancel the calls that are made within this block when the timer has fired."""
        limit = _LineTimeout(_line.current)
        with self._lock:
            self._raise_if_cancelled(limit.line)
            if self.request(command, limit) is not None:
                self._cancel_line(limit.line, limit.error)
        try:
            yield
        finally:
            with self._lock:
                self.drop(command.id)
                if limit.line.cancel is limit.error:
                    limit.line.cancel = None

    def _can_run_inline(self, command: Command) -> bool:
        """Return whether the calling thread may make the first attempt at a step itself."""
        return (
            isinstance(command, RunStep)
            and not (command.is_async or command.transactional or command.timeout)
            and self.context.may_start_attempts
            and not self.is_recorded(command.id)
            # If the lease is uncertain, another worker may have continued the run: the engine must
            # check with the store first.
            and self.context.lease_is_certain()
        )

    def _run_inline(self, command: RunStep) -> None:
        """Make the first attempt at a step in this thread, and report its outcome."""
        context = self.context
        started = context.now()
        spending = context.spending(command)
        try:
            # An empty context: like every attempt, this one sees nothing of the workflow's context.
            value = Context().run(self._call_step, command, spending)
        except Evicted:
            raise
        except BaseException as raised:  # even SystemExit must not end the workflow's thread
            context.report(command.id, None, as_exception(raised, "step"), started, spending)
        else:
            context.report(command.id, value, None, started, spending)

    def _call_step(self, command: RunStep, spending: Any) -> Any:
        current_spending.set(spending)
        run = self.run
        life = self.context.step_life(command.id)
        return command.call(
            StepInfo(
                run.id,
                run.workflow,
                command.id,
                1,
                run.generation,
                self.context.output,
                life,
                tracing=self.context.tracing,
            ),
            None,
        )

    def _receive(self, waiter: _LineWaiter, command: Command) -> Event:
        """Wait until *waiter* is resumed; return its outcome or raise its error."""
        waiter.ready.acquire()
        waiter.line.waiter = None
        if waiter.error is not None:
            if not isinstance(waiter.error, Evicted):
                with self._lock:
                    self.drop(command.id)  # type: ignore[union-attr]
            raise waiter.error
        assert waiter.event is not None
        return waiter.event

    def _raise_if_cancelled(self, line: _ExecutionLine) -> None:
        """Raise the error by which the line was cancelled while its thread was busy, once."""
        if line.cancel is not None:
            error = line.cancel
            line.cancel = None
            raise error

    def _suspend(self, waiter: _LineWaiter) -> None:
        self._waiters.add(waiter)
        waiter.line.waiter = waiter
        self._pause()

    def _pause(self) -> None:
        """Count a thread as inactive; the last active one reports to the loop that all are idle."""
        with self._lock:
            self._active -= 1
            if self._active == 0 and self._idle is not None:
                idle = self._idle
                self._idle = None
                with suppress(RuntimeError):  # the loop is closed, so no task waits for this
                    self._threads.post(_end, idle)

    def _resume(self, waiter: _LineWaiter) -> None:
        with self._lock:
            if waiter in self._waiters:
                self._waiters.discard(waiter)
                # Before the release, not after: the thread may pause again at once.
                self._active += 1
                waiter.ready.release()

    def _cancel_line(self, line: _ExecutionLine, error: BaseException) -> None:
        """Raise *error* in a line and in all lines that it has started.

        A line that waits gets the error now, a busy one when it next issues a command.
        """
        with self._lock:
            for inner in line.inner:
                self._cancel_line(inner, error)
            if line.waiter is not None and line.waiter in self._waiters:
                line.waiter.error = error
                self._resume(line.waiter)
            else:
                line.cancel = error

    def run_parallel(
        self, calls: list[tuple[str, Callable[[], Any]]], *, enough: int | None
    ) -> list[CallEnd]:
        """Run named calls in parallel and return their ends in the order in which they ended.

        Return after *enough* calls have ended (all, if None) or after the first that failed. The
        remaining calls are cancelled.
        """
        outer: _ExecutionLine = _line.current
        branch = current_branch.get()
        ends: list[CallEnd] = []
        needed = len(calls) if enough is None else enough
        joiner = _LineWaiter(outer)
        over = False

        def branch_work(index: int, call: Callable[[], Any]) -> Callable[[], None]:
            def work() -> None:
                nonlocal over
                value = None
                failure = None
                try:
                    value = call()
                except Evicted:
                    raise
                except BaseException as error:  # raised in the code that waits for this branch
                    failure = error
                with self._lock:
                    if not over:
                        ends.append((index, value, failure))
                        if len(ends) == needed or failure is not None:
                            over = True
                            self._resume(joiner)

            return work

        lines = []
        with self._lock:
            self._raise_if_cancelled(outer)
            for index, (name, call) in enumerate(calls):
                line = _ExecutionLine(outer)
                lines.append(line)
                inner_branch = Branch(f"{branch.identify(name)}/")
                self._start_thread(line, inner_branch, branch_work(index, call))
            if calls:
                self._suspend(joiner)
        if calls:
            self._join(joiner, outer, lines)
        return ends

    def _join(
        self, joiner: _LineWaiter, outer: _ExecutionLine, lines: list[_ExecutionLine]
    ) -> None:
        """Wait until *joiner* is resumed, then cancel the lines that have not ended."""
        joiner.ready.acquire()
        with self._lock:
            outer.waiter = None
            outer.inner = [line for line in outer.inner if line not in lines]
            for line in lines:
                self._cancel_line(line, asyncio.CancelledError("no longer needed"))
        if joiner.error is not None:
            raise joiner.error


def _frames_of(thread: int) -> Iterator[FrameType]:
    """Yield the frames of a thread that are outside the package, the deepest first."""
    # Private API of sys: there is no other way to read the stack of another thread.
    frame = sys._current_frames().get(thread)
    while frame is not None:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            yield frame
        frame = frame.f_back


def _end(pause: Pause) -> None:
    if not pause.done():
        pause.set_result(None)


class ThreadPerCall:
    """Threads for a program outside an engine, each used once. It is created in the thread that
    drives the program."""

    __slots__ = ("_loop", "new_pause", "post")

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop = asyncio.get_running_loop()
        self.new_pause: Callable[[], Pause] = self._loop.create_future
        self.post: Callable[..., Any] = self._loop.call_soon_threadsafe

    def start(self, call: Callable[[], None]) -> None:
        threading.Thread(target=call, daemon=True).start()
