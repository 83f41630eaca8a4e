"""What a database cannot store, in our words, whichever it is."""

from __future__ import annotations

from typing import Any

from holdfast.errors import BadOption

_UNBINDABLE = (
    "Error binding parameter",
    "Bad binding argument type",
    "cannot adapt type",
    "datatype mismatch",
)
"""What drivers say of a value whose type no database knows."""


def translate_error(answer: Any, op: object = None) -> Any:
    """Return an answer, or the named error for a value that cannot even be sent to a database. What
    the user's own function raises inside of *op* stays what it is."""
    if getattr(op, "body", None) is not None:
        return answer
    if isinstance(answer, UnicodeEncodeError):
        return BadOption(
            option="text",
            why="ids, names, keys and tags are Unicode, and this holds half of a character",
        )
    if isinstance(answer, Exception) and any(words in str(answer) for words in _UNBINDABLE):
        return BadOption(option="value", why=f"a database cannot hold it: {answer}")
    if isinstance(answer, OverflowError):
        return BadOption(option="number", why="it is larger than a database can hold")
    return answer
