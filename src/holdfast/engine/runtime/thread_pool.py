"""Threads for blocking calls: steps, and what an ``AsyncEngine`` asks of its database. They are
daemons: a call that hangs keeps no process from ending."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any


class ThreadPool:
    """As many threads as are needed at once, each used again; with *most*, calls beyond that number
    wait for a thread."""

    def __init__(self, name: str = "holdfast step", most: int | None = None) -> None:
        self._name = name
        self._most = most
        self._tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._guard = threading.Lock()
        self._idle = 0
        """Threads that wait for a call, less the calls that wait for a thread."""
        self._count = 0

    def run(self, call: Callable[[], Any]) -> asyncio.Future[Any]:
        """Run *call* in a thread; the future, on this loop, has what it returned or raised."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        context = copy_context()

        def work() -> None:
            value, failure = None, None
            try:
                value = context.run(call)
            except BaseException as error:
                failure = error
            try:
                loop.call_soon_threadsafe(_settle, future, value, failure)
            except RuntimeError:  # the loop is gone: nobody waits any more
                return

        with self._guard:
            if self._idle > 0 or self._count == self._most:
                self._idle -= 1
            else:
                self._count += 1
                threading.Thread(
                    target=self._serve, name=f"{self._name} {self._count}", daemon=True
                ).start()
        self._tasks.put(work)
        return future

    def _serve(self) -> None:
        while True:
            task = self._tasks.get()
            if task is None:
                return
            task()
            with self._guard:
                self._idle += 1

    def close(self) -> None:
        """Let the idle ones go."""
        with self._guard:
            for _ in range(self._count):
                self._tasks.put(None)


def _settle(future: asyncio.Future[Any], value: Any, failure: BaseException | None) -> None:
    if future.done():
        return  # it came too late: nobody waits for it any more
    if isinstance(failure, StopIteration):
        failure = RuntimeError("the step raised StopIteration")
    if failure is not None:
        future.set_exception(failure)
    else:
        future.set_result(value)
