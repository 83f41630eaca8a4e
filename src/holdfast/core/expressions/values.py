"""Values of FEEL, and their conversion from and to Python.

| FEEL | inside | outside |
|---|---|---|
| number | `Decimal`, 34 digits | `int`, or `float` if it has a fraction |
| date, time, date and time | `FeelDate`, `FeelTime`, `FeelDateTime` | `date`, `time`, `datetime` |
| days and time duration | `DayTimeDuration` | `timedelta` |
| years and months duration | `YearMonthDuration` | the same; its `str()` is its ISO text |
| string, boolean, null, list, context | `str`, `bool`, `None`, `list`, `dict` | the same |
| range, function | `FeelRange`, `FeelFunction` | the same |

A date beyond the range of Python leaves as it is; its `str()` is its ISO text.
"""

from __future__ import annotations

import decimal
import math
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta, timezone, tzinfo
from datetime import time as clock_time
from decimal import Decimal
from typing import Any

import msgspec

from holdfast.core.expressions.temporal import (
    DAY,
    SECOND,
    DayTimeDuration,
    FeelDate,
    FeelDateTime,
    FeelTime,
    YearMonthDuration,
    zone_of,
)
from holdfast.core.expressions.tree import TypeOf

NUMBERS = decimal.Context(
    prec=34,
    rounding=decimal.ROUND_HALF_EVEN,
    Emin=-6143,
    Emax=6144,
    traps=[decimal.InvalidOperation, decimal.DivisionByZero, decimal.Overflow],
)
"""The arithmetic of FEEL: numbers of 34 digits."""


class FeelRange(msgspec.Struct, frozen=True):
    """The values between two ends; an end that is None is open."""

    low: Any
    high: Any
    includes_low: bool
    includes_high: bool
    operator: str = ""

    def __str__(self) -> str:
        opening = "(["[self.includes_low]
        closing = ")]"[self.includes_high]
        return f"{opening}{text_of(self.low)}..{text_of(self.high)}{closing}"


class FeelFunction:
    """A function that an expression, a decision or a knowledge model defines."""

    __slots__ = ("call", "parameters")

    def __init__(
        self,
        parameters: tuple[tuple[str, TypeOf | None], ...],
        call: Callable[[list[Any]], Any],
    ) -> None:
        self.parameters: tuple[tuple[str, TypeOf | None], ...] = parameters
        self.call: Callable[[list[Any]], Any] = call


def text_of(value: Any) -> str:
    """Return a value as FEEL writes it; a text at the top without its quotes."""
    if isinstance(value, str):
        return value
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Decimal):
        return _number_text(value)
    if isinstance(value, list):
        return f"[{', '.join(_quoted(element) for element in value)}]"
    if isinstance(value, Mapping):
        entries = (f"{_key_text(key)}: {_quoted(entry)}" for key, entry in value.items())
        return f"{{{', '.join(entries)}}}"
    if isinstance(value, FeelFunction):
        return "function"
    return str(value)


def _number_text(value: Decimal) -> str:
    text = f"{value:f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return text or "0"


def _quoted(value: Any) -> str:
    if isinstance(value, str):
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    return text_of(value)


def _key_text(key: str) -> str:
    if key.isidentifier():
        return key
    return _quoted(key)


# From Python


def from_python(value: Any) -> Any:
    """Return a value of Python as a value of FEEL. Raises TypeError for a type that FEEL lacks."""
    convert = _FROM.get(type(value))
    if convert is not None:
        return convert(value)
    for kind, convert in _FROM.items():
        if isinstance(value, kind):
            return convert(value)
    if isinstance(value, Mapping):
        return _context(value)
    raise TypeError(type(value).__name__)


def _same(value: Any) -> Any:
    return value


def _from_float(value: float) -> Decimal | None:
    if math.isfinite(value):
        return Decimal(repr(value))
    return None


def _from_decimal(value: Decimal) -> Decimal | None:
    if value.is_finite():
        return value
    return None


def _list(value: Any) -> list[Any]:
    return [from_python(element) for element in value]


def _context(value: Any) -> dict[str, Any]:
    return {str(key): from_python(entry) for key, entry in value.items()}


def _from_datetime(value: datetime) -> FeelDateTime:
    day = FeelDate(value.year, value.month, value.day)
    return FeelDateTime(day, _from_time(value.timetz(), value))


def _from_time(value: clock_time, moment: datetime | None = None) -> FeelTime:
    seconds = value.hour * 3600 + value.minute * 60 + value.second
    nanos = seconds * SECOND + value.microsecond * 1000
    zone = getattr(value.tzinfo, "key", None)
    if zone is not None:
        return FeelTime(nanos, None, zone)
    offset = (moment or value).utcoffset()
    if offset is None:
        return FeelTime(nanos)
    return FeelTime(nanos, round(offset.total_seconds()))


def _from_timedelta(value: timedelta) -> DayTimeDuration:
    return DayTimeDuration((value // timedelta(microseconds=1)) * 1000)


_FROM: dict[type, Callable[[Any], Any]] = {
    str: _same,
    bool: _same,
    int: Decimal,
    float: _from_float,
    type(None): _same,
    dict: _context,
    list: _list,
    tuple: _list,
    Decimal: _from_decimal,
    datetime: _from_datetime,
    date: lambda value: FeelDate(value.year, value.month, value.day),
    clock_time: _from_time,
    timedelta: _from_timedelta,
    FeelDate: _same,
    FeelTime: _same,
    FeelDateTime: _same,
    DayTimeDuration: _same,
    YearMonthDuration: _same,
    FeelRange: _same,
    FeelFunction: _same,
}


# To Python


def to_python(value: Any) -> Any:
    """Return a value of FEEL as a value of Python."""
    convert = _TO.get(type(value))
    if convert is None:
        return value
    return convert(value)


def _to_number(value: Decimal) -> int | float:
    if value == value.to_integral_value():
        return int(value)
    return float(value)


def _to_date(value: FeelDate) -> Any:
    if 1 <= value.year <= 9999:
        return date(value.year, value.month, value.day)
    return value


def _to_zone(value: FeelTime) -> tzinfo | None:
    if value.zone is not None:
        zone: tzinfo = zone_of(value.zone)
        return zone
    if value.offset is None:
        return None
    return timezone(timedelta(seconds=value.offset))


def _to_time(value: FeelTime) -> clock_time:
    seconds, nanos = divmod(value.nanos, SECOND)
    hour, rest = divmod(seconds, 3600)
    return clock_time(hour, rest // 60, rest % 60, nanos // 1000, tzinfo=_to_zone(value))


def _to_datetime(value: FeelDateTime) -> Any:
    if 1 <= value.date.year <= 9999:
        return datetime.combine(_to_date(value.date), _to_time(value.clock))
    return value


def _to_timedelta(value: DayTimeDuration) -> Any:
    if abs(value.nanos) < 999_999_999 * DAY:
        return timedelta(microseconds=value.nanos // 1000)
    return value


_TO: dict[type, Callable[[Any], Any]] = {
    Decimal: _to_number,
    list: lambda value: [to_python(element) for element in value],
    dict: lambda value: {key: to_python(entry) for key, entry in value.items()},
    FeelDate: _to_date,
    FeelTime: _to_time,
    FeelDateTime: _to_datetime,
    DayTimeDuration: _to_timedelta,
}
