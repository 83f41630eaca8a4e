"""An ``async def`` workflow at work: its coroutine on a loop of its own, fed one outcome after
another."""

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
from holdfast.core.commands import Command, EndChildren, Finish, SetTimer
from holdfast.core.events import Event, EventKind
from holdfast.core.exits import as_exception
from holdfast.core.runs import RunRecord

PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class AsyncProgram(ReplayProgram):
    """A coroutine that goes as far as history and outcomes carry it."""

    def __init__(
        self,
        run: RunRecord,
        codec: Any,
        ahead: Any,
        call: Callable[[], Awaitable[bytes]],
        *,
        stop_undoing: bool,
    ) -> None:
        super().__init__(run, codec, ahead, stop_undoing=stop_undoing)
        self._call = call
        self._cancelled = False
        self._main: asyncio.Task[bytes] | None = None
        self.loop = WorkflowLoop(  # type: ignore[abstract]
            lambda: self.time() / 1_000_000, self._set_timer
        )

    async def _start(self) -> None:
        context = copy_context()
        context.run(current_program.set, self)
        context.run(current_branch.set, self.root)
        self._main = self.loop.own(
            asyncio.Task(self._whole(), loop=self.loop, context=context), context
        )
        self._main.add_done_callback(self._finished)
        self.loop.settle()

    async def _whole(self) -> bytes:
        try:
            return await self._call()
        except Evicted:
            raise  # the run leaves memory
        except BaseException as raised:
            if isinstance(raised, GeneratorExit) and self.closing:
                raise  # the run leaves memory: its coroutine is closed
            await self._undo_all()
            if isinstance(raised, Exception) or (
                isinstance(raised, asyncio.CancelledError) and self._cancelled
            ):
                raise
            raise as_exception(raised, "workflow") from raised

    async def _undo_all(self) -> None:
        self.stopping = True
        if self.open_children:
            await self.ask(EndChildren(self.identify(CHILDREN)))
        while self.undos:
            undo = self.undos.pop()
            event = await self.ask(undo.make(undo.id))
            if event.kind == EventKind.STEP_FAILED:
                self.failed_undos.append(undo.id)
                if self.stop_undoing:
                    return

    def _finished(self, main: asyncio.Task[bytes]) -> None:
        if self.closing:
            main.cancelled() or main.exception()
        elif main.cancelled():
            self.say(Finish("cancelled"))
        elif (error := main.exception()) is not None:
            self.say(Finish("failed", error=error))
        else:
            self.say(Finish("completed", result=main.result()))

    async def ask(self, command: Command) -> Event:
        """Wait for the outcome of *command*."""
        future = self.loop.create_future()
        event = self.want(command, (future, asyncio.current_task(self.loop)))
        if event is not None:
            return event
        try:
            answer: Event = await future
        except asyncio.CancelledError:
            self.drop(command.id)  # type: ignore[union-attr]
            raise
        return answer

    def _set_timer(self, delay: float, fire: Callable[[], None]) -> Callable[[], None]:
        command = SetTimer(self.identify("timer"), max(int(delay * 1_000_000), 1))
        future = self.loop.create_future()
        future.add_done_callback(
            lambda done: None if done.cancelled() or done.exception() else fire()
        )
        event = self.want(command, (future, asyncio.current_task(self.loop)))
        if event is not None:
            future.set_result(event)
        return lambda: self.drop(command.id)

    async def _answer(self, waiter: Any, event: Event) -> None:
        future, _ = waiter
        if not future.done():
            future.set_result(event)
        self.loop.settle()

    async def _cancel(self, reason: str) -> None:
        if self._main is not None and not self._cancelled and not self.stopping:
            self._cancelled = True
            self._main.cancel(reason)
            self.loop.settle()

    def _leave(self) -> None:
        if self.loop.gentle:
            for future, _ in [waiter for _, waiter in self._wanted.values()]:
                if not future.done():
                    future.set_exception(Evicted())
            self.loop.unwind()
        self.loop.close()
        self._main = None

    def _frames(self) -> Iterator[FrameType]:
        for task in self.loop.tasks:
            yield from frames_of(task.get_coro(), PACKAGE)

    def _where(self, waiter: Any) -> FrameType | None:
        _, task = waiter
        frames = [] if task is None else list(frames_of(task.get_coro(), PACKAGE))
        return frames[-1] if frames else None


__all__ = ["AsyncProgram", "Evicted"]
