"""Functions of FEEL that compare ranges and points, after Allen's interval algebra.

A point is the range that includes it alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.core.expressions.functions.signature import FunctionTable
from holdfast.core.expressions.operators import compare
from holdfast.core.expressions.scope import Evaluation
from holdfast.core.expressions.values import FeelRange

FUNCTIONS = FunctionTable()

Test = Callable[[FeelRange, FeelRange], bool]


class _NoOrder(Exception):
    """Two ends have no common order."""


def _order(left: Any, right: Any) -> int:
    order = compare(left, right)
    if order is None:
        raise _NoOrder
    return order


def _is_point(value: Any) -> bool:
    return not isinstance(value, FeelRange) and compare(value, value) is not None


def _range(value: Any) -> FeelRange:
    if isinstance(value, FeelRange):
        return value
    return FeelRange(value, value, True, True)


def _relation(name: str, parameters: str, test: Test, points: tuple[bool, bool]) -> None:
    """Define a function of two arguments; *points* tells which of them are points."""
    first, second = parameters.split()

    @FUNCTIONS.define(name, f"{first}:a, {second}:a")
    def relation(evaluation: Evaluation, left: Any, right: Any) -> bool | None:
        for value, point in zip((left, right), points, strict=True):
            if isinstance(value, FeelRange) is point or (point and not _is_point(value)):
                return None
        try:
            return test(_range(left), _range(right))
        except _NoOrder:
            return None


def _before(left: FeelRange, right: FeelRange) -> bool:
    order = _order(left.high, right.low)
    return order < 0 or (order == 0 and not (left.includes_high and right.includes_low))


def _meets(left: FeelRange, right: FeelRange) -> bool:
    return left.includes_high and right.includes_low and _order(left.high, right.low) == 0


def _overlaps(left: FeelRange, right: FeelRange) -> bool:
    return not _before(left, right) and not _before(right, left)


def _low_order(left: FeelRange, right: FeelRange) -> int:
    return _order(left.low, right.low) or int(right.includes_low) - int(left.includes_low)


def _high_order(left: FeelRange, right: FeelRange) -> int:
    return _order(left.high, right.high) or int(left.includes_high) - int(right.includes_high)


def _overlaps_before(left: FeelRange, right: FeelRange) -> bool:
    return (
        _low_order(left, right) < 0
        and _high_order(left, right) <= 0
        and not _before(left, right)
        and not (_order(left.high, right.high) == 0 and _high_order(left, right) > 0)
    )


def _overlaps_after(left: FeelRange, right: FeelRange) -> bool:
    return (
        _high_order(left, right) > 0 and _low_order(left, right) >= 0 and not _before(right, left)
    )


def _finishes(left: FeelRange, right: FeelRange) -> bool:
    return (
        left.includes_high == right.includes_high
        and _order(left.high, right.high) == 0
        and _low_order(left, right) >= 0
    )


def _starts(left: FeelRange, right: FeelRange) -> bool:
    return (
        left.includes_low == right.includes_low
        and _order(left.low, right.low) == 0
        and _high_order(left, right) <= 0
    )


def _includes(left: FeelRange, right: FeelRange) -> bool:
    return _low_order(left, right) <= 0 and _high_order(left, right) >= 0


def _coincides(left: FeelRange, right: FeelRange) -> bool:
    return _low_order(left, right) == 0 and _high_order(left, right) == 0


def _swapped(test: Test) -> Test:
    def swapped(left: FeelRange, right: FeelRange) -> bool:
        return test(right, left)

    return swapped


_POINTS = (True, True)
_RANGES = (False, False)
_POINT_RANGE = (True, False)
_RANGE_POINT = (False, True)

for _name, _test in (("before", _before), ("after", _swapped(_before))):
    _relation(_name, "point1 point2", _test, _POINTS)
    _relation(_name, "point range", _test, _POINT_RANGE)
    _relation(_name, "range point", _test, _RANGE_POINT)
    _relation(_name, "range1 range2", _test, _RANGES)
_relation("meets", "range1 range2", _meets, _RANGES)
_relation("met by", "range1 range2", _swapped(_meets), _RANGES)
_relation("overlaps", "range1 range2", _overlaps, _RANGES)
_relation("overlaps before", "range1 range2", _overlaps_before, _RANGES)
_relation("overlaps after", "range1 range2", _overlaps_after, _RANGES)
_relation("finishes", "point range", _finishes, _POINT_RANGE)
_relation("finishes", "range1 range2", _finishes, _RANGES)
_relation("finished by", "range point", _swapped(_finishes), _RANGE_POINT)
_relation("finished by", "range1 range2", _swapped(_finishes), _RANGES)
_relation("includes", "range point", _includes, _RANGE_POINT)
_relation("includes", "range1 range2", _includes, _RANGES)
_relation("during", "point range", _swapped(_includes), _POINT_RANGE)
_relation("during", "range1 range2", _swapped(_includes), _RANGES)
_relation("starts", "point range", _starts, _POINT_RANGE)
_relation("starts", "range1 range2", _starts, _RANGES)
_relation("started by", "range point", _swapped(_starts), _RANGE_POINT)
_relation("started by", "range1 range2", _swapped(_starts), _RANGES)
_relation("coincides", "point1 point2", _coincides, _POINTS)
_relation("coincides", "range1 range2", _coincides, _RANGES)
