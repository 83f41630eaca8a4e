"""Locate the first part of a value that cannot be encoded, as a Python expression:
order['items'][2].

Used only after encoding has failed, so it may be slow. The walk uses an explicit stack and not
recursion, because the value may be cyclic or deeply nested.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

import msgspec

from holdfast.core import pydantic_models

_LONGEST_KEY = 60

Part = tuple[str, object]
"""The label of a part within its container, such as ``[2]`` or ``.name``, and the part."""


def find(value: object, label: str, encode: Callable[[object], object]) -> str | None:
    """Return the location and the fault of the first part of *value* that *encode* refuses or that
    is a float but not finite; None if there is no such part."""
    labels: list[str] = []
    ancestors: dict[int, object] = {}
    walks: list[Iterator[Part]] = [iter([(label, value)])]
    while walks:
        for label, part in walks[-1]:
            if fault := "refers to itself" if id(part) in ancestors else _fault(part, encode):
                return "".join([*labels, label, ": ", fault])
            if parts := _parts(part):
                labels.append(label)
                ancestors[id(part)] = part
                walks.append(iter(parts))
                break
        else:
            walks.pop()
            if ancestors:
                labels.pop()
                ancestors.popitem()
    return None


def _fault(part: object, encode: Callable[[object], object]) -> str | None:
    """Return the fault of *part* itself, regardless of its own parts; None if it has none."""
    if isinstance(part, float) and not math.isfinite(part):
        return repr(float(part))
    if isinstance(part, dict):
        return next(
            (f"a key of type {_name(key)}" for key in part if _refusal(encode, {key: None})), None
        )
    if pydantic_models.is_model(type(part)):
        return _refusal(pydantic_models.dump, part)
    if _parts(part) is not None:
        return None
    return _refusal(encode, part)


def _refusal(encode: Callable[[Any], object], value: object) -> str | None:
    try:
        encode(value)
    except TypeError:
        return _name(value)
    except Exception as error:  # a serializer of the user can raise anything
        return f"{_name(value)}: {str(error).partition(chr(10))[0]}"
    return None


def _parts(value: Any) -> list[Part] | None:
    """Return the parts of *value*, each with its label; None if *value* is not a container."""
    if isinstance(value, dict):
        return [(f"[{repr(key)[:_LONGEST_KEY]}]", part) for key, part in value.items()]
    if isinstance(value, list | tuple | set | frozenset):
        return [(f"[{index}]", part) for index, part in enumerate(value)]
    if isinstance(value, Enum):
        return [(".value", value.value)]
    if pydantic_models.is_model(type(value)):
        plain = pydantic_models.dump(value)
        if not isinstance(plain, dict):
            return [("", plain)]
        return [(f".{name}", part) for name, part in plain.items()]
    names = _fields(value)
    if names is None:
        return None
    return _attributes(value, names)


def _fields(value: Any) -> list[str] | None:
    if isinstance(value, type):
        return None
    if isinstance(value, msgspec.Struct):
        return list(value.__struct_fields__)
    if hasattr(value, "__dataclass_fields__"):
        import dataclasses  # here, not above: this is the way of an error

        return [field.name for field in dataclasses.fields(value)]
    attributes = getattr(type(value), "__attrs_attrs__", None)
    if attributes is None:
        return None
    return [attribute.name for attribute in attributes]


def _attributes(value: object, names: list[str]) -> list[Part]:
    parts = [(f".{name}", getattr(value, name, msgspec.UNSET)) for name in names]
    return [(label, part) for label, part in parts if part is not msgspec.UNSET]


def _name(value: object) -> str:
    return type(value).__name__
