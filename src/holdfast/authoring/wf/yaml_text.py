"""Read the part of YAML that schemas, front matter and settings of agents use.

Supported: mappings and lists by indentation, ``[a, b]`` and ``{a: b}`` on one line, plain and
quoted scalars, ``|`` and ``>`` blocks, comments. Tags, anchors and several documents are refused:
the text is data and nothing else.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

MOST_LINES = 20_000
DEEPEST = 50
_KEY = re.compile(
    r"""^("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s#\[\]{},"'][^#\[\]{}]*?)\s*:(?:\s+|$)"""
)
_NUMBER = re.compile(r"^-?(?:0|[1-9]\d*)(\.\d+)?$")


class YamlProblem(ValueError):
    """A YAML text cannot be read."""

    def __init__(self, why: str, line: int) -> None:
        super().__init__(f"line {line}: {why}")
        self.why: str = why
        self.line: int = line


class _Line(NamedTuple):
    number: int
    indent: int
    text: str


def read_yaml(text: str) -> Any:
    """Return the value of a YAML text; None for an empty one. Raises YamlProblem."""
    reader = _YamlReader(text)
    value = reader.block(0, 0)
    if reader.place < len(reader.lines):
        line = reader.lines[reader.place]
        raise YamlProblem("this line is indented in an unexpected way", line.number)
    return value


class _YamlReader:
    """Reads lines from the top, one block after another."""

    def __init__(self, text: str) -> None:
        raw = text.split("\n")
        if len(raw) > MOST_LINES:
            raise YamlProblem(f"the text has more than {MOST_LINES} lines", MOST_LINES)
        self.raw: list[str] = [line.rstrip("\r") for line in raw]
        self.lines: list[_Line] = []
        for number, line in enumerate(self.raw, start=1):
            stripped = line.strip()
            if not stripped or stripped.startswith("#") or (number == 1 and stripped == "---"):
                continue
            if "\t" in line[: len(line) - len(line.lstrip())]:
                raise YamlProblem("indent with blanks, not with tabs", number)
            self.lines.append(_Line(number, len(line) - len(line.lstrip(" ")), stripped))
        self.place: int = 0

    def block(self, least: int, depth: int) -> Any:
        """Return the value of the block that is indented by at least *least*."""
        if self.place >= len(self.lines) or self.lines[self.place].indent < least:
            return None
        line = self.lines[self.place]
        if depth > DEEPEST:
            raise YamlProblem(f"the text is nested more than {DEEPEST} levels deep", line.number)
        if line.text == "-" or line.text.startswith("- "):
            return self._list(line.indent, depth)
        if _KEY.match(line.text):
            return self._mapping(line.indent, depth)
        self.place += 1
        return scalar(without_comment(line.text), line.number)

    def _list(self, indent: int, depth: int) -> list[Any]:
        values: list[Any] = []
        while self.place < len(self.lines):
            line = self.lines[self.place]
            if line.indent != indent or not (line.text == "-" or line.text.startswith("- ")):
                break
            rest = line.text[1:].strip()
            if not rest or rest.startswith("#"):
                self.place += 1
                values.append(self.block(indent + 1, depth + 1))
                continue
            inner = indent + len(line.text) - len(rest)
            if rest.startswith("- ") or _KEY.match(rest):
                self.lines[self.place] = _Line(line.number, inner, rest)
                values.append(self.block(inner, depth + 1))
                continue
            self.place += 1
            values.append(scalar(without_comment(rest), line.number))
        return values

    def _mapping(self, indent: int, depth: int) -> dict[str, Any]:
        values: dict[str, Any] = {}
        while self.place < len(self.lines):
            line = self.lines[self.place]
            match = _KEY.match(line.text)
            if line.indent != indent or match is None:
                break
            key = str(scalar(match[1], line.number, as_text=True))
            if key in values:
                raise YamlProblem(f"{key} is given twice", line.number)
            rest = without_comment(line.text[match.end() :])
            self.place += 1
            if rest in ("|", ">", "|-", ">-"):
                values[key] = self._text_block(line, rest)
            elif rest:
                values[key] = scalar(rest, line.number)
            else:
                values[key] = self._nested(indent, depth)
        return values

    def _nested(self, indent: int, depth: int) -> Any:
        """Return the value below a key: a list may stand at the indentation of the key."""
        if self.place < len(self.lines):
            line = self.lines[self.place]
            if line.indent == indent and (line.text == "-" or line.text.startswith("- ")):
                return self._list(indent, depth + 1)
        return self.block(indent + 1, depth + 1)

    def _text_block(self, key: _Line, style: str) -> str:
        taken: list[str] = []
        number = key.number
        while number < len(self.raw):
            line = self.raw[number]
            if line.strip() and len(line) - len(line.lstrip(" ")) <= key.indent:
                break
            taken.append(line)
            number += 1
        while self.place < len(self.lines) and self.lines[self.place].number <= number:
            self.place += 1
        indent = min(
            (len(line) - len(line.lstrip(" ")) for line in taken if line.strip()), default=0
        )
        lines = [line[indent:] for line in taken]
        while lines and not lines[-1].strip():
            lines.pop()
        text = ("\n" if style[0] == "|" else " ").join(lines)
        if style.endswith("-"):
            return text
        return text + "\n"


