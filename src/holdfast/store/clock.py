"""The store's clock: the wall clock that never goes back.

When the wall clock is set back, time goes on from where it was; when it is set forward, time
follows.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Protocol

uptime: Callable[[], float] = (
    partial(time.clock_gettime, time.CLOCK_BOOTTIME)
    if hasattr(time, "CLOCK_BOOTTIME")
    else time.monotonic
)
"""Return seconds that pass also while the machine sleeps, and that nothing sets: the life of a
session is measured in them."""


class Clock(Protocol):
    """Tells the time in microseconds since 1970."""

    flows: bool
    """Whether time passes by itself, or only when it is moved by hand."""

    def now(self) -> int:
        """Return the time; never less than the last answer."""

    def not_before(self, instant: int) -> None:
        """Never answer less than *instant*."""

    def listen(self, moved: Callable[[], None]) -> None:
        """Call *moved* whenever the clock is moved by hand."""

    def unlisten(self, moved: Callable[[], None]) -> None:
        """Do not call it any more."""


class WallClock:
    """The time of this machine."""

    flows = True

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._last = 0
        self._ticked = time.monotonic_ns()

    def now(self) -> int:
        """Return the time; never less than the last answer, and never standing still."""
        with self._guard:
            wall = time.time_ns() // 1000
            tick = time.monotonic_ns()
            if wall < self._last:  # the wall clock was set back: go on by the time that passed
                wall = self._last + (tick - self._ticked) // 1000
            self._last, self._ticked = wall, tick
            return wall

    def not_before(self, instant: int) -> None:
        """Never answer less than *instant*."""
        with self._guard:
            if instant > self._last:
                self._last, self._ticked = instant, time.monotonic_ns()

    def listen(self, moved: Callable[[], None]) -> None:
        """Nobody moves this clock."""

    def unlisten(self, moved: Callable[[], None]) -> None:
        """Nobody moves this clock."""
