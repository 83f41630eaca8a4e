"""Errors about arguments and values."""

from __future__ import annotations

from holdfast.errors.base import UsageError


class BadOption(UsageError):
    """An option has a value that cannot be used: correct it as the facts say."""


class BadDuration(UsageError):
    """This value is not a duration: use seconds, a timedelta, "50ms", "1h30m", "2d" or ISO 8601
    like "PT5M"."""


class NotEncodable(UsageError):
    """This value cannot be stored: use plain data, dataclasses, msgspec or pydantic models,
    datetimes, UUIDs, enums or bytes."""


class WrongType(UsageError):
    """A value does not match the annotated type, or the arguments do not match the function: pass
    what it takes, or change its signature."""