def without_comment(text: str) -> str:
    """Return a value without the comment behind it."""
    quote = ""
    for index, char in enumerate(text):
        if quote:
            if char == quote:
                quote = ""
        elif char in "\"'" and (index == 0 or text[index - 1] in " [{,:"):
            quote = char
        elif char == "#" and (index == 0 or text[index - 1] == " "):
            return text[:index].strip()
    return text.strip()


def scalar(text: str, line: int, *, as_text: bool = False) -> Any:
    """Return the value of a scalar, a flow list or a flow mapping. Raises YamlProblem."""
    if text[:1] in ("&", "*", "!", "@", "`", "%"):
        raise YamlProblem(f"{text[:1]} is not supported: put the text in quotes", line)
    if text.startswith(("[", "{")) and not as_text:
        value, rest = _flow(text, line, 0)
        if rest.strip():
            raise YamlProblem(f"unexpected text after the list: {rest.strip()[:40]}", line)
        return value
    if text.startswith('"'):
        return _double_quoted(text, line)
    if text.startswith("'"):
        if len(text) < 2 or not text.endswith("'"):
            raise YamlProblem("the quote is not closed", line)
        return text[1:-1].replace("''", "'")
    if as_text:
        return text
    return _plain(text)


def _plain(text: str) -> Any:
    if text in ("", "~", "null"):
        return None
    if text in ("true", "True"):
        return True
    if text in ("false", "False"):
        return False
    if _NUMBER.match(text) and len(text) < 300:
        if "." in text:
            return float(text)
        return int(text)
    return text


_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", '"': '"', "\\": "\\", "/": "/", "0": "\0"}


def _double_quoted(text: str, line: int) -> str:
    if len(text) < 2 or not text.endswith('"'):
        raise YamlProblem("the quote is not closed", line)
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), text[1:-1])


def _flow(text: str, line: int, depth: int) -> tuple[Any, str]:
    """Return a flow value at the start of *text*, and the rest."""
    if depth > DEEPEST:
        raise YamlProblem(f"lists are nested more than {DEEPEST} levels deep", line)
    if text.startswith("["):
        values: list[Any] = []
        rest = text[1:].lstrip()
        while not rest.startswith("]"):
            value, rest = _flow(rest, line, depth + 1)
            values.append(value)
            rest = _after_comma(rest, "]", line)
        return values, rest[1:]
    if text.startswith("{"):
        mapping: dict[str, Any] = {}
        rest = text[1:].lstrip()
        while not rest.startswith("}"):
            key, rest = _flow_scalar(rest, ":}", line)
            if not rest.startswith(":"):
                raise YamlProblem("a colon is missing", line)
            mapping[str(key)], rest = _flow(rest[1:].lstrip(), line, depth + 1)
            rest = _after_comma(rest, "}", line)
        return mapping, rest[1:]
    return _flow_scalar(text, ",]}", line)


def _after_comma(text: str, end: str, line: int) -> str:
    rest = text.lstrip()
    if rest.startswith(","):
        return rest[1:].lstrip()
    if not rest.startswith(end):
        raise YamlProblem(f"{end} is missing", line)
    return rest


def _flow_scalar(text: str, ends: str, line: int) -> tuple[Any, str]:
    if text[:1] in ('"', "'"):
        match = re.match(r"""("(?:[^"\\]|\\.)*"|'(?:[^']|'')*')\s*""", text)
        if match is None:
            raise YamlProblem("the quote is not closed", line)
        return scalar(match[1], line), text[match.end() :]
    depth = 0
    for index, char in enumerate(text):
        if char == "(":
            depth += 1
        elif char == ")":
            depth -= 1
        elif char in ends and depth <= 0:
            return scalar(text[:index].strip(), line), text[index:]
    raise YamlProblem("the list is not closed", line)
