"""Daemon threads for blocking calls: steps, the code of ``def`` workflows, and calls of an
``AsyncEngine`` to its database.

They are daemons so that a call that hangs does not keep the process from ending.

Threads are woken one after another: a thread that takes a call wakes the next one if more calls
wait. Threads that are woken all at once only compete for the GIL, although one of them could make
many short calls: waking them in turn takes a tenth off the CPU of an ``async def`` workflow with
``def`` steps.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from typing import Any


class ThreadPool:
    """As many reusable threads as are needed at once; with *most*, further calls wait for a
    thread."""

    def __init__(self, name: str = "holdfast step", most: int | None = None) -> None:
        self._name = name
        self._most = most
        self._guard = threading.Lock()
        self._calls: deque[Callable[[], None]] = deque()
        self._wakeups: queue.SimpleQueue[bool] = queue.SimpleQueue()
        """One entry per idle thread to wake; False ends it."""
        self._idle = 0
        self._count = 0
        self._is_waking = False
        """Whether a thread is on its way to the calls: it wakes the next one if that is needed."""
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
            self._calls.append(call)
            if self._is_waking:
                return  # that thread takes the call, or wakes another one for it
            try:
                self._wake_thread()
            except RuntimeError:
                self._calls.pop()
                raise

    def _wake_thread(self) -> None:
        """Wake an idle thread, or start one. Raises RuntimeError if the system has no more."""
        if self._idle > 0:
            self._idle -= 1
            self._wakeups.put(True)
        elif self._count != self._most:
            name = f"{self._name} {self._count + 1}"
            threading.Thread(target=self._serve, name=name, daemon=True).start()
            self._count += 1
        else:
            return  # a busy thread takes the call when it is done
        self._is_waking = True

    def _serve(self) -> None:
        is_woken = True
        while True:
            call = self._next_call(is_woken)
            is_woken = call is None
            if call is not None:
                call()
                del call  # an idle thread must not keep a run in memory
            elif not self._wakeups.get():
                return

    def _next_call(self, is_woken: bool) -> Callable[[], None] | None:
        """Take the next call, and wake a thread for the one after it. Count the thread as idle and
        return None if there is no call."""
        with self._guard:
            if is_woken:
                self._is_waking = False
            if not self._calls:
                self._idle += 1
                return None
            call = self._calls.popleft()
            if self._calls and not self._is_waking:
                with suppress(RuntimeError):  # then a thread that is done takes the next call
                    self._wake_thread()
            return call

    def close(self) -> None:
        """Stop the idle threads."""
        with self._guard:
            for _ in range(self._count):
                self._wakeups.put(False)


def _resolve(future: asyncio.Future[Any], value: Any, failure: BaseException | None) -> None:
    if future.done():
        return  # cancelled meanwhile
    if isinstance(failure, StopIteration):
        failure = RuntimeError("the step raised StopIteration")
    if failure is not None:
        future.set_exception(failure)
    else:
        future.set_result(value)
