"""Types of FEEL: their texts, and whether a value has one."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from holdfast.core.expressions.cursor import TokenCursor
from holdfast.core.expressions.feel_names import KEYWORDS, NameTable, joined, match_name, name_table
from holdfast.core.expressions.temporal import (
    DayTimeDuration,
    FeelDate,
    FeelDateTime,
    FeelTime,
    YearMonthDuration,
)
from holdfast.core.expressions.tree import TypeOf
from holdfast.core.expressions.values import FeelFunction, FeelRange

_TYPES: dict[str, tuple[type, ...]] = {
    "number": (Decimal,),
    "string": (str,),
    "boolean": (bool,),
    "date": (FeelDate,),
    "time": (FeelTime,),
    "date and time": (FeelDateTime,),
    "dateTime": (FeelDateTime,),
    "days and time duration": (DayTimeDuration,),
    "dayTimeDuration": (DayTimeDuration,),
    "years and months duration": (YearMonthDuration,),
    "yearMonthDuration": (YearMonthDuration,),
    "list": (list,),
    "context": (dict,),
    "range": (FeelRange,),
    "function": (FeelFunction,),
}
_NAMES = name_table(frozenset(_TYPES))

Resolve = Callable[[str], Any]
"""A function from the name of a declared type to a function that tells whether a value has it."""


def parse_type(cursor: TokenCursor, table: NameTable) -> TypeOf:
    """Parse a type, as after ``instance of``."""
    cursor.deepen()
    name = _type_name(cursor, table)
    elements: list[TypeOf] = []
    fields: list[tuple[str, TypeOf]] = []
    if cursor.accept("<"):
        _parse_parts(cursor, table, name, elements, fields)
        cursor.expect(">", "to close the type")
    if name == "function" and cursor.accept("->"):
        elements.append(parse_type(cursor, table))
    cursor.depth -= 1
    return TypeOf(name, tuple(elements), tuple(fields))


def _parse_parts(
    cursor: TokenCursor,
    table: NameTable,
    name: str,
    elements: list[TypeOf],
    fields: list[tuple[str, TypeOf]],
) -> None:
    while not cursor.at(">"):
        if elements or fields:
            cursor.expect(",", "between the types")
        if name == "context":
            field = _type_name(cursor, table)
            cursor.expect(":", "after the name of a field")
            fields.append((field, parse_type(cursor, table)))
        else:
            elements.append(parse_type(cursor, table))


def _type_name(cursor: TokenCursor, table: NameTable) -> str:
    count = match_name(cursor.tokens, cursor.index, _NAMES)
    count = max(count, match_name(cursor.tokens, cursor.index, table))
    if not count:
        if cursor.token.kind != "word":
            cursor.fail("the name of a type is missing")
        count = 1
        while cursor.peek(count).kind == "word" and cursor.peek(count).text not in KEYWORDS:
            count += 1
        while cursor.peek(count).text == "." and cursor.peek(count + 1).kind == "word":
            count += 2
    name = joined(cursor.tokens[cursor.index : cursor.index + count])
    cursor.move(cursor.index + count)
    return name


def has_type(value: Any, kind: TypeOf, resolve: Resolve | None = None) -> bool:
    """Return whether a value has a type; null has none."""
    if value is None or kind.name == "Null":
        return value is None and kind.name == "Null"
    if kind.name == "Any":
        return True
    types = _TYPES.get(kind.name)
    if types is None:
        test = resolve and resolve(kind.name)
        return bool(test and test(value))
    if not isinstance(value, types):
        return False
    if isinstance(value, list) and kind.elements:
        return all(_fits(element, kind.elements[0], resolve) for element in value)
    if isinstance(value, dict):
        return all(_has_field(value, name, field, resolve) for name, field in kind.fields)
    if isinstance(value, FeelRange) and kind.elements:
        ends = [end for end in (value.low, value.high) if end is not None]
        return all(has_type(end, kind.elements[0], resolve) for end in ends)
    if isinstance(value, FeelFunction) and kind.elements:
        return len(value.parameters) == len(kind.elements) - 1
    return True


def _has_field(value: dict[str, Any], name: str, kind: TypeOf, resolve: Resolve | None) -> bool:
    return name in value and _fits(value[name], kind, resolve)


def _fits(value: Any, kind: TypeOf, resolve: Resolve | None) -> bool:
    return value is None or has_type(value, kind, resolve)
