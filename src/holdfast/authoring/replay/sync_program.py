"""A ``def`` workflow at work: its function in a thread, its parallel branches in more threads, one
outcome at a time.

The program is settled when every thread waits for an outcome or is busy with a step. A step without
a timeout is run right here, in the thread that asks for it. That is why outcomes are committed
before they are fed: see ``speculative``.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import Context, copy_context
from types import FrameType
from typing import Any

from holdfast.authoring.replay.identity import Branch, current_branch
from holdfast.authoring.replay.replay import CHILDREN, Evicted, ReplayProgram, current_program
from holdfast.core.budgets.ledger import current_spending
from holdfast.core.commands import Command, EndChildren, Finish, RunStep, SetTimer
from holdfast.core.events import Event, EventKind
from holdfast.core.exits import as_exception
from holdfast.core.runs import RunRecord
from holdfast.core.step_info import StepInfo

PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


End = tuple[int, Any, BaseException | None]
"""Which of several calls ended, with what value or error."""


class _LineWaiter:
    """A thread of the workflow that waits for an answer."""

    __slots__ = ("event", "line", "ready", "stop", "thread")

    def __init__(self, line: _ExecutionLine) -> None:
        self.line = line
        self.thread = threading.get_ident()
        self.ready = threading.Lock()
        self.ready.acquire()
        self.event: Event | None = None
        self.stop: BaseException | None = None


class _ExecutionLine:
    """One thread of execution and those that it has started: what is cancelled together."""

    def __init__(self, outer: _ExecutionLine | None = None) -> None:
        self.inner: list[_ExecutionLine] = []
        self.waiter: _LineWaiter | None = None
        self.cancel: BaseException | None = None
        if outer is not None:
            outer.inner.append(self)


class _LineTimeout:
    """A timer that stops a line of execution, should it fire."""

    __slots__ = ("error", "line", "thread")

    def __init__(self, line: _ExecutionLine) -> None:
        self.line, self.thread = line, threading.get_ident()
        self.error = TimeoutError("the time for this block is up")


_line = threading.local()


class SyncProgram(ReplayProgram):
    """A function in a thread that goes as far as history and outcomes carry it."""

    speculative = False

    def __init__(
        self,
        run: RunRecord,
        codec: Any,
        ahead: Any,
        call: Callable[[], bytes],
        *,
        stop_undoing: bool,
    ) -> None:
        super().__init__(run, codec, ahead, stop_undoing=stop_undoing)
        self._call = call
        self._guard = threading.RLock()
        self._active = 0
        self._settled: asyncio.Future[None] | None = None
        self._main = _ExecutionLine()
        self._waiters: set[_LineWaiter] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped = False

    # On the engine's loop

    async def _start(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._spawn(self._main, self.root, self._whole)
        await self._settle()

    async def _answer(self, waiter: _LineWaiter | _LineTimeout, event: Event) -> None:
        if isinstance(waiter, _LineTimeout):
            self.stop(waiter.line, waiter.error)
        else:
            waiter.event = event
            self._resume(waiter)
        await self._settle()

    async def _cancel(self, reason: str) -> None:
        if not self._stopped and not self.stopping:
            self._stopped = True
            self.stop(self._main, asyncio.CancelledError(reason))
            await self._settle()

    def _leave(self) -> None:
        with self._guard:
            for waiter in list(self._waiters):
                waiter.stop = Evicted()
                self._resume(waiter)

    async def _settle(self) -> None:
        assert self._loop is not None
        with self._guard:
            if self._active == 0:
                return
            settled = self._settled = self._loop.create_future()
        await settled  # not by its name: the last thread to rest takes it away

    def _frames(self) -> Iterator[FrameType]:
        threads = {waiter.thread for waiter in self._waiters}
        if hasattr(_line, "current"):
            threads.add(threading.get_ident())
        for thread in threads:
            yield from _frames_of(thread)

    def _where(self, waiter: _LineWaiter | _LineTimeout) -> FrameType | None:
        return next(_frames_of(waiter.thread), None)

    # In the threads of the workflow

    def _spawn(self, line: _ExecutionLine, branch: Branch, work: Callable[[], None]) -> None:
        context = copy_context()

        def whole() -> None:
            current_program.set(self)
            current_branch.set(branch)
            _line.current = line
            try:
                work()
            except Evicted:
                return
            finally:
                self._pause()

        with self._guard:
            self._active += 1
        threading.Thread(
            target=context.run, args=(whole,), name=f"holdfast {self.run.id}", daemon=True
        ).start()

    def _whole(self) -> None:
        try:
            try:
                result = self._call()
            except Evicted:
                raise  # the run leaves memory
            except BaseException:
                self._undo_all()
                raise
        except Evicted:
            raise
        except BaseException as raised:
            cancelled = isinstance(raised, asyncio.CancelledError) and self._stopped
            self._end(
                Finish("cancelled")
                if cancelled
                else Finish("failed", error=as_exception(raised, "workflow"))
            )
        else:
            self._end(Finish("completed", result=result))

    def _end(self, finish: Finish) -> None:
        with self._guard:
            self.say(finish)

    def _undo_all(self) -> None:
        self.stopping = True
        if self.open_children:
            self.ask(EndChildren(self.identify(CHILDREN)))
        while self.undos:
            undo = self.undos.pop()
            if self.ask(undo.make(undo.id)).kind == EventKind.STEP_FAILED:
                self.failed_undos.append(undo.id)
                if self.stop_undoing:
                    return

    def ask(self, command: Command) -> Event:
        """Wait for the outcome of *command*; a step that is new is run here and now."""
        line: _ExecutionLine = _line.current
        waiter = _LineWaiter(line)
        with self._guard:
            self._heed(line)
            own = self._runs_here(command)
            if own:
                self._check_own(command, waiter)
                command.own = True  # type: ignore[union-attr]
            event = self.want(command, waiter)
            if event is not None:
                return event
            self._wait_on(waiter)
        if own:
            self._run_here(command)  # type: ignore[arg-type]
        return self._receive(waiter, command)

    def _check_own(self, command: Command, waiter: _LineWaiter) -> None:
        """A step that runs here begins before the engine hears of it, so the code is checked before
        that."""
        if self._left.events:
            self._check_leftovers([command], waiter)
            if self._divergence is not None:
                raise Evicted

    @contextmanager
    def limited(self, command: SetTimer) -> Iterator[None]:
        """Stop what is asked within this block when the timer has fired."""
        limit = _LineTimeout(_line.current)
        with self._guard:
            self._heed(limit.line)
            if self.want(command, limit) is not None:
                self.stop(limit.line, limit.error)
        try:
            yield
        finally:
            with self._guard:
                self.drop(command.id)
                if limit.line.cancel is limit.error:
                    limit.line.cancel = None

    def _runs_here(self, command: Command) -> bool:
        return (
            isinstance(command, RunStep)
            and not (command.is_async or command.transactional or command.timeout)
            and not (self.held_up or self.is_recorded(command.id))
            # else the process was stopped, and the run may have gone on elsewhere: the engine asks
            # first
            and self.is_sure()
        )

    def _run_here(self, command: RunStep) -> None:
        assert self.report is not None
        started = self.clock()
        purse = None if self.purse is None else self.purse(command.id, command.under)
        try:
            value = Context().run(
                self._call_step, command, purse
            )  # as every attempt, it sees nothing of the workflow's context
        except Evicted:
            raise
        except BaseException as raised:  # whatever it is: a step must not take its workflow along
            self.report(command.id, None, as_exception(raised, "step"), started, purse)
        else:
            self.report(command.id, value, None, started, purse)

    def _call_step(self, command: RunStep, purse: Any) -> Any:
        current_spending.set(purse)
        run, life = self.run, self.life_of(command.id)
        return command.call(
            StepInfo(run.id, run.workflow, command.id, 1, run.generation, self.sink, life), None
        )

    def _receive(self, waiter: _LineWaiter, command: Command) -> Event:
        waiter.ready.acquire()
        waiter.line.waiter = None
        if waiter.stop is not None:
            if not isinstance(waiter.stop, Evicted):
                with self._guard:
                    self.drop(command.id)  # type: ignore[union-attr]
            raise waiter.stop
        assert waiter.event is not None
        return waiter.event

    def _heed(self, line: _ExecutionLine) -> None:
        """Stop here if that was asked while the thread was busy."""
        if line.cancel is not None:
            error, line.cancel = line.cancel, None
            raise error

    def _wait_on(self, waiter: _LineWaiter) -> None:
        self._waiters.add(waiter)
        waiter.line.waiter = waiter
        self._pause()

    def _pause(self) -> None:
        with self._guard:
            self._active -= 1
            if self._active == 0 and self._settled is not None and self._loop is not None:
                settled, self._settled = self._settled, None
                with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                    self._loop.call_soon_threadsafe(_set, settled)

    def _resume(self, waiter: _LineWaiter) -> None:
        with self._guard:
            if waiter in self._waiters:
                self._waiters.discard(waiter)
                self._active += 1
                waiter.ready.release()

    def stop(self, line: _ExecutionLine, error: BaseException) -> None:
        """Make a line of execution, and all that it has started, stop where it waits or when it
        next asks."""
        with self._guard:
            for inner in line.inner:
                self.stop(inner, error)
            if line.waiter is not None and line.waiter in self._waiters:
                line.waiter.stop = error
                self._resume(line.waiter)
            else:
                line.cancel = error

    def together(
        self, calls: list[tuple[str, Callable[[], Any]]], *, enough: int | None
    ) -> list[tuple[int, Any, BaseException | None]]:
        """Run calls side by side and return, in the order in which they ended, the first *enough*
        of them (all, if None), or up to the first that failed. The rest is stopped."""
        outer: _ExecutionLine = _line.current
        branch = current_branch.get()
        ended: list[End] = []
        wanted = len(calls) if enough is None else enough
        joiner = _LineWaiter(outer)
        over = False

        def one(place: int, call: Callable[[], Any]) -> Callable[[], None]:
            def work() -> None:
                nonlocal over
                value, failure = None, None
                try:
                    value = call()
                except Evicted:
                    raise
                except (
                    BaseException
                ) as error:  # whatever it is: the code that waits for this branch hears of it
                    failure = error
                with self._guard:
                    if not over:
                        ended.append((place, value, failure))
                        if len(ended) == wanted or failure is not None:
                            over = True
                            self._resume(joiner)

            return work

        lines = []
        with self._guard:
            self._heed(outer)
            for place, (name, call) in enumerate(calls):
                line = _ExecutionLine(outer)
                lines.append(line)
                self._spawn(line, Branch(f"{branch.identify(name)}/"), one(place, call))
            if calls:
                self._wait_on(joiner)
        if calls:
            self._join(joiner, outer, lines)
        return ended

    def _join(
        self, joiner: _LineWaiter, outer: _ExecutionLine, lines: list[_ExecutionLine]
    ) -> None:
        joiner.ready.acquire()
        with self._guard:
            outer.waiter = None
            outer.inner = [line for line in outer.inner if line not in lines]
            for line in lines:
                self.stop(line, asyncio.CancelledError("no longer needed"))
        if joiner.stop is not None:
            raise joiner.stop


def _frames_of(thread: int) -> Iterator[FrameType]:
    """Yield the frames of a thread that belong to no part of the package, the deepest first."""
    frame = sys._current_frames().get(thread)
    while frame is not None:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            yield frame
        frame = frame.f_back


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
