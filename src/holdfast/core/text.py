"""What both databases can store as a text: Unicode, whole, and without NUL characters."""

from __future__ import annotations

from collections.abc import Iterable


def is_storable(text: str) -> bool:
    """Say whether a text can be stored, in either database."""
    return "\0" not in text and (text.isascii() or _is_unicode(text))


def readable(text: str) -> str:
    """Return a text as Unicode; half of a character is written out, as in ``\\udc80``."""
    return (
        text
        if text.isascii() or _is_unicode(text)
        else text.encode(errors="backslashreplace").decode()
    )


def plain_text(value: str) -> str:
    """Return a text that is of no class of its own (``StrEnum``, ``numpy.str_``): not every writer
    takes one that is."""
    return value if type(value) is str else str.__str__(value)


def is_one_of(value: object, known: Iterable[str]) -> bool:
    """Return whether a value is one of the words, whatever it is: ``==`` of other types may
    raise."""
    return isinstance(value, str) and plain_text(value) in known


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # it was read from bytes that are no text
        return False
    return True
