"""Stored errors as explanations show them."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.errors.base import cause_first, raised_at


def error_of(data: bytes | None) -> dict[str, Any]:
    """Return a stored error as a dictionary with ``facts``, even if the stored data is damaged."""
    try:
        decoded = msgspec.json.decode(data or b"{}")
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        decoded = None
    error = decoded if isinstance(decoded, dict) else {}
    if isinstance(error.get("facts"), dict):
        return error
    return {**error, "facts": {}}


def error_text(data: bytes | None) -> str:
    """Format a stored error in one line."""
    error = error_of(data)
    return " ".join(cause_first(error, raised_at(error["facts"]), "an error").split())
