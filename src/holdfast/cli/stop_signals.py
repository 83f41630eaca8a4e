"""``StopSignals``: SIGTERM and SIGINT as events of the running loop."""

from __future__ import annotations

import asyncio
import contextlib
import signal


class StopSignals:
    """Events that SIGTERM and SIGINT set: the first and the second signal."""

    def __init__(self) -> None:
        self.first = asyncio.Event()
        self.second = asyncio.Event()
        self.number = 0
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            with contextlib.suppress(NotImplementedError):  # Windows: Ctrl-C ends the loop instead
                loop.add_signal_handler(number, self._on_signal, number)

    def _on_signal(self, number: int) -> None:
        self.number = number
        event = self.second if self.first.is_set() else self.first
        event.set()
