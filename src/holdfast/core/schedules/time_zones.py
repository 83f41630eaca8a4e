"""Convert between instants and the local time of a zone. Both are whole seconds since 1970.

The rule for clock changes is only here: a local time that the clock skips stands for the instant of
the skip; a local time that the clock shows twice stands for the first of the two instants.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cache
from typing import Any

from holdfast.errors import BadSchedule

EPOCH = datetime(1970, 1, 1)
HOUR = 3600
DAY = 86_400
NEAR = 30 * HOUR
"""Seconds within which the offset of a zone changes at most once, and by less than this."""

Offset = Callable[[int], int]


def zone_of(name: str) -> tzinfo:
    """Return the time zone of that name. Raises BadSchedule."""
    if not isinstance(name, str):
        raise BadSchedule(
            zone=name, why="it must be the name of a time zone, such as Europe/Berlin or UTC"
        )
    return _zone_of(name)


@cache
def _zone_of(name: str) -> tzinfo:
    if name == "UTC":
        return UTC
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError, TypeError):
        raise BadSchedule(
            zone=name,
            why="no time zone of that name is known: use one such as Europe/Berlin or UTC",
        ) from None


def naive(seconds: int) -> datetime:
    """Return seconds since 1970 as a naive datetime in UTC."""
    return EPOCH + timedelta(seconds=seconds)


def seconds(date: datetime) -> int:
    """Return a naive datetime in UTC as seconds since 1970."""
    return (date - EPOCH) // timedelta(seconds=1)


class ZoneClock:
    """The local clock of one time zone."""

    def __init__(self, name: str) -> None:
        self._zone = zone_of(name)

    def offset(self, instant: int) -> int:
        """Return the seconds by which the clock is ahead of UTC at *instant*. Raises OverflowError
        outside the years 1 to 9999."""
        if self._zone is UTC:
            return 0
        offset: Any = (naive(instant).replace(tzinfo=UTC)).astimezone(self._zone).utcoffset()
        return int(offset.total_seconds())

    def local(self, instant: int) -> int:
        """Return the local time at *instant*, in seconds since 1970 as if it were UTC."""
        return instant + self.offset(instant)

    def change(self, before: int, after: int) -> int:
        """Return the first instant after *before* at which the offset differs from the offset at
        *before*. The offset must change once up to *after*."""
        old_offset = self.offset(before)
        while after - before > 1:
            middle = (before + after) // 2
            if self.offset(middle) == old_offset:
                before = middle
            else:
                after = middle
        return after

    def instant(self, local: int) -> int:
        """Return the instant at which the clock shows *local*: the first if there are two, and the
        instant of the skip if the clock skips *local*."""
        early = local - self.offset(local - DAY)
        late = local - self.offset(local + DAY)
        if early == late:
            return early
        # by the old offset: *local* is before the change, or is the first of two
        if self.local(early) == local:
            return early
        if self.local(late) == local:
            return late
        return self.change(late, early)

    def is_steady(self, instant: int) -> bool:
        """Return whether the offset is the same shortly before and shortly after *instant*."""
        return self.offset(instant - NEAR) == self.offset(instant) == self.offset(instant + NEAR)
