"""Wait for claimable runs: notified at once by commits of this process, else by listening or
polling."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable

from holdfast.store.database import Hints
from holdfast.store.store import Store

SLOWEST = 0.05
"""Maximum number of seconds between two checks: runs that become due by time cause no
notification."""

PAUSES = ((500, 0.0005), (1300, 0.001), (3300, 0.005))
QUIET = 0.02
"""Seconds between two polls for commits of other processes: the pauses of PAUSES until so many
polls found nothing, then this one."""


class Work:
    """The callers that wait for claimable runs."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._calls: set[Callable[[], None]] = set()
        self._guard = threading.Lock()
        self._polling = threading.Lock()
        self._quiet = 0
        self.watched = False
        """Whether ``changed`` is called by the worker when another process has committed."""
        self._listens = False
        """Whether the store calls ``changed`` when another process has committed."""

    def hinted(self, hints: Hints) -> None:
        """Notify waiters of a commit of this process. May be called by any thread."""
        if hints.ready and self._calls:
            self.changed()

    def changed(self) -> None:
        """Notify all waiters: there may be claimable runs."""
        with self._guard:
            calls = list(self._calls)
        for call in calls:
            call()

    def enter(self, call: Callable[[], None]) -> None:
        """Call *call* whenever there may be claimable runs."""
        with self._guard:
            self._calls.add(call)
        if not self.watched and not self._listens:
            self._listens = self._store.listen("", self._on_notification)

    def _on_notification(self, run_id: str | None) -> None:
        self.changed()

    def leave(self, call: Callable[[], None]) -> None:
        """Stop calling *call*."""
        with self._guard:
            self._calls.discard(call)

    def wait(self, wakeup: threading.Event, seconds: float) -> None:
        """Wait until there may be claimable runs, or the next check is due. One waiter polls for
        all."""
        end = time.monotonic() + min(seconds, SLOWEST)
        if self.watched or self._listens or not self._polling.acquire(blocking=False):
            wakeup.wait(min(seconds, SLOWEST))
            return
        try:
            while (left := end - time.monotonic()) > 0 and not wakeup.wait(
                min(self._pause(), left)
            ):
                self._poll()
        finally:
            self._polling.release()

    async def wait_async(
        self,
        wakeup: asyncio.Event,
        seconds: float,
        in_thread: Callable[[Callable[[], None]], Awaitable[None]],
    ) -> None:
        """Wait likewise on a loop; *in_thread* runs the poll of the store in a thread."""
        end = time.monotonic() + min(seconds, SLOWEST)
        polls = not (self.watched or self._listens) and self._polling.acquire(blocking=False)
        try:
            while (left := end - time.monotonic()) > 0 and not wakeup.is_set():
                if polls:
                    await asyncio.sleep(min(self._pause(), left))
                    await in_thread(self._poll)
                else:
                    await _wait(wakeup, left)
        finally:
            if polls:
                self._polling.release()

    def _pause(self) -> float:
        return next((pause for count, pause in PAUSES if self._quiet < count), QUIET)

    def _poll(self) -> None:
        self._quiet += 1
        if self._store.changed():
            self._quiet = 0
            self.changed()


async def _wait(wakeup: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await wakeup.wait()
    except TimeoutError:
        return
