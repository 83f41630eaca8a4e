"""How long a client waits: one request at most a part of the time that its caller gives."""

from __future__ import annotations

import math
import time

from holdfast.core.duration import Duration, parse

POLL = 25.0
"""Seconds for which one request waits for the end of a run or graph."""


def ends_at(timeout: Duration | None) -> float:
    """Return the monotonic time at which a wait ends."""
    if timeout is None:
        return math.inf
    return time.monotonic() + parse(timeout) / 1_000_000
