"""Checking a filled-in form against its JSON Schema: the part of the language in which models
describe themselves.

Whoever decides need not have the model's code: the schema in the gate is enough. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from typing import Any

import msgspec

DEEPEST = 60
"""How deep a form may be nested."""

Schema = Mapping[str, Any]


class FormError(msgspec.Struct):
    """Which field does not fit, and why."""

    field: str
    why: str


def check(schema: Schema, data: bytes) -> FormError | None:
    """Return the first thing that does not fit, if there is any."""
    try:
        value = msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        return FormError("$", str(error))
    return _check(schema, value, "$", schema, 0)


def fields(schema: Schema) -> list[str]:
    """Return the names of the fields that must be filled in."""
    return [str(name) for name in _resolved(schema, schema).get("required", ())]


def _resolved(part: Schema, root: Schema) -> Schema:
    """Follow references within the schema."""
    for _ in range(DEEPEST):
        ref = part.get("$ref")
        if not isinstance(ref, str) or not ref.startswith("#/"):
            return part
        found: Any = root
        for name in ref[2:].split("/"):
            found = (
                found.get(name.replace("~1", "/").replace("~0", "~"), {})
                if isinstance(found, Mapping)
                else {}
            )
        part = {**found, **{name: rule for name, rule in part.items() if name != "$ref"}}
    return {}


def _check(part: Any, value: Any, at: str, root: Schema, depth: int) -> FormError | None:
    if not isinstance(part, Mapping):
        return None if part is not False else FormError(at, "nothing may stand here")
    if depth > DEEPEST:
        return FormError(at, "it is nested too deep")
    part = _resolved(part, root)
    kinds = part.get("type")
    if kinds is not None:
        allowed = [kinds] if isinstance(kinds, str) else list(kinds)
        if not any(_is(value, kind) for kind in allowed):
            return FormError(at, f"expected {' or '.join(allowed)}, got {_kind_of(value)}")
    for rule, test in _RULES.items():
        if rule in part and not test(part[rule], value):
            return FormError(at, f"{_shown(value)} breaks the rule {rule}: {_shown(part[rule])}")
    return _combined(part, value, at, root, depth) or _below(part, value, at, root, depth)


def _combined(part: Schema, value: Any, at: str, root: Schema, depth: int) -> FormError | None:
    for one in part.get("allOf", ()):
        if (wrong := _check(one, value, at, root, depth + 1)) is not None:
            return wrong
    choices = [*part.get("anyOf", ()), *part.get("oneOf", ())]
    if not choices:
        return None
    wrongs = [_check(one, value, at, root, depth + 1) for one in choices]
    if any(wrong is None for wrong in wrongs):
        return None
    told = [wrong for wrong in wrongs if wrong is not None]
    return max(told, key=lambda wrong: len(wrong.field))  # the one that got furthest says most


def _below(part: Schema, value: Any, at: str, root: Schema, depth: int) -> FormError | None:
    if isinstance(value, dict):
        return _object(part, value, at, root, depth)
    if not isinstance(value, list):
        return None
    first = part.get("prefixItems", ())
    rules = [*first, *[part.get("items", True)] * max(len(value) - len(first), 0)]
    for place, (rule, item) in enumerate(zip(rules, value, strict=False)):
        if (wrong := _check(rule, item, f"{at}[{place}]", root, depth + 1)) is not None:
            return wrong
    return None


def _object(
    part: Schema, value: dict[str, Any], at: str, root: Schema, depth: int
) -> FormError | None:
    known, rest = part.get("properties", {}), part.get("additionalProperties", True)
    for name in part.get("required", ()):
        if name not in value:
            return FormError(f"{at}.{name}", "it is missing")
    for name, item in value.items():
        if name not in known and rest is False:
            return FormError(f"{at}.{name}", "there is no such field")
        if (
            wrong := _check(known.get(name, rest), item, f"{at}.{name}", root, depth + 1)
        ) is not None:
            return wrong
        if "propertyNames" in part and (
            wrong := _check(part["propertyNames"], name, f"{at}.{name}", root, depth + 1)
        ):
            return wrong
    return None


def _is(value: Any, kind: str) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind == "integer":
        return number and float(value).is_integer()
    return number if kind == "number" else isinstance(value, _TYPES.get(kind, object))


_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "boolean": bool,
    "null": type(None),
    "array": list,
    "object": dict,
}


def _kind_of(value: Any) -> str:
    kinds = ("null", "boolean", "string", "array", "object", "integer", "number")
    return next((kind for kind in kinds if _is(value, kind)), type(value).__name__)


def _shown(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 60 else text[:57] + "..."


def _same(one: Any, other: Any) -> bool:
    return (
        type(one) is type(other) and one == other
        if isinstance(one, bool) or isinstance(other, bool)
        else bool(one == other)
    )


def _number(test: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    return lambda limit, value: not _is(value, "number") or test(value, limit)


def _length(kind: type[Any], test: Callable[[int, int], bool]) -> Callable[[Any, Any], bool]:
    return lambda limit, value: not isinstance(value, kind) or test(len(value), limit)


def _multiple(value: Any, of: Any) -> bool:
    ratio = value / of
    return bool(abs(ratio - round(ratio)) < 1e-9)


def _matches(pattern: str, value: Any) -> bool:
    return not isinstance(value, str) or re.search(pattern, value) is not None


def _formatted(name: str, value: Any) -> bool:
    read = _FORMATS.get(name)
    if read is None or not isinstance(value, str):
        return True
    try:
        read(value)
    except ValueError:
        return False
    return True


def _uuid(text: str) -> object:
    from uuid import UUID

    return UUID(text)


_FORMATS: dict[str, Callable[[str], object]] = {
    "date-time": datetime.fromisoformat,
    "date": date.fromisoformat,
    "time": time.fromisoformat,
    "uuid": _uuid,
}

_RULES: dict[str, Callable[[Any, Any], bool]] = {
    "const": _same,
    "enum": lambda allowed, value: any(_same(one, value) for one in allowed),
    "minimum": _number(lambda value, limit: value >= limit),
    "maximum": _number(lambda value, limit: value <= limit),
    "exclusiveMinimum": _number(lambda value, limit: value > limit),
    "exclusiveMaximum": _number(lambda value, limit: value < limit),
    "multipleOf": _number(_multiple),
    "minLength": _length(str, lambda length, limit: length >= limit),
    "maxLength": _length(str, lambda length, limit: length <= limit),
    "minItems": _length(list, lambda length, limit: length >= limit),
    "maxItems": _length(list, lambda length, limit: length <= limit),
    "minProperties": _length(dict, lambda length, limit: length >= limit),
    "maxProperties": _length(dict, lambda length, limit: length <= limit),
    "uniqueItems": lambda unique, value: (
        not unique
        or not isinstance(value, list)
        or len({msgspec.json.encode(item, order="sorted") for item in value}) == len(value)
    ),
    "pattern": _matches,
    "format": _formatted,
}
