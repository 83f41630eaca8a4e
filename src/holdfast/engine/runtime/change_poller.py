"""Poll the store for commits of other processes, on behalf of everything in this process.

The worker polls while there is one. Without a worker, one of the waiting listeners polls for all of
them, unless the store can notify: then no one polls.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from holdfast.store.store import Store

PAUSES = ((500, 0.0005), (1300, 0.001), (3300, 0.005))
QUIET = 0.02
"""Seconds between two polls of listeners: the pauses of PAUSES until so many polls found nothing,
then this one."""

LONG = 500
"""After so many polls without a change the polls of the worker become rare."""


class ChangePoller:
    """Asks the store for commits of other processes, and decides when to ask next."""

    def __init__(self, store: Store, changed: Callable[[], None]) -> None:
        self._store: Store = store
        self._changed: Callable[[], None] = changed
        """Called when another process has committed."""
        self._idle_polls: int = 0
        self._turn = threading.Lock()
        """Held by the listener that polls for all."""
        self._listens: bool = False
        """Whether the store notifies, without a worker."""
        self.is_run_by_worker: bool = False
        """Whether the worker of this process polls, so that listeners need not."""
        self.is_notified: bool = False
        """Whether ``notify`` is called when another process has committed."""
        self._notified = asyncio.Event()

    def poll(self) -> bool:
        """Ask the store once. Return whether another process has committed."""
        self._idle_polls += 1
        if not self._store.changed():
            return False
        self._idle_polls = 0  # poll often again: more changes may follow
        self._changed()
        return True

    # Polls of listeners

    def begin_turn(self) -> bool:
        """Return whether the caller must poll for all listeners, until ``end_turn``."""
        if self.is_run_by_worker or self._listens:
            return False
        return self._turn.acquire(blocking=False)

    def end_turn(self) -> None:
        """Let another listener poll."""
        self._turn.release()

    def poll_or_listen(self) -> None:
        """Poll for listeners, or let the store notify from now on, if it can."""
        if self._listens:
            return
        if self.is_run_by_worker or not self._store.listen("", self._on_notification):
            self.poll()
            return
        self._listens = True
        self._changed()  # a commit may have come before the store began to notify

    def pause(self) -> float:
        """Return the seconds until the next poll of a listener."""
        return next((pause for count, pause in PAUSES if self._idle_polls < count), QUIET)

    def _on_notification(self, run_id: str | None) -> None:
        self._changed()

    # Polls of the worker

    def attach(self) -> None:
        """Let the worker poll: listeners need not, until ``detach``. Call it on its loop."""
        self._notified = asyncio.Event()
        self.is_run_by_worker = True

    def detach(self) -> None:
        """Let listeners poll again, because the worker has stopped."""
        self.is_run_by_worker = False
        self.is_notified = False
        self._listens = False  # the worker's own request to be notified has replaced it

    def notify(self) -> None:
        """Make the next poll of the worker due. Call it on the worker's loop."""
        self._notified.set()

    async def wait(self, often: float, seldom: float) -> None:
        """Wait until the next poll of the worker is due. Times are seconds.

        Never twice within the short interval, even if notified, to leave the loop to other work.
        """
        if not self.is_notified or self._idle_polls == 0:
            await asyncio.sleep(often if self._idle_polls < LONG else seldom)
        if self.is_notified and not self._notified.is_set():
            timer = asyncio.get_running_loop().call_later(seldom, self._notified.set)
            try:
                await self._notified.wait()
            finally:
                timer.cancel()
        self._notified.clear()  # before the poll: a notification during it must set it again
