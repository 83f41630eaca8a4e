"""Dates, times and durations of FEEL.

The types of Python end at the year 9999 and at microseconds; those of FEEL reach any year of nine
digits and nanoseconds, and keep the name of a zone. So they are types of their own; `values`
converts them where they enter and leave.

- A zone is an offset in seconds, or a name. Without either a time is local.
- Years are astronomical: the year before 1 is 0.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any

import msgspec

SECOND = 1_000_000_000
"""A second, in nanoseconds."""
DAY = 86_400 * SECOND


class FeelDate(msgspec.Struct, frozen=True):
    """A day."""

    year: int
    month: int
    day: int

    def __str__(self) -> str:
        sign = "-" * (self.year < 0)
        return f"{sign}{abs(self.year):04d}-{self.month:02d}-{self.day:02d}"

    def ordinal(self) -> int:
        """Return the number of days since 1970-01-01."""
        return days_from_civil(self.year, self.month, self.day)


class FeelTime(msgspec.Struct, frozen=True):
    """A time of day: nanoseconds since midnight, and its zone."""

    nanos: int
    offset: int | None = None
    zone: str | None = None

    def __str__(self) -> str:
        seconds, nanos = divmod(self.nanos, SECOND)
        minutes, second = divmod(seconds, 60)
        hour, minute = divmod(minutes, 60)
        fraction = f".{nanos:09d}".rstrip("0").rstrip(".")
        return f"{hour:02d}:{minute:02d}:{second:02d}{fraction}{self._zone_text()}"

    def _zone_text(self) -> str:
        if self.zone is not None:
            return f"@{self.zone}"
        if self.offset is None:
            return ""
        if self.offset == 0:
            return "Z"
        sign = "-" * (self.offset < 0) or "+"
        minutes, second = divmod(abs(self.offset), 60)
        text = f"{sign}{minutes // 60:02d}:{minutes % 60:02d}"
        return text + f":{second:02d}" * bool(second)

    @property
    def zoned(self) -> bool:
        """Whether the time has a zone."""
        return self.offset is not None or self.zone is not None


class FeelDateTime(msgspec.Struct, frozen=True):
    """A day and a time of day."""

    date: FeelDate
    clock: FeelTime

    def __str__(self) -> str:
        return f"{self.date}T{self.clock}"

    def local(self) -> int:
        """Return the nanoseconds since 1970-01-01T00:00:00 of the same zone."""
        return self.date.ordinal() * DAY + self.clock.nanos

    def instant(self) -> int:
        """Return the nanoseconds since 1970-01-01T00:00:00Z; a time without a zone counts as
        UTC."""
        return self.local() - self.offset() * SECOND

    def offset(self) -> int:
        """Return the offset from UTC in seconds, 0 without a zone."""
        if self.clock.zone is not None:
            return zone_offset(self.clock.zone, self.local() // SECOND)
        return self.clock.offset or 0


class DayTimeDuration(msgspec.Struct, frozen=True):
    """A duration of days and time, in nanoseconds."""

    nanos: int

    def __str__(self) -> str:
        sign = "-" * (self.nanos < 0)
        seconds, nanos = divmod(abs(self.nanos), SECOND)
        minutes, second = divmod(seconds, 60)
        hours, minute = divmod(minutes, 60)
        days, hour = divmod(hours, 24)
        fraction = f".{nanos:09d}".rstrip("0").rstrip(".")
        text = f"{days}D" * bool(days)
        clock = f"{hour}H" * bool(hour) + f"{minute}M" * bool(minute)
        clock += f"{second}{fraction}S" * bool(second or nanos)
        if clock:
            text += f"T{clock}"
        return f"{sign}P{text or 'T0S'}"


class YearMonthDuration(msgspec.Struct, frozen=True):
    """A duration of years and months, in months."""

    months: int

    def __str__(self) -> str:
        sign = "-" * (self.months < 0)
        years, months = divmod(abs(self.months), 12)
        text = f"{years}Y" * bool(years) + f"{months}M" * bool(months)
        return f"{sign}P{text or '0M'}"


# The calendar


def days_from_civil(year: int, month: int, day: int) -> int:
    """Return the days since 1970-01-01 of a day of the Gregorian calendar, in any year."""
    year -= month <= 2
    era, year_of_era = divmod(year, 400)
    day_of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return (
        era * 146_097
        + year_of_era * 365
        + year_of_era // 4
        - year_of_era // 100
        + (day_of_year - 719_468)
    )


def civil_from_days(days: int) -> FeelDate:
    """Return the day of the Gregorian calendar."""
    era, day_of_era = divmod(days + 719_468, 146_097)
    year = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year + year // 4 - year // 100)
    shifted = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * shifted + 2) // 5 + 1
    month = (shifted + 2) % 12 + 1
    return FeelDate(year + era * 400 + (month <= 2), month, day)


def days_in_month(year: int, month: int) -> int:
    """Return the number of days of a month."""
    if month == 2:
        leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        return 28 + leap
    return 30 + (month in (1, 3, 5, 7, 8, 10, 12))


def date_of(year: int, month: int, day: int) -> FeelDate | None:
    """Return a date, None if there is no such day."""
    if abs(year) > 999_999_999 or not 1 <= month <= 12:
        return None
    if not 1 <= day <= days_in_month(year, month):
        return None
    return FeelDate(year, month, day)


def from_local(nanos: int, clock: FeelTime) -> FeelDateTime:
    """Return a date and time from the nanoseconds of its own zone, which *clock* names."""
    days, rest = divmod(nanos, DAY)
    return FeelDateTime(civil_from_days(days), FeelTime(rest, clock.offset, clock.zone))


def from_instant(nanos: int, clock: FeelTime) -> FeelDateTime:
    """Return an instant in the zone of *clock*."""
    if clock.zone is None:
        return from_local(nanos + (clock.offset or 0) * SECOND, clock)
    offset = _zone_offset_at(clock.zone, nanos // SECOND)
    return from_local(nanos + offset * SECOND, clock)


# Zones


@lru_cache(maxsize=256)
def zone_of(name: str) -> Any:
    """Return a zone of the time zone database, None if there is none with this name."""
    from zoneinfo import ZoneInfo

    try:
        return ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        return None


_EPOCH = datetime(1970, 1, 1)


def _python_time(seconds: int) -> datetime:
    """Return a time of Python; a year beyond its range is replaced by a year of the same
    calendar."""
    days, rest = divmod(seconds, 86_400)
    day = civil_from_days(days)
    year = day.year
    if not 2 <= year <= 9998:
        year = 2000 + year % 400
    return datetime(year, day.month, day.day) + timedelta(seconds=rest)


def zone_offset(name: str, local_seconds: int) -> int:
    """Return the offset of a zone at a local time, in seconds."""
    zone = zone_of(name)
    offset = _python_time(local_seconds).replace(tzinfo=zone).utcoffset()
    return round((offset or timedelta()).total_seconds())


def _zone_offset_at(name: str, utc_seconds: int) -> int:
    from datetime import UTC

    instant = _python_time(utc_seconds).replace(tzinfo=UTC)
    offset = instant.astimezone(zone_of(name)).utcoffset()
    return round((offset or timedelta()).total_seconds())


# Texts

_DATE = r"(?P<year>-?\d{4,9})-(?P<month>\d\d)-(?P<day>\d\d)"
_CLOCK = (
    r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)(?:\.(?P<fraction>\d+))?"
    r"(?:(?P<utc>[Zz])|(?P<sign>[+-])(?P<offset>\d\d:\d\d(?::\d\d)?)|@(?P<zone>[\w/+-]+))?"
)
_DATE_TEXT = re.compile(_DATE, re.ASCII)
_TIME_TEXT = re.compile(rf"T?{_CLOCK}", re.ASCII)
_DATE_TIME_TEXT = re.compile(rf"{_DATE}(?:T{_CLOCK})?", re.ASCII)
_DURATION_TEXT = re.compile(
    r"(?P<sign>-)?P(?:(?P<years>\d+)Y)?(?:(?P<months>\d+)M)?(?:(?P<days>\d+)D)?"
    r"(?P<T>T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+)(?:\.(?P<fraction>\d+))?S)?)?",
    re.ASCII,
)
_LONGEST = 100
"""No text of a date, time or duration is longer."""


def parse_date(text: str) -> FeelDate | None:
    """Return the date that a text shows, None if it shows none."""
    match = _DATE_TEXT.fullmatch(text[:_LONGEST])
    if match is None or _padded(match["year"]):
        return None
    return date_of(int(match["year"]), int(match["month"]), int(match["day"]))


def _padded(year: str) -> bool:
    digits = year.lstrip("-")
    return len(digits) > 4 and digits.startswith("0")


def parse_time(text: str) -> FeelTime | None:
    """Return the time that a text shows, None if it shows none."""
    match = _TIME_TEXT.fullmatch(text[:_LONGEST])
    if match is None:
        return None
    clock = _clock(match)
    if clock is None or clock.nanos > DAY:
        return None
    return FeelTime(clock.nanos % DAY, clock.offset, clock.zone)


def parse_date_time(text: str) -> FeelDateTime | None:
    """Return the date and time that a text shows, None if it shows none."""
    match = _DATE_TIME_TEXT.fullmatch(text[:_LONGEST])
    if match is None:
        return None
    day = parse_date(text[: match.end("day")])
    if day is None:
        return None
    if match["hour"] is None:
        return FeelDateTime(day, FeelTime(0))
    clock = _clock(match)
    if clock is None:
        return None
    return from_local(day.ordinal() * DAY + clock.nanos, clock)


def _clock(match: re.Match[str]) -> FeelTime | None:
    seconds = int(match["hour"]) * 3600 + int(match["minute"]) * 60 + int(match["second"])
    nanos = seconds * SECOND + _nanos(match["fraction"])
    if int(match["minute"]) > 59 or int(match["second"]) > 59 or nanos > DAY:
        return None
    if match["zone"] is not None:
        if zone_of(match["zone"]) is None:
            return None
        return FeelTime(nanos, None, match["zone"])
    if match["utc"]:
        return FeelTime(nanos, 0)
    if match["offset"] is None:
        return FeelTime(nanos)
    return _with_offset(nanos, match["sign"], match["offset"])


def _with_offset(nanos: int, sign: str, text: str) -> FeelTime | None:
    hours, minutes, *rest = (int(part) for part in text.split(":"))
    offset = hours * 3600 + minutes * 60 + sum(rest)
    if offset > 18 * 3600 or minutes > 59:
        return None
    if sign == "-":
        offset = -offset
    return FeelTime(nanos, offset)


def _nanos(fraction: str | None) -> int:
    return int((fraction or "").ljust(9, "0")[:9])


def parse_duration(text: str) -> DayTimeDuration | YearMonthDuration | None:
    """Return the duration that a text shows, None if it shows none."""
    match = _DURATION_TEXT.fullmatch(text[:_LONGEST])
    if match is None or text.endswith(("P", "T")):
        return None
    sign = 1 - 2 * bool(match["sign"])
    years, months, days, hours, minutes, seconds = (
        int(match[name] or 0) for name in ("years", "months", "days", "hours", "minutes", "seconds")
    )
    if match["years"] is not None or match["months"] is not None:
        if match["days"] is not None or match["T"] is not None:
            return None
        return YearMonthDuration(sign * (years * 12 + months))
    total = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
    return DayTimeDuration(sign * (total * SECOND + _nanos(match["fraction"])))


def parse_temporal(text: str) -> Any:
    """Return the value of a literal ``@"..."``, None if it has none."""
    if text.lstrip("-").startswith("P"):
        return parse_duration(text)
    if "T" in text.partition("@")[0] and not text.startswith("T"):
        return parse_date_time(text)
    if text[2:3] == ":" or text.startswith("T"):
        return parse_time(text)
    return parse_date(text)


# Arithmetic


def add_months(day: FeelDate, months: int) -> FeelDate:
    """Return a date some months later; the day is at most the last day of the month."""
    years, month = divmod(day.month - 1 + months, 12)
    year = day.year + years
    return FeelDate(year, month + 1, min(day.day, days_in_month(year, month + 1)))


def add_duration(value: Any, duration: DayTimeDuration | YearMonthDuration, sign: int) -> Any:
    """Return a date, time, or date and time that is *duration* later, or earlier; None if that has
    no meaning."""
    if isinstance(duration, YearMonthDuration):
        months = sign * duration.months
        if isinstance(value, FeelDate):
            return in_range(add_months(value, months))
        if isinstance(value, FeelDateTime):
            day = in_range(add_months(value.date, months))
            return day and FeelDateTime(day, value.clock)
        return None
    nanos = sign * duration.nanos
    if isinstance(value, FeelDate):
        return in_range(civil_from_days((value.ordinal() * DAY + nanos) // DAY))
    if isinstance(value, FeelTime):
        return FeelTime((value.nanos + nanos) % DAY, value.offset, value.zone)
    later = from_instant(value.instant() + nanos, value.clock)
    return in_range(later.date) and later


def in_range(day: FeelDate) -> FeelDate | None:
    """Return a date, None if its year has more than nine digits."""
    if abs(day.year) > 999_999_999:
        return None
    return day


def difference(left: Any, right: Any) -> DayTimeDuration | None:
    """Return the duration between two dates or times, None if only one of them has a zone. A date
    is compared with a time in UTC as its midnight in UTC."""
    if isinstance(left, FeelTime) and isinstance(right, FeelTime):
        if left.zoned != right.zoned:
            return None
        return DayTimeDuration(time_key(left) - time_key(right))
    if isinstance(left, FeelTime) or isinstance(right, FeelTime):
        return None
    if isinstance(left, FeelDate) and isinstance(right, FeelDate):
        return DayTimeDuration((left.ordinal() - right.ordinal()) * DAY)
    left, right = (_at_midnight(value) for value in (left, right))
    if left.clock.zoned != right.clock.zoned:
        return None
    return DayTimeDuration(left.instant() - right.instant())


def _at_midnight(value: FeelDate | FeelDateTime) -> FeelDateTime:
    if isinstance(value, FeelDate):
        return FeelDateTime(value, FeelTime(0, 0))
    return value


def time_key(clock: FeelTime) -> int:
    """Return a number by which times of day are ordered."""
    if clock.zone is not None:
        return clock.nanos - zone_offset(clock.zone, 0) * SECOND
    return clock.nanos - (clock.offset or 0) * SECOND


def months_between(start: FeelDateTime, end: FeelDateTime) -> int:
    """Return the whole months from one time to another."""
    first = (start.date.year * 12 + start.date.month, start.date.day)
    last = (end.date.year * 12 + end.date.month, end.date.day)
    months = last[0] - first[0]
    if months > 0 and last[1:] < first[1:]:
        return months - 1
    if months < 0 and last[1:] > first[1:]:
        return months + 1
    return months
