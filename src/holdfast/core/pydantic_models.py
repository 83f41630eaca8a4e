"""Encode and decode pydantic models, without importing pydantic.

The module is looked up in ``sys.modules``: if it is not there, the program has no models. A model
is stored by the names of its fields, without computed fields; it is read by names or aliases.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeGuard, get_args, get_origin

_SAFE = frozenset({type(None), str, int, float, bool, list, dict})
"""The types, besides models, that pydantic and msgspec encode alike. Bytes, for example, they do
not."""


def is_model(kind: object) -> TypeGuard[type[Any]]:
    """Return whether *kind* is a class of pydantic models."""
    base = getattr(sys.modules.get("pydantic"), "BaseModel", None)
    return base is not None and isinstance(kind, type) and issubclass(kind, base)


def dump(model: Any) -> object:
    """Return *model* as plain data from which `reader` makes an equal model. Raises if a field has
    the wrong type."""
    return model.model_dump(mode="json", by_alias=False, round_trip=True, warnings="error")


def reader(kind: type[Any]) -> Callable[[bytes], Any]:
    """Return a function that reads models of *kind* from JSON."""
    return _one_line_errors(kind.model_validate_json)


def mixed_reader(kind: object) -> Callable[[bytes], Any] | None:
    """Return a function that reads *kind* from JSON if it consists of models and plain types, such
    as `Order | Refund | None`; else None."""
    leaves = _leaves(kind)
    if not any(map(is_model, leaves)) or not all(
        is_model(leaf) or leaf in _SAFE for leaf in leaves
    ):
        return None
    return _one_line_errors(sys.modules["pydantic"].TypeAdapter(kind).validate_json)


def _leaves(kind: object) -> list[object]:
    arguments = [argument for argument in get_args(kind) if argument is not Ellipsis]
    if not arguments:
        return [get_origin(kind) or kind]
    return [leaf for argument in arguments for leaf in _leaves(argument)]


def _one_line_errors(validate: Callable[..., Any]) -> Callable[[bytes], Any]:
    """Return *validate* such that it raises a ValueError with a message of one line."""

    def read(data: bytes) -> Any:
        try:
            return validate(data, by_alias=True, by_name=True)
        except sys.modules["pydantic"].ValidationError as error:
            raise ValueError(_reason(error)) from None

    return read


def _reason(error: Any) -> str:
    """Return the message of a ValidationError, which has many lines, in one line."""
    details = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(
        f"{'.'.join(map(str, detail['loc'])) or '$'}: {detail['msg']}" for detail in details
    )
