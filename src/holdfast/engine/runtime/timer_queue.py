"""One timer for all that wait in memory: it sleeps until the next instant that anybody asked
for."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Callable
from contextlib import suppress

from holdfast.store.clock import Clock


class TimerHandle:
    """Something to be called at an instant, unless it is cancelled before."""

    __slots__ = ("call", "instant")

    def __init__(self, instant: int, call: Callable[[], None]) -> None:
        self.instant = instant
        self.call: Callable[[], None] | None = call

    def cancel(self) -> None:
        self.call = None


class TimerQueue:
    """Calls back when an instant has come, by the store's clock."""

    def __init__(self, clock: Clock, loop: asyncio.AbstractEventLoop) -> None:
        self._clock, self._loop = clock, loop
        self._heap: list[tuple[int, int, TimerHandle]] = []
        self._number = itertools.count()
        self._timer: asyncio.TimerHandle | None = None
        clock.listen(self._moved)

    def now(self) -> int:
        """Return the time of the store's clock."""
        return self._clock.now()

    def at(self, instant: int, call: Callable[[], None]) -> TimerHandle:
        """Call *call* once, at *instant* or as soon as possible after it."""
        alarm = TimerHandle(instant, call)
        heapq.heappush(self._heap, (instant, next(self._number), alarm))
        if self._heap[0][2] is alarm:
            self._arm()
        return alarm

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._heap and self._heap[0][2].call is None:
            heapq.heappop(self._heap)
        if not self._heap:
            return
        delay = max(self._heap[0][0] - self._clock.now(), 0) / 1_000_000
        if delay == 0 or self._clock.flows:
            self._timer = self._loop.call_later(delay, self._ring)

    def _ring(self) -> None:
        now = self._clock.now()
        while self._heap and self._heap[0][0] <= now:
            alarm = heapq.heappop(self._heap)[2]
            call, alarm.call = alarm.call, None
            if call is not None:
                call()
        self._arm()

    def _moved(self) -> None:
        """The clock was moved by hand."""
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(self._ring)

    def close(self) -> None:
        self._clock.unlisten(self._moved)
        if self._timer is not None:
            self._timer.cancel()
        self._heap.clear()
