"""Waiting for a run to end: told at once when it ends in this process, found soon when it ends in another."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from holdfast.core.records import Run
from holdfast.core.status import FINAL, Status
from holdfast.store.contract import Hints

FASTEST, SLOWEST = 0.002, 0.05
WATCHED = 0.5
"""Seconds between looks when somebody tells us of the commits of other processes anyway."""

DONE = FINAL | {Status.STUCK}


class Results:
    """Who waits for which run."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[Callable[[], None]]] = {}
        self._guard = threading.Lock()
        self.watched = False
        """Whether ``changed`` is called when another process has committed."""

    def hinted(self, hints: Hints) -> None:
        """A commit of this process ended some runs. May come from any thread."""
        if self._waiting:
            for run_id in hints.finished:
                for call in self._waiting.get(run_id, ()):
                    call()

    def changed(self) -> None:
        """Another process has committed: whoever waits may look."""
        for calls in list(self._waiting.values()):
            for call in calls:
                call()

    def wait(self, run_id: str, look: Callable[[], Run], seconds: float | None, clock: Callable[[], float]) -> Run | None:
        """Block until the run has ended, or is stuck, and return it; None when time is up."""
        ended = threading.Event()
        self._enter(run_id, ended.set)
        try:
            limit = None if seconds is None else clock() + seconds
            pause = WATCHED if self.watched else FASTEST
            while True:
                ended.clear()  # before looking, not after
                run = look()
                if run.status in DONE:
                    return run
                left = pause if limit is None else min(pause, limit - clock())
                if left <= 0:
                    return None
                ended.wait(left)
                pause = self._longer(pause)
        finally:
            self._leave(run_id, ended.set)

    async def wait_async(self, run_id: str, look: Callable[[], Run], seconds: float | None) -> Run | None:
        """The same without blocking."""
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()

        def tell() -> None:
            loop.call_soon_threadsafe(ended.set)

        self._enter(run_id, tell)
        try:
            limit = None if seconds is None else loop.time() + seconds
            pause = WATCHED if self.watched else FASTEST
            while True:
                ended.clear()
                run = look()
                if run.status in DONE:
                    return run
                left = pause if limit is None else min(pause, limit - loop.time())
                if left <= 0:
                    return None
                try:
                    await asyncio.wait_for(ended.wait(), left)
                except TimeoutError:
                    pause = self._longer(pause)
        finally:
            self._leave(run_id, tell)

    def _longer(self, pause: float) -> float:
        return WATCHED if self.watched else min(pause * 1.3, SLOWEST)

    def _enter(self, run_id: str, call: Callable[[], None]) -> None:
        with self._guard:
            self._waiting.setdefault(run_id, []).append(call)

    def _leave(self, run_id: str, call: Callable[[], None]) -> None:
        with self._guard:
            left = [one for one in self._waiting.get(run_id, ()) if one != call]
            if left:
                self._waiting[run_id] = left
            else:
                self._waiting.pop(run_id, None)
