"""The database's clock without asking it each time: how far it is from this machine's is measured
now and then.

Between measurements time passes by this machine's monotonic clock, which nobody sets. It never goes
back: whoever turns out to be ahead goes at half speed until the others have caught up. An answer
that took long says little, for nobody knows when on its way it was given: it moves the clock only
as far as it contradicts it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

EVERY = 30_000_000
"""How long a measurement counts, in microseconds."""

SET_BACK = 10_000_000
"""Whoever is ahead by more than this is so because the database's clock was set back, and does not
wait for it."""

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
        """Return the time; never less than the last answer."""
        with self._guard:
            tick = self._tick() // 1000
            now = tick + self._offset
            ahead = self._last - now
            if ahead > 0:
                passed = tick - self._ticked
                now = self._last + (passed if ahead > SET_BACK else passed // 2)
            self._last, self._ticked = now, tick
            return now

    def not_before(self, instant: int) -> None:
        """Never answer less than *instant*."""
        with self._guard:
            if instant > self._last:
                self._last, self._ticked = instant, self._tick() // 1000

    def is_stale(self) -> bool:
        """Say whether it is time to measure again."""
        return self._measured is None or self._tick() // 1000 - self._measured > EVERY

    def measure(self, db: _ClockQuery, times: int = 1) -> None:
        """Ask the database; of several answers the one that came fastest is the most exact."""
        best: tuple[int, int, int] | None = None
        for _ in range(times):
            asked = self._tick() // 1000
            told = db.rows(_ASK)[0]["now"]
            came = self._tick() // 1000
            found = (came - asked, told - came, came)
            best = found if best is None else min(best, found)
        if best is not None:
            self._learn(*best)

    def _learn(self, took: int, least: int, at: int) -> None:
        """The true offset is between *least*, if the answer was given at the last moment, and
        *took* more than that."""
        with self._guard:
            known = least + took // 2 if self._measured is None else self._offset
            self._offset, self._measured = min(max(known, least), least + took), at

    def listen(self, moved: Callable[[], None]) -> None:
        """Nobody moves this clock."""

    def unlisten(self, moved: Callable[[], None]) -> None:
        """Nobody moves this clock."""
