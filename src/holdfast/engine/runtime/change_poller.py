"""When to ask whether another process has committed: as soon as the store says so, where it can,
and else again and again."""

from __future__ import annotations

import asyncio

LONG = 500
"""After so many questions in vain they become rare."""


class ChangePoller:
    """Waits for the next time to ask. Times are seconds."""

    def __init__(self, often: float, seldom: float) -> None:
        self._often, self._seldom = often, seldom
        self._rung = asyncio.Event()
        self._vain = 0
        self.rings = False
        """Whether ``ring`` is called when there is something."""

    def ring(self) -> None:
        """There may be something. On the loop."""
        self._rung.set()

    def heard(self) -> None:
        """There was something, so that there may soon be more."""
        self._vain = 0

    async def wait(self) -> None:
        """Wait until it is time to ask; never twice in a moment, for whoever answers has other
        things to do."""
        if not self.rings or self._vain == 0:
            await asyncio.sleep(self._often if self._vain < LONG else self._seldom)
        self._vain += 1
        if self.rings and not self._rung.is_set():
            alarm = asyncio.get_running_loop().call_later(self._seldom, self._rung.set)
            try:
                await self._rung.wait()
            finally:
                alarm.cancel()
        self._rung.clear()  # before the question, not after
