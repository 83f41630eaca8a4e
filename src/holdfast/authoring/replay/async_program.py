"""The program of an ``async def`` workflow: a coroutine on an event loop of its own.

Each outcome that the engine feeds resolves one future; then the loop runs until it is idle.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from contextvars import copy_context
from types import FrameType
from typing import Any

from holdfast.authoring.replay.event_loop import WorkflowLoop
from holdfast.authoring.replay.identity import current_branch
from holdfast.authoring.replay.replay import (
    CHILDREN,
    Evicted,
    ReplayProgram,
    current_program,
    frames_of,
)
from holdfast.authoring.replay.source import CodeSource
from holdfast.core.commands import Command, EndChildren, Finish, SetTimer
from holdfast.core.events import Event, EventKind
from holdfast.core.exits import as_exception
from holdfast.core.program import ProgramContext
from holdfast.core.runs import RunRecord

PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
"""The folder of the package; its frames are left out when frames of the workflow are listed."""


class AsyncProgram(ReplayProgram):
    """An ``async def`` workflow in one run, advanced as far as history and outcomes allow."""

    def __init__(
        self,
        run: RunRecord,
        context: ProgramContext,
        source: CodeSource,
        call: Callable[[], Awaitable[bytes]],
        *,
        stop_undoing: bool,
    ) -> None:
        super().__init__(run, context, source, stop_undoing=stop_undoing)
        self._call: Callable[[], Awaitable[bytes]] = call
        self._cancelled: bool = False
        self._main: asyncio.Task[bytes] | None = None
        self.loop: WorkflowLoop = WorkflowLoop(  # type: ignore[abstract]
            lambda: self.time() / 1_000_000, self._set_timer
        )

    async def _start(self) -> None:
        context = copy_context()
        context.run(current_program.set, self)
        context.run(current_branch.set, self.root)
        self._main = self.loop.own(
            asyncio.Task(self._run_workflow(), loop=self.loop, context=context), context
        )
        self._main.add_done_callback(self._finish)
        self.loop.run_until_idle()

    async def _run_workflow(self) -> bytes:
        """Run the workflow function; if it fails or is cancelled, compensate and raise."""
        try:
            return await self._call()
        except Evicted:
            raise  # the run leaves memory: nothing is compensated
        except BaseException as raised:
            if isinstance(raised, GeneratorExit) and self.closing:
                raise  # the run leaves memory: its coroutine is closed
            await self._compensate_all()
            if isinstance(raised, Exception) or (
                isinstance(raised, asyncio.CancelledError) and self._cancelled
            ):
                raise
            raise as_exception(raised, "workflow") from raised

    async def _compensate_all(self) -> None:
        """End the children, then run the compensations, the last registered one first."""
        self.stopping = True
        if self.open_children:
            await self.call(EndChildren(self.identify(CHILDREN)))
        while self.compensations:
            compensation = self.compensations.pop()
            event = await self.call(compensation.make(compensation.id))
            if event.kind == EventKind.STEP_FAILED:
                self.failed_compensations.append(compensation.id)
                if self.stop_undoing:
                    return

    def _finish(self, main: asyncio.Task[bytes]) -> None:
        """Tell the engine how the main task of the workflow ended."""
        if self.closing:
            main.cancelled() or main.exception()  # retrieved, so that asyncio does not log it
        elif main.cancelled():
            self.tell(Finish("cancelled", failed_compensations=self.failed_compensations))
        elif (error := main.exception()) is not None:
            self.tell(Finish("failed", error=error, failed_compensations=self.failed_compensations))
        else:
            self.tell(Finish("completed", result=main.result()))

    async def call(self, command: Command) -> Event:
        """Return the outcome of *command*, from history or once the engine feeds it.

        If the awaiting task is cancelled meanwhile, the command is dropped.
        """
        future: asyncio.Future[Event] = asyncio.Future(loop=self.loop)
        event = self.request(command, (future, asyncio.current_task(self.loop)))
        if event is not None:
            return event
        try:
            return await future
        except asyncio.CancelledError:
            self.drop(command.id)  # type: ignore[union-attr]
            raise

    def _set_timer(self, delay: float, fire: Callable[[], None]) -> Callable[[], None]:
        """Set a durable timer of *delay* seconds; return a function that drops it."""
        command = SetTimer(self.identify("timer"), max(int(delay * 1_000_000), 1))
        future = self.loop.create_future()
        future.add_done_callback(
            lambda done: None if done.cancelled() or done.exception() else fire()
        )
        event = self.request(command, (future, asyncio.current_task(self.loop)))
        if event is not None:
            future.set_result(event)
        return lambda: self.drop(command.id)

    async def _deliver(self, waiter: Any, event: Event) -> None:
        future, _ = waiter
        if not future.done():
            future.set_result(event)
        self.loop.run_until_idle()

    async def _cancel(self, reason: str) -> None:
        if self._main is not None and not self._cancelled and not self.stopping:
            self._cancelled = True
            self._main.cancel(reason)
            self.loop.run_until_idle()

    def _evict(self) -> None:
        if self.loop.library_cleanup:
            for future, _ in [waiter for _, waiter in self._pending.values()]:
                if not future.done():
                    future.set_exception(Evicted())
            self.loop.unwind()
        self.loop.close()
        self._main = None

    def _live_frames(self) -> Iterator[FrameType]:
        for task in self.loop.tasks:
            yield from frames_of(task.get_coro(), PACKAGE)

    def _waiting_frame(self, waiter: Any) -> FrameType | None:
        _, task = waiter
        if task is None:
            return None
        frames = list(frames_of(task.get_coro(), PACKAGE))
        if not frames:
            return None
        return frames[-1]


__all__ = ["AsyncProgram", "Evicted"]
