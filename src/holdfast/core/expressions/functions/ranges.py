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


def _range(value: Any) -> FeelRange:
    if isinstance(value, FeelRange):
        return value
    return FeelRange(value, value, True, True)


def _relation(name: str, parameters: str, test: Test) -> None:
    """Define a function of two arguments, written ``"point:p, range:r"``."""

    @FUNCTIONS.define(name, parameters)
    def relation(evaluation: Evaluation, left: Any, right: Any) -> bool | None:
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


_POINTS = "point1:p, point2:p"
_RANGES = "range1:r, range2:r"
_POINT_RANGE = "point:p, range:r"
_RANGE_POINT = "range:r, point:p"

for _name, _test in (("before", _before), ("after", _swapped(_before))):
    _relation(_name, _POINTS, _test)
    _relation(_name, _POINT_RANGE, _test)
    _relation(_name, _RANGE_POINT, _test)
    _relation(_name, _RANGES, _test)
_relation("meets", _RANGES, _meets)
_relation("met by", _RANGES, _swapped(_meets))
_relation("overlaps", _RANGES, _overlaps)
_relation("overlaps before", _RANGES, _overlaps_before)
_relation("overlaps after", _RANGES, _overlaps_after)
_relation("finishes", _POINT_RANGE, _finishes)
_relation("finishes", _RANGES, _finishes)
_relation("finished by", _RANGE_POINT, _swapped(_finishes))
_relation("finished by", _RANGES, _swapped(_finishes))
_relation("includes", _RANGE_POINT, _includes)
_relation("includes", _RANGES, _includes)
_relation("during", _POINT_RANGE, _swapped(_includes))
_relation("during", _RANGES, _swapped(_includes))
_relation("starts", _POINT_RANGE, _starts)
_relation("starts", _RANGES, _starts)
_relation("started by", _RANGE_POINT, _swapped(_starts))
_relation("started by", _RANGES, _swapped(_starts))
_relation("coincides", _POINTS, _coincides)
_relation("coincides", _RANGES, _coincides)
