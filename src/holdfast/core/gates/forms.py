"""Validation of a filled-in form against its JSON Schema. Pure.

It supports the part of JSON Schema that Pydantic and msgspec generate for models. The process in
which a person decides need not have the code of the model: the schema in the gate is enough.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from typing import Any

import msgspec

DEEPEST = 60
"""The largest number of nested levels of a form, and of references that are followed."""

Schema = Mapping[str, Any]


class FormError(msgspec.Struct):
    """A field that does not match the schema, and why."""

    field: str
    why: str


def check(schema: Schema, data: bytes) -> FormError | None:
    """Return the first error of a form, or None if it matches. *data* is JSON."""
    try:
        value = msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        return FormError("$", str(error))
    return _check(schema, value, "$", schema, 0)


def check_all(schema: Schema, data: bytes) -> list[FormError]:
    """Return the errors of a form: every missing field, and the first error of every other field of
    the form. *data* is JSON."""
    first = check(schema, data)
    if first is None:
        return []
    part = _resolved(schema, schema)
    value = msgspec.json.decode(data) if first.field != "$" else None
    if not isinstance(value, dict):
        return [first]
    errors = [
        FormError(f"$.{name}", "the field is missing")
        for name in part.get("required", ())
        if name not in value
    ]
    for name, item in value.items():
        alone = {**part, "required": ()}
        error = _check_object(alone, {name: item}, "$", schema, 0)
        if error is not None:
            errors.append(error)
    return errors or [first]


UNCHECKED = frozenset(
    [
        "$dynamicRef",
        "$recursiveRef",
        "additionalItems",
        "contains",
        "dependencies",
        "dependentRequired",
        "dependentSchemas",
        "else",
        "if",
        "maxContains",
        "minContains",
        "not",
        "patternProperties",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    ]
)
"""The keywords of JSON Schema that restrict a value and that are not checked here."""

_SCHEMAS = ("additionalProperties", "items", "propertyNames")
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_MAPS = ("$defs", "definitions", "properties")


def unchecked(schema: Schema) -> str | None:
    """Return the place of the first keyword that is not checked, as in ``$.amount: not``; None if
    everything is checked. Unknown keywords are notes for the reader of the schema."""
    waiting: list[tuple[str, Any]] = [("$", schema)]
    while waiting:
        at, part = waiting.pop()
        if not isinstance(part, Mapping):
            continue
        for name in part:
            if name in UNCHECKED:
                return f"{at}: {name}"
        ref = part.get("$ref", "#/")
        if not isinstance(ref, str) or not (ref.startswith("#/") or ref == "#"):
            return f"{at}: $ref to {ref}"
        waiting += [(at, part[name]) for name in _SCHEMAS if name in part]
        waiting += [(at, inner) for name in _LISTS for inner in part.get(name, ())]
        waiting += [
            (f"{at}.{field}", inner)
            for name in _MAPS
            for field, inner in dict(part.get(name, {})).items()
        ]
    return None


def fields(schema: Schema) -> list[str]:
    """Return the names of the required fields of a form."""
    return [str(name) for name in _resolved(schema, schema).get("required", ())]


def _resolved(part: Schema, root: Schema) -> Schema:
    """Return a part of a schema with its references within the schema resolved."""
    for _ in range(DEEPEST):
        ref = part.get("$ref")
        if not isinstance(ref, str) or not (ref.startswith("#/") or ref == "#"):
            return part
        target: Any = root
        for name in ref[2:].split("/") * (ref != "#"):
            key = name.replace("~1", "/").replace("~0", "~")
            target = target.get(key, {}) if isinstance(target, Mapping) else {}
        part = {**target, **{name: rule for name, rule in part.items() if name != "$ref"}}
    return {}


def _check(part: Any, value: Any, at: str, root: Schema, depth: int) -> FormError | None:
    """Return the first error of *value*, which is at the path *at* of the form, against one *part*
    of the schema *root*."""
    if not isinstance(part, Mapping):
        if part is not False:
            return None
        return FormError(at, "no value is allowed here")
    if depth > DEEPEST:
        return FormError(at, "the form is nested too deep")
    part = _resolved(part, root)
    kinds = part.get("type")
    if kinds is not None:
        allowed = [kinds] if isinstance(kinds, str) else list(kinds)
        if not any(_is_of_type(value, kind) for kind in allowed):
            return FormError(at, f"expected {' or '.join(allowed)}, got {_kind_of(value)}")
    for rule, test in _RULES.items():
        if rule in part and not test(part[rule], value):
            return FormError(
                at, f"{_shorten(value)} breaks the rule {rule}: {_shorten(part[rule])}"
            )
    return _check_combined(part, value, at, root, depth) or _check_children(
        part, value, at, root, depth
    )


def _check_combined(
    part: Schema, value: Any, at: str, root: Schema, depth: int
) -> FormError | None:
    """Check ``allOf``, ``anyOf`` and ``oneOf``."""
    for conjunct in part.get("allOf", ()):
        if (error := _check(conjunct, value, at, root, depth + 1)) is not None:
            return error
    for name in ("anyOf", "oneOf"):
        alternatives = part.get(name, ())
        results = [_check(alternative, value, at, root, depth + 1) for alternative in alternatives]
        errors = [error for error in results if error is not None]
        matches = len(results) - len(errors)
        if name == "oneOf" and matches > 1:
            return FormError(at, f"the value matches {matches} alternatives, but exactly 1 may")
        if errors and not matches:
            # The alternative that matched down to the deepest field is most likely intended.
            return max(errors, key=lambda error: len(error.field))
    return None


def _check_children(
    part: Schema, value: Any, at: str, root: Schema, depth: int
) -> FormError | None:
    """Check the fields of an object, or the items of a list."""
    if isinstance(value, dict):
        return _check_object(part, value, at, root, depth)
    if not isinstance(value, list):
        return None
    first = part.get("prefixItems", ())
    rules = [*first, *[part.get("items", True)] * max(len(value) - len(first), 0)]
    for index, (rule, item) in enumerate(zip(rules, value, strict=False)):
        if (error := _check(rule, item, f"{at}[{index}]", root, depth + 1)) is not None:
            return error
    return None


def _check_object(
    part: Schema, value: dict[str, Any], at: str, root: Schema, depth: int
) -> FormError | None:
    known = part.get("properties", {})
    additional = part.get("additionalProperties", True)
    for name in part.get("required", ()):
        if name not in value:
            return FormError(f"{at}.{name}", "the field is missing")
    for name, item in value.items():
        path = f"{at}.{name}"
        if name not in known and additional is False:
            return FormError(path, "the form has no such field")
        if (error := _check(known.get(name, additional), item, path, root, depth + 1)) is not None:
            return error
        if "propertyNames" in part and (
            error := _check(part["propertyNames"], name, path, root, depth + 1)
        ):
            return error
    return None


def _is_of_type(value: Any, kind: str) -> bool:
    """Return whether a value has a type of JSON Schema; an unknown type matches any value."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind == "integer":
        return is_number and float(value).is_integer()
    if kind == "number":
        return is_number
    return isinstance(value, _TYPES.get(kind, object))


