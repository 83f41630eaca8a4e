"""The types of parameters and answers on the wire, derived from the signatures of the namespaces.

A method of the engine takes durations as ``timedelta``, names as any iterable, amounts as
``Decimal``. The JSON of a request has texts, lists and numbers instead, which `msgspec` checks.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Union, get_args, get_origin

import msgspec


def wire_type(hint: Any) -> Any:
    """Return the type that JSON has in place of *hint*; None if JSON cannot express it."""
    if hint is Any or hint in (str, int, float, bool, bytes, type(None), Decimal):
        return hint
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        return _union(get_args(hint))
    if hint in (datetime, timedelta):
        return str
    if isinstance(origin, type) and issubclass(origin, Mapping):
        key, value = get_args(hint)
        return dict.__class_getitem__((key, wire_type(value)))
    if isinstance(origin, type) and issubclass(origin, Iterable):
        return list.__class_getitem__(wire_type(get_args(hint)[0]))
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return str  # a view in place of its id
    return None


def _union(members: Sequence[Any]) -> Any:
    """Return the union of the wire types; of an amount, only the decimal number."""
    wires = [wire for wire in map(wire_type, members) if wire is not None]
    if Decimal in wires:
        wires = [wire for wire in wires if wire not in (int, float, str)]
    if not wires or wires == [type(None)]:
        return None
    return Union[tuple(dict.fromkeys(wires))]  # noqa: UP007  built from a list


def is_moment(hint: Any) -> bool:
    """Return whether a parameter takes a time, or a time and a duration."""
    return datetime in get_args(hint) or hint is datetime


def moment(value: Any) -> Any:
    """Return a text that is a time in ISO 8601 as a time; every other value as it is, such as a
    duration."""
    if not isinstance(value, str) or len(value) < 10 or value[4:5] != "-":
        return value
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        return value


def item_type(hint: Any) -> Any | None:
    """Return the type of the items if *hint* is a list or a page; None if it is not."""
    origin = get_origin(hint)
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return get_args(hint)[0]
    return None
