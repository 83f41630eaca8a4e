"""Literal texts of FEEL and their escapes."""

from __future__ import annotations

import re

from holdfast.core.expressions.cursor import TextToken, TokenCursor

_ESCAPE = re.compile(
    r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{6})|(.))",
    re.DOTALL,
)
_SIMPLE = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", '"': '"', "'": "'", "\\": "\\"}


def unescape(cursor: TokenCursor, token: TextToken) -> str:
    """Return the text of a literal. A backslash that begins no escape stands for itself, as in the
    regular expressions that people write."""
    text = token.text[1:-1]
    if "\\" not in text:
        return text
    try:
        replaced = _ESCAPE.sub(_replacement, text)
        # Two escapes of four digits may form one character.
        return replaced.encode("utf-16", "surrogatepass").decode("utf-16")
    except (ValueError, OverflowError):
        cursor.fail("the text has an escape that is not a character", token)


def _replacement(match: re.Match[str]) -> str:
    digits = match[1] or match[2]
    if digits:
        return chr(int(digits, 16))
    return _SIMPLE.get(match[3], match.group())
