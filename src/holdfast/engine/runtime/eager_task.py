"""Start a coroutine immediately, and create an asyncio task only if it suspends.

``loop.create_task`` schedules the first step of a coroutine for the next turn of the loop. For a
step that never awaits, that turn and the task object are most of its cost. ``EagerTasks.start``
therefore runs the coroutine up to its first suspension, on behalf of an idle task from a pool (so
that ``asyncio.current_task()`` is correct inside it), and hands it over to that task only if it
suspends.

This relies on private functions of asyncio (``_enter_task``, ``_leave_task``) and on the private
attribute ``_asyncio_future_blocking``; tests/engine/test_hands.py covers them.
"""

from __future__ import annotations

import asyncio
from asyncio.tasks import _enter_task, _leave_task
from collections.abc import Coroutine, Generator
from contextvars import Context, copy_context
from typing import Any

_RESUMED = object()
"""Replaces the awaited future once the task has got it."""


class _ReusableTask(Coroutine[Any, Any, None]):
    """A spare task, and the coroutine that it continues once that has suspended."""

    __slots__ = ("_called", "_context", "_coroutine", "_waits_for", "task")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._called: asyncio.Future[None] = loop.create_future()
        self._coroutine: Coroutine[Any, Any, None] | None = None
        self._context: Context
        self._waits_for: Any = None
        self.task: asyncio.Task[None] = loop.create_task(self)

    def is_fresh(self) -> bool:
        """Return whether the task is unused: neither done nor cancelled."""
        return not self.task.done() and not self.task.cancelling()

    def take_over(
        self, coroutine: Coroutine[Any, Any, None], context: Context, waits_for: Any
    ) -> None:
        """Continue a coroutine that has suspended for the first time."""
        self._coroutine = coroutine
        self._context = context
        self._waits_for = waits_for
        if not self._called.done():
            self._called.set_result(None)

    # Called by the task

    def send(self, value: Any) -> Any:
        if self._coroutine is None:
            self._called._asyncio_future_blocking = True
            return self._called
        waits_for = self._waits_for
        self._waits_for = _RESUMED
        return (
            waits_for
            if waits_for is not _RESUMED
            else self._context.run(self._coroutine.send, value)
        )

    def throw(self, error: Any, *_: Any) -> Any:
        if self._coroutine is None:
            raise error
        waits_for = self._waits_for
        self._waits_for = _RESUMED
        if waits_for is not _RESUMED and waits_for is not None:
            waits_for.cancel()
        return self._context.run(self._coroutine.throw, error)

    def close(self) -> None:
        if self._coroutine is not None:
            self._coroutine.close()

    def __await__(self) -> Generator[Any, Any, None]:
        raise TypeError("the coroutine of a spare task cannot be awaited")


class EagerTasks:
    """The pool of spare tasks of one loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._spare: list[_ReusableTask] = []

    def start(
        self, coroutine: Coroutine[Any, Any, None], context: Context | None = None
    ) -> asyncio.Task[None] | None:
        """Run a coroutine until it suspends, in *context* or a copy of the current one.

        Return the task that continues it, or None if it has ended.
        """
        loop = self._loop
        spare = self._spare.pop() if self._spare else _ReusableTask(loop)
        context = copy_context() if context is None else context
        current = asyncio.current_task(loop)
        if current is not None:
            _leave_task(loop, current)
        _enter_task(loop, spare.task)
        try:
            waits_for = context.run(coroutine.send, None)
        except StopIteration:
            if spare.is_fresh():
                self._spare.append(spare)
            return None
        finally:
            _leave_task(loop, spare.task)
            if current is not None:
                _enter_task(loop, current)
        spare.take_over(coroutine, context, waits_for)
        return spare.task

    def close(self) -> None:
        """Cancel the spare tasks."""
        for spare in self._spare:
            spare.task.cancel()
        self._spare.clear()
