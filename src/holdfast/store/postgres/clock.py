"""The clock of the database, without a query each time: its offset to this machine is measured.

Between measurements time passes by this machine's monotonic clock, which cannot be set. The clock
never goes back: if it turns out to be ahead of the database, it runs at half speed until the
database has caught up. A slow answer says little, because the instant at which it was given is
unknown: it moves the clock only as far as the answer contradicts it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

EVERY = 30_000_000
"""How long a measurement is valid, in microseconds."""

SET_BACK = 10_000_000
"""Microseconds. A clock that is ahead by more than this is so because the database's clock was
set back: it does not wait for the database to catch up."""

_ASK = "SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT) AS now"


class _ClockQuery(Protocol):
    def rows(self, sql: str) -> list[dict[str, int]]: ...


class DatabaseClock:
    """The time of the database, as this process knows it."""

    flows = True

    def __init__(self, tick: Callable[[], int] = time.monotonic_ns) -> None:
        self._guard = threading.Lock()
        self._tick = tick
        self._offset = self._last = self._ticked = 0
        self._measured: int | None = None

    def now(self) -> int:
        """Return the time in microseconds; never less than the last answer."""
        with self._guard:
            tick = self._tick() // 1000
            now = tick + self._offset
            ahead = self._last - now
            # Never back: at half speed until the database has caught up, or at full speed if its
            # clock was set back.
            if ahead > 0:
                passed = tick - self._ticked
                now = self._last + (passed if ahead > SET_BACK else passed // 2)
            self._last = now
            self._ticked = tick
            return now

    def not_before(self, instant: int) -> None:
        """Never answer less than *instant*."""
        with self._guard:
            if instant > self._last:
                self._last = instant
                self._ticked = self._tick() // 1000

    def is_stale(self) -> bool:
        """Return whether the offset must be measured again."""
        return self._measured is None or self._tick() // 1000 - self._measured > EVERY

    def measure(self, db: _ClockQuery, times: int = 1) -> None:
        """Measure the offset; of several answers the fastest one is the most exact."""
        best: tuple[int, int, int] | None = None
        for _ in range(times):
            asked = self._tick() // 1000
            answer = db.rows(_ASK)[0]["now"]
            came = self._tick() // 1000
            # Ordered by the time that the answer took, so that the least is the most exact one.
            measurement = (came - asked, answer - came, came)
            best = measurement if best is None else min(best, measurement)
        if best is not None:
            self._learn(*best)

    def _learn(self, took: int, least: int, at: int) -> None:
        """Correct the offset by a measurement.

        The true offset is between *least* (the answer was given at the last moment) and *least* +
        *took*.
        """
        with self._guard:
            known = least + took // 2 if self._measured is None else self._offset
            self._offset = min(max(known, least), least + took)
            self._measured = at

    def listen(self, moved: Callable[[], None]) -> None:
        """Do nothing: this clock is never moved by hand."""

    def unlisten(self, moved: Callable[[], None]) -> None:
        """Do nothing: this clock is never moved by hand."""
