"""Show a text in place of a stored value that cannot be opened here."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from holdfast.core.envelope import APART, is_sealed, size_of, split
from holdfast.errors import HoldfastError, KeyMissing
from holdfast.payloads.reread import open_or_reread
from holdfast.payloads.value_format import ValueFormat

Reread = Callable[[bytes], bytes]
"""Returns the value that the store has now in place of an old one."""

UNREADABLE = "Unreadable"
"""The type of the error that is shown in place of an error that cannot be read here."""


def open_or_placeholder(
    values: ValueFormat, data: bytes, place: bytes, reread: Reread, *, large: bool
) -> bytes:
    """Return the plain form of a value; a text, as JSON, if the value cannot be opened, or if it is
    kept apart and not *large*. Never raises."""
    if not is_sealed(data):
        return data
    try:
        if split(data).form == APART and not large:
            return msgspec.json.encode(f"<{size_of(data)} bytes, kept apart>")
        return open_stored(values, data, place, reread)
    except HoldfastError as unreadable:
        return msgspec.json.encode(placeholder(unreadable))


def open_error_or_placeholder(
    values: ValueFormat, data: bytes, place: bytes, reread: Reread
) -> bytes:
    """Return the plain form of an error; an error of the type ``UNREADABLE`` if it cannot be
    opened. Never raises."""
    if not is_sealed(data):
        return data
    try:
        return open_stored(values, data, place, reread)
    except HoldfastError as unreadable:
        error = {"type": UNREADABLE, "message": placeholder(unreadable)}
        return msgspec.json.encode(error)


def open_stored(values: ValueFormat, data: bytes, place: bytes, reread: Reread) -> bytes:
    """Return the plain form of a value; if its payload is missing, that of the value which the
    store has now. Raises KeyMissing, BadData."""
    return open_or_reread(data, lambda stored: values.open(stored, "value", place), reread)


def placeholder(error: HoldfastError) -> str:
    """Return the text that is shown in place of a value that *error* kept from being opened."""
    if not isinstance(error, KeyMissing):
        return f"<{error}>"
    key = error.facts.get("key")
    if not key:
        return "<encrypted with a key which is not known here>"
    return f"<encrypted with key {key}, which is not known here>"
