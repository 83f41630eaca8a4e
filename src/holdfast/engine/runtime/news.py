"""Waiting for something to be committed: told at once when that happens in this process, found soon
when in another."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from holdfast.store.contract import Hints

FASTEST, SLOWEST = 0.005, 0.05
"""Seconds between two looks, at least and, when nobody tells us of other processes, at most."""

WATCHED = 0.25
"""The same when the worker of this process tells us of them."""


class News:
    """Who waits for whatever is committed next."""

    def __init__(self) -> None:
        self._waiting: set[Callable[[], None]] = set()
        self._guard = threading.Lock()
        self.watched = False
        """Whether ``changed`` is called when another process has committed."""

    def hinted(self, hints: Hints) -> None:
        """A commit of this process. May come from any thread."""
        if self._waiting:
            self.changed()

    def changed(self) -> None:
        """Something was committed somewhere."""
        with self._guard:
            waiting = list(self._waiting)
        for tell in waiting:
            tell()

    def listen(self) -> Listener:
        """Return a listener that blocks its thread while it waits."""
        return Listener(self)

    def listen_async(self) -> AsyncListener:
        """Return a listener for an asyncio program."""
        return AsyncListener(self)

    def enter(self, tell: Callable[[], None]) -> None:
        """Call *tell* whenever something is committed."""
        with self._guard:
            self._waiting.add(tell)

    def leave(self, tell: Callable[[], None]) -> None:
        """Do not call it any more."""
        with self._guard:
            self._waiting.discard(tell)

    def slowest(self) -> float:
        """Say how long to wait at most before looking again."""
        return WATCHED if self.watched else SLOWEST


class Listener:
    """Waits for news. It hears from the moment it is made: look, then wait, and nothing is missed
    in between."""

    def __init__(self, news: News) -> None:
        self._news, self._event, self._pause = news, threading.Event(), FASTEST
        news.enter(self._event.set)

    def wait(self, seconds: float | None = None) -> None:
        """Wait until something was committed since the last call, or it is time to look anyway."""
        pause = self._pause if seconds is None else min(self._pause, seconds)
        if self._event.wait(pause):
            self._event.clear()
            self._pause = FASTEST
        else:
            self._pause = min(self._pause * 1.5, self._news.slowest())

    def close(self) -> None:
        """Hear no more."""
        self._news.leave(self._event.set)


class AsyncListener:
    """The same for a coroutine."""

    def __init__(self, news: News) -> None:
        self._news, self._event, self._pause = news, asyncio.Event(), FASTEST
        self._loop = asyncio.get_running_loop()
        news.enter(self._tell)

    def _tell(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._event.set)
        except RuntimeError:  # the loop is closed
            self._news.leave(self._tell)

    async def wait(self, seconds: float | None = None) -> None:
        """Wait until something was committed since the last call, or it is time to look anyway."""
        pause = self._pause if seconds is None else min(self._pause, seconds)
        try:
            async with asyncio.timeout(
                pause
            ):  # wait_for of Python 3.11 loses a cancellation that meets the news
                await self._event.wait()
        except TimeoutError:
            self._pause = min(self._pause * 1.5, self._news.slowest())
            return
        self._event.clear()
        self._pause = FASTEST
        await asyncio.sleep(0)

    def close(self) -> None:
        """Hear no more."""
        self._news.leave(self._tell)
