"""JSON Schemas of the arguments that a function takes. Pure."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.core import pydantic_models
from holdfast.core.signature import Signature

ANY_ARGUMENTS: dict[str, Any] = {"type": "object"}
"""The schema of arguments that are not known."""

_REFS = "#/$defs/{name}"


def input_schema(signature: Signature | None) -> dict[str, Any]:
    """Return the JSON Schema of an object with the arguments of a function, by name. A type that
    has no schema allows any value."""
    if signature is None:
        return ANY_ARGUMENTS
    definitions: dict[str, Any] = {}
    properties: dict[str, Any] = {}
    required: list[str] = []
    for parameter in signature.parameters():
        schema = _schema_of(parameter.type, definitions)
        if parameter.is_required:
            required.append(parameter.name)
        elif isinstance(parameter.default, str | int | float | bool):
            schema = {**schema, "default": parameter.default}
        properties[parameter.name] = schema
    schema = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    if not signature.takes_other_names:
        schema["additionalProperties"] = False
    if definitions:
        schema["$defs"] = definitions
    return schema


def _schema_of(kind: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a type; the schemas that it refers to are added to *definitions*."""

    def hook(unknown: type) -> dict[str, Any]:
        if not pydantic_models.is_model(unknown):
            return {}
        schema: dict[str, Any] = unknown.model_json_schema(ref_template="#/$defs/{model}")
        definitions.update(schema.pop("$defs", {}))
        return schema

    try:
        (schema,), components = msgspec.json.schema_components(
            (kind,), schema_hook=hook, ref_template=_REFS
        )
    except TypeError:
        return {}  # a type that only the codec of the program knows
    definitions.update(components)
    return schema
