"""Start a coroutine immediately, and create an asyncio task only if it suspends.

``loop.create_task`` schedules the first step of a coroutine for the next turn of the loop. For a
step that never awaits, that turn and the task object are most of its cost. ``EagerTasks.start``
therefore runs the coroutine up to its first suspension, and leaves it to a task only if it
suspends. ``asyncio.current_task()`` is correct inside it from the beginning.

There are two implementations. ``PooledEagerTasks`` takes an idle task from a pool; it is used where
the private names of asyncio exist that it needs. ``NativeEagerTasks`` uses ``eager_start``, which
Python 3.12 made public, but creates a task per coroutine; it is used where those names are missing.
Which of them is faster on Python 3.12 and newer has not been measured.

This is the only file that uses private names of asyncio. tests/engine/test_eager_task.py checks
that they exist on the running version.
"""

from __future__ import annotations

import asyncio
import select
import selectors
import sys
from asyncio import tasks as _tasks
from collections.abc import Coroutine, Generator
from contextvars import Context, copy_context
from time import monotonic
from typing import Any, Protocol

_enter_task: Any = getattr(_tasks, "_enter_task", None)
_leave_task: Any = getattr(_tasks, "_leave_task", None)
_current_task: Any = asyncio.current_task
if sys.version_info < (3, 12):  # where that is written in Python, this saves each step a call
    _current_task = _tasks._current_tasks.get  # type: ignore[attr-defined]

_EPOLL: Any = getattr(selectors, "EpollSelector", ())

_RESUMED = object()
"""Replaces the awaited future once the task has got it."""


class EagerTasks(Protocol):
    """Starts coroutines on one loop."""

    def start(
        self, coroutine: Coroutine[Any, Any, None], context: Context | None = None
    ) -> asyncio.Task[None] | None:
        """Run a coroutine until it suspends, in *context* or a copy of the current one.

        Return the task that continues it, or None if it has ended.
        """

    def close(self) -> None:
        """Release idle tasks."""


def eager_tasks_of(loop: asyncio.AbstractEventLoop) -> EagerTasks:
    """Return the way to start coroutines on *loop*."""
    if _enter_task is None or _leave_task is None:
        return NativeEagerTasks(loop)
    return PooledEagerTasks(loop)


def loop_has_other_work(loop: asyncio.AbstractEventLoop) -> bool:
    """Return whether callbacks of *loop* are ready to run; True if it does not tell."""
    return bool(getattr(loop, "_ready", True))


class IdleWait:
    """Waits inside a callback of a loop as the loop itself would wait, if it had nothing else to
    do: for any event of its selector, and no longer than until its next timer."""

    __slots__ = ("_loop", "_poll")

    def __init__(self, loop: Any, descriptor: int) -> None:
        self._loop = loop
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)

    @classmethod
    def of(cls, loop: asyncio.AbstractEventLoop) -> IdleWait | None:
        """Return it for a loop of asyncio whose selector can be polled itself, as epoll can; None
        for others, and in debug mode, in which asyncio reports long callbacks."""
        selector = getattr(loop, "_selector", None)
        known = all(hasattr(loop, name) for name in ("_ready", "_scheduled", "_stopping"))
        if loop.get_debug() or not known or not isinstance(selector, _EPOLL):
            return None
        return cls(loop, selector.fileno())

    def until_event(self) -> bool:
        """Wait, and return whether the selector has an event and the loop nothing else to do."""
        loop = self._loop
        if loop._ready or loop._stopping:
            return False
        scheduled = loop._scheduled
        if not scheduled:
            return bool(self._poll.poll())
        seconds = scheduled[0]._when - monotonic()
        return seconds > 0 and bool(self._poll.poll(seconds * 1000))


def take_future(future: Any) -> None:
    """Accept a future that a coroutine awaits: it tells a future of asyncio from a bare yield by an
    attribute that the code that steps the coroutine must reset."""
    future._asyncio_future_blocking = False


class _ReusableTask(Coroutine[Any, Any, None]):
    """A spare task, and the coroutine that it continues once that has suspended."""

    __slots__ = ("_called", "_context", "_coroutine", "_waits_for", "task")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._called: asyncio.Future[None] = loop.create_future()
        self._coroutine: Coroutine[Any, Any, None] | None = None
        self._context: Context
        self._waits_for: Any = None
        self.task: asyncio.Task[None] = loop.create_task(self)

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
            # The flag tells the task that the future is awaited, and not yielded by mistake.
            self._called._asyncio_future_blocking = True
            return self._called
        waits_for = self._waits_for
        self._waits_for = _RESUMED
        if waits_for is not _RESUMED:
            return waits_for
        return self._context.run(self._coroutine.send, value)

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


class PooledEagerTasks:
    """Starts coroutines on behalf of the spare tasks of a pool."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._spare: list[_ReusableTask] = []

    def start(
        self, coroutine: Coroutine[Any, Any, None], context: Context | None = None
    ) -> asyncio.Task[None] | None:
        """Run a coroutine until it suspends; return the task that continues it, or None."""
        loop = self._loop
        spare = self._spare.pop() if self._spare else _ReusableTask(loop)
        context = copy_context() if context is None else context
        current = _current_task(loop)
        # A loop has one current task: that of the caller steps aside.
        if current is not None:
            _leave_task(loop, current)
        _enter_task(loop, spare.task)
        try:
            waits_for = context.run(coroutine.send, None)
        except StopIteration:
            # The coroutine may have cancelled its own task, which is then of no further use.
            if not (spare.task.done() or spare.task.cancelling()):
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


class NativeEagerTasks:
    """Starts coroutines with ``eager_start``, from Python 3.12 on."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def start(
        self, coroutine: Coroutine[Any, Any, None], context: Context | None = None
    ) -> asyncio.Task[None] | None:
        """Run a coroutine until it suspends; return the task that continues it, or None."""
        options: dict[str, Any] = {"loop": self._loop, "context": context, "eager_start": True}
        task: asyncio.Task[None] = asyncio.Task(coroutine, **options)
        if not task.done():
            return task
        if not task.cancelled():
            task.result()  # raises the exception of the coroutine
        return None

    def close(self) -> None:
        """Do nothing: there are no idle tasks."""
