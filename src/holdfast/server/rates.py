"""Limit the rate of requests per caller, in this process."""

from __future__ import annotations

import time

from holdfast.core.rate_limits import parse_rate

DEFAULT_RATE = "2000/s"

MOST_CALLERS = 10_000
"""Callers whose buckets are kept."""


class RequestRate:
    """A bucket of tokens per caller: a burst of one window is allowed."""

    def __init__(self, rate: str | None = DEFAULT_RATE) -> None:
        """Parse *rate*, such as ``100/s``; None for no limit. Raises BadOption."""
        self.text: str | None = rate
        self._limit: float = 0.0
        self._per_second: float = 0.0
        if rate is not None:
            parsed = parse_rate(rate, "rate")
            self._limit = float(parsed.limit)
            self._per_second = parsed.limit / (parsed.per / 1_000_000)
        self._buckets: dict[str, tuple[float, float]] = {}

    def admits(self, caller: str) -> bool:
        """Count a request of a caller, and return whether it is within the rate."""
        if self.text is None:
            return True
        now = time.monotonic()
        if len(self._buckets) >= MOST_CALLERS:
            self._buckets.clear()
        left, at = self._buckets.get(caller, (self._limit, now))
        left = min(self._limit, left + (now - at) * self._per_second)
        is_within = left >= 1
        self._buckets[caller] = (left - is_within, now)
        return is_within
