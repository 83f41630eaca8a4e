"""Waiting for a run to end: told at once when it ends in this process, found soon when it ends in another."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import islice

from holdfast.core.records import Run
from holdfast.core.status import FINAL, Status
from holdfast.store.contract import Hints

FASTEST, SLOWEST = 0.002, 0.05
WATCHED = 0.5
"""Seconds between looks when somebody tells us of the commits of other processes anyway."""

DONE = FINAL | {Status.STUCK}

MOST, PAGE = 20_000, 500
"""How many runs somebody may ask for are remembered, and how many of those that have ended are read together."""

FRESH = 1.0
"""Seconds for which what was read together counts: a run may be replayed."""


class Results:
    """Who waits for which run."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[Callable[[], None]]] = {}
        self._guard = threading.Lock()
        self.watched = False
        """Whether ``changed`` is called when another process has committed."""
        self._expected: dict[str, None] = {}
        self._ended: dict[str, None] = {}
        self._read: dict[str, tuple[float, Run]] = {}

    def expect(self, run_ids: Iterable[str]) -> None:
        """Somebody has started these together, and will want to know what became of each."""
        with self._guard:
            self._expected.update(dict.fromkeys(run_ids))
            for found in (self._expected, self._ended):
                for run_id in list(islice(found, max(len(found) - MOST, 0))):
                    del found[run_id]

    def fetch(self, run_id: str, read: Callable[[Sequence[str]], list[Run]]) -> Run | None:
        """Return a run that has ended here; None if that is not known. Those that were started together are read together."""
        with self._guard:
            at, known = self._read.pop(run_id, (0.0, None))
            if known is not None and time.monotonic() - at < FRESH:
                return known
            if run_id not in self._ended:
                return None
            del self._ended[run_id]
            others = list(islice(self._ended, PAGE - 1))
            for other in others:
                del self._ended[other]
        at, found = time.monotonic(), {run.id: run for run in read([run_id, *others])}
        wanted = found.pop(run_id, None)
        with self._guard:
            for old in [one for one, (when, _) in self._read.items() if at - when >= FRESH]:
                del self._read[old]
            self._read.update((one, (at, run)) for one, run in found.items())
        return wanted

    def hinted(self, hints: Hints) -> None:
        """A commit of this process ended some runs. May come from any thread."""
        if self._expected:
            with self._guard:
                self._ended.update(dict.fromkeys(run_id for run_id in hints.finished if run_id in self._expected))
                for run_id in hints.finished:
                    self._expected.pop(run_id, None)
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
        if self._knows_end_of(run_id) and (run := look()).status in DONE:
            return run
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
        if self._knows_end_of(run_id) and (run := look()).status in DONE:
            return run
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

    def _knows_end_of(self, run_id: str) -> bool:
        """Say whether a run that was started together with others has ended here: then nobody need wait for it."""
        return run_id in self._read or run_id in self._ended

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
