"""Names of FEEL: they may contain blanks and operators, so the parser must know them.

A name that is known matches the longest run of tokens; a name that is not known is the longest run
of words that are not keywords. So ``Monthly Fee`` is read without being known, ``date and time``
and ``foo+bar`` are not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from holdfast.core.expressions.cursor import TextToken

_START = (
    r"?_A-Za-z\u00aa\u00b5\u00ba\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff"
    r"\u200c\u200d\u2070-\u218f\u2c00-\u2fef\u3001-\ud7ff\uf900-\ufdcf\ufdf0-\ufffd"
    r"\U00010000-\U000effff"
)
_PART = rf"{_START}0-9\u00b7\u0300-\u036f\u203f\u2040"

TOKEN = re.compile(
    rf"""(?P<skip>[\s\u0085\u00a0\u1680\u180e\u2000-\u200b\u2028\u2029\u202f\u205f\u3000\ufeff]+
        |//[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)
    |(?P<number>(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?)
    |(?P<string>"(?:[^"\\]|\\.)*")
    |(?P<word>[{_START}][{_PART}]*)
    |(?P<symbol>\*\*|\.\.|->|<=|>=|!=|==|[-+*/<>=(){{}}\[\],.:@])
    |(?P<unknown>.)""",
    re.VERBOSE | re.DOTALL,
)

KEYWORDS = frozenset(
    [
        "and",
        "or",
        "in",
        "between",
        "then",
        "else",
        "return",
        "satisfies",
        "instance",
        "for",
        "if",
        "some",
        "every",
        "function",
        "external",
        "null",
        "true",
        "false",
    ]
)

SIMPLE = re.compile(rf"[{_START}][{_PART}]*")

NameTable = Mapping[str, tuple[tuple[str, ...], ...]]
"""The tokens of known names by their first token, longest first."""


@lru_cache(maxsize=4096)
def _name_tokens(name: str) -> tuple[str, ...]:
    return tuple(match.group() for match in TOKEN.finditer(name) if match.lastgroup != "skip")


@lru_cache(maxsize=256)
def name_table(names: frozenset[str]) -> NameTable:
    """Return the known names in the form in which the parser matches them."""
    table: dict[str, list[tuple[str, ...]]] = {}
    for name in names:
        tokens = _name_tokens(name)
        if tokens:
            table.setdefault(tokens[0], []).append(tokens)
    return {first: tuple(sorted(tokens, key=len, reverse=True)) for first, tokens in table.items()}


def match_name(tokens: list[TextToken], index: int, table: NameTable) -> int:
    """Return the number of tokens of the longest known name at a place, 0 if there is none."""
    for name in table.get(tokens[index].text, ()):
        if len(name) == 1:
            return 1
        window = tokens[index : index + len(name)]
        if len(window) == len(name) and all(map(_is, window, name)):
            return len(name)
    return 0


def _is(token: TextToken, text: str) -> bool:
    return token.text == text


def joined(tokens: Iterable[TextToken]) -> str:
    """Return the name that a run of tokens shows: blanks between words, none around operators."""
    text = ""
    end = -1
    for token in tokens:
        if text and token.start > end:
            text += " "
        text += token.text
        end = token.end
    return text


def normalized(name: str) -> str:
    """Return a name with single blanks."""
    return " ".join(name.split())


_PLAIN = frozenset((str, int, float, bool, type(None)))
"""Types whose values have no names in them."""


def special_names(variables: Any, depth: int = 12) -> frozenset[str]:
    """Return the names in variables and in the contexts below them that are not a single word. The
    parser must know them."""
    names: set[str] = set()
    _collect(variables, names, depth)
    return frozenset(names)


def _collect(value: Any, names: set[str], depth: int) -> None:
    if isinstance(value, dict):
        for key, entry in value.items():
            if isinstance(key, str) and not key.isidentifier() and not SIMPLE.fullmatch(key):
                names.add(key)
            if type(entry) not in _PLAIN and depth:
                _collect(entry, names, depth - 1)
    elif isinstance(value, list | tuple):
        for element in value[:100]:  # elements of a list resemble each other
            if type(element) not in _PLAIN and depth:
                _collect(element, names, depth - 1)
    elif isinstance(value, Mapping):
        _collect(dict(value), names, depth)
