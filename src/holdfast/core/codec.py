"""How values become bytes and come back: JSON through msgspec, never pickle.

What cannot be stored is refused here, by name, before anything is written; what was stored is read
by its annotation.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, Protocol

import msgspec

from holdfast.core import encoding_errors, pydantic_models
from holdfast.errors import BadData, NotEncodable, WrongType

PLAIN = (Any, object, None, type(None), inspect.Parameter.empty)
"""The annotations that ask for nothing: data comes back as JSON has it."""


class Codec(Protocol):
    """What turns values into stored bytes. *what* names the value in errors."""

    name: str

    def encode(self, value: object, what: str = "value") -> bytes:
        """Turn *value* into bytes. Raises NotEncodable."""
        ...

    def decode(self, data: bytes, type: object = Any, what: str = "value") -> Any:
        """Turn *data* back into a value of *type*. Raises WrongType, BadData."""
        ...


class JsonCodec:
    """The codec that Holdfast uses unless told otherwise."""

    name = "json"

    def encode(self, value: object, what: str = "value") -> bytes:
        """Turn *value* into JSON; NaN and infinity, which JSON lacks, are refused with the rest.
        Raises NotEncodable."""
        try:
            data = _encoder.encode(value)
        except MemoryError:
            raise
        except Exception as error:
            raise NotEncodable(value=_offence(value, what, error)) from error
        if b"null" in data and value is not None and (found := _hidden_nan(value, what)):
            raise NotEncodable(value=found)
        return data

    def decode(self, data: bytes, type: object = Any, what: str = "value") -> Any:
        """Turn JSON into a value of *type*, or into plain data. Raises WrongType, BadData."""
        try:
            return _reader(type).read(data)
        except MemoryError:
            raise
        except Exception as error:
            raise _misread(data, what, error) from error


def fit(value: object, kind: object, what: str = "value") -> Any:
    """Turn plain data into a value of *kind*, by the rules of `decode`. Raises WrongType."""
    try:
        return _reader(kind).fit(value)
    except MemoryError:
        raise
    except Exception as error:
        raise WrongType(what=what, why=_told(error)) from error


def check_type(kind: object, what: str = "value") -> None:
    """Refuse a type that no stored value could ever be read as, like `bytes | str`. Raises
    WrongType."""
    try:
        _reader(kind)
    except Exception as error:
        raise WrongType(what=what, why=_told(error)) from error


def same(value: object, kind: object = Any) -> bool:
    """Say whether *value*, encoded and decoded as *kind*, is sure to be itself again, so that the
    trip can be saved."""
    if value is None:
        return kind in PLAIN
    mine = type(value)
    if (
        mine is not str
        and mine is not int
        and mine is not bool
        and not (mine is float and math.isfinite(value))  # type: ignore[arg-type]
    ):
        return False
    return kind is mine or kind is Any or kind is object or kind is inspect.Parameter.empty


class _Reader(msgspec.Struct, frozen=True):
    """What makes values of one type: from JSON, and from plain data."""

    read: Callable[[bytes], Any]
    fit: Callable[[object], Any]


def _reader(kind: object) -> _Reader:
    try:
        return _cached_reader(kind)
    except TypeError:
        return _build_reader(kind)  # not hashable, or refused: then this says why


@lru_cache(maxsize=2048)
def _cached_reader(kind: object) -> _Reader:
    return _build_reader(kind)


def _build_reader(kind: object) -> _Reader:
    if kind in PLAIN:
        return _Reader(read=_plain.decode, fit=lambda value: value)
    if pydantic_models.is_model(kind):
        return _model_reader(pydantic_models.reader(kind))
    try:
        decoder = msgspec.json.Decoder(kind, dec_hook=_from_plain)
    except TypeError:
        read = pydantic_models.mixed_reader(kind)
        if read is None:
            raise
        return _model_reader(read)
    return _Reader(
        read=decoder.decode,
        fit=partial(msgspec.convert, type=kind, str_keys=True, dec_hook=_from_plain),
    )


def _model_reader(read: Callable[[bytes], Any]) -> _Reader:
    """Read models from JSON even when they come as plain data: by its rules also a strict model
    takes "2026-01-01"."""
    return _Reader(read=read, fit=lambda value: read(msgspec.json.encode(value)))


def _to_plain(value: object) -> object:
    """Give msgspec something that it knows for what it does not know."""
    if pydantic_models.is_model(type(value)):
        return pydantic_models.dump(value)
    for base, strip in _STRIP.items():
        if isinstance(value, base):
            return strip(value)
    raise TypeError(f"{type(value).__name__} cannot be stored")


def _from_plain(kind: Any, value: object) -> object:
    """Undo `_to_plain`; what is returned unchanged, msgspec refuses with a good message."""
    if pydantic_models.is_model(kind):
        return _reader(kind).fit(value)
    mine = type(value)
    if mine in _STRIP and isinstance(kind, type) and issubclass(kind, mine):
        return kind(value)  # type: ignore[call-arg]
    return value


def _hidden_nan(value: object, what: str) -> str | None:
    """Name a float that JSON has no word for and msgspec wrote as null: MessagePack, just as fast,
    has one to look for."""
    try:
        suspect = _NOT_FINITE.search(_packer.encode(value)) is not None
    except Exception:  # an integer beyond 64 bits, for one: then look closely
        suspect = True
    return encoding_errors.find(value, what, _encoder.encode) if suspect else None


def _offence(value: object, what: str, error: Exception) -> str:
    found = encoding_errors.find(value, what, _encoder.encode)
    if found is None and isinstance(error, RecursionError):
        return f"{what}: nested too deep"
    return found or f"{what}: {type(value).__name__}: {error}"


def _misread(data: bytes, what: str, error: Exception) -> BadData | WrongType:
    try:
        _plain.decode(data)
    except Exception as broken:
        return BadData(what=what, why=_told(broken))
    return WrongType(what=what, why=_told(error))


def _told(error: Exception) -> str:
    return (
        str(error)
        if isinstance(error, ValueError | TypeError)
        else f"{type(error).__name__}: {error}"
    )


_STRIP: dict[type, Callable[[Any], object]] = {
    str: str.__str__,
    int: int.__int__,
    float: float.__float__,
}
"""How a value of a subclass becomes one of the class itself, whatever the subclass overrides."""

_NOT_FINITE = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]")
"""A 64-bit float of MessagePack whose exponent is all ones; UTF-8 text cannot look like this."""

_encoder = msgspec.json.Encoder(enc_hook=_to_plain)
_packer = msgspec.msgpack.Encoder(enc_hook=_to_plain)
_plain = msgspec.json.Decoder()
