"""Translate driver errors about values that a database cannot store, for both databases."""

from __future__ import annotations

from typing import Any

from holdfast.errors import BadOption

_UNBINDABLE = (
    "Error binding parameter",
    "Bad binding argument type",
    "cannot adapt type",
    "datatype mismatch",
)
"""Parts of the messages of drivers about a value of a type that no database knows."""


def translate_error(answer: Any, op: object = None) -> Any:
    """Return BadOption for an error about a value that cannot even be sent to a database; any other
    answer is returned unchanged. So are all errors of an operation with a user function, because
    they may be the user's own."""
    if getattr(op, "body", None) is not None:
        return answer
    if isinstance(answer, UnicodeEncodeError):
        return BadOption(
            option="text",
            why="ids, names, keys and tags must be Unicode, and this one has a lone surrogate",
        )
    if isinstance(answer, Exception) and any(words in str(answer) for words in _UNBINDABLE):
        return BadOption(option="value", why=f"a database cannot store the value: {answer}")
    if isinstance(answer, OverflowError):
        return BadOption(option="number", why="the number is larger than a database can store")
    return answer
