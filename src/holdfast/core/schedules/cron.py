"""When a cron expression ticks, in a zone whose clock is changed twice a year. Whole seconds since
1970.

An expression that names its hours and minutes (``30 2 * * *``) means a time of the day: a time that
does not exist is made up for when the clock is put forward, a time that comes twice ticks once. One
in which the second, the minute or the hour begins with a star (``*/15 * * * *``) means the passing
of time: it ticks whenever the clock shows a time that fits.
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
            _simulated()(self.text, _ANY)
        except Exception as error:
            raise BadSchedule(cron=text, why=_why(str(error), len(fields))) from None
        self.of_the_day = not any(field.startswith("*") for field in fields[:-3])
        self._clock = ZoneClock(zone)

    def after(self, instant: int) -> int | None:
        """The first tick after *instant*; None when there is none within fifty years."""
        try:
            return self._next_time(instant) if self.of_the_day else self._next_passing(instant)
        except OverflowError:  # past the last year that there is
            return None

    def upto(self, instant: int) -> int | None:
        """The last tick up to *instant*; None when there was none within fifty years."""
        try:
            return self._last_time(instant) if self.of_the_day else self._last_passing(instant)
        except OverflowError:
            return None

    # A time of the day: look through what the clock shows, and see when it shows it

    def _next_time(self, instant: int) -> int | None:
        shown = self._shown_after(self._clock.local(instant))
        while shown is not None and self._clock.instant(shown) <= instant:
            shown = self._shown_after(shown)
        return None if shown is None else self._clock.instant(shown)

    def _last_time(self, instant: int) -> int | None:
        local = self._clock.local(instant)
        shown = self._shown_before((local if self._clock.is_steady(instant) else local + NEAR) + 1)
        while shown is not None and self._clock.instant(shown) > instant:
            shown = self._shown_before(shown)
        return None if shown is None else self._clock.instant(shown)

    # The passing of time: go from one change of the clock to the next

    def _next_passing(self, instant: int) -> int | None:
        clock = self._clock
        while True:
            offset = clock.offset(instant)
            shown = self._shown_after(instant + offset)
            if shown is None:
                return None
            found = shown - offset
            end = min(found, instant + NEAR)
            if clock.offset(end) != offset:
                instant = clock.change(instant, end)
                if self._fits(clock.local(instant)):
                    return instant
            elif end == found:
                return found
            else:
                instant = max(
                    end, found - NEAR + HOUR
                )  # nothing ticks before, whatever the clock does

    def _last_passing(self, instant: int) -> int | None:
        clock = self._clock
        while True:
            offset = clock.offset(instant)
            shown = self._shown_before(instant + offset + 1)
            if shown is None:
                return None
            found = shown - offset
            begin = max(found, instant - NEAR)
            if clock.offset(begin) != offset:
                instant = clock.change(begin, instant) - 1
            elif begin == found:
                return found
            else:
                instant = min(begin, found + NEAR - HOUR)

    def _fits(self, shown: int) -> bool:
        return self._shown_after(shown - 1) == shown

    def _shown_after(self, shown: int) -> int | None:
        found = next(_simulated()(self.text, naive(shown)), None)
        return None if found is None else seconds(found)

    def _shown_before(self, shown: int) -> int | None:
        found = next(_simulated()(self.text, naive(shown), reverse=True), None)
        return None if found is None else seconds(found)


@cache
def _simulated() -> Any:
    """Imported when the first cron is met: most programs have none."""
    from cronsim import CronSim

    return CronSim


def _why(trouble: str, fields: int) -> str:
    if fields not in (5, 6):
        return (
            f"it has {fields} fields: minute hour day month weekday, and a second before them if"
            " need be"
        )
    if trouble.startswith("Bad "):
        return f"its {trouble[4:]} cannot be read, or never comes"
    return f"it cannot be read: {trouble}"
