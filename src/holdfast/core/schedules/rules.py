"""The rules by which a schedule ticks: a cron expression, an interval, a list of dates, an ISO 8601
repetition.

A rule answers two queries about its ticks, which are microseconds since 1970: the first tick after
an instant, and the last tick up to an instant. Everything else is derived from these two.
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

from holdfast.core import duration, typed_json
from holdfast.core.schedules.cron import Cron
from holdfast.core.schedules.cron_words import in_words
from holdfast.core.schedules.time_zones import ZoneClock, naive, seconds, zone_of
from holdfast.errors import BadDuration, BadSchedule

SECOND = 1_000_000
_FIRST = -62_135_596_800_000_000
"""The start of the year 1, in microseconds since 1970."""

MOST_DATES = 10_000
KINDS = ("cron", "interval", "dates", "repeat")

_REPEAT = r"R(?P<count>[0-9]*)/(?:(?P<start>[^/P][^/]*)/)?(?P<period>P[^/]+)"
_PERIOD = (
    r"P(?:(?P<years>[0-9]+)Y)?(?:(?P<months>[0-9]+)M)?(?:(?P<weeks>[0-9]+)W)?"
    r"(?:(?P<days>[0-9]+)D)?(?P<time>T.+)?"
)


class TickRule(Protocol):
    """The ticks of a schedule."""

    def after(self, instant: int) -> int | None:
        """Return the first tick after *instant*; None if there is none."""

    def upto(self, instant: int) -> int | None:
        """Return the last tick up to *instant*; None if there is none."""


def rule_text(options: Mapping[str, Any], zone: str) -> str:
    """Return the rule that the options of a schedule contain, in its stored form. Raises
    BadSchedule if there is not exactly one rule, or if it is not valid."""
    named = [kind for kind in KINDS if options.get(kind) is not None]
    if len(named) != 1:
        why = "give one of cron, interval, dates and repeat"
        raise BadSchedule(why=f"{why}, not {' and '.join(named)}" if named else why)
    zone_of(zone)
    kind = named[0]
    text = msgspec.json.encode({kind: _READ[kind](options[kind], zone)}).decode()
    read(text, zone, 0)
    return text


@lru_cache(maxsize=1024)
def read(text: str, zone: str, anchor: int) -> TickRule:
    """Return the rule of a stored text. *anchor* is the time at which the schedule was created:
    intervals count from there."""
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
    """Return the fault of a stored rule; None if it is valid. Whether the zone is known depends on
    the machine, and is not checked here.

    A rule that `written` returned has no fault. A damaged one must not be used: enumerating the
    ticks of an interval of 0 would never end."""
    try:
        stored = typed_json.decode(text, dict[str, Any])
        kind, value = next(iter(stored.items()), ("", None))
        if len(stored) != 1 or kind not in KINDS:
            return f"the rule must be one of {', '.join(KINDS)}"
        if kind == "interval":
            if type(value) is int and SECOND <= value <= duration.LAST_INSTANT:
                return None
            return "the interval must be a number of microseconds, a second or longer"
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


@lru_cache(maxsize=1024)
def describe_rule(text: str) -> str:
    """Return a stored rule as a text for people."""
    ((kind, value),) = msgspec.json.decode(text).items()
    if kind == "interval":
        return f"every {duration.show(value)}"
    if kind == "dates":
        if len(value) > 1:
            return f"{len(value)} dates"
        return "1 date"
    words = in_words(value) if kind == "cron" else None
    if words is not None:
        return f"{words} (cron {value})"
    return f"{kind} {value}"


class _BySeconds:
    """The ticks of a cron expression, converted from seconds to microseconds."""

    def __init__(self, cron: Cron) -> None:
        self._cron = cron

    def after(self, instant: int) -> int | None:
        tick = self._cron.after(instant // SECOND)
        if tick is None:
            return None
        return tick * SECOND

    def upto(self, instant: int) -> int | None:
        tick = self._cron.upto(instant // SECOND)
        if tick is None:
            return None
        return tick * SECOND


class _Listed:
    """The ticks of a sorted list of dates."""

    def __init__(self, dates: list[int]) -> None:
        self._dates = dates

    def after(self, instant: int) -> int | None:
        place = bisect_right(self._dates, instant)
        if place < len(self._dates):
            return self._dates[place]
        return None

    def upto(self, instant: int) -> int | None:
        place = bisect_right(self._dates, instant)
        if not place:
            return None
        return self._dates[place - 1]


class _NumberedTicks:
    """Ticks that a function computes from their number. Tick *k* is later than tick *k - 1*, so
    that a binary search finds the tick of an instant."""

    def __init__(self, tick: Callable[[int], int], count: int | None = None) -> None:
        self._tick = tick
        self._count = count

    def after(self, instant: int) -> int | None:
        number = self._number_after(instant)
        return self._at(number)

    def upto(self, instant: int) -> int | None:
        number = self._number_after(instant)
        if not number:
            return None
        return self._at(number - 1)

    def _at(self, number: int) -> int | None:
        if self._count is not None and number >= self._count:
            return None
        try:
            return self._tick(number)
        except (OverflowError, ValueError):  # beyond the year 9999
            return None

    def _number_after(self, instant: int) -> int:
        """Return the number of the first tick after *instant*, or the number after the last
        tick."""
        low = 0
        high = 1
        while self._is_upto(high - 1, instant):
            low = high
            high *= 2
        while low < high:
            middle = (low + high) // 2
            if self._is_upto(middle, instant):
                low = middle + 1
            else:
                high = middle
        return low

    def _is_upto(self, number: int, instant: int) -> bool:
        tick = self._at(number)
        return tick is not None and tick <= instant


def _repetition(text: str, zone: str, anchor: int) -> TickRule:
    """Return the rule of a repetition such as ``R5/2026-01-31T09:00/P1M``.

    Years, months, weeks and days are counted from the start by the calendar of the zone; hours,
    minutes and seconds are elapsed time."""
    count, start, months, days, micros = _parts(text)
    if start is None:
        # the repetition begins at the anchor, and its first tick is one period later
        first = anchor
        skipped = 1
    else:
        first = moment(datetime.fromisoformat(start), zone)
        skipped = 0
    clock = ZoneClock(zone)
    begin = naive(clock.local(first // SECOND))

    def tick(number: int) -> int:
        number += skipped
        if not months and not days:
            return first + number * micros
        local = _add_months(begin, number * months) + timedelta(days=number * days)
        return clock.instant(seconds(local)) * SECOND + first % SECOND + number * micros

    return _NumberedTicks(tick, count)


def _parts(text: str) -> tuple[int | None, str | None, int, int, int]:
    """Return the count, the start, and the months, days and microseconds of the period. Raises
    BadSchedule."""
    repetition = re.fullmatch(_REPEAT, text)
    period = re.fullmatch(_PERIOD, repetition["period"]) if repetition else None
    if repetition is None or period is None:
        raise BadSchedule(repeat=text, why="use R/PT10M, R5/P1D or R5/2026-12-24T18:00:00/P1D")
    numbers = {name: int(period[name] or 0) for name in ("years", "months", "weeks", "days")}
    try:
        micros = duration.parse(f"P{period['time']}") if period["time"] else 0
        if repetition["start"]:
            datetime.fromisoformat(repetition["start"])
    except (BadDuration, ValueError) as error:
        raise BadSchedule(repeat=text, why=str(error)) from None
    months = numbers["years"] * 12 + numbers["months"]
    days = numbers["weeks"] * 7 + numbers["days"]
    if not months and not days and micros < SECOND:
        raise BadSchedule(repeat=text, why="its period must be a second or longer")
    count = int(repetition["count"]) if repetition["count"] else None
    if count is not None and count < 1:
        raise BadSchedule(repeat=text, why="it must repeat at least once")
    return count, repetition["start"], months, days, micros


def _add_months(date: datetime, months: int) -> datetime:
    """Return a date *months* later; the last day of that month if the month is too short."""
    import calendar

    year, month = divmod(date.year * 12 + date.month - 1 + months, 12)
    if year > 9999:
        raise OverflowError
    last_day = calendar.monthrange(year, month + 1)[1]
    return date.replace(year=year, month=month + 1, day=min(date.day, last_day))


def moment(date: datetime, zone: str) -> int:
    """Return the instant of a date and time; a date without a time zone is local time in *zone*.

    Raises BadSchedule if the date is outside the years 1 to 9999 in UTC."""
    if date.tzinfo is not None:
        instant = (date - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
        if not _FIRST <= instant < duration.LAST_INSTANT:
            raise BadSchedule(date=date, why="in UTC it lies outside the years 1 to 9999")
        return instant
    return ZoneClock(zone).instant(seconds(date)) * SECOND + date.microsecond


# Options as users write them


def _cron(value: Any, zone: str) -> str:
    if not isinstance(value, str):
        raise BadSchedule(cron=value, why="it must be a text such as 0 9 * * 1-5")
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
        raise BadSchedule(dates=value, why="it must be a list of dates and times")
    dates = sorted({_date(item, zone) for item in value})
    if not 0 < len(dates) <= MOST_DATES:
        raise BadSchedule(dates=f"{len(dates)} dates", why=f"give 1 to {MOST_DATES} of them")
    return dates


def _date(value: Any, zone: str) -> int:
    try:
        return moment(datetime.fromisoformat(value) if isinstance(value, str) else value, zone)
    except (ValueError, AttributeError, TypeError):
        raise BadSchedule(
            date=value, why="it must be a date and time such as 2026-12-24T18:00"
        ) from None


def _repeat(value: Any, zone: str) -> str:
    if not isinstance(value, str):
        raise BadSchedule(repeat=value, why="it must be a text such as R5/2026-12-24T18:00:00/P1D")
    _parts(value)
    return value


_READ: dict[str, Callable[[Any, str], Any]] = {
    "cron": _cron,
    "interval": _interval,
    "dates": _dates,
    "repeat": _repeat,
}
