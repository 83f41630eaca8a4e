"""Wait for the end of runs: notified at once of ends in this process, of others by polling."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from itertools import islice

from holdfast.core.runs import RunRecord
from holdfast.core.status import FINAL, Status
from holdfast.engine.runtime.program_loop import LoopInbox
from holdfast.store.database import Hints

FASTEST = 0.002
SLOWEST = 0.05
WATCHED = 0.5
SELDOM = 5.0
"""Maximum number of seconds between two reads if the worker reports commits of other processes."""

DONE = FINAL | {Status.STUCK}

MOST = 20_000
PAGE = 500
"""How many started and ended runs are remembered, and how many ended ones are read together."""

FRESH = 1.0
"""Seconds for which a result that was read ahead is valid: a run may be replayed."""


class Results:
    """The callers that wait for the end of a run."""

    def __init__(self) -> None:
        self._waiting: dict[str, list[Callable[[], None]]] = {}
        self._guard = threading.Lock()
        self.watched = False
        """Whether ``changed`` is called when another process has committed."""
        self.is_held: Callable[[str], bool] = lambda run_id: False
        """Returns whether the worker of this process executes a run, or is about to."""
        self._expected: dict[str, None] = {}
        """Runs that were started here and have not ended here."""
        self._ended: dict[str, None] = {}
        self._read: dict[str, tuple[float, RunRecord]] = {}
        self._discards = 0
        """How often ``discard_reads`` was called: a read that began before a call must not be
        kept after it."""
        self._mailbox: LoopInbox | None = None

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

    def hinted(self, hints: Hints) -> None:
        """Notify the waiters of runs that a commit of this process has ended. May be called by
        any thread."""
        if not hints.finished:
            return
        if self._expected:
            with self._guard:
                self._ended.update(
                    dict.fromkeys(run_id for run_id in hints.finished if run_id in self._expected)
                )
                for run_id in hints.finished:
                    self._expected.pop(run_id, None)
        if self._waiting:
            for run_id in hints.finished:
                for call in self._waiting.get(run_id, ()):
                    call()

    def changed(self) -> None:
        """Notify all waiters of a commit of another process."""
        for calls in list(self._waiting.values()):
            for call in calls:
                call()

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
        ended = threading.Event()
        self._enter(run_id, ended.set)
        try:
            limit = None if seconds is None else clock() + seconds
            pause = WATCHED if self.watched else FASTEST
            read_at = clock() + SELDOM
            while (
                self._is_at_work(run_id)
                and not ended.is_set()
                and (left := _left(clock(), read_at, limit)) > 0
            ):
                ended.wait(min(pause, left))
            while True:
                ended.clear()  # before the read: an end during the read must set it again
                run = look()
                if run.status in DONE:
                    self._forget(run_id)
                    return run
                left = pause if limit is None else min(pause, limit - clock())
                if left <= 0:
                    return None
                ended.wait(left)
                pause = self._longer(pause)
        finally:
            self._leave(run_id, ended.set)

    async def wait_async(
        self, run_id: str, look: Callable[[], Awaitable[RunRecord]], seconds: float | None
    ) -> RunRecord | None:
        """Wait likewise on a loop."""
        loop = asyncio.get_running_loop()
        waiter = _ResultWaiter(loop)
        mailbox = self._mailbox_of(loop)

        def notify() -> None:
            with suppress(RuntimeError):  # the loop is closed, and with it every waiter
                mailbox.post(waiter.wake)

        self._enter(run_id, notify)
        try:
            limit = None if seconds is None else loop.time() + seconds
            pause = WATCHED if self.watched else FASTEST
            read_at = loop.time() + SELDOM
            while (
                self._is_at_work(run_id)
                and not waiter.woken
                and (left := _left(loop.time(), read_at, limit)) > 0
            ):
                await waiter.wait(min(pause, left))
            while True:
                waiter.woken = False  # before the read: an end during the read must set it again
                run = await look()
                if run.status in DONE:
                    self._forget(run_id)
                    return run
                left = pause if limit is None else min(pause, limit - loop.time())
                if left <= 0:
                    return None
                if not await waiter.wait(left):
                    pause = self._longer(pause)
        finally:
            self._leave(run_id, notify)

    def _mailbox_of(self, loop: asyncio.AbstractEventLoop) -> LoopInbox:
        """Return the inbox that wakes the waiters of a loop: one wake-up for all runs of a
        commit."""
        if self._mailbox is None or self._mailbox.loop is not loop:
            self._mailbox = LoopInbox(loop, float("inf"))
        return self._mailbox

    def _knows_end_of(self, run_id: str) -> bool:
        """Return whether a run is known to have ended here, so that its caller need not wait."""
        return run_id in self._read or run_id in self._ended

    def _is_at_work(self, run_id: str) -> bool:
        """Return whether a read would find the run unfinished, because this process executes it.

        Call it after ``_enter``, so that ``hinted`` reports an end that comes in between. A run
        that leaves memory without an end has no execution any more.
        """
        return run_id in self._expected and self.is_held(run_id)

    def _longer(self, pause: float) -> float:
        return min(max(pause, WATCHED) * 2, SELDOM) if self.watched else min(pause * 1.3, SLOWEST)

    def _enter(self, run_id: str, call: Callable[[], None]) -> None:
        with self._guard:
            self._waiting.setdefault(run_id, []).append(call)

    def _leave(self, run_id: str, call: Callable[[], None]) -> None:
        with self._guard:
            left = [waiter for waiter in self._waiting.get(run_id, ()) if waiter != call]
            if left:
                self._waiting[run_id] = left
            else:
                self._waiting.pop(run_id, None)


def _left(now: float, read_at: float, limit: float | None) -> float:
    """Return the seconds until the run is read although it is executed here, or until the
    timeout."""
    return read_at - now if limit is None else min(read_at, limit) - now


class _ResultWaiter:
    """Waits on a loop until it is woken, or for some time, without the task of
    ``asyncio.wait_for``."""

    __slots__ = ("_future", "_loop", "woken")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._future: asyncio.Future[None] | None = None
        self.woken = False

    def wake(self) -> None:
        """Wake the waiter, on its loop."""
        self.woken = True
        self._release()

    async def wait(self, seconds: float) -> bool:
        """Return whether it was woken, after at most so many seconds."""
        if not self.woken:
            self._future = self._loop.create_future()
            timer = self._loop.call_later(seconds, self._release)
            try:
                await self._future
            finally:
                timer.cancel()
        return self.woken

    def _release(self) -> None:
        if self._future is not None and not self._future.done():
            self._future.set_result(None)
