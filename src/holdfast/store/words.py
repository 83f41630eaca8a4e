"""What a database cannot store, in our words, whichever it is."""

from __future__ import annotations

from typing import Any

from holdfast.errors import BadOption


def in_our_words(answer: Any, op: object = None) -> Any:
    """Return an answer, or the named error for a value that cannot even be sent to a database. What the user's own function
    raises inside of *op* stays what it is."""
    if getattr(op, "body", None) is not None:
        return answer
    if isinstance(answer, UnicodeEncodeError):
        return BadOption(option="text", why="ids, names, keys and tags are Unicode, and this holds half of a character")
    if isinstance(answer, OverflowError):
        return BadOption(option="number", why="it is larger than a database can hold")
    return answer
