"""One asyncio timer for all timers of a worker: it is armed for the earliest of them."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable
from contextlib import suppress

from holdfast.store.clock import Clock

FEW = 100
"""So many cancelled timers may stay in the queue, and as many as there are others."""


class TimerHandle:
    """A call at an instant, unless it is cancelled before."""

    __slots__ = ("_queue", "call", "instant")

    def __init__(self, queue: TimerQueue, instant: int, call: Callable[[], None]) -> None:
        self._queue: TimerQueue = queue
        self.instant: int = instant
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        """Make no call. A timer that has fired, or was cancelled, stays as it is."""
        if self.call is not None:
            self.call = None
            self._queue.note_cancelled()


class TimerQueue:
    """Makes calls when their instant has come, by the store's clock."""

    def __init__(self, clock: Clock, loop: asyncio.AbstractEventLoop) -> None:
        self._clock = clock
        self._loop = loop
        self._heap: list[tuple[int, int, TimerHandle]] = []
        self._number = itertools.count()
        self._cancelled: int = 0
        """How many timers of the heap were cancelled."""
        self._timer: asyncio.TimerHandle | None = None
        clock.listen(self._moved)

    def now(self) -> int:
        """Return the time of the store's clock."""
        return self._clock.now()

    def at(self, instant: int, call: Callable[[], None]) -> TimerHandle:
        """Call *call* once, at *instant* or as soon as possible after it."""
        handle = TimerHandle(self, instant, call)
        heapq.heappush(self._heap, (instant, next(self._number), handle))
        if self._heap[0][2] is handle:
            self._arm()
        return handle

    def note_cancelled(self) -> None:
        """Note that a timer of the queue was cancelled."""
        self._cancelled += 1
        # Together, because to find one of them in the heap is slow. Steps that end long before
        # their time limit would otherwise leave their timers here until then, hours later.
        if self._cancelled > FEW and self._cancelled > len(self._heap) // 2:
            self._heap = [entry for entry in self._heap if entry[2].call is not None]
            heapq.heapify(self._heap)
            self._cancelled = 0

    def __len__(self) -> int:
        """Return how many timers the queue keeps, cancelled ones included."""
        return len(self._heap)

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._heap and self._heap[0][2].call is None:
            heapq.heappop(self._heap)
            self._cancelled -= 1
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
            if call is None:
                self._cancelled -= 1
            else:
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
        self._cancelled = 0
