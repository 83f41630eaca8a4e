"""Moves of tokens that an operator asks for, as plain data."""

from __future__ import annotations

from typing import Any

from holdfast.core.validation import checked_name


def move(token: str, to: str) -> dict[str, Any]:
    """Move a token to another element. Raises BadOption."""
    return {"kind": "move", "token": _checked_token(token), "element": checked_name("to", to)}


def add(element: str) -> dict[str, Any]:
    """Add a token at an element. Raises BadOption."""
    return {"kind": "add", "element": checked_name("element", element)}


def cancel(token: str) -> dict[str, Any]:
    """End a token. Raises BadOption."""
    return {"kind": "cancel", "token": _checked_token(token)}


def _checked_token(token: object) -> str:
    """Return the id of a token, which may also be given as a number."""
    is_number = isinstance(token, int) and abs(token) < 1 << 62
    return checked_name("token", str(token) if is_number else token)
