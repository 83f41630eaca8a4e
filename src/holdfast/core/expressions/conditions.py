"""Conditions of `.wf` texts, as expressions over inputs, outputs and markers.

Names contain hyphens, so subtraction needs blanks around its sign. The values of names come from
the caller: a mapping from each name to its value, where a step is a mapping of its fields. A name
or field that is missing is null.
"""

from __future__ import annotations

import json
import re

from holdfast.core.expressions.cursor import (
    END,
    TextToken,
    TokenCursor,
    check_length,
    made,
    parse_chain,
    refuse,
    scan,
)
from holdfast.core.expressions.descent import (
    parse_enclosed,
    parse_field_name,
    parse_items,
    parse_postfix,
    parse_prefixed,
)
from holdfast.core.expressions.limits import DEFAULT_LIMITS, ExpressionLimits
from holdfast.core.expressions.tree import (
    Chain,
    Expression,
    Field,
    FunctionCall,
    ListOf,
    Literal,
    Name,
    Node,
)

LANGUAGE = "condition"

FUNCTIONS = (
    "length",
    "lower",
    "upper",
    "starts_with",
    "ends_with",
    "number",
    "string",
    "min",
    "max",
    "sum",
)

_COMPARISONS = ("==", "!=", "<", "<=", ">", ">=", "in")
_CHAINED = "comparisons cannot be chained: join them with `and`"
_LOGIC = {"or": ("or", 1), "and": ("and", 2)}
_OPERATORS = {
    **{operator: (operator, 1) for operator in _COMPARISONS},
    **{operator: (operator, 2) for operator in ("+", "-")},
    **{operator: (operator, 3) for operator in ("*", "/", "%")},
}
_CONSTANTS = {"true": True, "false": False, "null": None}
_WORDS = frozenset(("and", "or", "not", "in", *_CONSTANTS))

_TOKEN = re.compile(
    r"""(?P<skip>\s+|\#[^\n]*|//[^\n]*)
    |(?P<number>\d+(?:\.\d+)?)
    |(?P<string>"(?:[^"\\\n]|\\.)*")
    |(?P<word>[^\W\d][\w-]*)
    |(?P<symbol>==|!=|<=|>=|[-+*/%<>()\[\],.])
    |(?P<unknown>.)""",
    re.VERBOSE | re.DOTALL,
)


_NOT = {"not": "not"}
_SIGNS = {"-": "-", "+": "+"}


def parse_condition(text: str, limits: ExpressionLimits = DEFAULT_LIMITS) -> Expression:
    """Parse the text between the parentheses of a condition. Raises BadExpression, whose fact
    *offset* is the place of the first wrong token in *text*."""
    check_length(text, limits)
    parser = _ConditionParser(text, limits)
    return made(LANGUAGE, text, parser.whole, limits)


class _ConditionParser:
    """Recursive descent over the operators, weakest first."""

    def __init__(self, text: str, limits: ExpressionLimits) -> None:
        self.cursor = TokenCursor(text, scan(_TOKEN, text), limits)

    def whole(self) -> Node:
        if self.cursor.token.kind == END:
            refuse(self.cursor.text, 0, "the expression is empty")
        tree = self.expression()
        self.cursor.finish()
        return tree

    def expression(self) -> Node:
        self.cursor.deepen()
        tree = parse_chain(self.cursor, _LOGIC, self._test)
        self.cursor.depth -= 1
        return tree

    def _test(self) -> Node:
        """Parse a comparison, with any number of `not` before it."""
        tree = parse_prefixed(self.cursor, _NOT, self._comparison)
        if isinstance(tree, Chain) and len(tree.rest) > 1 and tree.rest[1][0] in _COMPARISONS:
            refuse(self.cursor.text, tree.rest[1][2], _CHAINED)
        return tree

    def _comparison(self) -> Node:
        return parse_chain(self.cursor, _OPERATORS, self._sign)

    def _sign(self) -> Node:
        return parse_prefixed(self.cursor, _SIGNS, self._postfix)

    def _postfix(self) -> Node:
        return parse_postfix(self.cursor, self._primary, self._member, self.expression)

    def _member(self, base: Node, dot: TextToken) -> Node:
        return Field(base, parse_field_name(self.cursor).text, dot.start)

    def _primary(self) -> Node:
        token = self.cursor.token
        if token.kind == "number":
            self.cursor.advance()
            return Literal(_number(token.text))
        if token.kind == "string":
            self.cursor.advance()
            return Literal(self._text(token))
        if token.kind == "word":
            return self._word()
        if self.cursor.accept("("):
            return parse_enclosed(self.cursor, self.expression)
        if self.cursor.accept("["):
            return ListOf(self._items("]"))
        if token.text == '"':
            self.cursor.fail("the text has no closing quote")
        self.cursor.fail()

    def _word(self) -> Node:
        token = self.cursor.token
        if token.text in _CONSTANTS:
            self.cursor.advance()
            return Literal(_CONSTANTS[token.text])
        if token.text in _WORDS:
            self.cursor.fail()
        self.cursor.advance()
        if not self.cursor.at("("):
            return Name(token.text, token.start)
        if token.text not in FUNCTIONS:
            known = ", ".join(FUNCTIONS)
            self.cursor.fail(f"`{token.text}` cannot be called; the functions are {known}", token)
        self.cursor.advance()
        arguments = self._items(")")
        return FunctionCall(Name(token.text, token.start), arguments, (), token.start)

    def _items(self, closing: str) -> tuple[Node, ...]:
        return parse_items(self.cursor, closing, self.expression, "between the values")

    def _text(self, token: TextToken) -> str:
        try:
            value: str = json.loads(token.text, strict=False)
        except ValueError:
            self.cursor.fail("the text has an escape that is not known", token)
        return value


def _number(text: str) -> int | float:
    if "." in text:
        return float(text)
    return int(text)
