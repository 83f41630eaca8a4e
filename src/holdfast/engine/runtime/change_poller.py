"""Decide when to poll for commits of other processes: when the store notifies, else
periodically."""

from __future__ import annotations

import asyncio

LONG = 500
"""After so many polls without a change they become rare."""


class ChangePoller:
    """Waits for the next poll. Times are seconds."""

    def __init__(self, often: float, seldom: float) -> None:
        self._often = often
        self._seldom = seldom
        self._notified = asyncio.Event()
        self._idle_polls = 0
        self.is_notified = False
        """Whether ``notify`` is called when another process has committed."""

    def notify(self) -> None:
        """Make the next poll due. Call it on the loop."""
        self._notified.set()

    def reset(self) -> None:
        """Poll often again, because a change was found and more may follow."""
        self._idle_polls = 0

    async def wait(self) -> None:
        """Wait until the next poll is due.

        Never twice within the short interval, even if notified, to leave the loop to other work.
        """
        if not self.is_notified or self._idle_polls == 0:
            await asyncio.sleep(self._often if self._idle_polls < LONG else self._seldom)
        self._idle_polls += 1
        if self.is_notified and not self._notified.is_set():
            timer = asyncio.get_running_loop().call_later(self._seldom, self._notified.set)
            try:
                await self._notified.wait()
            finally:
                timer.cancel()
        self._notified.clear()  # before the poll: a notification during it must set it again
