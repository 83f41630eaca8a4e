"""Schemas of structured outputs: fields and their types, markers derived from them, and the
instructions for an agent.

A schema is data: ``{"fields": {...}, "markers": {...}}``. Types are ``string``, ``number``,
``boolean``, ``enum(a, b)``, ``array`` and ``object``; a field whose name ends with ``?`` is
optional.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.authoring.wf.outputs import END, START
from holdfast.errors.wf_runs import BadRegistration, BadStepOutput

DEEPEST = 20
"""How deep the fields of a schema may be nested."""

_ENUM = re.compile(r"^enum\((.*)\)$", re.DOTALL)
_SCALARS: dict[str, Any] = {"string": str, "number": (int, float), "boolean": bool}


class SchemaField(msgspec.Struct, frozen=True):
    """One field: its type, and for arrays and objects the types inside."""

    name: str
    type: str
    required: bool = True
    choices: tuple[str, ...] = ()
    items: SchemaField | None = None
    fields: tuple[SchemaField, ...] = ()
    desc: str = ""
    examples: tuple[Any, ...] = ()


class MarkerRule(msgspec.Struct, frozen=True):
    """A marker and the expression that must hold for it."""

    marker: str
    expression: str


class OutputSchema(msgspec.Struct, frozen=True):
    """The fields of a structured output, and its marker rules; None without own rules."""

    name: str
    fields: tuple[SchemaField, ...]
    rules: tuple[MarkerRule, ...] | None = None


def read_schema(name: str, data: Any) -> OutputSchema:
    """Return a schema. Raises BadRegistration, which names the field."""
    if not isinstance(data, Mapping) or not isinstance(data.get("fields"), Mapping):
        raise _bad(name, "", 'a schema is an object with "fields"')
    unknown = set(data) - {"fields", "markers", "name", "description"}
    if unknown:
        raise _bad(name, str(sorted(map(str, unknown))[0]), "a schema has fields and markers")
    fields = _read_fields(name, "", data["fields"], 1)
    rules = data.get("markers")
    if rules is None:
        return OutputSchema(name, fields)
    if not isinstance(rules, Mapping):
        raise _bad(name, "markers", "markers are an object: a name and an expression each")
    return OutputSchema(
        name, fields, tuple(MarkerRule(str(marker), str(rules[marker])) for marker in sorted(rules))
    )


def _bad(schema: str, field: str, why: str) -> BadRegistration:
    facts = {"schema": schema, "field": field} if field else {"schema": schema}
    return BadRegistration(**facts, why=why)


def _read_fields(schema: str, path: str, data: Any, depth: int) -> tuple[SchemaField, ...]:
    if not isinstance(data, Mapping):
        raise _bad(schema, path, "fields are an object: a name and a type each")
    if depth > DEEPEST:
        raise _bad(schema, path, f"fields are nested more than {DEEPEST} levels deep")
    return tuple(_read_field(schema, path, str(name), data[name], depth) for name in data)


def _read_field(schema: str, path: str, name: str, data: Any, depth: int) -> SchemaField:
    required = not name.endswith("?")
    name = name.removesuffix("?")
    place = f"{path}.{name}" if path else name
    long = data if isinstance(data, Mapping) else {"type": data}
    kind = long.get("type", "object" if "fields" in long else "string")
    if not isinstance(kind, str):
        raise _bad(schema, place, "a type is a word")
    kind = kind.strip()
    enum = _ENUM.match(kind)
    choices: tuple[str, ...] = ()
    if enum is not None:
        choices = tuple(word.strip() for word in enum[1].split(",") if word.strip())
        kind = "enum"
    elif kind not in (*_SCALARS, "array", "object"):
        known = "string, number, boolean, enum(a, b), array, object"
        raise _bad(schema, place, f"{kind} is not a type: the types are {known}")
    if kind == "enum" and not choices:
        raise _bad(schema, place, "an enum lists its values: enum(a, b)")
    items = None
    if kind == "array" and long.get("items") is not None:
        inner = long["items"]
        if isinstance(inner, Mapping) and "type" not in inner and "fields" not in inner:
            inner = {"type": "object", "fields": inner}
        items = _read_field(schema, place, "items", inner, depth + 1)
    fields: tuple[SchemaField, ...] = ()
    if kind == "object" and long.get("fields") is not None:
        fields = _read_fields(schema, place, long["fields"], depth + 1)
    examples = long.get("examples") or ()
    return SchemaField(
        name,
        kind,
        required,
        choices,
        items,
        fields,
        str(long.get("desc") or ""),
        tuple(examples) if isinstance(examples, list | tuple) else (examples,),
    )


# Checking


def check_output(schema: OutputSchema, output: Any) -> None:
    """Raise BadStepOutput, which names the field, if *output* does not fit the schema."""
    if not isinstance(output, Mapping):
        raise BadStepOutput(schema=schema.name, why="the output is not an object")
    _check_fields(schema.name, "", schema.fields, output)


def _check_fields(
    schema: str, path: str, fields: tuple[SchemaField, ...], output: Mapping[str, Any]
) -> None:
    for field in fields:
        place = f"{path}.{field.name}" if path else field.name
        if output.get(field.name) is None:
            if field.required:
                raise BadStepOutput(schema=schema, field=place, why="the field is missing")
            continue
        _check_value(schema, place, field, output[field.name])


def _check_value(schema: str, place: str, field: SchemaField, value: Any) -> None:
    if field.type == "enum":
        if value not in field.choices:
            known = ", ".join(field.choices)
            raise BadStepOutput(schema=schema, field=place, value=value, why=f"not one of {known}")
    elif field.type == "array":
        if not isinstance(value, list):
            raise BadStepOutput(schema=schema, field=place, why="the value is not an array")
        for index, item in enumerate(value):
            if field.items is not None:
                _check_value(schema, f"{place}[{index}]", field.items, item)
    elif field.type == "object":
        if not isinstance(value, Mapping):
            raise BadStepOutput(schema=schema, field=place, why="the value is not an object")
        _check_fields(schema, place, field.fields, value)
    elif not _is_scalar(field.type, value):
        raise BadStepOutput(schema=schema, field=place, why=f"the value is not a {field.type}")


def _is_scalar(kind: str, value: Any) -> bool:
    if kind == "number" and isinstance(value, bool):
        return False
    return isinstance(value, _SCALARS[kind])


# Markers and context

_LENGTH = re.compile(r"^(\w+)(?:\[(\w+)\s*==\s*([^\]]+)\])?\.length\s*(==|>|<)\s*(\d+)$")
_EQUAL = re.compile(r"^(\w+)\s*==\s*(.+)$")
_ORDER = re.compile(r"^(\w+)\s*(<|>)\s*(-?\d+(?:\.\d+)?)$")


def markers_of(schema: OutputSchema, output: Mapping[str, Any]) -> list[str]:
    """Return the markers that the rules of the schema, or the default rules, give an output."""
    if schema.rules is not None:
        return [rule.marker for rule in schema.rules if holds(rule.expression, output)]
    markers = []
    if output.get("approved") is False:
        markers.append("not_approved")
    items = output.get("findings")
    if isinstance(items, list) and items:
        markers.append("has_findings")
        severities = {str(item.get("severity")) for item in items if isinstance(item, Mapping)}
        markers.extend(
            f"has_{severity}_findings"
            for severity in ("critical", "high")
            if severity in severities
        )
    return markers


def holds(expression: str, output: Mapping[str, Any]) -> bool:
    """Return whether a marker expression holds; an unknown form never holds."""
    text = expression.strip()
    match = _LENGTH.match(text)
    if match is not None:
        return _length_holds(match, output)
    match = _ORDER.match(text)
    if match is not None:
        value: Any = output.get(match[1])
        if not _is_scalar("number", value):
            return False
        limit = float(match[3])
        if match[2] == "<":
            return bool(value < limit)
        return bool(value > limit)
    match = _EQUAL.match(text)
    if match is None:
        return False
    return _equals(output.get(match[1]), match[2])


def _length_holds(match: re.Match[str], output: Mapping[str, Any]) -> bool:
    value = output.get(match[1])
    if not isinstance(value, list | str):
        return False
    items: Any = value
    if match[2] is not None:
        items = [
            item
            for item in (value if isinstance(value, list) else ())
            if isinstance(item, Mapping) and _equals(item.get(match[2]), match[3])
        ]
    count = len(items)
    limit = int(match[5])
    return {"==": count == limit, ">": count > limit, "<": count < limit}[match[4]]


def _equals(value: Any, literal: str) -> bool:
    text = literal.strip().strip("\"'")
    if isinstance(value, bool):
        return text == ("true" if value else "false")
    if isinstance(value, int | float):
        try:
            return value == float(text)
        except ValueError:
            return False
    return isinstance(value, str) and value == text


def context_of(schema: OutputSchema, output: Mapping[str, Any]) -> str:
    """Return the context of an output: its field ``context`` or ``summary``, else a text."""
    for name in ("context", "summary"):
        if isinstance(output.get(name), str):
            return str(output[name])
    for field in schema.fields:
        if field.type == "string" and isinstance(output.get(field.name), str):
            return str(output[field.name])
    return ""


# Instructions


PLAIN_INSTRUCTIONS = f"""When you are done, print this block as the last thing you print:

