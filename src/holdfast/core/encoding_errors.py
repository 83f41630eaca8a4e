"""Finds the first part of a value that cannot be stored and names it as one would write it:
order['items'][2].

Only used once storing has failed, so it may be slow; it walks with a stack of its own, since the
value may be cyclic.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

import msgspec

from holdfast.core import pydantic_models

_LONGEST_KEY = 60

Part = tuple[str, object]


def find(value: object, what: str, encode: Callable[[object], object]) -> str | None:
    """Name the first part of *value* that *encode* refuses or that is not a finite number, and say
    what it is."""
    labels: list[str] = []
    owners: dict[int, object] = {}
    walks: list[Iterator[Part]] = [iter([(what, value)])]
    while walks:
        for label, part in walks[-1]:
            if fault := "refers to itself" if id(part) in owners else _fault(part, encode):
                return "".join([*labels, label, ": ", fault])
            if parts := _parts(part):
                labels.append(label)
                owners[id(part)] = part
                walks.append(iter(parts))
                break
        else:
            walks.pop()
            if owners:
                labels.pop()
                owners.popitem()
    return None


def _fault(part: object, encode: Callable[[object], object]) -> str | None:
    """Say what is wrong with *part* itself, leaving its parts aside."""
    if isinstance(part, float) and not math.isfinite(part):
        return repr(float(part))
    if isinstance(part, dict):
        return next(
            (f"a key of type {_name(key)}" for key in part if _refusal(encode, {key: None})), None
        )
    if pydantic_models.is_model(type(part)):
        return _refusal(pydantic_models.dump, part)
    return None if _parts(part) is not None else _refusal(encode, part)


def _refusal(encode: Callable[[Any], object], value: object) -> str | None:
    try:
        encode(value)
    except TypeError:
        return _name(value)
    except Exception as error:  # whatever a user's own serializer raises
        return f"{_name(value)}: {str(error).partition(chr(10))[0]}"
    return None


def _parts(value: Any) -> list[Part] | None:
    """List the parts of *value*, each with its label; None for what has none."""
    if isinstance(value, dict):
        return [(f"[{repr(key)[:_LONGEST_KEY]}]", part) for key, part in value.items()]
    if isinstance(value, list | tuple | set | frozenset):
        return [(f"[{index}]", part) for index, part in enumerate(value)]
    if isinstance(value, Enum):
        return [(".value", value.value)]
    if pydantic_models.is_model(type(value)):
        plain = pydantic_models.dump(value)
        return (
            [(f".{name}", part) for name, part in plain.items()]
            if isinstance(plain, dict)
            else [("", plain)]
        )
    names = _fields(value)
    return None if names is None else _attributes(value, names)


def _fields(value: Any) -> list[str] | None:
    if isinstance(value, type):
        return None
    if isinstance(value, msgspec.Struct):
        return list(value.__struct_fields__)
    if dataclasses.is_dataclass(value):
        return [field.name for field in dataclasses.fields(value)]
    attributes = getattr(type(value), "__attrs_attrs__", None)
    return None if attributes is None else [attribute.name for attribute in attributes]


def _attributes(value: object, names: list[str]) -> list[Part]:
    given = [(f".{name}", getattr(value, name, msgspec.UNSET)) for name in names]
    return [(label, part) for label, part in given if part is not msgspec.UNSET]


def _name(value: object) -> str:
    return type(value).__name__
