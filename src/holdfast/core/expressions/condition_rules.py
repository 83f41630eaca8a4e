"""Operators and functions of the conditions of `.wf` texts and of models in JSON form."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

from holdfast.core.expressions.scope import MISSING, Scope
from holdfast.core.expressions.strict import LanguageRules, Unusable, kind_of

Number = int | float


def find_or_null(scope: Scope, name: str) -> Any:
    """Return the value of a variable, null if it is missing."""
    value = scope.find(name)
    if value is MISSING:
        return None
    return value


def _field(base: Any, name: str) -> Any:
    if isinstance(base, Mapping):
        return base.get(name)
    if base is None:
        return None
    raise Unusable(f"a {kind_of(base)} has no field `{name}`")


def _item(base: Any, key: Any) -> Any:
    if base is None:
        return None
    if isinstance(base, Mapping) and isinstance(key, str):
        return base.get(key)
    if isinstance(base, list | tuple) and _is_whole(key):
        if -len(base) <= key < len(base):
            return base[key]
        return None
    raise Unusable(f"a {kind_of(base)} has no element at {key!r}")


def _truth(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    raise Unusable(f"{shown_value(value)} is neither true nor false")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def shown_value(value: Any) -> str:
    """Return a value for an error, shortened, with its type."""
    text = repr(value)
    if len(text) > 60:
        text = f"{text[:60]}..."
    return f"{text} ({kind_of(value)})"


def same(left: Any, right: Any) -> bool:
    """Return whether two values are equal; values of different types are not."""
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if kind_of(left) != kind_of(right):
        return False
    return bool(left == right)


def _ordered(symbol: str, compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def ordered(left: Any, right: Any) -> bool:
        numbers = _is_number(left) and _is_number(right)
        if numbers or (isinstance(left, str) and isinstance(right, str)):
            return compare(left, right)
        raise Unusable(f"`{symbol}` compares {shown_value(left)} with {shown_value(right)}")

    return ordered


def _arithmetic(symbol: str, compute: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def arithmetic(left: Any, right: Any) -> Any:
        if not (_is_number(left) and _is_number(right)):
            why = f"`{symbol}` is applied to {shown_value(left)} and {shown_value(right)}"
            raise Unusable(why)
        try:
            return compute(left, right)
        except ZeroDivisionError:
            raise Unusable("the divisor is zero") from None
        except OverflowError:
            raise Unusable("the number is too large") from None

    return arithmetic


_add_numbers = _arithmetic("+", operator.add)


def _add(left: Any, right: Any) -> Any:
    if isinstance(left, str) and isinstance(right, str):
        return left + right
    if isinstance(left, list) and isinstance(right, list):
        return left + right
    return _add_numbers(left, right)


def _divide(left: Number, right: Number) -> Number:
    if _is_whole(left) and _is_whole(right) and right != 0 and left % right == 0:
        return left // right
    return left / right


def _contains(left: Any, right: Any) -> bool:
    if isinstance(right, str) and isinstance(left, str):
        return left in right
    if isinstance(right, list | tuple):
        return any(same(left, element) for element in right)
    if isinstance(right, Mapping):
        return left in right
    raise Unusable(f"`in` looks for {shown_value(left)} in {shown_value(right)}")


def _negate(value: Any) -> Any:
    if _is_number(value):
        return -value
    raise Unusable(f"a sign stands before {shown_value(value)}")


def _plus(value: Any) -> Any:
    if _is_number(value):
        return value
    raise Unusable(f"a sign stands before {shown_value(value)}")


def _length(scope: Scope, value: Any) -> int:
    if isinstance(value, str | list | tuple | Mapping):
        return len(value)
    raise Unusable(f"`length` is applied to {shown_value(value)}")


def _number(scope: Scope, value: Any) -> Number:
    if _is_number(value):
        return float(value) if isinstance(value, float) else int(value)
    return number_of_text(value)


def number_of_text(value: Any) -> Number:
    """Return the number that a text shows. Raises Unusable."""
    if not isinstance(value, str) or len(value) > 300:
        raise Unusable(f"{shown_value(value)} is not a number")
    try:
        number = float(value)
        whole = value.strip().lstrip("+-").isdigit()
    except ValueError:
        raise Unusable(f"{shown_value(value)} is not a number") from None
    if not math.isfinite(number):
        raise Unusable(f"{shown_value(value)} is not a number")
    if whole:
        return int(value)
    return number


def text_of_value(value: Any) -> str:
    """Return a value as a text: booleans and null as their words."""
    if isinstance(value, str):
        return value
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    raise Unusable(f"a {kind_of(value)} has no text")


def _numbers(name: str, values: tuple[Any, ...]) -> list[Number]:
    if len(values) == 1 and isinstance(values[0], list | tuple):
        values = tuple(values[0])
    for value in values:
        if not _is_number(value):
            raise Unusable(f"`{name}` is applied to {shown_value(value)}")
    return list(values)


def _least(scope: Scope, *values: Any) -> Number | None:
    return min(_numbers("min", values), default=None)


def _greatest(scope: Scope, *values: Any) -> Number | None:
    return max(_numbers("max", values), default=None)


def _sum(scope: Scope, *values: Any) -> Number:
    numbers = _numbers("sum", values)
    scope.evaluation.step(len(numbers))
    return sum(numbers)


CONDITIONS = LanguageRules(
    name=find_or_null,
    field=_field,
    item=_item,
    truth=_truth,
    unary={"-": _negate, "+": _plus},
    binary={
        "==": same,
        "!=": lambda left, right: not same(left, right),
        "<": _ordered("<", operator.lt),
        "<=": _ordered("<=", operator.le),
        ">": _ordered(">", operator.gt),
        ">=": _ordered(">=", operator.ge),
        "in": _contains,
        "+": _add,
        "-": _arithmetic("-", operator.sub),
        "*": _arithmetic("*", operator.mul),
        "/": _arithmetic("/", _divide),
        "%": _arithmetic("%", operator.mod),
    },
    functions={
        "length": _length,
        "lower": lambda scope, text: str.lower(text),
        "upper": lambda scope, text: str.upper(text),
        "starts_with": lambda scope, text, start: str.startswith(text, start),
        "ends_with": lambda scope, text, end: str.endswith(text, end),
        "number": _number,
        "string": lambda scope, value: text_of_value(value),
        "min": _least,
        "max": _greatest,
        "sum": _sum,
    },
    methods={},
)


def _is_set(value: Any) -> bool:
    return value is not None and value is not False and value != ""


def _same_text(left: Any, right: Any) -> bool:
    if left is None or isinstance(left, list | Mapping) or isinstance(right, list | Mapping):
        return False
    return text_of_value(left) == text_of_value(right)


def _as_number(compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def compared(left: Any, right: Any) -> bool:
        numbers = []
        for value in (left, right):
            if _is_number(value):
                numbers.append(value)
            else:
                numbers.append(number_of_text(value))
        return compare(*numbers)

    return compared


TEXT_CONDITIONS = LanguageRules(
    name=find_or_null,
    field=_field,
    item=_item,
    truth=_truth,
    unary={"set": _is_set},
    binary={
        "==": _same_text,
        "!=": lambda left, right: not _same_text(left, right),
        "<": _as_number(operator.lt),
        "<=": _as_number(operator.le),
        ">": _as_number(operator.gt),
        ">=": _as_number(operator.ge),
    },
    functions={},
    methods={},
)
