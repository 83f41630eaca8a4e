"""Forms of user tasks as JSON Schema: the form fields of Camunda and Flowable, and the forms of the
Camunda 8 modeller."""

from __future__ import annotations

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


def _of_fields(fields: tuple[FormField, ...]) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    for field in fields:
        entry: dict[str, Any] = dict(_TYPES.get(field.type, {"type": "string"}))
        if field.options:
            entry["enum"] = [value for value, _ in field.options]
        if field.label:
            entry["title"] = field.label
        if field.default is not None:
            entry["default"] = field.default
        for name, limit in (("minimum", field.minimum), ("maximum", field.maximum)):
            if limit is not None and entry["type"] in ("integer", "number"):
                entry[name] = float(limit)
        properties[field.id] = entry
    return _object(properties, [field.id for field in fields if field.required])


def _of_components(text: str) -> dict[str, Any] | None:
    """Return the schema of a form of the modeller; None if its JSON cannot be read."""
    try:
        form = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return None
    if not isinstance(form, dict):
        return None
    properties: dict[str, Any] = {}
    required = []
    for component in form.get("components", ()):
        key = component.get("key")
        if not key:
            continue
        entry: dict[str, Any] = dict(_COMPONENTS.get(component.get("type", ""), {}))
        values = [value.get("value") for value in component.get("values", ())]
        if values and entry.get("type") != "array":
            entry["enum"] = values
        if component.get("label"):
            entry["title"] = component["label"]
        properties[key] = entry
        if (component.get("validate") or {}).get("required"):
            required.append(key)
    return _object(properties, required)


def _object(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    return schema
