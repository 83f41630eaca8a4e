"""Wait for the next commit: notified at once of commits of this process, of others by polling."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from holdfast.store.database import Hints

FASTEST = 0.005
SLOWEST = 0.05
"""Seconds between two checks: minimum, and maximum if commits of other processes are not
reported."""

WATCHED = 0.25
"""The maximum if the worker of this process reports them."""


class News:
    """The callers that wait for the next commit."""

    def __init__(self) -> None:
        self._waiting: set[Callable[[], None]] = set()
        self._guard = threading.Lock()
        self.watched = False
        """Whether ``changed`` is called when another process has committed."""

    def hinted(self, hints: Hints) -> None:
        """Notify waiters of a commit of this process. May be called by any thread."""
        if self._waiting:
            self.changed()

    def changed(self) -> None:
        """Notify all waiters of a commit."""
        with self._guard:
            waiting = list(self._waiting)
        for notify in waiting:
            notify()

    def listen(self) -> Listener:
        """Return a listener that blocks its thread while it waits."""
        return Listener(self)

    def listen_async(self) -> AsyncListener:
        """Return a listener for an asyncio program."""
        return AsyncListener(self)

    def enter(self, notify: Callable[[], None]) -> None:
        """Call *notify* after each commit."""
        with self._guard:
            self._waiting.add(notify)

    def leave(self, notify: Callable[[], None]) -> None:
        """Stop calling *notify*."""
        with self._guard:
            self._waiting.discard(notify)

    def slowest(self) -> float:
        """Return how many seconds to wait at most before the next check."""
        return WATCHED if self.watched else SLOWEST


class Listener:
    """Waits for commits, from its creation on: check, then wait, and no commit is missed in
    between."""

    def __init__(self, news: News) -> None:
        self._news = news
        self._event = threading.Event()
        self._pause = FASTEST
        news.enter(self._event.set)

    def wait(self, seconds: float | None = None) -> None:
        """Wait until something was committed since the last call, or the next check is due."""
        pause = self._pause if seconds is None else min(self._pause, seconds)
        if self._event.wait(pause):
            self._event.clear()
            self._pause = FASTEST
        else:
            self._pause = min(self._pause * 1.5, self._news.slowest())

    def close(self) -> None:
        """Stop listening."""
        self._news.leave(self._event.set)


class AsyncListener:
    """The same for a coroutine."""

    def __init__(self, news: News) -> None:
        self._news = news
        self._event = asyncio.Event()
        self._pause = FASTEST
        self._loop = asyncio.get_running_loop()
        news.enter(self._notify)

    def _notify(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._event.set)
        except RuntimeError:  # the loop is closed
            self._news.leave(self._notify)

    async def wait(self, seconds: float | None = None) -> None:
        """Wait until something was committed since the last call, or the next check is due."""
        pause = self._pause if seconds is None else min(self._pause, seconds)
        try:
            # Not wait_for: in Python 3.11 it loses a cancellation that coincides with the event.
            async with asyncio.timeout(pause):
                await self._event.wait()
        except TimeoutError:
            self._pause = min(self._pause * 1.5, self._news.slowest())
            return
        self._event.clear()
        self._pause = FASTEST
        await asyncio.sleep(0)

    def close(self) -> None:
        """Stop listening."""
        self._news.leave(self._notify)
