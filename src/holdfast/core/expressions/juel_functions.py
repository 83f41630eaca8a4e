"""The methods and functions that a JUEL expression can call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from holdfast.core.expressions.condition_rules import same, text_of_value
from holdfast.core.expressions.scope import MISSING, Scope
from holdfast.core.expressions.strict import Unusable, kind_of

Container = str | list | tuple | Mapping  # type: ignore[type-arg]


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise Unusable(f"a {kind_of(value)} has no methods of texts")


def _size(value: Any) -> int:
    if isinstance(value, Container):
        return len(value)
    raise Unusable(f"a {kind_of(value)} has no size")


def is_empty(value: Any) -> bool:
    """Return whether a value is null, or a text, list or context without content."""
    return value is None or (isinstance(value, Container) and len(value) == 0)


def _contains(value: Any, wanted: Any) -> bool:
    if isinstance(value, str):
        return str(wanted) in value
    if isinstance(value, list | tuple):
        return any(same(wanted, element) for element in value)
    return _contains_key(value, wanted)


def _contains_key(value: Any, wanted: Any) -> bool:
    if isinstance(value, Mapping):
        return wanted in value
    raise Unusable(f"a {kind_of(value)} contains nothing")


def _get(value: Any, key: Any) -> Any:
    if isinstance(value, Mapping):
        return value.get(key)
    if isinstance(value, list | tuple):
        return value[key]
    raise Unusable(f"a {kind_of(value)} has no elements")


def _get_or_default(value: Any, key: Any, default: Any) -> Any:
    if isinstance(value, Mapping):
        return value.get(key, default)
    raise Unusable(f"a {kind_of(value)} has no elements")


def _index_of(value: Any, wanted: Any) -> int:
    if isinstance(value, str):
        return value.find(wanted)
    for position, element in enumerate(value):
        if same(element, wanted):
            return position
    return -1


def _substring(value: Any, start: int, end: int | None = None) -> str:
    return _text(value)[start:end]


def _compare(left: Any, right: Any) -> int:
    return int(left > right) - int(left < right)


def _replace(value: Any, old: str, new: str) -> str:
    text = _text(value)
    if len(text) + text.count(old) * len(new) > 1_000_000:
        raise Unusable("the text becomes too long")
    return text.replace(old, new)


METHODS: dict[str, Callable[..., Any]] = {
    "charAt": lambda text, index: _text(text)[index],
    "compareTo": _compare,
    "concat": lambda text, other: _text(text) + _text(other),
    "contains": _contains,
    "containsKey": _contains_key,
    "containsValue": lambda value, wanted: _contains(list(value.values()), wanted),
    "doubleValue": lambda value: float(value),
    "endsWith": lambda text, end: _text(text).endswith(end),
    "equals": lambda left, right: same(left, right),
    "equalsIgnoreCase": lambda text, other: _text(text).casefold() == str(other).casefold(),
    "get": _get,
    "getOrDefault": _get_or_default,
    "indexOf": _index_of,
    "intValue": lambda value: int(value),
    "isBlank": lambda text: not _text(text).strip(),
    "isEmpty": is_empty,
    "length": lambda text: len(_text(text)),
    "longValue": lambda value: int(value),
    "replace": _replace,
    "size": _size,
    "startsWith": lambda text, start: _text(text).startswith(start),
    "substring": _substring,
    "toLowerCase": lambda text: _text(text).lower(),
    "toString": text_of_value,
    "toUpperCase": lambda text: _text(text).upper(),
    "trim": lambda text: _text(text).strip(),
}


def _variable(scope: Scope, name: str) -> Any:
    value = scope.find(name)
    if value is MISSING:
        return None
    return value


def _variable_or(scope: Scope, name: str, default: Any) -> Any:
    value = _variable(scope, name)
    if value is None:
        return default
    return value


EXECUTION_METHODS: dict[str, Callable[..., Any]] = {
    "getVariable": _variable,
    "getVariableLocal": _variable,
    "hasVariable": lambda scope, name: scope.find(name) is not MISSING,
    "hasVariableLocal": lambda scope, name: scope.find(name) is not MISSING,
}


def _time(scope: Scope) -> Any:
    if scope.evaluation.now is None:
        raise Unusable("the time is not known here")
    return scope.evaluation.now


_VARIABLE_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "get": _variable,
    "getOrDefault": _variable_or,
    "exists": lambda scope, name: _variable(scope, name) is not None,
    "empty": lambda scope, name: is_empty(_variable(scope, name)),
    "isEmpty": lambda scope, name: is_empty(_variable(scope, name)),
    "notEmpty": lambda scope, name: not is_empty(_variable(scope, name)),
    "isNotEmpty": lambda scope, name: not is_empty(_variable(scope, name)),
    "equals": lambda scope, name, value: same(_variable(scope, name), value),
    "eq": lambda scope, name, value: same(_variable(scope, name), value),
    "notEquals": lambda scope, name, value: not same(_variable(scope, name), value),
    "ne": lambda scope, name, value: not same(_variable(scope, name), value),
    "contains": lambda scope, name, value: _contains(_variable(scope, name), value),
    "lt": lambda scope, name, value: _variable(scope, name) < value,
    "lowerThan": lambda scope, name, value: _variable(scope, name) < value,
    "lte": lambda scope, name, value: _variable(scope, name) <= value,
    "lowerThanOrEquals": lambda scope, name, value: _variable(scope, name) <= value,
    "gt": lambda scope, name, value: _variable(scope, name) > value,
    "greaterThan": lambda scope, name, value: _variable(scope, name) > value,
    "gte": lambda scope, name, value: _variable(scope, name) >= value,
    "greaterThanOrEquals": lambda scope, name, value: _variable(scope, name) >= value,
}

FUNCTIONS: dict[str, Callable[..., Any]] = {
    "now": _time,
    "dateTime": _time,
    **{f"execution.{name}": function for name, function in EXECUTION_METHODS.items()},
    **{
        f"{prefix}:{name}": function
        for prefix in ("vars", "var", "variables")
        for name, function in _VARIABLE_FUNCTIONS.items()
    },
}
"""Functions of the scope and the arguments. A name with a dot is written as a method."""
