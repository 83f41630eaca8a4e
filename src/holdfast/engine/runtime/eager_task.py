"""Tasks that begin at once: what never waits has ended before anybody needed a task for it.

A task of asyncio begins a turn of the loop later. Most of what a step costs would be that turn and
that task, if the step only computes. So a coroutine goes ahead in the name of a spare task, and
only when it waits does that task become its own.
"""

from __future__ import annotations

import asyncio
from asyncio.tasks import _enter_task, _leave_task
from collections.abc import Coroutine, Generator
from contextvars import Context, copy_context
from typing import Any

_TOLD = object()
"""In place of what a coroutine waits for, once its task knows."""


class _ReusableTask(Coroutine[Any, Any, None]):
    """A spare task, and the coroutine that it goes on with once that waits."""

    __slots__ = ("_called", "_context", "_coroutine", "_waits_for", "task")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._called: asyncio.Future[None] = loop.create_future()
        self._coroutine: Coroutine[Any, Any, None] | None = None
        self._context: Context
        self._waits_for: Any = None
        self.task: asyncio.Task[None] = loop.create_task(self)

    def is_fresh(self) -> bool:
        """Say whether nobody has touched the task."""
        return not self.task.done() and not self.task.cancelling()

    def go_on_with(
        self, coroutine: Coroutine[Any, Any, None], context: Context, waits_for: Any
    ) -> None:
        """Belong to a coroutine that waits for something, for the first time."""
        self._coroutine, self._context, self._waits_for = coroutine, context, waits_for
        if not self._called.done():
            self._called.set_result(None)

    # What its task calls

    def send(self, value: Any) -> Any:
        if self._coroutine is None:
            self._called._asyncio_future_blocking = True
            return self._called
        waits_for, self._waits_for = self._waits_for, _TOLD
        return (
            waits_for if waits_for is not _TOLD else self._context.run(self._coroutine.send, value)
        )

    def throw(self, error: Any, *_: Any) -> Any:
        if self._coroutine is None:
            raise error
        waits_for, self._waits_for = self._waits_for, _TOLD
        if waits_for is not _TOLD and waits_for is not None:
            waits_for.cancel()
        return self._context.run(self._coroutine.throw, error)

    def close(self) -> None:
        if self._coroutine is not None:
            self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, None]:
        raise TypeError("it belongs to its task")


class EagerTasks:
    """Spare tasks of one loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._spare: list[_ReusableTask] = []

    def start(
        self, coroutine: Coroutine[Any, Any, None], context: Context | None = None
    ) -> asyncio.Task[None] | None:
        """Run a coroutine until it waits, in *context* or a copy of the current one; return the
        task that goes on with it, or None if it has ended."""
        loop = self._loop
        hand = self._spare.pop() if self._spare else _ReusableTask(loop)
        context = copy_context() if context is None else context
        current = asyncio.current_task(loop)
        if current is not None:
            _leave_task(loop, current)
        _enter_task(loop, hand.task)
        try:
            waits_for = context.run(coroutine.send, None)
        except StopIteration:
            if hand.is_fresh():
                self._spare.append(hand)
            return None
        finally:
            _leave_task(loop, hand.task)
            if current is not None:
                _enter_task(loop, current)
        hand.go_on_with(coroutine, context, waits_for)
        return hand.task

    def close(self) -> None:
        """Let the spare ones go."""
        for hand in self._spare:
            hand.task.cancel()
        self._spare.clear()