_TYPES: dict[str, type | tuple[type, ...]] = {
    "string": str,
    "boolean": bool,
    "null": type(None),
    "array": list,
    "object": dict,
}


def _kind_of(value: Any) -> str:
    kinds = ("null", "boolean", "string", "array", "object", "integer", "number")
    return next((kind for kind in kinds if _is_of_type(value, kind)), type(value).__name__)


def _shorten(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    if len(text) <= 60:
        return text
    return text[:57] + "..."


def _equals(left: Any, right: Any) -> bool:
    """Return whether two JSON values are equal; a boolean equals no number."""
    if isinstance(left, bool) or isinstance(right, bool):
        return type(left) is type(right) and left == right
    return bool(left == right)


def _number(test: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    """Return a rule that tests numbers, and that any other value passes."""
    return lambda limit, value: not _is_of_type(value, "number") or test(value, limit)


def _length(kind: type[Any], test: Callable[[int, int], bool]) -> Callable[[Any, Any], bool]:
    """Return a rule that tests the length of values of a type, and that any other value passes."""
    return lambda limit, value: not isinstance(value, kind) or test(len(value), limit)


def _is_multiple(value: Any, factor: Any) -> bool:
    ratio = value / factor
    return bool(abs(ratio - round(ratio)) < 1e-9)


def _matches(pattern: str, value: Any) -> bool:
    return not isinstance(value, str) or re.search(pattern, value) is not None


def _has_format(name: str, value: Any) -> bool:
    """Return whether a text has a format; unknown formats and other values pass."""
    parse = _FORMATS.get(name)
    if parse is None or not isinstance(value, str):
        return True
    try:
        parse(value)
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
    "const": _equals,
    "enum": lambda allowed, value: any(_equals(choice, value) for choice in allowed),
    "minimum": _number(lambda value, limit: value >= limit),
    "maximum": _number(lambda value, limit: value <= limit),
    "exclusiveMinimum": _number(lambda value, limit: value > limit),
    "exclusiveMaximum": _number(lambda value, limit: value < limit),
    "multipleOf": _number(_is_multiple),
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
    "format": _has_format,
}
