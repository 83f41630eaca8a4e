"""Measure how long each callback holds an event loop: its duration without the time in which its
thread waited for a CPU."""

import asyncio
import threading
import time
from asyncio import events
from pathlib import Path


class LoopMonitor:
    """Measure every callback of the running loop inside the ``with`` block."""

    def __init__(self) -> None:
        self.held: list[float] = []
        self._loop = asyncio.get_running_loop()
        self._statistics = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat")
        self._run = events.Handle._run

    def __enter__(self) -> "LoopMonitor":
        run, loop, held, waited = self._run, self._loop, self.held, self._waited_for_a_cpu

        def measured(handle: asyncio.Handle) -> None:
            if handle._loop is not loop:
                return run(handle)
            begun, waited_before = time.perf_counter(), waited()
            try:
                return run(handle)
            finally:
                held.append(time.perf_counter() - begun - (waited() - waited_before))

        events.Handle._run = measured
        return self

    def __exit__(self, *_: object) -> None:
        events.Handle._run = self._run

    def percentile(self, share: float) -> float:
        """Return the seconds that *share* of the callbacks held the loop at most."""
        return sorted(self.held)[int(len(self.held) * share)]

    def _waited_for_a_cpu(self) -> float:
        """Return the seconds that this thread was ready but had no CPU; 0 if the system does not
        report them."""
        try:
            return int(self._statistics.read_text().split()[1]) / 1e9
        except OSError:
            return 0.0
