"""One asyncio timer for all timers of a worker: it is armed for the earliest of them."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable
from contextlib import suppress

from holdfast.store.clock import Clock


class TimerHandle:
    """A call at an instant, unless it is cancelled before."""

    __slots__ = ("call", "instant")

    def __init__(self, instant: int, call: Callable[[], None]) -> None:
        self.instant = instant
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        self.call = None


class TimerQueue:
    """Makes calls when their instant has come, by the store's clock."""

    def __init__(self, clock: Clock, loop: asyncio.AbstractEventLoop) -> None:
        self._clock = clock
        self._loop = loop
        self._heap: list[tuple[int, int, TimerHandle]] = []
        self._number = itertools.count()
        self._timer: asyncio.TimerHandle | None = None
        clock.listen(self._moved)

    def now(self) -> int:
        """Return the time of the store's clock."""
        return self._clock.now()

    def at(self, instant: int, call: Callable[[], None]) -> TimerHandle:
        """Call *call* once, at *instant* or as soon as possible after it."""
        handle = TimerHandle(instant, call)
        heapq.heappush(self._heap, (instant, next(self._number), handle))
        if self._heap[0][2] is handle:
            self._arm()
        return handle

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        # Cancelled timers stay until they are first: to find them in the heap would be slower.
        while self._heap and self._heap[0][2].call is None:
            heapq.heappop(self._heap)
        if not self._heap:
            return
        delay = max(self._heap[0][0] - self._clock.now(), 0) / 1_000_000
        if delay == 0 or self._clock.flows:
            self._timer = self._loop.call_later(delay, self._fire)

    def _fire(self) -> None:
        now = self._clock.now()
        while self._heap and self._heap[0][0] <= now:
            handle = heapq.heappop(self._heap)[2]
            call = handle.call
            handle.call = None  # before the call, which may cancel its own timer
            if call is not None:
                call()
        self._arm()

    def _moved(self) -> None:
        """Fire due timers after the clock was moved by hand, in tests."""
        with suppress(RuntimeError):  # the loop is closed, and with it every waiter
            self._loop.call_soon_threadsafe(self._fire)

    def close(self) -> None:
        self._clock.unlisten(self._moved)
        if self._timer is not None:
            self._timer.cancel()
        self._heap.clear()
