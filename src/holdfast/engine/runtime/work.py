"""Waiting for work that can be leased: told at once when it comes from this process, or the store
hears of others; else found soon."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable

from holdfast.store.contract import Hints, Store

SLOWEST = 0.05
"""Seconds between two looks at most: what becomes due by time alone is told by nobody."""

PAUSES = ((500, 0.0005), (1300, 0.001), (3300, 0.005))
QUIET = 0.02
"""Seconds between two questions whether another process has committed: few at first, more when it
has been quiet for so many."""


class Work:
    """Who waits for work."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._calls: set[Callable[[], None]] = set()
        self._guard = threading.Lock()
        self._polling = threading.Lock()
        self._quiet = 0
        self.watched = False
        """Whether ``changed`` is called when another process has committed,"""
        self._listens = False
        """because the store calls it."""

    def hinted(self, hints: Hints) -> None:
        """A commit of this process. May come from any thread."""
        if hints.ready and self._calls:
            self.changed()

    def changed(self) -> None:
        """There may be work."""
        with self._guard:
            calls = list(self._calls)
        for call in calls:
            call()

    def enter(self, call: Callable[[], None]) -> None:
        """Call *call* when there may be work."""
        with self._guard:
            self._calls.add(call)
        if not self.watched and not self._listens:
            self._listens = self._store.listen("", self._heard)

    def _heard(self, run_id: str | None) -> None:
        self.changed()

    def leave(self, call: Callable[[], None]) -> None:
        """Do not call it any more."""
        with self._guard:
            self._calls.discard(call)

    def wait(self, told: threading.Event, seconds: float) -> None:
        """Wait until there may be work, or it is time to look anyway. One of those who wait asks
        for all."""
        end = time.monotonic() + min(seconds, SLOWEST)
        if self.watched or self._listens or not self._polling.acquire(blocking=False):
            told.wait(min(seconds, SLOWEST))
            return
        try:
            while (left := end - time.monotonic()) > 0 and not told.wait(min(self._pause(), left)):
                self._ask()
        finally:
            self._polling.release()

    async def wait_async(
        self,
        told: asyncio.Event,
        seconds: float,
        aside: Callable[[Callable[[], None]], Awaitable[None]],
    ) -> None:
        """The same on a loop, which asks the store *aside*."""
        end = time.monotonic() + min(seconds, SLOWEST)
        mine = not (self.watched or self._listens) and self._polling.acquire(blocking=False)
        try:
            while (left := end - time.monotonic()) > 0 and not told.is_set():
                if mine:
                    await asyncio.sleep(min(self._pause(), left))
                    await aside(self._ask)
                else:
                    await _wait(told, left)
        finally:
            if mine:
                self._polling.release()

    def _pause(self) -> float:
        return next((pause for count, pause in PAUSES if self._quiet < count), QUIET)

    def _ask(self) -> None:
        self._quiet += 1
        if self._store.changed():
            self._quiet = 0
            self.changed()


async def _wait(told: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await told.wait()
    except TimeoutError:
        return
