"""Post calls to an event loop from other threads, with one wake-up for all calls that wait."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from contextvars import Context
from time import monotonic, perf_counter
from typing import Any

from holdfast.engine.runtime.eager_task import IdleWait
from holdfast.engine.runtime.waker import Waker

CLOSED = "the event loop of the program is closed"

IN_A_ROW = 0.002
"""For how many seconds a callback may wait for calls again and again, before the loop gets its
turn."""


class LoopInbox:
    """Calls that other threads post to a loop, made in order."""

    __slots__ = (
        "_calls",
        "_context",
        "_idle_wait",
        "_is_held",
        "_seconds",
        "_waker",
        "_woken",
        "after",
        "before",
        "draining",
        "loop",
    )

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self.loop = loop
        self._seconds = seconds
        self._waker: Waker | None = None
        self._idle_wait: IdleWait | None = None
        self._calls: deque[tuple[Callable[..., None], tuple[Any, ...]]] = deque()
        self._context = Context()
        self._woken = False
        self._is_held = False
        self.draining = False
        """Whether the loop makes calls at this moment."""
        self.before: Callable[[], None] | None = None
        """Called on the loop before it makes posted calls."""
        self.after: Callable[[], None] | None = None
        """Called on the loop after it has made posted calls."""

    def open_waker(self, *, release_gil: bool = False, waits: bool = False) -> None:
        """Wake the loop by a waker from now on. Call it on the loop, and ``close`` at the end.

        If it *waits*, the callback that makes the calls also waits for more of them while the loop
        has nothing else to do: that saves a turn of the loop.
        """
        self._idle_wait = IdleWait.of(self.loop) if waits else None
        drain = self._drain if self._idle_wait is None else self._drain_and_wait
        self._waker = Waker.of(self.loop, drain, release_gil=release_gil)

    def close(self) -> None:
        """Close the waker. Call it on the loop's thread, or when the loop is closed."""
        if self._waker is not None:
            self._waker.close()

    def post(self, call: Callable[..., None], *args: Any) -> None:
        """Post a call, from any thread. Raises RuntimeError if the loop is closed."""
        self._calls.append((call, args))
        if not self._is_held:
            self._wake()
        elif self.loop.is_closed():
            raise RuntimeError(CLOSED)

    def post_all(self, calls: Iterable[tuple[Callable[..., None], tuple[Any, ...]]]) -> None:
        """Post several calls. Raises RuntimeError if the loop is closed."""
        self._calls.extend(calls)
        self._wake()

    def hold(self) -> None:
        """Do not wake the loop until ``release``.

        A loop that is woken while the posting thread has the GIL, and keeps it for a while, wakes
        up only to wait for the GIL.
        """
        self._is_held = True

    def release(self) -> None:
        """Wake the loop for the posted calls. Raises RuntimeError if the loop is closed."""
        self._is_held = False
        if self._calls:
            self._wake()

    def _wake(self) -> None:
        # Checked first: the loop may have been closed after a wake-up, before it made the calls.
        if self.loop.is_closed():
            raise RuntimeError(CLOSED)
        if not self._woken and not self._is_held:
            self._woken = True
            if self._waker is None or not self._waker.wake():
                self.loop.call_soon_threadsafe(self._drain, context=self._context)

    def _drain_and_wait(self) -> None:
        assert self._idle_wait is not None and self._waker is not None
        wait_for_event = self._idle_wait.until_event
        until = monotonic() + IN_A_ROW
        self._drain()
        # An event of another kind is left to the loop.
        while wait_for_event() and self._calls:
            self._waker.clear()
            self._drain()
            if monotonic() > until:
                return

    def _drain(self) -> None:
        self._woken = False  # before the calls: a call posted meanwhile must wake the loop again
        calls = self._calls
        until = perf_counter() + self._seconds
        self.draining = True
        if self.before is not None:
            self.before()
        try:
            for _ in range(len(calls)):
                call, args = calls.popleft()
                call(*args)
                if perf_counter() > until:
                    break
        finally:
            self.draining = False
            if self.after is not None:
                self.after()
            if calls and not self._woken:
                self._woken = True
                self.loop.call_soon(self._drain, context=self._context)
