"""Encode values to stored bytes and decode them: JSON through msgspec, never pickle.

A value that cannot be stored is refused here, before anything is written, and the error names the
offending part. Stored data is decoded by the annotation of the parameter or result.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, Protocol

import msgspec

from holdfast.core import encoding_errors, pydantic_models, typed_json
from holdfast.errors import BadData, NotEncodable, WrongType

PLAIN = (Any, object, None, type(None), inspect.Parameter.empty)
"""The annotations without a type to convert to: data is decoded as plain JSON values."""


class Codec(Protocol):
    """Convert values to stored bytes and back. *label* names the value in error messages."""

    name: str

    def encode(self, value: object, label: str = "value") -> bytes:
        """Return *value* as bytes. Raises NotEncodable."""
        ...

    def decode(self, data: bytes, type: object = Any, label: str = "value") -> Any:
        """Return *data* as a value of *type*. Raises WrongType, BadData."""
        ...


class JsonCodec:
    """The default codec: JSON."""

    name = "json"

    def encode(self, value: object, label: str = "value") -> bytes:
        """Return *value* as JSON. Raises NotEncodable, also for NaN and infinity, which JSON
        cannot represent."""
        try:
            data = _encoder.encode(value)
        except MemoryError:
            raise
        except Exception as error:
            raise NotEncodable(value=_location_and_reason(value, label, error)) from error
        # msgspec writes NaN as null, so only data with a null can hide one: saves the search
        if b"null" in data and value is not None and (nan := _hidden_nan(value, label)):
            raise NotEncodable(value=nan)
        return data

    def decode(self, data: bytes, type: object = Any, label: str = "value") -> Any:
        """Return JSON as a value of *type*, or as plain data. Raises WrongType, BadData."""
        try:
            return _reader(type).read(data)
        except MemoryError:
            raise
        except Exception as error:
            raise _decode_error(data, label, error) from error


def decoder_of(codec: Codec, kind: object, label: str) -> Callable[[bytes], Any]:
    """Return a function that decodes stored data as a value of *kind*, for many values. It raises
    what ``Codec.decode`` raises."""
    if type(codec) is not JsonCodec:
        return partial(codec.decode, type=kind, label=label)
    try:
        read = _reader(kind).read  # found once: saves three calls per value
    except Exception:
        return partial(codec.decode, type=kind, label=label)

    def decode(data: bytes) -> Any:
        try:
            return read(data)
        except MemoryError:
            raise
        except Exception as error:
            raise _decode_error(data, label, error) from error

    return decode


def fit(value: object, kind: object, label: str = "value") -> Any:
    """Convert plain data to a value of *kind*, by the rules of `decode`. Raises WrongType."""
    try:
        return _reader(kind).fit(value)
    except MemoryError:
        raise
    except Exception as error:
        raise WrongType(value=label, why=_error_text(error)) from error


def check_type(kind: object, label: str = "value") -> None:
    """Raise WrongType if stored values cannot be decoded as this type, such as `bytes | str`."""
    try:
        _reader(kind)
    except Exception as error:
        raise WrongType(value=label, why=_error_text(error)) from error


def same(value: object, kind: object = Any) -> bool:
    """Return whether encoding *value* and decoding it as *kind* certainly gives the same value.

    A fast path: the caller then saves the round trip."""
    if value is None:
        return kind in PLAIN
    value_type = type(value)
    if (
        value_type is not str
        and value_type is not int
        and value_type is not bool
        and not (value_type is float and math.isfinite(value))  # type: ignore[arg-type]
    ):
        return False
    return kind is value_type or kind is Any or kind is object or kind is inspect.Parameter.empty


class _Reader(msgspec.Struct, frozen=True):
    """The two converters to one type: `read` from JSON, `fit` from plain data."""

    read: Callable[[bytes], Any]
    fit: Callable[[object], Any]


def _reader(kind: object) -> _Reader:
    try:
        return _cached_reader(kind)
    except TypeError:
        return _build_reader(kind)  # kind is not hashable, or unsupported: then this raises again


@lru_cache(maxsize=2048)
def _cached_reader(kind: object) -> _Reader:
    return _build_reader(kind)


def _build_reader(kind: object) -> _Reader:
    if kind in PLAIN:
        return _Reader(read=_plain.decode, fit=lambda value: value)
    if pydantic_models.is_model(kind):
        return _model_reader(pydantic_models.reader(kind))
    try:
        decoder = typed_json.decoder(kind, dec_hook=_from_plain)
    except TypeError:
        read = pydantic_models.mixed_reader(kind)
        if read is None:
            raise
        return _model_reader(read)
    return _Reader(read=decoder.decode, fit=typed_json.converter(kind, _from_plain))


def _model_reader(read: Callable[[bytes], Any]) -> _Reader:
    """Return a reader of models that converts plain data by way of JSON: only in its JSON mode does
    a strict model accept "2026-01-01" as a date."""
    return _Reader(read=read, fit=lambda value: read(msgspec.json.encode(value)))


def _to_plain(value: object) -> object:
    """Convert a value of a type that msgspec does not know to a type that it knows."""
    if pydantic_models.is_model(type(value)):
        return pydantic_models.dump(value)
    for base, strip in _TO_BASE_TYPE.items():
        if isinstance(value, base):
            return strip(value)
    raise TypeError(f"{type(value).__name__} cannot be stored")


def _from_plain(kind: Any, value: object) -> object:
    """Reverse `_to_plain`. A value that is returned unchanged is refused by msgspec, with a precise
    message."""
    if pydantic_models.is_model(kind):
        return _reader(kind).fit(value)
    value_type = type(value)
    if value_type in _TO_BASE_TYPE and isinstance(kind, type) and issubclass(kind, value_type):
        return kind(value)  # type: ignore[call-arg]
    return value


def _hidden_nan(value: object, label: str) -> str | None:
    """Return the location of a NaN or infinity that msgspec wrote as null, if there is one.

    MessagePack, which is as fast, can represent such floats: searching its bytes saves walking the
    value."""
    try:
        may_have_nan = _NOT_FINITE.search(_packer.encode(value)) is not None
    except Exception:  # for example an integer beyond 64 bits: walk the value to be certain
        may_have_nan = True
    if not may_have_nan:
        return None
    return encoding_errors.find(value, label, _encoder.encode)


def _location_and_reason(value: object, label: str, error: Exception) -> str:
    location = encoding_errors.find(value, label, _encoder.encode)
    if location is None and isinstance(error, RecursionError):
        return f"{label}: nested too deep"
    return location or f"{label}: {type(value).__name__}: {error}"


def _decode_error(data: bytes, label: str, error: Exception) -> BadData | WrongType:
    try:
        _plain.decode(data)
    except Exception as invalid_json:
        return BadData(value=label, why=_error_text(invalid_json))
    return WrongType(value=label, why=_error_text(error))


def _error_text(error: Exception) -> str:
    if isinstance(error, ValueError | TypeError):
        return str(error)
    return f"{type(error).__name__}: {error}"


_TO_BASE_TYPE: dict[type, Callable[[Any], object]] = {
    str: str.__str__,
    int: int.__int__,
    float: float.__float__,
}
"""Convert a value of a subclass to its base class, regardless of what the subclass overrides."""

_NOT_FINITE = re.compile(rb"\xcb[\x7f\xff][\xf0-\xff]")
"""A 64-bit float of MessagePack whose exponent is all ones; valid UTF-8 never contains these
bytes."""

_encoder = msgspec.json.Encoder(enc_hook=_to_plain)
_packer = msgspec.msgpack.Encoder(enc_hook=_to_plain)
_plain = msgspec.json.Decoder()
