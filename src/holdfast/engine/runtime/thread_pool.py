"""Daemon threads for blocking calls: steps, the code of ``def`` workflows, and calls of an
``AsyncEngine`` to its database.

They are daemons so that a call that hangs does not keep the process from ending.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any


class ThreadPool:
    """As many reusable threads as are needed at once; with *most*, further calls wait for a
    thread."""

    def __init__(self, name: str = "holdfast step", most: int | None = None) -> None:
        self._name = name
        self._most = most
        self._tasks: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._guard = threading.Lock()
        self._idle = 0
        """Threads that wait for a call, minus calls that wait for a thread."""
        self._count = 0
        self.post: Callable[..., object] | None = None
        """Makes calls on the only loop that uses this pool; None if several do."""

    def run(self, call: Callable[[], Any]) -> asyncio.Future[Any]:
        """Run *call* in a thread. Return a future of this loop with its result or exception."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        context = copy_context()
        post = self.post or loop.call_soon_threadsafe

        def work() -> None:
            value = None
            failure = None
            try:
                value = context.run(call)
            except BaseException as error:
                failure = error
            try:
                post(_resolve, future, value, failure)
            except RuntimeError:  # the loop is closed, and with it every waiter
                return

        self.start(work)
        return future

    def start(self, call: Callable[[], None]) -> None:
        """Make a call in a thread. The call raises nothing."""
        with self._guard:
            # Counted before the call is queued: a thread that becomes idle takes it at once.
            if self._idle > 0 or self._count == self._most:
                self._idle -= 1
            else:
                self._count += 1
                threading.Thread(
                    target=self._serve, name=f"{self._name} {self._count}", daemon=True
                ).start()
        self._tasks.put(call)

    def _serve(self) -> None:
        while True:
            task = self._tasks.get()
            if task is None:
                return
            task()
            del task  # an idle thread must not keep a run in memory
            with self._guard:
                self._idle += 1

    def close(self) -> None:
        """Stop the idle threads."""
        with self._guard:
            for _ in range(self._count):
                self._tasks.put(None)


def _resolve(future: asyncio.Future[Any], value: Any, failure: BaseException | None) -> None:
    if future.done():
        return  # cancelled meanwhile
    if isinstance(failure, StopIteration):
        failure = RuntimeError("the step raised StopIteration")
    if failure is not None:
        future.set_exception(failure)
    else:
        future.set_result(value)
