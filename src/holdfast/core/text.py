"""Check and normalize texts that both databases must store: valid Unicode without NUL
characters."""

from __future__ import annotations

from collections.abc import Iterable


def is_storable(text: str) -> bool:
    """Return whether both databases can store the text."""
    return "\0" not in text and (text.isascii() or _is_unicode(text))


def readable(text: str) -> str:
    """Return the text as valid Unicode; a lone surrogate is escaped, as in ``\\udc80``."""
    if text.isascii() or _is_unicode(text):
        return text
    return text.encode(errors="backslashreplace").decode()


def plain_text(value: str) -> str:
    """Return the text as a plain ``str``: some drivers and encoders do not accept subclasses such
    as ``StrEnum`` or ``numpy.str_``."""
    if type(value) is str:
        return value
    return str.__str__(value)


def is_one_of(value: object, known: Iterable[str]) -> bool:
    """Return whether a value of any type is one of the *known* words. Only texts are compared:
    ``==`` of other types may raise."""
    return isinstance(value, str) and plain_text(value) in known


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the *known* word that *word* is most likely a misspelling of; None if none is
    close."""
    import difflib  # here: only a mistake of the caller needs it

    return next(iter(difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)), None)


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # a lone surrogate, as from bytes that are not valid UTF-8
        return False
    return True
