"""Split a ``.wf`` text into tokens. The lexer never raises: a wrong character is a token, too.

One compiled pattern finds all tokens in one call; each match is a token with the blanks and
comments before it, so the matches cover the text without a gap and the end of a token is the sum
of the lengths so far. Positions are offsets; ``LineIndex`` turns them into lines and columns only
for problems.

Every quantifier is possessive, and a string without an end takes the rest of the text, so the
lexer is linear in the length of any text.
"""

from __future__ import annotations

import bisect
import re
from itertools import accumulate

import msgspec

BLANK = r"(?:\s++|//[^\n]*+)*+"
STRING = r'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
NAME = r"[A-Za-z_][A-Za-z0-9_-]*+"

_TOKEN = re.compile(
    BLANK + r'(?:""".*?"""|""".*|'  # triple quotes: a mistake that the parser explains
    rf'{STRING}|".*|{NAME}|[0-9]++|'
    r"'[^'\n]*+'|"  # single quotes: another mistake
    r"#[^\n]*+|;[^\n]*+|--[^\n]*+|"  # comments of other languages: mistakes, too
    r"[<>=!]=|.|\Z)",
    re.DOTALL,
)
_BLANK = re.compile(BLANK)
_CLOSED_STRING = re.compile(STRING, re.DOTALL)
_NAME = re.compile(NAME)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t"}
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")

LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_")
DIGITS = frozenset("0123456789")
OPERATORS = frozenset("<>=!+-*/%")
"""The first characters of operators, which are legal only inside the parentheses of a condition."""

_LEGAL = LETTERS | DIGITS | frozenset('"{}[],=.()') | {""}


class TokenStream(msgspec.Struct, frozen=True):
    """The tokens of a text, and the offset of the end of each. The last token is empty: the end of
    the text."""

    texts: list[str]
    ends: list[int]

    def start(self, index: int) -> int:
        """Return the offset of the first character of a token."""
        return self.ends[index] - len(self.texts[index])


class LineIndex:
    """The lines of a text: offsets become lines and columns, which count from 1."""

    __slots__ = ("_first", "_starts")

    def __init__(self, text: str, first_line: int = 1) -> None:
        self._starts: list[int] = [0, *(match.end() for match in re.finditer("\n", text))]
        self._first: int = first_line - 1

    def position(self, offset: int) -> tuple[int, int]:
        """Return the line and the column of an offset."""
        line = bisect.bisect_right(self._starts, offset)
        return line + self._first, offset - self._starts[line - 1] + 1


def tokenize(text: str) -> TokenStream:
    """Return all tokens of a text, the wrong ones included."""
    matches = _TOKEN.findall(text)
    ends = list(accumulate(map(len, matches)))
    texts = list(map(str.lstrip, matches))
    if "//" in text:
        texts = [_without_comments(token) for token in texts]
    if len(texts) > 1 and texts[-2] == "":  # blanks before the end of the text matched, too
        texts.pop()
        ends.pop()
    return TokenStream(texts, ends)


def _without_comments(token: str) -> str:
    """Return a token without the comments before it. A lone slash is a token of its own."""
    if not token.startswith("//"):
        return token
    blank = _BLANK.match(token)
    return token[blank.end() :] if blank else token


def wrong_tokens(tokens: TokenStream) -> list[int]:
    """Return the indexes of the tokens that are legal nowhere in the text: wrong characters,
    comments of other languages, triple quotes, a string without an end."""
    different = {token for token in set(tokens.texts) if _is_suspect(token)}
    suspects: list[int] = []
    if different:  # tokens repeat: testing the different ones costs a tenth
        suspects = [index for index, token in enumerate(tokens.texts) if token in different]
    if len(tokens.texts) > 1 and is_open_string(tokens.texts[-2]):
        suspects.append(len(tokens.texts) - 2)
    if not suspects:
        return []
    in_parentheses = _indexes_in_parentheses(tokens.texts)
    return [
        index
        for index in sorted(set(suspects))
        if index not in in_parentheses or not is_operator(tokens.texts[index])
    ]


def _is_suspect(token: str) -> bool:
    return token[:1] not in _LEGAL or token[:3] == '"""' or token in ("==", ">=", "<=", "!=")


def _indexes_in_parentheses(texts: list[str]) -> set[int]:
    depth = 0
    indexes = set()
    for index, token in enumerate(texts):
        if token == "(":
            depth += 1
        elif token == ")":
            depth = max(0, depth - 1)
        elif token in ("{", "}"):
            depth = 0  # a condition has no braces: its parenthesis was not closed
        elif depth:
            indexes.add(index)
    return indexes


def is_operator(token: str) -> bool:
    """Return whether a token is an operator of expressions."""
    return token[:1] in OPERATORS and len(token) <= 2 and token != "--"


def is_open_string(token: str) -> bool:
    """Return whether a token is a string without its closing quote."""
    return token[:1] == '"' and _CLOSED_STRING.fullmatch(token) is None


def is_name(text: str) -> bool:
    """Return whether a text is a name of the language."""
    return _NAME.fullmatch(text) is not None


def string_value(token: str) -> str:
    """Return the text that a string token stands for. An unknown escape yields its character."""
    content = token[1:-1]
    if "\\" not in content:
        return content
    return _ESCAPE.sub(lambda match: _ESCAPES.get(match[1], match[1]), content)


def quoted(value: str) -> str:
    """Return the string token of a text; ``string_value`` of it is the text again."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + escaped.replace("\n", "\\n").replace("\t", "\\t") + '"'


def unstorable_characters(text: str) -> list[int]:
    """Return the offsets of the characters that no text of a workflow can contain: NUL, and halves
    of surrogate pairs."""
    return [match.start() for match in _UNSTORABLE.finditer(text)]
