"""Times of timer events: ISO 8601 durations, dates and cycles, and cron texts. Pure: the caller
supplies the instant from which a time counts.

A day and a month are those of the calendar in the zone of the start, so a cycle that begins at nine
in Berlin stays at nine when the clocks change. Without a zone, the zone is UTC.
"""

from __future__ import annotations

import calendar
import re
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from holdfast.core.schedules.cron import Cron
from holdfast.errors import BadDuration, BadSchedule

SECOND = 1_000_000
DAY = 86_400 * SECOND
_LAST = datetime(9999, 1, 1, tzinfo=UTC)

_PERIOD = re.compile(
    r"P(?=[\dT])(?:(?P<years>\d+)Y)?(?:(?P<months>\d+)M)?(?:(?P<weeks>\d+)W)?(?:(?P<days>\d+)D)?"
    r"(?:T(?=\d)(?:(?P<hours>\d+(?:[.,]\d+)?)H)?(?:(?P<minutes>\d+(?:[.,]\d+)?)M)?"
    r"(?:(?P<seconds>\d+(?:[.,]\d+)?)S)?)?"
)
_CYCLE = re.compile(r"R(?P<count>-?\d*)/(?P<rest>.+)")
_ATTEMPTS = re.compile(r"R(\d+)/(\S+)")
_SLASH = re.compile(r"/(?![^\[]*\])")
"""A slash between the parts of a cycle, not one in the name of a zone."""
_ZONE = re.compile(r"(?P<text>.*)\[(?P<zone>[^\]]+)\]")


class Period(msgspec.Struct, frozen=True):
    """A duration whose months and days follow the calendar."""

    months: int = 0
    days: int = 0
    micros: int = 0

    @property
    def is_positive(self) -> bool:
        return self.months > 0 or self.days > 0 or self.micros > 0


class TimerPlan(msgspec.Struct, frozen=True):
    """When a timer is due first, and again: the interval, how many times remain (None without a
    limit), the end, the zone and the cron text."""

    at: int
    period: Period | None = None
    remaining: int | None = 1
    end: int | None = None
    zone: str | None = None
    cron: str | None = None

    def following(self, now: int, each: bool = False) -> TimerPlan | None:
        """Return the plan after it was due; None if it is not due again.

        The next time is the last due time plus the period. Times that have passed meanwhile are
        skipped, apart from the latest of them, unless *each* of them is to fire."""
        plan = self._next()
        while plan is not None and not each and plan.at <= now:
            later = plan._next()
            if later is None or later.at > now:
                return plan
            plan = later
        return plan

    def _next(self) -> TimerPlan | None:
        remaining = None if self.remaining is None else self.remaining - 1
        if remaining is not None and remaining <= 0:
            return None
        if self.cron is not None:
            at = _cron_after(self.cron, self.at)
        elif self.period is not None:
            at = add(self.at, self.period, zone_of(self.zone))
        else:
            return None
        if at is None or (self.end is not None and at > self.end):
            return None
        return msgspec.structs.replace(self, at=at, remaining=remaining)


def check_time(kind: str, text: str) -> None:
    """Check the text of a time that is not an expression. Raises BadDuration."""
    plan_of(kind, text, 0)


def plan_of(kind: str, value: Any, now: int) -> TimerPlan:
    """Return the plan of a timer whose time has the given value, armed at *now*.

    Raises BadDuration if the value is not a time of that kind."""
    if isinstance(value, timedelta):
        return TimerPlan(now + round(value / timedelta(microseconds=1)))
    if isinstance(value, date):
        return TimerPlan(_instant_of_date(value))
    if not isinstance(value, str):
        value = str(value)
    text = value.strip()
    if kind == "timeDuration":
        return TimerPlan(add(now, read_period(text), UTC))
    if kind == "timeDate":
        return TimerPlan(read_instant(text))
    return _cycle(text, now)


def read_period(text: str) -> Period:
    """Return a duration of ISO 8601. Raises BadDuration."""
    match = _PERIOD.fullmatch(text)
    if match is None:
        raise BadDuration(duration=text, why="write it as in PT15M, P1DT12H or P1M")
    parts = {key: value or "0" for key, value in match.groupdict().items()}
    seconds = (
        _number(parts["hours"]) * 3600 + _number(parts["minutes"]) * 60 + _number(parts["seconds"])
    )
    return Period(
        months=12 * int(parts["years"]) + int(parts["months"]),
        days=7 * int(parts["weeks"]) + int(parts["days"]),
        micros=round(seconds * SECOND),
    )


