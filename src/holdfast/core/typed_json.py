"""Decode JSON, and convert plain data, into a type. All such conversions of the package are here.

msgspec describes a type at its first use and shares the description before it is complete. Another
thread that uses the type meanwhile reads missing parts of it, and the process dies. So the first
use of each type takes a lock; later uses do not.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, overload

import msgspec

Kind = TypeVar("Kind")
Hook = Callable[[type, Any], Any]

_first_use = threading.RLock()
_decoders: dict[object, msgspec.json.Decoder[Any]] = {}


@overload
def decode(data: bytes | str, kind: type[Kind]) -> Kind: ...
@overload
def decode(data: bytes | str, kind: Any) -> Any: ...
def decode(data: bytes | str, kind: Any) -> Any:
    """Return JSON as *kind*. Raises msgspec.MsgspecError, UnicodeDecodeError, RecursionError."""
    return (_decoders.get(kind) or _described(kind)).decode(data)


@overload
def convert(value: object, kind: type[Kind], *, strict: bool = True) -> Kind: ...
@overload
def convert(value: object, kind: Any, *, strict: bool = True) -> Any: ...
def convert(value: object, kind: Any, *, strict: bool = True) -> Any:
    """Return plain data as *kind*. Raises msgspec.ValidationError."""
    if kind not in _decoders:
        _described(kind)
    return msgspec.convert(value, kind, strict=strict)


@overload
def decoder(kind: type[Kind], dec_hook: Hook | None = None) -> msgspec.json.Decoder[Kind]: ...
@overload
def decoder(kind: Any, dec_hook: Hook | None = None) -> msgspec.json.Decoder[Any]: ...
def decoder(kind: Any, dec_hook: Hook | None = None) -> msgspec.json.Decoder[Any]:
    """Return a decoder of its own for *kind*. Raises TypeError for an unsupported type."""
    with _first_use:
        return msgspec.json.Decoder(kind, dec_hook=dec_hook)


def converter(kind: Any, dec_hook: Hook) -> Callable[[object], Any]:
    """Return a function that converts plain data, with texts for keys, into *kind*, which has a
    decoder already."""
    return partial(msgspec.convert, type=kind, str_keys=True, dec_hook=dec_hook)


def _described(kind: Any) -> msgspec.json.Decoder[Any]:
    """Let msgspec describe a type, and return its decoder."""
    with _first_use:
        known = _decoders[kind] = msgspec.json.Decoder(kind)
    return known
