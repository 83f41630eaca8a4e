"""Conditions of models in JSON form: ``a == 'x' and b > 3 or c``.

There are no parentheses. A single word is true if the variable has a value that is neither empty
nor false. The left side is a variable; the right side is a quoted text, a variable, or else the
text itself. Ordering compares numbers; `==` compares texts.
"""

from __future__ import annotations

import re

from holdfast.core.expressions.cursor import check_length, refuse
from holdfast.core.expressions.limits import DEFAULT_LIMITS, ExpressionLimits
from holdfast.core.expressions.tree import Chain, Expression, Literal, Logic, Name, Node, Unary

LANGUAGE = "text condition"

_OR = re.compile(r"\s+or\s+")
_AND = re.compile(r"\s+and\s+")
_COMPARISON = re.compile(r"(\S+)\s+(==|!=|>=|<=|>|<)\s+(.*\S)", re.DOTALL)
_WORD = re.compile(r"[^\W\d][\w.-]*")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")


def parse_text_condition(text: str, limits: ExpressionLimits = DEFAULT_LIMITS) -> Expression:
    """Parse a condition; the wrapper ``${...}`` is optional. Raises BadExpression."""
    check_length(text, limits)
    start = 0
    end = len(text)
    stripped = text.strip()
    if stripped.startswith("${") and stripped.endswith("}"):
        start = text.index("${") + 2
        end = text.rindex("}")
    if not text[start:end].strip():
        refuse(text, start, "the expression is empty")
    operands = [
        _joined("and", [_test(text, *place) for place in _split(text, _AND, *part)])
        for part in _split(text, _OR, start, end)
    ]
    return Expression(LANGUAGE, text, _joined("or", operands))


def _split(text: str, pattern: re.Pattern[str], start: int, end: int) -> list[tuple[int, int]]:
    """Return the places of the parts between separators; a separator inside quotes is none."""
    quoted = [match.span() for match in _QUOTED.finditer(text, start, end)]
    places = []
    index = 0
    for match in pattern.finditer(text, start, end):
        while index < len(quoted) and quoted[index][1] <= match.start():
            index += 1
        if index < len(quoted) and quoted[index][0] < match.start():
            continue
        places.append((start, match.start()))
        start = match.end()
    places.append((start, end))
    return places


def _joined(word: str, operands: list[Node]) -> Node:
    if len(operands) == 1:
        return operands[0]
    return Logic(word, tuple(operands), 0)


def _test(text: str, start: int, end: int) -> Node:
    part = text[start:end]
    offset = start + len(part) - len(part.lstrip())
    part = part.strip()
    if part.startswith("not ") and not part[4:].lstrip().startswith("not "):
        return Unary("not", _test(text, offset + 4, end), offset)
    if _WORD.fullmatch(part):
        return Unary("set", Name(part, offset), offset)
    match = _COMPARISON.fullmatch(part)
    if match is None or not _WORD.fullmatch(match[1]):
        refuse(text, offset, "a condition is `name`, or `name == value` with blanks around")
    right = _operand(text, match[3], offset + match.start(3))
    return Chain(Name(match[1], offset), ((match[2], right, offset + match.start(2)),))


def _operand(text: str, part: str, offset: int) -> Node:
    if _QUOTED.fullmatch(part):
        return Literal(part[1:-1])
    if part[0] in "'\"":
        refuse(text, offset, "the text has no closing quote")
    if _WORD.fullmatch(part):
        # A word is a variable if there is such a variable, and else the word itself.
        return Unary("variable or text", Name(part, offset), offset)
    return Literal(part)
