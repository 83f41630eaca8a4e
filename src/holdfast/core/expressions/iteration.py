"""The values that `for`, `some` and `every` of FEEL iterate over."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from holdfast.core.expressions.scope import Evaluation
from holdfast.core.expressions.temporal import FeelDate, civil_from_days
from holdfast.core.expressions.values import FeelRange


def elements_of(domain: Any, evaluation: Evaluation) -> Iterable[Any] | None:
    """Return the values of a list, or of a range of whole numbers or of dates; None if the domain
    has no values to iterate over."""
    if isinstance(domain, list):
        return domain
    if isinstance(domain, FeelRange):
        return _range_values(domain, evaluation)
    if domain is None:
        return None
    return [domain]


def _range_values(domain: FeelRange, evaluation: Evaluation) -> Iterable[Any] | None:
    low = _place(domain.low)
    high = _place(domain.high)
    if low is None or high is None or type(domain.low) is not type(domain.high):
        return None
    step = 1
    if low > high:
        if domain.operator != "..":
            return None
        step = -1
    first = low + step * (not domain.includes_low)
    last = high - step * (not domain.includes_high)
    places = range(first, last + step, step)
    evaluation.step(len(places))
    if isinstance(domain.low, FeelDate):
        return map(civil_from_days, places)
    return map(Decimal, places)


def _place(end: Any) -> int | None:
    if isinstance(end, FeelDate):
        return end.ordinal()
    if isinstance(end, Decimal) and end == end.to_integral_value() and end.adjusted() < 15:
        return int(end)
    return None
