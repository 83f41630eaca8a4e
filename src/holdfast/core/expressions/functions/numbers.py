"""Functions of FEEL for numbers, and for lists of numbers."""

from __future__ import annotations

import decimal
from collections import Counter
from decimal import Decimal
from typing import Any

from holdfast.core.expressions.functions.signature import FunctionTable
from holdfast.core.expressions.operators import add, compare, multiply
from holdfast.core.expressions.scope import Evaluation
from holdfast.core.expressions.temporal import DayTimeDuration, YearMonthDuration
from holdfast.core.expressions.values import NUMBERS

FUNCTIONS = FunctionTable()

_SMALLEST_SCALE = -6111
_LARGEST_SCALE = 6176


def _rounded(value: Decimal, scale: Decimal, mode: str) -> Decimal | None:
    places = int(scale)
    if not _SMALLEST_SCALE <= places <= _LARGEST_SCALE:
        return None
    exponent = value.as_tuple().exponent
    if isinstance(exponent, int) and -exponent <= places:
        return value  # it has no more digits than that
    wide = decimal.Context(prec=7000, rounding=mode, Emax=7000, Emin=-7000)
    return value.quantize(Decimal(1).scaleb(-places), context=wide)


def _rounding(name: str, mode: str, optional: bool = False) -> None:
    scale = "scale?:n" if optional else "scale:n"

    @FUNCTIONS.define(name, f"n:n, {scale}")
    def rounding(evaluation: Evaluation, value: Decimal, scale: Decimal = Decimal(0)) -> Any:
        return _rounded(value, scale, mode)


_rounding("decimal", decimal.ROUND_HALF_EVEN)
_rounding("floor", decimal.ROUND_FLOOR, optional=True)
_rounding("ceiling", decimal.ROUND_CEILING, optional=True)
_rounding("round up", decimal.ROUND_UP)
_rounding("round down", decimal.ROUND_DOWN)
_rounding("round half up", decimal.ROUND_HALF_UP)
_rounding("round half down", decimal.ROUND_HALF_DOWN)


@FUNCTIONS.define("abs", "n:a")
def _abs(evaluation: Evaluation, value: Any) -> Any:
    if isinstance(value, Decimal):
        return abs(value)
    if isinstance(value, DayTimeDuration):
        return DayTimeDuration(abs(value.nanos))
    if isinstance(value, YearMonthDuration):
        return YearMonthDuration(abs(value.months))
    return None


@FUNCTIONS.define("modulo", "dividend:n, divisor:n")
def _modulo(evaluation: Evaluation, dividend: Decimal, divisor: Decimal) -> Decimal | None:
    if divisor == 0:
        return None
    quotient = NUMBERS.divide(dividend, divisor).to_integral_value(decimal.ROUND_FLOOR)
    return NUMBERS.subtract(dividend, NUMBERS.multiply(divisor, quotient))


@FUNCTIONS.define("sqrt", "number:n")
def _sqrt(evaluation: Evaluation, value: Decimal) -> Decimal | None:
    if value < 0:
        return None
    return value.sqrt(NUMBERS)


@FUNCTIONS.define("log", "number:n")
def _log(evaluation: Evaluation, value: Decimal) -> Decimal | None:
    if value <= 0:
        return None
    return value.ln(NUMBERS)


@FUNCTIONS.define("exp", "number:n")
def _exp(evaluation: Evaluation, value: Decimal) -> Decimal | None:
    if value > 15_000:
        return None
    return value.exp(NUMBERS)


@FUNCTIONS.define("odd", "number:n")
def _odd(evaluation: Evaluation, value: Decimal) -> bool | None:
    return _remainder(value, 1)


@FUNCTIONS.define("even", "number:n")
def _even(evaluation: Evaluation, value: Decimal) -> bool | None:
    return _remainder(value, 0)


def _remainder(value: Decimal, wanted: int) -> bool | None:
    if value != value.to_integral_value():
        return None
    return int(value) % 2 == wanted


# Lists of numbers


def _numbers(evaluation: Evaluation, values: list[Any]) -> list[Decimal] | None:
    evaluation.step(len(values))
    if values and all(isinstance(value, Decimal) for value in values):
        return values
    return None


def _extreme(values: list[Any], evaluation: Evaluation, wanted: int) -> Any:
    evaluation.step(len(values))
    if not values:
        return None
    best = values[0]
    for value in values[1:]:
        order = compare(value, best)
        if order is None:
            return None
        if order == wanted:
            best = value
    if compare(best, best) is None:
        return None
    return best


@FUNCTIONS.define("min", "...list:l")
def _min(evaluation: Evaluation, values: list[Any]) -> Any:
    return _extreme(values, evaluation, -1)


@FUNCTIONS.define("max", "...list:l")
def _max(evaluation: Evaluation, values: list[Any]) -> Any:
    return _extreme(values, evaluation, 1)


@FUNCTIONS.define("sum", "...list:l")
def _sum(evaluation: Evaluation, values: list[Any]) -> Any:
    evaluation.step(len(values))
    if not values:
        return None
    total = values[0]
    if isinstance(total, str):
        return None
    for value in values[1:]:
        total = add(total, value)
    return add(total, _zero(total))


def _zero(value: Any) -> Any:
    """Return a neutral value of the same type; null for types that have no sum."""
    if isinstance(value, Decimal):
        return Decimal(0)
    if isinstance(value, DayTimeDuration):
        return DayTimeDuration(0)
    if isinstance(value, YearMonthDuration):
        return YearMonthDuration(0)
    return None


@FUNCTIONS.define("product", "...list:l")
def _product(evaluation: Evaluation, values: list[Any]) -> Any:
    numbers = _numbers(evaluation, values)
    if numbers is None:
        return None
    total = Decimal(1)
    for number in numbers:
        total = multiply(total, number)
    return total


@FUNCTIONS.define("mean", "...list:l")
def _mean(evaluation: Evaluation, values: list[Any]) -> Any:
    numbers = _numbers(evaluation, values)
    if numbers is None:
        return None
    return NUMBERS.divide(_total(numbers), Decimal(len(numbers)))


def _total(numbers: list[Decimal]) -> Decimal:
    total = Decimal(0)
    for number in numbers:
        total = NUMBERS.add(total, number)
    return total


@FUNCTIONS.define("median", "...list:l")
def _median(evaluation: Evaluation, values: list[Any]) -> Any:
    numbers = _numbers(evaluation, values)
    if numbers is None:
        return None
    ordered = sorted(numbers)
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return NUMBERS.divide(NUMBERS.add(ordered[middle - 1], ordered[middle]), Decimal(2))


@FUNCTIONS.define("stddev", "...list:l")
def _stddev(evaluation: Evaluation, values: list[Any]) -> Any:
    numbers = _numbers(evaluation, values)
    if numbers is None or len(numbers) < 2:
        return None
    mean = NUMBERS.divide(_total(numbers), Decimal(len(numbers)))
    squares = [NUMBERS.power(NUMBERS.subtract(number, mean), 2) for number in numbers]
    return NUMBERS.divide(_total(squares), Decimal(len(numbers) - 1)).sqrt(NUMBERS)


@FUNCTIONS.define("mode", "...list:l")
def _mode(evaluation: Evaluation, values: list[Any]) -> Any:
    if not values:
        return []
    numbers = _numbers(evaluation, values)
    if numbers is None:
        return None
    counts = Counter(numbers)
    most = max(counts.values())
    return sorted(number for number, count in counts.items() if count == most)
