"""Wait for the end of runs, and read runs that ended at about the same time together.

A run that was started here, and that this process executes, is not read until its end is reported.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from itertools import islice

from holdfast.core.runs import RunRecord
from holdfast.core.status import FINAL, Status
from holdfast.engine.runtime.notifier import CommitNotifier, ResultReady
from holdfast.store.database import Hints

SELDOM = 5.0
"""Seconds after which a run is read although this process executes it."""

OFTEN = 0.5
"""Seconds between two checks whether this process still executes a run: it may leave memory
without an end."""

DONE = FINAL | {Status.STUCK}

MOST = 20_000
PAGE = 500
"""How many started and ended runs are remembered, and how many ended ones are read together."""

FRESH = 1.0
"""Seconds for which a result that was read ahead is valid: a run may be replayed."""


class EndedRuns:
    """The runs that were started here, and the ends of them that no caller has read yet."""

    def __init__(self, notifier: CommitNotifier) -> None:
        self._notifier = notifier
        notifier.on_commit.append(self.committed)
        self._guard = threading.Lock()
        self.is_held: Callable[[str], bool] = lambda run_id: False
        """Returns whether the worker of this process executes a run, or is about to."""
        self._expected: dict[str, None] = {}
        """Runs that were started here and have not ended here."""
        self._ended: dict[str, None] = {}
        self._read: dict[str, tuple[float, RunRecord]] = {}
        self._discards = 0
        """How often ``discard_reads`` was called: a read that began before a call must not be
        kept after it."""

    def expect(self, run_ids: Iterable[str]) -> None:
        """Remember runs that this process has started, before its worker executes any of them."""
        with self._guard:
            self._expected.update(dict.fromkeys(run_ids))
            for remembered in (self._expected, self._ended):
                for run_id in list(islice(remembered, max(len(remembered) - MOST, 0))):
                    del remembered[run_id]

    def fetch(
        self, run_id: str, read: Callable[[Sequence[str]], list[RunRecord]]
    ) -> RunRecord | None:
        """Return a run that has ended here; None if that is not known.

        Runs that ended at about the same time are read together, which saves a query each.
        """
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
            discards = self._discards
        # Outside the guard: the thread that commits takes it, and must not wait for a query.
        at = time.monotonic()
        runs = {run.id: run for run in read([run_id, *others])}
        wanted = runs.pop(run_id, None)
        with self._guard:
            for old in [
                other_id for other_id, (when, _) in self._read.items() if at - when >= FRESH
            ]:
                del self._read[old]
            if discards == self._discards:
                self._read.update((other_id, (at, run)) for other_id, run in runs.items())
        return wanted

    def discard_reads(self) -> None:
        """Discard results that were read ahead, after a call that may change a finished run
        (``replay``)."""
        if self._read or self._ended:
            with self._guard:
                self._discards += 1
                self._read.clear()

    def _forget(self, run_id: str) -> None:
        """Forget a run whose end is returned to its caller.

        The worker may report that end only later. Then it must not be read ahead: the next caller
        would get a result that may have been replaced since.
        """
        if run_id in self._expected or run_id in self._ended:
            with self._guard:
                self._expected.pop(run_id, None)
                self._ended.pop(run_id, None)

    def committed(self, hints: Hints) -> None:
        """Remember the runs that a commit of this process has ended. May be called by any
        thread."""
        if hints.finished and self._expected:
            with self._guard:
                for run_id in hints.finished:
                    if run_id in self._expected:
                        del self._expected[run_id]
                        self._ended[run_id] = None

    def wait(
        self,
        run_id: str,
        look: Callable[[], RunRecord],
        seconds: float | None,
        clock: Callable[[], float],
    ) -> RunRecord | None:
        """Block until the run has ended, or is stuck, and return it; None after the timeout."""
        if self._knows_end_of(run_id) and (run := look()).status in DONE:
            self._forget(run_id)
            return run
        listener = self._notifier.subscribe(ResultReady(run_id))
        try:
            limit = None if seconds is None else clock() + seconds
            read_at = clock() + SELDOM
            while self._is_at_work(run_id) and (left := _left(clock(), read_at, limit)) > 0:
                if listener.wait(min(left, OFTEN)):
                    break
            while True:
                run = look()
                if run.status in DONE:
                    self._forget(run_id)
                    return run
                if limit is None:
                    listener.wait()
                elif (rest := limit - clock()) > 0:
                    listener.wait(rest)
                else:
                    return None
        finally:
            listener.close()

    async def wait_async(
        self, run_id: str, look: Callable[[], Awaitable[RunRecord]], seconds: float | None
    ) -> RunRecord | None:
        """Wait likewise on a loop."""
        clock = asyncio.get_running_loop().time
        listener = self._notifier.subscribe_async(ResultReady(run_id))
        try:
            limit = None if seconds is None else clock() + seconds
            read_at = clock() + SELDOM
            while self._is_at_work(run_id) and (left := _left(clock(), read_at, limit)) > 0:
                if await listener.wait(min(left, OFTEN)):
                    break
            while True:
                run = await look()
                if run.status in DONE:
                    self._forget(run_id)
                    return run
                if limit is None:
                    await listener.wait()
                elif (rest := limit - clock()) > 0:
                    await listener.wait(rest)
                else:
                    return None
        finally:
            listener.close()

    def _knows_end_of(self, run_id: str) -> bool:
        """Return whether a run is known to have ended here, so that its caller need not wait."""
        return run_id in self._read or run_id in self._ended

    def _is_at_work(self, run_id: str) -> bool:
        """Return whether a read would find the run unfinished, because this process executes it.

        Call it after subscribing, so that the listener is notified of an end that comes in between.
        A run that leaves memory without an end has no execution any more.
        """
        return run_id in self._expected and self.is_held(run_id)


def _left(now: float, read_at: float, limit: float | None) -> float:
    """Return the seconds until the run is read although it is executed here, or until the
    timeout."""
    if limit is None:
        return read_at - now
    return min(read_at, limit) - now
