"""Forms of user tasks as JSON Schema: the form fields of Camunda and Flowable, and the forms of the
Camunda 8 modeller."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite
from typing import Any

import msgspec

from holdfast.authoring.bpmn.model import FormField, Work

_TYPES = {
    "string": {"type": "string"},
    "long": {"type": "integer"},
    "integer": {"type": "integer"},
    "int": {"type": "integer"},
    "number": {"type": "number"},
    "double": {"type": "number"},
    "boolean": {"type": "boolean"},
    "date": {"type": "string"},
}
_COMPONENTS = {
    "textfield": {"type": "string"},
    "textarea": {"type": "string"},
    "datetime": {"type": "string"},
    "number": {"type": "number"},
    "checkbox": {"type": "boolean"},
    "checklist": {"type": "array"},
    "taglist": {"type": "array"},
}


def schema_of(work: Work) -> dict[str, Any] | None:
    """Return the JSON Schema of the form of a user task; None if it has none."""
    if work.form:
        return _of_fields(work.form)
    if work.form_schema:
        return _of_components(work.form_schema)
    return None


def form_faults(work: Work) -> Iterator[tuple[str, str]]:
    """Return the faults of the form of a user task, each with its severity. A form without a
    fault of severity error has a schema."""
    if work.form:
        for field in work.form:
            if not field.id:
                yield "error", "a field of the form has no id"
            for limit in (field.minimum, field.maximum, field.shortest, field.longest):
                if limit is not None and _number(limit) is None:
                    yield "warning", f"the limit {limit!r} of the field {field.id!r} is no number"
    elif work.form_schema and _components(work.form_schema) is None:
        yield "error", "the form is not the JSON of a form with a list of components"


def _of_fields(fields: tuple[FormField, ...]) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for field in fields:
        entry: dict[str, Any] = dict(_TYPES.get(field.type, {"type": "string"}))
        if field.options:
            entry["enum"] = [value for value, _ in field.options]
        if field.label:
            entry["title"] = field.label
        if field.default is not None:
            entry["default"] = _default(field.default, entry["type"])
        limits = (field.minimum, field.maximum, field.shortest, field.longest)
        _limit(entry, *(None if text is None else _number(text) for text in limits))
        properties[field.id] = entry
    return _object(properties, [field.id for field in fields if field.required])


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if isfinite(number) else None


def _default(text: str, kind: str) -> Any:
    """Return a default value as its field has it; a text that is no such value stays a text."""
    if kind == "string":
        return text
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    fits = isinstance(value, bool) is (kind == "boolean") and isinstance(value, bool | int | float)
    return value if fits else text


def _limit(
    entry: dict[str, Any], least: Any, most: Any, shortest: Any = None, longest: Any = None
) -> None:
    """Add the limits of a number or a text; others are ignored."""
    if entry.get("type") in ("integer", "number"):
        limits = {"minimum": least, "maximum": most}
    elif entry.get("type") == "string":
        limits = {"minLength": shortest, "maxLength": longest}
    else:
        return
    for name, limit in limits.items():
        if isinstance(limit, int | float) and not isinstance(limit, bool):
            entry[name] = limit


def _components(text: str) -> list[dict[str, Any]] | None:
    """Return the components of a form of the modeller with those inside groups, in order; None if
    its JSON cannot be read."""
    try:
        form = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return None
    waiting = [form]
    components: list[dict[str, Any]] = []
    while waiting:
        component = waiting.pop()
        inner = component.get("components", []) if isinstance(component, dict) else None
        if not isinstance(inner, list) or not isinstance(component.get("key", ""), str):
            return None
        components.append(component)
        # The items of a repeated group form a list of their own, which is not checked.
        if component.get("type") != "dynamiclist":
            waiting += reversed(inner)
    return components


def _of_components(text: str) -> dict[str, Any] | None:
    """Return the schema of a form of the modeller; None if its JSON cannot be read."""
    components = _components(text)
    if components is None:
        return None
    properties: dict[str, Any] = {}
    required = []
    for component in components:
        key = component.get("key")
        if not key:
            continue
        properties[key] = _of_component(component)
        if _rules(component).get("required") is True:
            required.append(key)
    return _object(properties, required)


def _of_component(component: dict[str, Any]) -> dict[str, Any]:
    entry: dict[str, Any] = dict(_COMPONENTS.get(str(component.get("type")), {}))
    listed = component.get("values")
    values = [
        value["value"]
        for value in (listed if isinstance(listed, list) else ())
        if isinstance(value, dict) and "value" in value
    ]
    if values and entry.get("type") != "array":
        entry["enum"] = values
    if isinstance(component.get("label"), str) and component["label"]:
        entry["title"] = component["label"]
    rules = _rules(component)
    _limit(entry, *(rules.get(name) for name in ("min", "max", "minLength", "maxLength")))
    return entry


def _rules(component: dict[str, Any]) -> dict[str, Any]:
    rules = component.get("validate")
    return rules if isinstance(rules, dict) else {}


def _object(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    return schema
