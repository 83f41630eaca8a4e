"""Local time: where a zone's clock stands at an instant, and at which instant it shows a time.
Whole seconds since 1970.

The rule for clock changes is here, once: a time that the clock skips counts as the instant at which
it is put forward; a time that it shows twice counts as the first of the two.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cache
from typing import Any

from holdfast.errors import BadSchedule

EPOCH = datetime(1970, 1, 1)
HOUR, DAY = 3600, 86_400
NEAR = 30 * HOUR
"""Within this time a clock is put forward or back once at most, and by less."""

Offset = Callable[[int], int]


def zone_of(name: str) -> tzinfo:
    """Return the time zone of that name. Raises BadSchedule."""
    if not isinstance(name, str):
        raise BadSchedule(
            zone=name, why="a time zone is known by its name, such as Europe/Berlin or UTC"
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
    """Return what a clock in Greenwich shows."""
    return EPOCH + timedelta(seconds=seconds)


def seconds(shown: datetime) -> int:
    """Return when a clock in Greenwich shows this."""
    return (shown - EPOCH) // timedelta(seconds=1)


class ZoneClock:
    """The clock of one zone."""

    def __init__(self, name: str) -> None:
        self._zone = zone_of(name)

    def offset(self, instant: int) -> int:
        """By how many seconds the clock is ahead of Greenwich. Beyond the years that there are, as
        at their end."""
        if self._zone is UTC:
            return 0
        shown: Any = (naive(instant).replace(tzinfo=UTC)).astimezone(self._zone).utcoffset()
        return int(shown.total_seconds())

    def local(self, instant: int) -> int:
        """What the clock shows, as if it stood in Greenwich."""
        return instant + self.offset(instant)

    def change(self, before: int, after: int) -> int:
        """The instant after *before*, and up to *after*, from which on the clock has another
        offset; there is one."""
        was = self.offset(before)
        while after - before > 1:
            middle = (before + after) // 2
            if self.offset(middle) == was:
                before = middle
            else:
                after = middle
        return after

    def instant(self, local: int) -> int:
        """The instant at which the clock shows *local*: the first if there are two; when it skips
        it, that of the skip."""
        early, late = local - self.offset(local - DAY), local - self.offset(local + DAY)
        if early == late:
            return early
        if (
            self.local(early) == local
        ):  # the change is still to come, or it is shown twice: this is the first
            return early
        if self.local(late) == local:
            return late
        return self.change(late, early)

    def is_steady(self, instant: int) -> bool:
        """Say whether the clock is changed neither shortly before *instant* nor shortly after
        it."""
        return self.offset(instant - NEAR) == self.offset(instant) == self.offset(instant + NEAR)
