"""The syntax of conditions: ``step.marker``, a boolean input, or an expression in parentheses."""

from __future__ import annotations

import re

from holdfast.authoring.wf.ast import (
    Condition,
    ExpressionCondition,
    InputCondition,
    MarkerCondition,
)
from holdfast.authoring.wf.cursor import Cursor

_COMMENT = re.compile(r'"(?:[^"\\]|\\.)*+"|//[^\n]*+', re.DOTALL)


def parse_condition(cursor: Cursor, *, bare: bool) -> Condition:
    """Consume a condition. *bare*: a boolean input is allowed, too. Raises Panic."""
    if cursor.peek() == "(":
        return _parse_expression(cursor)
    step = cursor.name("a condition")
    if cursor.peek() != ".":
        if bare:
            return InputCondition(step.text, step.start)
        raise cursor.panic(
            f"expected `.` after `{step.text}`, found {cursor.described()}",
            "the condition of a loop is `step.marker` or an expression in parentheses",
        )
    cursor.index += 1
    marker = cursor.name(f"a marker after `{step.text}.`")
    return MarkerCondition(step.text, marker.text, step.start)


def _parse_expression(cursor: Cursor) -> ExpressionCondition:
    opening = cursor.start()
    first = cursor.ends[cursor.index]
    cursor.index += 1
    level = 1
    while level:
        token = cursor.peek()
        if not token or token in ("{", "}"):
            raise cursor.panic("the condition is not closed: `)` is missing", start=opening)
        level += (token == "(") - (token == ")")
        cursor.index += 1
    text = cursor.text[first : cursor.start(cursor.index - 1)]
    return ExpressionCondition(_blank_comments(text), first)


def _blank_comments(text: str) -> str:
    """Replace comments by blanks, so that offsets stay as they are."""
    if "//" not in text:
        return text
    return _COMMENT.sub(lambda m: m[0] if m[0][0] == '"' else " " * len(m[0]), text)
