"""The clock of a store: the wall clock, but it never goes back.

If the wall clock is set back, the time continues from its last value; if it is set forward, the
time follows.
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
"""Return seconds that also pass while the machine sleeps, and that cannot be set: session lifetimes
are measured in them."""


class Clock(Protocol):
    """A clock that returns microseconds since 1970."""

    flows: bool
    """Whether time passes by itself, or only when the clock is moved by hand."""

    def now(self) -> int:
        """Return the time; never less than the last answer."""

    def not_before(self, instant: int) -> None:
        """Never return less than *instant* from now on."""

    def listen(self, moved: Callable[[], None]) -> None:
        """Call *moved* whenever the clock is moved by hand."""

    def unlisten(self, moved: Callable[[], None]) -> None:
        """Do not call *moved* any more."""


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
            if wall < self._last:  # the wall clock was set back: add the time that has passed
                wall = self._last + (tick - self._ticked) // 1000
            self._last = wall
            self._ticked = tick
            return wall

    def not_before(self, instant: int) -> None:
        """Never return less than *instant* from now on."""
        with self._guard:
            if instant > self._last:
                self._last = instant
                self._ticked = time.monotonic_ns()

    def listen(self, moved: Callable[[], None]) -> None:
        """Do nothing: this clock cannot be moved by hand."""

    def unlisten(self, moved: Callable[[], None]) -> None:
        """Do nothing: this clock cannot be moved by hand."""
