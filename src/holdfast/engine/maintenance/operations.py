"""Continue bulk operations whose processes have died."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class OperationKeeper:
    """Continues bulk operations in a thread, one after the other, when the leader finds that some
    are due."""

    def __init__(self) -> None:
        self.continue_due: Callable[[], None] = lambda: None
        """Continues the due operations, and blocks meanwhile. The engine of the worker sets it,
        because preparing a portion is a request."""
        self._due = asyncio.Event()

    def wake(self) -> None:
        """Continue the operations that are due, on the worker's loop."""
        self._due.set()

    async def forever(self) -> None:
        """Continue operations for ever."""
        loop = asyncio.get_running_loop()
        while True:
            await self._due.wait()
            # Before the call, not after it: an operation may become due meanwhile.
            self._due.clear()
            await loop.run_in_executor(None, self.continue_due)
