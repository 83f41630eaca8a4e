"""Types of DMN: whether a value conforms to a declared type, and its implicit conversion.

A value that does not conform becomes null. A list of one element stands for its element, and an
element for a list of itself. A text becomes a date, time or duration if the type asks for one, so
that values may come from JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from holdfast.authoring.dmn.model import ItemType
from holdfast.core.expressions.feel_types import has_type
from holdfast.core.expressions.scope import Scope
from holdfast.core.expressions.temporal import (
    parse_date,
    parse_date_time,
    parse_duration,
    parse_time,
)
from holdfast.core.expressions.tree import TypeOf
from holdfast.core.expressions.values import FeelFunction

_TEMPORAL: dict[str, Callable[[str], Any]] = {
    "date": parse_date,
    "time": parse_time,
    "date and time": parse_date_time,
    "dateTime": parse_date_time,
    "days and time duration": parse_duration,
    "dayTimeDuration": parse_duration,
    "years and months duration": parse_duration,
    "yearMonthDuration": parse_duration,
}
_NUMBERS = {"integer": "number", "long": "number", "double": "number", "decimal": "number"}
_BUILT_IN = frozenset(
    ("number", "string", "boolean", "Any", "list", "context", "range", "function", *_TEMPORAL)
)


class TypeTable:
    """The declared types that a file can name, with those of its imports."""

    def __init__(self, types: Mapping[str, ItemType]) -> None:
        self._types: Mapping[str, ItemType] = types

    def knows(self, name: str) -> bool:
        """Return whether a name is a type."""
        return _canonical(name) in _BUILT_IN or name in self._types

    def conforms(self, value: Any, name: str, scope: Scope) -> bool:
        """Return whether a value that is not null has a type."""
        declared = self._types.get(name)
        if declared is not None:
            return self._fits(value, declared, scope)
        kind = _canonical(name)
        return kind not in _BUILT_IN or has_type(value, TypeOf(kind))

    def _fits(self, value: Any, declared: ItemType, scope: Scope) -> bool:
        if not declared.is_collection:
            return self._fits_item(value, declared, scope)
        if not isinstance(value, list):
            return False
        for element in value:
            if element is not None and not self._fits_item(element, declared, scope):
                return False
        return not declared.allowed_for_list or _allowed(value, declared, scope)

    def _fits_item(self, value: Any, declared: ItemType, scope: Scope) -> bool:
        if declared.is_function:
            return isinstance(value, FeelFunction)
        if declared.components:
            if not isinstance(value, dict):
                return False
            for name, component in declared.components:
                if name not in value:
                    return False
                if value[name] is not None and not self._fits(value[name], component, scope):
                    return False
        elif declared.base and not self.conforms(value, declared.base, scope):
            return False
        return declared.allowed_for_list or _allowed(value, declared, scope)

    def coerced(self, value: Any, name: str, scope: Scope) -> Any:
        """Return a value as a type needs it, null if it does not conform."""
        if value is None or not name:
            return value
        value = self.parsed(value, name)
        if value is None or self.conforms(value, name, scope):
            return value
        if isinstance(value, list) and len(value) == 1 and self.conforms(value[0], name, scope):
            return value[0]
        if self.conforms([value], name, scope) and self._is_collection(name):
            return [value]
        return None

    def _is_collection(self, name: str) -> bool:
        declared = self._types.get(name)
        return name == "list" or (declared is not None and declared.is_collection)

    def parsed(self, value: Any, name: str) -> Any:
        """Return a value whose texts have become dates, times and durations where the type has
        them."""
        declared = self._types.get(name)
        if declared is None:
            parse = _TEMPORAL.get(name)
            if parse is None or not isinstance(value, str):
                return value
            return parse(value)
        return self._parsed_declared(value, declared)

    def _parsed_declared(self, value: Any, declared: ItemType) -> Any:
        if declared.is_collection and isinstance(value, list):
            return [self._parsed_item(element, declared) for element in value]
        return self._parsed_item(value, declared)

    def _parsed_item(self, value: Any, declared: ItemType) -> Any:
        if declared.components and isinstance(value, dict):
            entries = {
                name: self._parsed_declared(value[name], component)
                for name, component in declared.components
                if name in value
            }
            return {**value, **entries}
        if declared.base:
            return self.parsed(value, declared.base)
        return value


def _canonical(name: str) -> str:
    return _NUMBERS.get(name, name)


def _allowed(value: Any, declared: ItemType, scope: Scope) -> bool:
    if declared.allowed is None:
        return True
    return declared.allowed(scope.inner({"?": value})) is True
