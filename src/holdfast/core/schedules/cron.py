"""Compute the ticks of a cron expression in a time zone with daylight saving time. Instants are
whole seconds since 1970.

- An expression that names its seconds, minutes and hours (``30 2 * * *``) means a time of the day:
  a time that the clock skips ticks at the moment of the skip, a time that it shows twice ticks
  once.
- An expression in which the second, the minute or the hour begins with a star (``*/15 * * * *``)
  means elapsed time: it ticks whenever the clock shows a matching time.
"""

from __future__ import annotations

from datetime import datetime
from functools import cache
from typing import Any

from holdfast.core.schedules.time_zones import HOUR, NEAR, ZoneClock, naive, seconds
from holdfast.errors import BadSchedule

NAMED = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}

_ANY = datetime(2026, 1, 1)


class Cron:
    """The ticks of an expression of five fields, or six with the second first."""

    def __init__(self, text: str, zone: str) -> None:
        self.text = NAMED.get(text.strip().lower(), text)
        fields = self.text.split()
        try:
            _cronsim()(self.text, _ANY)
        except Exception as error:
            raise BadSchedule(cron=text, why=_why(str(error), len(fields))) from None
        self.of_the_day = not any(field.startswith("*") for field in fields[:-3])
        self._clock = ZoneClock(zone)

    def after(self, instant: int) -> int | None:
        """Return the first tick after *instant*; None if there is none within fifty years."""
        try:
            if self.of_the_day:
                return self._next_time(instant)
            return self._next_passing(instant)
        except OverflowError:  # beyond the year 9999
            return None

    def upto(self, instant: int) -> int | None:
        """Return the last tick up to *instant*; None if there was none within fifty years."""
        try:
            if self.of_the_day:
                return self._last_time(instant)
            return self._last_passing(instant)
        except OverflowError:
            return None

    # A time of the day: enumerate the matching local times, and convert each to its instant

    def _next_time(self, instant: int) -> int | None:
        local = self._local_after(self._clock.local(instant))
        while local is not None and self._clock.instant(local) <= instant:
            local = self._local_after(local)
        if local is None:
            return None
        return self._clock.instant(local)

    def _last_time(self, instant: int) -> int | None:
        latest = self._clock.local(instant)
        if not self._clock.is_steady(instant):  # a later local time may be an earlier instant
            latest += NEAR
        local = self._local_before(latest + 1)
        while local is not None and self._clock.instant(local) > instant:
            local = self._local_before(local)
        if local is None:
            return None
        return self._clock.instant(local)

    # Elapsed time: go from one change of the offset to the next

    def _next_passing(self, instant: int) -> int | None:
        clock = self._clock
        while True:
            offset = clock.offset(instant)
            local = self._local_after(instant + offset)
            if local is None:
                return None
            candidate = local - offset
            end = min(candidate, instant + NEAR)
            if clock.offset(end) != offset:
                instant = clock.change(instant, end)
                if self._matches(clock.local(instant)):
                    return instant
            elif end == candidate:
                return candidate
            else:  # skip ahead: no change of the offset can move a tick before this instant
                instant = max(end, candidate - NEAR + HOUR)

    def _last_passing(self, instant: int) -> int | None:
        clock = self._clock
        while True:
            offset = clock.offset(instant)
            local = self._local_before(instant + offset + 1)
            if local is None:
                return None
            candidate = local - offset
            begin = max(candidate, instant - NEAR)
            if clock.offset(begin) != offset:
                instant = clock.change(begin, instant) - 1
            elif begin == candidate:
                return candidate
            else:
                instant = min(begin, candidate + NEAR - HOUR)

    def _matches(self, local: int) -> bool:
        return self._local_after(local - 1) == local

    def _local_after(self, local: int) -> int | None:
        following = next(_cronsim()(self.text, naive(local)), None)
        if following is None:
            return None
        return seconds(following)

    def _local_before(self, local: int) -> int | None:
        previous = next(_cronsim()(self.text, naive(local), reverse=True), None)
        if previous is None:
            return None
        return seconds(previous)


@cache
def _cronsim() -> Any:
    """Return the class CronSim. Saves its import in programs without a cron schedule."""
    from cronsim import CronSim

    return CronSim


def _why(message: str, fields: int) -> str:
    if fields not in (5, 6):
        return (
            f"it has {fields} fields: write minute hour day month weekday, or six fields with the"
            " second first"
        )
    if message.startswith("Bad "):
        return f"its {message[4:]} cannot be read, or never comes"
    return f"it cannot be read: {message}"
