"""Functions of FEEL for dates, times and durations."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from holdfast.core.expressions.functions.signature import FunctionTable
from holdfast.core.expressions.scope import Evaluation
from holdfast.core.expressions.temporal import (
    SECOND,
    DayTimeDuration,
    FeelDate,
    FeelDateTime,
    FeelTime,
    YearMonthDuration,
    date_of,
    days_from_civil,
    days_in_month,
    months_between,
    parse_date,
    parse_date_time,
    parse_duration,
    parse_time,
)
from holdfast.core.expressions.values import from_python

FUNCTIONS = FunctionTable()

_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
]


@FUNCTIONS.define("date", "from:a")
def _date(evaluation: Evaluation, value: Any) -> FeelDate | None:
    if isinstance(value, str):
        return parse_date(value)
    if isinstance(value, FeelDateTime):
        return value.date
    if isinstance(value, FeelDate):
        return value
    return None


@FUNCTIONS.define("date", "year:n, month:n, day:n")
def _date_of(
    evaluation: Evaluation, year: Decimal, month: Decimal, day: Decimal
) -> FeelDate | None:
    return date_of(int(year), int(month), int(day))


@FUNCTIONS.define("date and time", "from:a")
def _date_time(evaluation: Evaluation, value: Any) -> FeelDateTime | None:
    if isinstance(value, str):
        return parse_date_time(value)
    if isinstance(value, FeelDate):
        return FeelDateTime(value, FeelTime(0, 0))
    if isinstance(value, FeelDateTime):
        return value
    return None


@FUNCTIONS.define("date and time", "date:t, time:t")
def _date_with_time(evaluation: Evaluation, date: Any, clock: Any) -> FeelDateTime | None:
    if isinstance(date, FeelDateTime):
        date = date.date
    if isinstance(date, FeelDate) and isinstance(clock, FeelTime):
        return FeelDateTime(date, clock)
    return None


@FUNCTIONS.define("date and time", "date:t, timezone:s")
def _in_zone(evaluation: Evaluation, date: Any, zone: str) -> FeelDateTime | None:
    if not isinstance(date, FeelDateTime):
        return None
    zoned = parse_time(f"00:00:00@{zone}") or parse_time(f"00:00:00{zone}")
    if zoned is None:
        return None
    return FeelDateTime(date.date, FeelTime(date.clock.nanos, zoned.offset, zoned.zone))


@FUNCTIONS.define("time", "from:a")
def _time(evaluation: Evaluation, value: Any) -> FeelTime | None:
    if isinstance(value, str):
        return parse_time(value)
    if isinstance(value, FeelDateTime):
        return value.clock
    if isinstance(value, FeelDate):
        return FeelTime(0, 0)
    if isinstance(value, FeelTime):
        return value
    return None


@FUNCTIONS.define("time", "hour:n, minute:n, second:n, offset?:d*")
def _time_of(
    evaluation: Evaluation,
    hour: Decimal,
    minute: Decimal,
    second: Decimal,
    offset: Any = None,
) -> FeelTime | None:
    if not (0 <= hour < 24 and 0 <= minute < 60 and 0 <= second < 60):
        return None
    nanos = (int(hour) * 3600 + int(minute) * 60) * SECOND + int(second * SECOND)
    if offset is None:
        return FeelTime(nanos)
    if not isinstance(offset, DayTimeDuration) or abs(offset.nanos) > 18 * 3600 * SECOND:
        return None
    return FeelTime(nanos, offset.nanos // SECOND)


@FUNCTIONS.define("duration", "from:a")
def _duration(evaluation: Evaluation, value: Any) -> Any:
    if isinstance(value, str):
        return parse_duration(value)
    if isinstance(value, DayTimeDuration | YearMonthDuration):
        return value
    return None


@FUNCTIONS.define("years and months duration", "from:t, to:t")
def _months(evaluation: Evaluation, start: Any, end: Any) -> YearMonthDuration | None:
    if isinstance(start, FeelTime) or isinstance(end, FeelTime):
        return None
    return YearMonthDuration(months_between(_with_time(start), _with_time(end)))


def _with_time(value: FeelDate | FeelDateTime) -> FeelDateTime:
    if isinstance(value, FeelDate):
        return FeelDateTime(value, FeelTime(0))
    return value


@FUNCTIONS.define("now", "")
def _now(evaluation: Evaluation) -> Any:
    if evaluation.now is None:
        evaluation.refuse("the time is not known here: `now()` cannot be used")
    return from_python(evaluation.now)


@FUNCTIONS.define("today", "")
def _today(evaluation: Evaluation) -> Any:
    if evaluation.now is None:
        evaluation.refuse("the time is not known here: `today()` cannot be used")
    return from_python(evaluation.now).date


def _day_of(value: Any) -> FeelDate | None:
    if isinstance(value, FeelDateTime):
        return value.date
    if isinstance(value, FeelDate):
        return value
    return None


def weekday(day: FeelDate) -> int:
    """Return the day of the week, from 1 for Monday to 7."""
    return (day.ordinal() + 3) % 7 + 1


@FUNCTIONS.define("day of week", "date:t")
def _day_of_week(evaluation: Evaluation, value: Any) -> str | None:
    day = _day_of(value)
    if day is None:
        return None
    return _WEEKDAYS[weekday(day) - 1]


@FUNCTIONS.define("day of year", "date:t")
def _day_of_year(evaluation: Evaluation, value: Any) -> Decimal | None:
    day = _day_of(value)
    if day is None:
        return None
    return Decimal(day.ordinal() - days_from_civil(day.year, 1, 1) + 1)


@FUNCTIONS.define("month of year", "date:t")
def _month_of_year(evaluation: Evaluation, value: Any) -> str | None:
    day = _day_of(value)
    if day is None:
        return None
    return _MONTHS[day.month - 1]


@FUNCTIONS.define("week of year", "date:t")
def _week_of_year(evaluation: Evaluation, value: Any) -> Decimal | None:
    day = _day_of(value)
    if day is None:
        return None
    thursday = day.ordinal() - weekday(day) + 4
    year = day.year
    for candidate in (year - 1, year, year + 1):
        first = days_from_civil(candidate, 1, 1)
        if first <= thursday < days_from_civil(candidate + 1, 1, 1):
            return Decimal((thursday - first) // 7 + 1)
    return None


@FUNCTIONS.define("last day of month", "date:t")
def _last_day_of_month(evaluation: Evaluation, value: Any) -> FeelDate | None:
    day = _day_of(value)
    if day is None:
        return None
    return FeelDate(day.year, day.month, days_in_month(day.year, day.month))
