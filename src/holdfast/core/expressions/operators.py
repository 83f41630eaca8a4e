"""Operators of FEEL. An operator that has no meaning for its operands gives null."""

from __future__ import annotations

import decimal
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from holdfast.core.expressions.temporal import (
    DayTimeDuration,
    FeelDate,
    FeelDateTime,
    FeelTime,
    YearMonthDuration,
    add_duration,
    difference,
    time_key,
)
from holdfast.core.expressions.values import NUMBERS, FeelFunction, FeelRange

TEMPORAL = (FeelDate, FeelTime, FeelDateTime)
DURATIONS = (DayTimeDuration, YearMonthDuration)


def _number(compute: Callable[[Decimal, Decimal], Decimal], a: Decimal, b: Decimal) -> Any:
    try:
        return compute(a, b)
    except decimal.DecimalException:
        return None


def add(left: Any, right: Any) -> Any:
    """Return left + right."""
    if isinstance(left, Decimal) and isinstance(right, Decimal):
        return _number(NUMBERS.add, left, right)
    if isinstance(left, str) and isinstance(right, str):
        return left + right
    if isinstance(left, DURATIONS):
        if type(left) is type(right):
            return _add_durations(left, right, 1)
        if isinstance(right, TEMPORAL):
            return add_duration(right, left, 1)
    elif isinstance(left, TEMPORAL) and isinstance(right, DURATIONS):
        return add_duration(left, right, 1)
    return None


def _add_durations(left: Any, right: Any, sign: int) -> Any:
    if isinstance(left, DayTimeDuration):
        return DayTimeDuration(left.nanos + sign * right.nanos)
    return YearMonthDuration(left.months + sign * right.months)


def subtract(left: Any, right: Any) -> Any:
    """Return left - right."""
    if isinstance(left, Decimal) and isinstance(right, Decimal):
        return _number(NUMBERS.subtract, left, right)
    if isinstance(left, TEMPORAL):
        if isinstance(right, DURATIONS):
            return add_duration(left, right, -1)
        if isinstance(right, TEMPORAL):
            return difference(left, right)
    elif isinstance(left, DURATIONS) and type(left) is type(right):
        return _add_durations(left, right, -1)
    return None


def multiply(left: Any, right: Any) -> Any:
    """Return left * right."""
    if isinstance(left, Decimal):
        if isinstance(right, Decimal):
            return _number(NUMBERS.multiply, left, right)
        left, right = right, left
    if isinstance(left, DURATIONS) and isinstance(right, Decimal):
        return _scaled(left, right, NUMBERS.multiply)
    return None


def _scaled(duration: Any, factor: Decimal, compute: Callable[..., Decimal]) -> Any:
    """Return a duration times or divided by a number, cut to whole nanoseconds or months."""
    kind = type(duration)
    value = _number(compute, _amount(duration), factor)
    if value is None or value.adjusted() > 30:
        return None
    return kind(int(value))


def divide(left: Any, right: Any) -> Any:
    """Return left / right."""
    if isinstance(right, Decimal):
        if right == 0:
            return None
        if isinstance(left, Decimal):
            return _number(NUMBERS.divide, left, right)
        if isinstance(left, DURATIONS):
            return _scaled(left, right, NUMBERS.divide)
    elif isinstance(left, DURATIONS) and type(left) is type(right):
        return divide(_amount(left), _amount(right))
    return None


def _amount(duration: Any) -> Decimal:
    if isinstance(duration, DayTimeDuration):
        return Decimal(duration.nanos)
    return Decimal(duration.months)


def power(left: Any, right: Any) -> Any:
    """Return left ** right."""
    if not (isinstance(left, Decimal) and isinstance(right, Decimal)):
        return None
    if abs(right) > 1_000_000:
        return None
    return _number(NUMBERS.power, left, right)


def negate(value: Any) -> Any:
    """Return -value."""
    if isinstance(value, Decimal):
        return -value
    if isinstance(value, DayTimeDuration):
        return DayTimeDuration(-value.nanos)
    if isinstance(value, YearMonthDuration):
        return YearMonthDuration(-value.months)
    return None


# Comparison


def compare(left: Any, right: Any) -> int | None:
    """Return -1, 0 or 1; None for values that have no order."""
    if isinstance(left, Decimal | str) and isinstance(right, type(left)):
        return (left > right) - (left < right)  # type: ignore[operator]
    keys = _keys(left, right)
    if keys is None:
        return None
    return (keys[0] > keys[1]) - (keys[0] < keys[1])


