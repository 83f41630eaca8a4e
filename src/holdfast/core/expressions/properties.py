"""Properties of the values of FEEL: entries of contexts, parts of dates, times and durations."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from holdfast.core.expressions.temporal import (
    DAY,
    SECOND,
    DayTimeDuration,
    FeelDate,
    FeelDateTime,
    FeelTime,
    YearMonthDuration,
)
from holdfast.core.expressions.values import FeelRange

Property = Callable[[Any], Any]


def property_of(value: Any, name: str) -> Any:
    """Return a property of a value, null if it has none with this name."""
    if isinstance(value, dict):
        return value.get(name)
    if isinstance(value, FeelDateTime):
        if name in _DATE:
            return _DATE[name](value.date)
        value = value.clock
    properties = _PROPERTIES.get(type(value), {})
    read = properties.get(name)
    if read is None:
        return None
    return read(value)


def _second(clock: FeelTime) -> Decimal:
    return Decimal(clock.nanos % (60 * SECOND)) / SECOND


def _offset(clock: FeelTime) -> DayTimeDuration | None:
    if clock.offset is None:
        return None
    return DayTimeDuration(clock.offset * SECOND)


def _part(unit: int, count: int) -> Property:
    """Return a property of a duration: how many whole units it has, up to *count*, signed."""

    def part(duration: DayTimeDuration) -> Decimal:
        sign = 1 - 2 * (duration.nanos < 0)
        return Decimal(sign * (abs(duration.nanos) // unit % count))

    return part


def _years(duration: YearMonthDuration) -> Decimal:
    sign = 1 - 2 * (duration.months < 0)
    return Decimal(sign * (abs(duration.months) // 12))


def _months(duration: YearMonthDuration) -> Decimal:
    sign = 1 - 2 * (duration.months < 0)
    return Decimal(sign * (abs(duration.months) % 12))


_DATE: dict[str, Property] = {
    "year": lambda day: Decimal(day.year),
    "month": lambda day: Decimal(day.month),
    "day": lambda day: Decimal(day.day),
    "weekday": lambda day: Decimal((day.ordinal() + 3) % 7 + 1),
}

_PROPERTIES: dict[type, dict[str, Property]] = {
    FeelDate: _DATE,
    FeelTime: {
        "hour": lambda clock: Decimal(clock.nanos // (3600 * SECOND)),
        "minute": lambda clock: Decimal(clock.nanos // (60 * SECOND) % 60),
        "second": _second,
        "time offset": _offset,
        "timezone": lambda clock: clock.zone,
    },
    DayTimeDuration: {
        "days": _part(DAY, 10**30),
        "hours": _part(3600 * SECOND, 24),
        "minutes": _part(60 * SECOND, 60),
        "seconds": _part(SECOND, 60),
    },
    YearMonthDuration: {"years": _years, "months": _months},
    FeelRange: {
        "start": lambda interval: interval.low,
        "end": lambda interval: interval.high,
        "start included": lambda interval: interval.includes_low,
        "end included": lambda interval: interval.includes_high,
    },
}
