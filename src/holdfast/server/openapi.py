"""OpenAPI 3.1 of all operations, made from their declarations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from holdfast import errors
from holdfast.core.api_keys import Right
from holdfast.core.unset import UNSET
from holdfast.server.answers import answer_type
from holdfast.server.masking import HIDDEN_TEXT, MASKED
from holdfast.server.openapi_examples import EXAMPLES
from holdfast.server.operation import HttpOperation, HttpParameter
from holdfast.server.problems import STATUSES, ProblemView

DESCRIPTION = """Durable workflows: start runs, follow them, decide and operate.

Requests carry an API key (`Authorization: Bearer hf_...`); `x-right` is the right that its roles
need. Lists are pages: pass `next` as `cursor`. Errors are `application/problem+json`. A request
with an `Idempotency-Key` may be repeated."""
REF = "#/components/schemas/{name}"
READS = (Right.VIEW, Right.ADMIN, Right.WORK, Right.OPERATE)
"""The rights that an operation which writes nothing requires."""
ALWAYS = ("BadRequest", "NotAuthenticated", "RightMissing", "TooManyRequests", "StoreBusy")
"""Errors that every operation may answer with."""
INPUTS = ("Request", "Filters")
"""The ends of the names of schemas that describe requests."""


def document(operations: Sequence[HttpOperation], version: str, prefix: str = "") -> dict[str, Any]:
    """Return the OpenAPI document of the operations of an app that is mounted under *prefix*."""
    answers = {item.name: answer_type(item) for item in operations if item.media == JSON}
    bodies = {item.name: item.request_type for item in operations if _has_body(item)}
    types = [*(kind for kind in answers.values() if kind is not None), *bodies.values()]
    schemas, components = msgspec.json.schema_components(
        [*types, ProblemView], schema_hook=_any_schema, ref_template=REF
    )
    by_type = dict(zip(map(id, [*types, ProblemView]), schemas, strict=True))
    paths: dict[str, Any] = {}
    for item in operations:
        kind = answers.get(item.name)
        answer = None if kind is None else by_type[id(kind)]
        body = by_type[id(bodies[item.name])] if item.name in bodies else None
        paths.setdefault(item.path, {})[item.method.lower()] = _described(item, answer, body)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Holdfast", "version": version, "description": DESCRIPTION},
        "servers": [{"url": f"{prefix}/api/v1"}],
        "security": [{"apiKey": []}],
        "paths": paths,
        "components": {
            "schemas": _with_hidden(_with_numbers(components)),
            "securitySchemes": {"apiKey": {"type": "http", "scheme": "bearer"}},
        },
    }


JSON = "application/json"


def _described(operation: HttpOperation, answer: Any, body: Any) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "description": operation.description,
        "tags": [operation.path.split("/")[1]],
        "x-right": None if operation.right is None else operation.right.value,
        "responses": _responses(operation, answer),
    }
    parameters = [*_path_parameters(operation), *_query_parameters(operation)]
    if operation.takes_key:
        parameters.append({"name": "Idempotency-Key", "in": "header", "schema": {"type": "string"}})
    if parameters:
        described["parameters"] = parameters
    if body is not None:
        is_required = any(parameter.required for parameter in operation.parameters)
        content: dict[str, Any] = {"schema": body}
        if operation.name in EXAMPLES:
            content["example"] = EXAMPLES[operation.name]
        described["requestBody"] = {"required": is_required, "content": {JSON: content}}
    if operation.public:
        described["security"] = []  # a token among the arguments takes the place of an API key
    return described


def _responses(operation: HttpOperation, answer: Any) -> dict[str, Any]:
    success: dict[str, Any] = {"description": "done"}
    if operation.media != JSON:
        success["content"] = {operation.media: {}}
    elif answer is not None:
        success["content"] = {JSON: {"schema": answer}}
    responses = {
        str(operation.status if answer is not None or operation.media != JSON else 204): success
    }
    for status, names in _problems(operation).items():
        responses[str(status)] = {
            "description": ", ".join(names),
            "content": {
                "application/problem+json": {"schema": {"$ref": REF.format(name="ProblemView")}}
            },
        }
    return responses


def _problems(operation: HttpOperation) -> dict[int, list[str]]:
    """Return the errors of an operation by status. Every argument may be refused, and every named
    thing may be missing or in another namespace."""
    names: list[str] = [*ALWAYS, "BadOption", "NamespaceBound", *operation.problems]
    if operation.in_path:
        names.append("RunNotFound")
    if operation.changes:
        names += ["RequestTooLarge", "StoreFull", "RunExists"]
    if operation.claims_key:
        names.append("RequestKeyReused")
    by_status: dict[int, list[str]] = {}
    for name in dict.fromkeys(names):
        by_status.setdefault(STATUSES[name], []).append(name)
    return dict(sorted(by_status.items()))


def _path_parameters(operation: HttpOperation) -> Iterable[dict[str, Any]]:
    for name in operation.in_path:
        yield {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _query_parameters(operation: HttpOperation) -> Iterable[dict[str, Any]]:
    if _has_body(operation):
        return
    for parameter in operation.parameters:
        yield {
            "name": parameter.name,
            "in": "query",
            "required": parameter.required,
            "schema": _query_schema(parameter),
        }


def _query_schema(parameter: HttpParameter) -> dict[str, Any]:
    schema: dict[str, Any] = _with_numbers(
        msgspec.json.schema(parameter.type, schema_hook=_any_schema)
    )
    if isinstance(parameter.default, str | int | bool) and parameter.default is not UNSET:
        schema["default"] = parameter.default
    return schema


def _has_body(operation: HttpOperation) -> bool:
    return operation.method not in ("GET", "DELETE", "HEAD") and bool(operation.parameters)


def _any_schema(kind: Any) -> dict[str, Any]:
    return {"description": "any value"}


def _with_numbers(schema: Any) -> Any:
    """Return a schema in which decimal numbers are numbers, as answers have them, or texts."""
    if isinstance(schema, list):
        return [_with_numbers(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("format") == "decimal":
        return {"type": ["number", "string"]}
    return {name: _with_numbers(item) for name, item in schema.items()}


def _with_hidden(components: dict[str, Any]) -> dict[str, Any]:
    """Let the fields of answers that hold values of users be the text that callers get who may not
    see values."""
    for name, schema in components.items():
        if name.endswith(INPUTS):
            continue
        for field, described in schema.get("properties", {}).items():
            if field in MASKED:
                schema["properties"][field] = {"anyOf": [described, {"const": HIDDEN_TEXT}]}
    return components


def missing_statuses() -> list[str]:
    """Return the errors of Holdfast without a status; for the test of the table."""
    return sorted({*errors.__all__} - {*STATUSES})
