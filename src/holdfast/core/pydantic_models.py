"""Pydantic models, for programs that use pydantic: it is never imported here, only found when it is
already there.

A model is stored by the names of its fields and without computed fields; it is read by names or
aliases.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeGuard, get_args, get_origin

_SAFE = frozenset({type(None), str, int, float, bool, list, dict})
"""What pydantic and msgspec write and read alike, beside models. Bytes, for one, they do not."""


def is_model(kind: object) -> TypeGuard[type[Any]]:
    """Say whether *kind* is a class of pydantic models."""
    base = getattr(sys.modules.get("pydantic"), "BaseModel", None)
    return base is not None and isinstance(kind, type) and issubclass(kind, base)


def dump(model: Any) -> object:
    """Turn *model* into plain data from which `reader` makes an equal model; a field of a wrong
    type is an error."""
    return model.model_dump(mode="json", by_alias=False, round_trip=True, warnings="error")


def reader(kind: type[Any]) -> Callable[[bytes], Any]:
    """Give what reads models of *kind* from JSON."""
    return _explained(kind.model_validate_json)


def mixed_reader(kind: object) -> Callable[[bytes], Any] | None:
    """Give what reads *kind* from JSON if it is made of models and plain types, like `Order |
    Refund | None`."""
    leaves = _leaves(kind)
    if not any(map(is_model, leaves)) or not all(
        is_model(leaf) or leaf in _SAFE for leaf in leaves
    ):
        return None
    return _explained(sys.modules["pydantic"].TypeAdapter(kind).validate_json)


def _leaves(kind: object) -> list[object]:
    arguments = [argument for argument in get_args(kind) if argument is not Ellipsis]
    if not arguments:
        return [get_origin(kind) or kind]
    return [leaf for argument in arguments for leaf in _leaves(argument)]


def _explained(validate: Callable[..., Any]) -> Callable[[bytes], Any]:
    def read(data: bytes) -> Any:
        try:
            return validate(data, by_alias=True, by_name=True)
        except sys.modules["pydantic"].ValidationError as error:
            raise ValueError(_reason(error)) from None

    return read


def _reason(error: Any) -> str:
    """Say in one line what pydantic says in many."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(f"{'.'.join(map(str, one['loc'])) or '$'}: {one['msg']}" for one in found)
