"""Plain Python values for the numbers and the JSON that the store keeps.

The store counts microseconds since 1970, microseconds of a duration, and millionths of a unit. A
view has a ``datetime`` in UTC, a ``timedelta`` and a ``Decimal`` instead.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec

from holdfast.core import typed_json
from holdfast.core.budgets.rules import UNIT
from holdfast.core.codec import Codec, JsonCodec
from holdfast.core.duration import as_datetime
from holdfast.core.runs import ErrorInfo

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

# An amount is a JSON number, as a user writes it; msgspec would write a string. Only the codec of a
# program can return values that JSON does not know.
_ENCODER = msgspec.json.Encoder(decimal_format="number", enc_hook=str)

Decode = Callable[[bytes | None], Any]
"""Return a stored value as Python, and None for None. Never raises."""


def as_json(view: Any) -> bytes:
    """Return a view, or plain data with views in it, as JSON: times in RFC 3339, durations in ISO
    8601, amounts as numbers."""
    return _ENCODER.encode(view)


def instant(micros: int) -> datetime:
    """Return microseconds since 1970 as a time in UTC."""
    return as_datetime(micros)


def optional_instant(micros: int | None) -> datetime | None:
    """Return microseconds since 1970 as a time in UTC, and None for None."""
    return None if micros is None else instant(micros)


def micros(time: datetime) -> int:
    """Return a time as microseconds since 1970."""
    return (time - _EPOCH) // _MICROSECOND


def span(length: int) -> timedelta:
    """Return microseconds as a duration."""
    return timedelta(microseconds=length)


def optional_span(length: int | None) -> timedelta | None:
    """Return microseconds as a duration, and None for None."""
    return None if length is None else span(length)


def amount(millionths: int) -> Decimal:
    """Return millionths as a number of units."""
    whole, rest = divmod(millionths, UNIT)
    return Decimal(whole) if rest == 0 else (Decimal(millionths) / UNIT).normalize()


def optional_amount(millionths: int | None) -> Decimal | None:
    """Return millionths as a number of units, and None for None."""
    return None if millionths is None else amount(millionths)


def value(data: bytes | None) -> Any:
    """Return stored JSON as plain values; data that is not JSON as text."""
    if data is None:
        return None
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return data.decode("utf-8", "backslashreplace")


def decoder(codec: Codec) -> Decode:
    """Return the function that decodes the values of a program: inputs, results, payloads."""
    if codec.name == JsonCodec.name:
        return value

    def decode(data: bytes | None) -> Any:
        try:
            return None if data is None else codec.decode(data)
        except Exception:
            # Damaged, or JSON: the text that stands in place of a value that cannot be opened.
            return value(data)

    return decode


def error(data: bytes | None) -> ErrorInfo | None:
    """Return a stored error; one that cannot be decoded as an error without a type."""
    if data is None:
        return None
    try:
        return typed_json.decode(data, ErrorInfo)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return ErrorInfo("", str(value(data)))


_TIMES = frozenset({"at", "until", "escalated_at", "gives_up"})
"""The fields of the engine's own JSON that are instants."""

_OF_USERS = frozenset({"payload", "value", "form", "data", "match"})
"""The fields of the engine's own JSON that hold values of users."""


def with_times(data: Any) -> Any:
    """Return the engine's own JSON (a wait, the data of an event) with times instead of
    microseconds. Values of users in it are not changed."""
    if isinstance(data, list):
        return [with_times(item) for item in data]
    if not isinstance(data, dict):
        return data
    return {name: _field(name, item) for name, item in data.items()}


def _field(name: str, item: Any) -> Any:
    if name in _OF_USERS:
        return item
    if name in _TIMES and isinstance(item, int) and not isinstance(item, bool):
        return instant(item)
    return with_times(item)


def timed_again(data: Any) -> Any:
    """Return the JSON of ``with_times``, in which times are texts, with times."""
    if isinstance(data, list):
        return [timed_again(item) for item in data]
    if not isinstance(data, dict):
        return data
    return {name: _timed_field(name, item) for name, item in data.items()}


def _timed_field(name: str, item: Any) -> Any:
    if name in _OF_USERS:
        return item
    if name in _TIMES and isinstance(item, str):
        return datetime.fromisoformat(item)
    return timed_again(item)