def _keys(left: Any, right: Any) -> tuple[int, int] | None:
    """Return numbers that have the order of two dates, times or durations of the same type."""
    if type(left) is not type(right):
        return None
    if isinstance(left, FeelDate):
        return left.ordinal(), right.ordinal()
    if isinstance(left, DayTimeDuration):
        return left.nanos, right.nanos
    if isinstance(left, YearMonthDuration):
        return left.months, right.months
    if isinstance(left, FeelTime) and left.zoned == right.zoned:
        return time_key(left), time_key(right)
    if isinstance(left, FeelDateTime) and left.clock.zoned == right.clock.zoned:
        return left.instant(), right.instant()
    return None


def equal(left: Any, right: Any) -> bool | None:
    """Return whether two values are equal; None for values of different types."""
    if left is None or right is None:
        return left is right
    if isinstance(left, list) and isinstance(right, list):
        return _equal_lists(left, right)
    if isinstance(left, dict) and isinstance(right, dict):
        if left.keys() != right.keys():
            return False
        return _equal_lists(list(left.values()), [right[key] for key in left])
    if type(left) is not type(right):
        return None
    if isinstance(left, FeelTime | FeelDateTime):
        keys = _keys(left, right)
        return keys is not None and keys[0] == keys[1]
    if isinstance(left, FeelRange):
        ends = (_same_end(left.low, right.low), _same_end(left.high, right.high))
        return all(ends) and _shape(left) == _shape(right)
    if isinstance(left, FeelFunction):
        return left is right
    return bool(left == right)


def _same_end(left: Any, right: Any) -> bool:
    return equal(left, right) is True


def _shape(value: FeelRange) -> tuple[bool, bool, str]:
    return value.includes_low, value.includes_high, value.operator


def _equal_lists(left: list[Any], right: list[Any]) -> bool | None:
    if len(left) != len(right):
        return False
    answers = [equal(a, b) for a, b in zip(left, right, strict=True)]
    if False in answers:
        return False
    if None in answers:
        return None
    return True


def not_equal(left: Any, right: Any) -> bool | None:
    """Return whether two values differ; None for values of different types."""
    answer = equal(left, right)
    if answer is None:
        return None
    return not answer


def _ordered(test: Callable[[int], bool]) -> Callable[[Any, Any], bool | None]:
    def ordered(left: Any, right: Any) -> bool | None:
        order = compare(left, right)
        if order is None:
            return None
        return test(order)

    return ordered


COMPARISONS: dict[str, Callable[[Any, Any], bool | None]] = {
    "=": equal,
    "!=": not_equal,
    "<": _ordered(lambda order: order < 0),
    "<=": _ordered(lambda order: order <= 0),
    ">": _ordered(lambda order: order > 0),
    ">=": _ordered(lambda order: order >= 0),
}

OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    **COMPARISONS,
    "+": add,
    "-": subtract,
    "*": multiply,
    "/": divide,
    "**": power,
}


# Ranges and tests


def in_range(value: Any, interval: FeelRange) -> bool | None:
    """Return whether a range contains a value; None if they have no common order."""
    if interval.operator in ("=", "!="):
        return COMPARISONS[interval.operator](value, interval.low)
    if interval.low is None and interval.high is None:
        return None
    low = _beyond(value, interval.low, interval.includes_low, 1)
    high = _beyond(value, interval.high, interval.includes_high, -1)
    if interval.operator == "":
        if low is None or high is None:
            return None
        return low and high
    if interval.high is None:
        return low
    return high


def _beyond(value: Any, end: Any, included: bool, side: int) -> bool | None:
    """Return whether a value lies on the inner side of an end of a range."""
    order = compare(value, end)
    if order is None:
        return None
    return order == side or (included and order == 0)


def passes(value: Any, test: Any) -> bool | None:
    """Return whether a value is in a range or list, or equals another value."""
    if isinstance(test, FeelRange) and not isinstance(value, FeelRange):
        return in_range(value, test)
    if isinstance(test, list):
        same = isinstance(value, list) and equal(value, test) is True
        return same or any(_passes_element(value, element) is True for element in test)
    return equal(value, test)


def _passes_element(value: Any, element: Any) -> bool | None:
    if isinstance(element, FeelRange) and not isinstance(value, FeelRange):
        return in_range(value, element)
    return equal(value, element)