{START}
{{"markers": [], "context": "one or two sentences for the next step"}}
{END}

`markers` are words for conditions of the workflow; leave the list empty if none applies."""


def instructions(schema: OutputSchema | None) -> str:
    """Return the instructions for the output block that an agent prints."""
    if schema is None:
        return PLAIN_INSTRUCTIONS
    lines = [
        "When you are done, print this block as the last thing you print:",
        "",
        START,
        "{",
        *_described(schema.fields, 1),
        "}",
        END,
    ]
    return "\n".join(lines)


def _described(fields: tuple[SchemaField, ...], depth: int) -> list[str]:
    lines: list[str] = []
    blanks = "  " * depth
    for field in fields:
        notes = [] if field.required else ["optional"]
        if field.desc:
            notes.append(field.desc)
        if field.examples:
            shown = ", ".join(msgspec.json.encode(example).decode() for example in field.examples)
            notes.append(f"for example {shown}")
        note = f"  // {'; '.join(notes)}" if notes else ""
        lines.append(f'{blanks}"{field.name}": {_shape(field)},{note}')
        inner = field.fields or (field.items.fields if field.items is not None else ())
        if inner:
            lines.append(f"{blanks}  // each with these fields:")
            lines.extend(_described(inner, depth + 2))
    return lines


def _shape(field: SchemaField) -> str:
    if field.type == "enum":
        return " | ".join(f'"{choice}"' for choice in field.choices)
    if field.type == "array":
        inner = "..." if field.items is None else field.items.type
        return f"[{inner}]"
    if field.type == "object":
        return "{...}"
    return field.type
