"""Operators of JUEL: the rules of the unified expression language for coercion and null."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from datetime import date, datetime
from typing import Any

from holdfast.core.expressions.condition_rules import (
    number_of_text,
    same,
    shown_value,
    text_of_value,
)
from holdfast.core.expressions.juel_functions import FUNCTIONS, METHODS, is_empty
from holdfast.core.expressions.scope import MISSING, Scope
from holdfast.core.expressions.strict import LanguageRules, Unusable, kind_of


def _find(scope: Scope, name: str) -> Any:
    value = scope.find(name)
    if value is MISSING:
        raise Unusable(f"the variable `{name}` has no value", missing=True)
    return value


def _field(base: Any, name: str) -> Any:
    if isinstance(base, Mapping):
        return base.get(name)
    if base is None:
        raise Unusable(f"null has no field `{name}`", missing=True)
    if isinstance(base, str | list | tuple) and name in ("length", "size"):
        return len(base)
    raise Unusable(f"a {kind_of(base)} has no field `{name}`")


def _item(base: Any, key: Any) -> Any:
    if isinstance(base, Mapping):
        return base.get(key)
    if isinstance(base, list | tuple):
        position = _number(key)
        if isinstance(position, int) and 0 <= position < len(base):
            return base[position]
        return None
    raise Unusable(f"a {kind_of(base)} has no element at {key!r}", missing=base is None)


def _truth(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if value is None or value == "":
        return False
    if isinstance(value, str):
        return value.lower() == "true"
    raise Unusable(f"{shown_value(value)} is neither true nor false")


def _number(value: Any) -> int | float:
    if isinstance(value, bool) or not (value is None or isinstance(value, int | float | str)):
        raise Unusable(f"{shown_value(value)} is not a number")
    if value is None or value == "":
        return 0
    if isinstance(value, str):
        return number_of_text(value)
    return value


def _equal(left: Any, right: Any) -> bool:
    if left is None or right is None:
        return left is right
    for value, other in ((left, right), (right, left)):
        if isinstance(value, bool) and isinstance(other, str):
            return _truth(other) is value
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if number and isinstance(other, str):
            return bool(number_of_text(other) == value)
    return same(left, right)


def _ordered(symbol: str, compare: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    equal_counts = symbol in ("<=", ">=")

    def ordered(left: Any, right: Any) -> bool:
        if left is None or right is None:
            return equal_counts and left is right
        if isinstance(left, str) and isinstance(right, str):
            return compare(left, right)
        if isinstance(left, datetime) and isinstance(right, datetime):
            return _compared(symbol, compare, left, right)
        if type(left) is date and type(right) is date:
            return compare(left, right)
        return compare(_number(left), _number(right))

    return ordered


def _compared(
    symbol: str, compare: Callable[[Any, Any], bool], left: datetime, right: datetime
) -> bool:
    try:
        return compare(left, right)
    except TypeError:
        raise Unusable(f"`{symbol}` compares a time with a zone and one without") from None


def _arithmetic(compute: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def arithmetic(left: Any, right: Any) -> Any:
        try:
            return compute(_number(left), _number(right))
        except ZeroDivisionError:
            raise Unusable("the divisor is zero") from None
        except OverflowError:
            raise Unusable("the number is too large") from None

    return arithmetic


def _negate(value: Any) -> Any:
    return -_number(value)


def _concatenate(values: list[Any]) -> str:
    return "".join(text_of_value(value) for value in values if value is not None)


JUEL = LanguageRules(
    name=_find,
    field=_field,
    item=_item,
    truth=_truth,
    unary={"-": _negate, "empty": is_empty, "concatenate": _concatenate},
    binary={
        "==": _equal,
        "!=": lambda left, right: not _equal(left, right),
        "<": _ordered("<", operator.lt),
        "<=": _ordered("<=", operator.le),
        ">": _ordered(">", operator.gt),
        ">=": _ordered(">=", operator.ge),
        "+": _arithmetic(operator.add),
        "-": _arithmetic(operator.sub),
        "*": _arithmetic(operator.mul),
        "/": _arithmetic(operator.truediv),
        "%": _arithmetic(operator.mod),
    },
    functions=FUNCTIONS,
    methods=METHODS,
)
