"""The inputs of a text workflow: their types, defaults and checks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.authoring.wf.ast import InputDeclaration
from holdfast.authoring.wf.document import Document
from holdfast.authoring.wf.variables import text_of_value
from holdfast.core.problems import did_you_mean
from holdfast.errors import BadOption


def check_inputs(document: Document, inputs: Mapping[str, Any]) -> None:
    """Raise BadOption if an input is not declared, is missing or has a wrong value."""
    declared = {declaration.name: declaration for declaration in document.inputs}
    for name in inputs:
        if name not in declared:
            hint = did_you_mean(str(name), declared)
            why = f"workflow {document.name} declares no such input"
            raise BadOption(option=str(name), why=f"{why}: {hint}" if hint else why)
    for declaration in document.inputs:
        typed_value(document, declaration, inputs)


def typed_inputs(document: Document, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return all inputs with their types and defaults; inputs that are not declared, which a caller
    may give to a child, are texts. Raises BadOption."""
    values = {
        str(name): value if isinstance(value, str) else text_of_value(value)
        for name, value in inputs.items()
    }
    for declaration in document.inputs:
        values[declaration.name] = typed_value(document, declaration, inputs)
    return values


def typed_value(
    document: Document, declaration: InputDeclaration, inputs: Mapping[str, Any]
) -> Any:
    """Return the value of a declared input. Raises BadOption if it is missing or does not fit."""
    name = declaration.name
    if name in inputs:
        return _convert(declaration, inputs[name])
    if declaration.type == "boolean" and declaration.default is None:
        return False
    if declaration.required or declaration.default is None:
        raise BadOption(option=name, why=f"workflow {document.name} requires this input")
    return _convert(declaration, declaration.default)


def _convert(declaration: InputDeclaration, value: Any) -> Any:
    kind = declaration.type
    if kind == "string":
        if not isinstance(value, str):
            raise _misfit(declaration, value, "a text")
        return value
    if kind == "boolean":
        return _boolean(declaration, value)
    if kind == "number":
        return _number(declaration, value)
    if kind == "list":
        return _list(declaration, value)
    if value not in declaration.choices:
        raise _misfit(declaration, value, f"one of {', '.join(declaration.choices)}")
    return value


def _boolean(declaration: InputDeclaration, value: Any) -> Any:
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return value.strip().lower() == "true"
    raise _misfit(declaration, value, "true or false")


def _number(declaration: InputDeclaration, value: Any) -> Any:
    number = value
    if isinstance(value, str):
        try:
            number = msgspec.json.decode(value.strip())
        except msgspec.DecodeError:
            raise _misfit(declaration, value, "a number") from None
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise _misfit(declaration, value, "a number")
    return number


def _list(declaration: InputDeclaration, value: Any) -> Any:
    items = value
    if isinstance(value, str):
        try:
            items = msgspec.json.decode(value)
        except msgspec.DecodeError:
            raise _misfit(declaration, value, "a list as JSON") from None
    if not isinstance(items, list):
        raise _misfit(declaration, value, "a list")
    return items


def _misfit(declaration: InputDeclaration, value: Any, wanted: str) -> BadOption:
    return BadOption(option=declaration.name, value=value, why=f"the value must be {wanted}")
