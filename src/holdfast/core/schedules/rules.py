"""The rules by which a schedule ticks: a cron expression, an interval, a list of dates, an ISO 8601
repetition.

A rule answers two questions about its ticks, which are microseconds since 1970: which is the first
after an instant, and which is the last up to one. All else follows from these.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import Any, Protocol

import msgspec

from holdfast.core import duration
from holdfast.core.schedules.cron import Cron
from holdfast.core.schedules.time_zones import ZoneClock, naive, seconds, zone_of
from holdfast.errors import BadDuration, BadSchedule

SECOND = 1_000_000
_FIRST = -62_135_596_800_000_000
"""The begin of the year 1, in microseconds since 1970."""

MOST_DATES = 10_000
KINDS = ("cron", "interval", "dates", "repeat")

_REPEAT = r"R(?P<count>[0-9]*)/(?:(?P<start>[^/P][^/]*)/)?(?P<period>P[^/]+)"
_PERIOD = (
    r"P(?:(?P<years>[0-9]+)Y)?(?:(?P<months>[0-9]+)M)?(?:(?P<weeks>[0-9]+)W)?"
    r"(?:(?P<days>[0-9]+)D)?(?P<time>T.+)?"
)


class TickRule(Protocol):
    """When a schedule ticks."""

    def after(self, instant: int) -> int | None:
        """The first tick after *instant*; None when there is none."""

    def upto(self, instant: int) -> int | None:
        """The last tick up to *instant*; None when there is none."""


def written(given: Mapping[str, Any], zone: str) -> str:
    """Return a rule as it is stored. Raises BadSchedule when there is not exactly one, or when it
    makes no sense."""
    named = [kind for kind in KINDS if given.get(kind) is not None]
    if len(named) != 1:
        why = "give one of cron, interval, dates and repeat" + (
            f", not {' and '.join(named)}" if named else ""
        )
        raise BadSchedule(why=why)
    zone_of(zone)
    kind = named[0]
    text = msgspec.json.encode({kind: _READ[kind](given[kind], zone)}).decode()
    read(text, zone, 0)
    return text


@lru_cache(maxsize=1024)
def read(text: str, zone: str, anchor: int) -> TickRule:
    """Return the rule that was stored. *anchor* is when the schedule was made: intervals count from
    there."""
    ((kind, value),) = msgspec.json.decode(text).items()
    if kind == "cron":
        return _BySeconds(Cron(value, zone))
    if kind == "interval":
        return _NumberedTicks(lambda k: anchor + (k + 1) * value)
    if kind == "dates":
        return _Listed(value)
    return _repetition(value, zone, anchor)


@lru_cache(maxsize=1024)
def fault(text: str) -> str | None:
    """Return why no schedule can follow a stored rule, or None. Whether the zone is known depends
    on the machine, and is not asked here.

    A rule that `written` returned has no fault. A damaged one must not be followed: the ticks of an
    interval of 0 never come to an end."""
    try:
        stored = msgspec.json.decode(text, type=dict[str, Any])
        kind, value = next(iter(stored.items()), ("", None))
        if len(stored) != 1 or kind not in KINDS:
            return f"the rule must be one of {', '.join(KINDS)}"
        if kind == "interval":
            is_long_enough = type(value) is int and SECOND <= value <= duration.LAST_INSTANT
            return (
                None
                if is_long_enough
                else "the interval must be a number of microseconds, a second or longer"
            )
        if kind == "dates":
            return _fault_of_dates(value)
        _READ[kind](value, "UTC")
    except (BadSchedule, msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        return str(error)
    return None


def _fault_of_dates(dates: Any) -> str | None:
    if not isinstance(dates, list) or not all(type(date) is int for date in dates):
        return "the dates must be a list of microseconds since 1970"
    if not dates or any(later <= earlier for earlier, later in pairwise(dates)):
        return "the dates must be in order, and there must be at least one"
    return None


def shown(text: str) -> str:
    """Write a rule for people."""
    ((kind, value),) = msgspec.json.decode(text).items()
    if kind == "interval":
        return f"every {duration.show(value)}"
    if kind == "dates":
        return f"{len(value)} dates" if len(value) > 1 else "1 date"
    return f"{kind} {value}"


class _BySeconds:
    def __init__(self, cron: Cron) -> None:
        self._cron = cron

    def after(self, instant: int) -> int | None:
        found = self._cron.after(instant // SECOND)
        return None if found is None else found * SECOND

    def upto(self, instant: int) -> int | None:
        found = self._cron.upto(instant // SECOND)
        return None if found is None else found * SECOND


class _Listed:
    def __init__(self, dates: list[int]) -> None:
        self._dates = dates

    def after(self, instant: int) -> int | None:
        place = bisect_right(self._dates, instant)
        return self._dates[place] if place < len(self._dates) else None

    def upto(self, instant: int) -> int | None:
        place = bisect_right(self._dates, instant)
        return self._dates[place - 1] if place else None


class _NumberedTicks:
    """Ticks that are numbered: the one of number *k* is later than that of number *k - 1*."""

    def __init__(self, tick: Callable[[int], int], count: int | None = None) -> None:
        self._tick, self._count = tick, count

    def after(self, instant: int) -> int | None:
        number = self._number_after(instant)
        return self._at(number)

    def upto(self, instant: int) -> int | None:
        number = self._number_after(instant)
        return self._at(number - 1) if number else None

    def _at(self, number: int) -> int | None:
        if self._count is not None and number >= self._count:
            return None
        try:
            return self._tick(number)
        except (OverflowError, ValueError):  # past the last year that there is
            return None

    def _number_after(self, instant: int) -> int:
        """Return the number of the first tick after *instant*, or one more than the last has."""
        low, high = 0, 1
        while self._is_upto(high - 1, instant):
            low, high = high, high * 2
        while low < high:
            middle = (low + high) // 2
            if self._is_upto(middle, instant):
                low = middle + 1
            else:
                high = middle
        return low

    def _is_upto(self, number: int, instant: int) -> bool:
        found = self._at(number)
        return found is not None and found <= instant


def _repetition(text: str, zone: str, anchor: int) -> TickRule:
    """``R5/2026-01-31T09:00/P1M``: years to days are counted by the calendar of the zone, from the
    start; hours pass."""
    count, start, months, days, micros = _parts(text)
    first = anchor if start is None else moment(datetime.fromisoformat(start), zone)
    skipped = (
        1 if start is None else 0
    )  # without a start it begins now, and its first tick is one period away
    clock = ZoneClock(zone)
    begin = naive(clock.local(first // SECOND))

    def tick(number: int) -> int:
        number += skipped
        if not months and not days:
            return first + number * micros
        shown = _later(begin, number * months) + timedelta(days=number * days)
        return clock.instant(seconds(shown)) * SECOND + first % SECOND + number * micros

    return _NumberedTicks(tick, count)


def _parts(text: str) -> tuple[int | None, str | None, int, int, int]:
    found = re.fullmatch(_REPEAT, text)
    period = re.fullmatch(_PERIOD, found["period"]) if found else None
    if found is None or period is None:
        raise BadSchedule(repeat=text, why="use R/PT10M, R5/P1D or R5/2026-12-24T18:00:00/P1D")
    numbers = {name: int(period[name] or 0) for name in ("years", "months", "weeks", "days")}
    try:
        micros = duration.parse(f"P{period['time']}") if period["time"] else 0
        if found["start"]:
            datetime.fromisoformat(found["start"])
    except (BadDuration, ValueError) as error:
        raise BadSchedule(repeat=text, why=str(error)) from None
    months, days = numbers["years"] * 12 + numbers["months"], numbers["weeks"] * 7 + numbers["days"]
    if not months and not days and micros < SECOND:
        raise BadSchedule(repeat=text, why="its period must be a second or longer")
    if found["count"] and int(found["count"]) < 1:
        raise BadSchedule(repeat=text, why="it must repeat at least once")
    return int(found["count"]) if found["count"] else None, found["start"], months, days, micros


def _later(shown: datetime, months: int) -> datetime:
    """A date so many months later; when that month is too short, its last day."""
    import calendar

    year, month = divmod(shown.year * 12 + shown.month - 1 + months, 12)
    if year > 9999:
        raise OverflowError
    return shown.replace(
        year=year, month=month + 1, day=min(shown.day, calendar.monthrange(year, month + 1)[1])
    )


def moment(given: datetime, zone: str) -> int:
    """Return a date and time as an instant; one that names no zone means the clock of *zone*.
    Raises BadSchedule for one that no date and time in UTC stands for."""
    if given.tzinfo is not None:
        found = (given - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
        if not _FIRST <= found < duration.LAST_INSTANT:
            raise BadSchedule(date=given, why="in UTC it lies outside the years 1 to 9999")
        return found
    return ZoneClock(zone).instant(seconds(given)) * SECOND + given.microsecond


# What people write


def _cron(value: Any, zone: str) -> str:
    if not isinstance(value, str):
        raise BadSchedule(cron=value, why="it is a text such as 0 9 * * 1-5")
    Cron(value, zone)
    return " ".join(value.split())


def _interval(value: Any, zone: str) -> int:
    try:
        micros = duration.parse(value)
    except BadDuration as error:
        raise BadSchedule(interval=value, why=str(error.facts.get("why", error))) from None
    if micros < SECOND:
        raise BadSchedule(interval=value, why="it must be a second or longer")
    return micros


def _dates(value: Any, zone: str) -> list[int]:
    if isinstance(value, str | bytes | datetime) or not isinstance(value, Iterable):
        raise BadSchedule(dates=value, why="it is a list of dates and times")
    found = sorted({_date(one, zone) for one in value})
    if not 0 < len(found) <= MOST_DATES:
        raise BadSchedule(dates=f"{len(found)} dates", why=f"give 1 to {MOST_DATES} of them")
    return found


def _date(value: Any, zone: str) -> int:
    try:
        return moment(datetime.fromisoformat(value) if isinstance(value, str) else value, zone)
    except (ValueError, AttributeError, TypeError):
        raise BadSchedule(
            date=value, why="it is no date and time such as 2026-12-24T18:00"
        ) from None


def _repeat(value: Any, zone: str) -> str:
    if not isinstance(value, str):
        raise BadSchedule(repeat=value, why="it is a text such as R5/2026-12-24T18:00:00/P1D")
    _parts(value)
    return value


_READ: dict[str, Callable[[Any, str], Any]] = {
    "cron": _cron,
    "interval": _interval,
    "dates": _dates,
    "repeat": _repeat,
}