def read_instant(text: str) -> int:
    """Return the instant of a date of ISO 8601, in microseconds since 1970. Raises BadDuration."""
    zoned = _ZONE.fullmatch(text)
    zone = zone_of(zoned.group("zone") if zoned else None)
    try:
        value = datetime.fromisoformat(zoned.group("text") if zoned else text)
    except ValueError:
        raise BadDuration(
            duration=text, why="write a date as in 2030-01-31T09:00:00Z or ...+01:00"
        ) from None
    if value.tzinfo is None:
        value = value.replace(tzinfo=zone)
    return round(value.timestamp() * SECOND)


def zone_of(name: str | None) -> tzinfo:
    """Return a time zone by name; UTC without a name. Raises BadDuration."""
    if name is None:
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise BadDuration(duration=name, why="there is no such time zone") from None


def add(instant: int, period: Period, zone: tzinfo) -> int:
    """Return the instant plus a period, whose months and days are those of the calendar in *zone*.

    Raises BadDuration if the result is beyond the calendar."""
    at = instant
    if period.months or period.days:
        try:
            at = _add_calendar(instant, period, zone)
        except (OverflowError, ValueError):
            raise BadDuration(duration=str(period), why="it ends after the year 9999") from None
    at += period.micros
    if at > _LAST.timestamp() * SECOND:
        raise BadDuration(duration=str(period), why="it ends after the year 9999")
    return at


def _add_calendar(instant: int, period: Period, zone: tzinfo) -> int:
    local = datetime.fromtimestamp(instant // SECOND, zone).replace(tzinfo=None)
    month = local.month - 1 + period.months
    year = local.year + month // 12
    month = month % 12 + 1
    day = min(local.day, calendar.monthrange(year, month)[1])
    local = local.replace(year=year, month=month, day=day) + timedelta(days=period.days)
    return round(local.replace(tzinfo=zone).timestamp()) * SECOND + instant % SECOND


def _cycle(text: str, now: int) -> TimerPlan:
    match = _CYCLE.fullmatch(text)
    if match is None:
        at = _cron_after(text, now)
        if at is None:
            raise BadDuration(duration=text, why="the cron text never matches a date")
        return TimerPlan(at, remaining=None, cron=text)
    count = match.group("count")
    remaining = int(count) if count and not count.startswith("-") else None
    parts = _SLASH.split(match.group("rest"))
    if len(parts) > 2:
        raise BadDuration(duration=text, why="write a cycle as in R3/PT10M")
    period_at = 0 if parts[0].startswith("P") else 1
    if period_at >= len(parts):
        raise BadDuration(duration=text, why="the cycle has no period, as in R3/PT10M")
    period = read_period(parts[period_at])
    if not period.is_positive:
        raise BadDuration(duration=text, why="the period of a cycle must be longer than zero")
    zone = _zone_name(parts[0])
    if period_at == 1:
        return TimerPlan(read_instant(parts[0]), period, remaining, zone=zone)
    end = read_instant(parts[1]) if len(parts) == 2 else None
    return TimerPlan(add(now, period, UTC), period, remaining, end)


def _zone_name(text: str) -> str | None:
    match = _ZONE.fullmatch(text)
    return match.group("zone") if match else None


def _number(text: str) -> float:
    return float(text.replace(",", "."))


def _instant_of_date(value: date) -> int:
    moment = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * SECOND)


def _cron_after(text: str, instant: int) -> int | None:
    try:
        at = Cron(plain_cron(text), "UTC").after(instant // SECOND)
    except BadSchedule:
        raise BadDuration(
            duration=text, why="write a cycle as in R3/PT10M, or as a cron text of six fields"
        ) from None
    return None if at is None else at * SECOND


def plain_cron(text: str) -> str:
    """Return a cron text of Quartz in the form that the schedules know: without the year, with
    stars, whole ranges and days of the week that count from Sunday as 0."""
    fields = text.split()
    if len(fields) == 7 and fields[6] in ("*", "?"):
        fields = fields[:6]
    if len(fields) != 6:
        return text
    plain = ["*" if field == "?" else field for field in fields]
    for place, last in enumerate((59, 59, 23)):
        plain[place] = re.sub(r"^(\d+)/", rf"\1-{last}/", plain[place])
    plain[5] = re.sub(r"(?<![\d/#])([1-7])(?!\d)", lambda day: str(int(day[1]) - 1), plain[5])
    return " ".join(plain)


def retry_terms(cycle: str) -> tuple[int, str] | None:
    """Return the retries of a task and the delay before each, from a cycle such as ``R3/PT10M``,
    which counts attempts; None for another text."""
    match = _ATTEMPTS.fullmatch(cycle.strip())
    return None if match is None else (max(int(match.group(1)) - 1, 0), match.group(2))
