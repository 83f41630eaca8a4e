"""Errors about arguments and values."""

from __future__ import annotations

from holdfast.errors.base import UsageError


class BadOption(UsageError):
    """This option cannot be used like that."""


class BadDuration(UsageError):
    """This is no duration: use seconds, a timedelta, "50ms", "1h30m", "2d" or ISO 8601 like
    "PT5M"."""


class NotEncodable(UsageError):
    """This value cannot be stored: use plain data, dataclasses, msgspec or pydantic models,
    datetimes, UUIDs, enums or bytes."""


class WrongType(UsageError):
    """This value does not fit the annotation."""
