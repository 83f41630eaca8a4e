"""What both databases can store as a text: Unicode, whole, and without NUL characters."""

from __future__ import annotations


def is_storable(text: str) -> bool:
    """Say whether a text can be stored, in either database."""
    return "\0" not in text and (text.isascii() or _is_unicode(text))


def readable(text: str) -> str:
    """Return a text as Unicode; half of a character is written out, as in ``\\udc80``."""
    return text if text.isascii() or _is_unicode(text) else text.encode(errors="backslashreplace").decode()


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # it was read from bytes that are no text
        return False
    return True
