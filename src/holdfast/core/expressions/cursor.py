"""Scanner and cursor: the parts that the parsers of all languages share.

A parser descends by recursion. The cursor counts the depth, so that no text can exhaust the stack
of Python: every function that may recurse without bound calls `deepen`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple, NoReturn

from holdfast.core.expressions.limits import ExpressionLimits
from holdfast.core.expressions.tree import Chain, Expression, Logic, Node, depth_of
from holdfast.errors.expressions import BadExpression


class TextToken(NamedTuple):
    """A word, number, text or symbol of an expression."""

    kind: str
    text: str
    start: int
    end: int


END = "end"
"""The kind of the token behind the last one."""

_SHOWN = 200
"""The longest part of an expression in an error."""


def shown(text: str) -> str:
    """Return a text for an error message, shortened if it is long."""
    if len(text) <= _SHOWN:
        return text
    return f"{text[:_SHOWN]}... ({len(text)} characters)"


def refuse(text: str, offset: int, why: str) -> NoReturn:
    """Raise BadExpression for a place in a text."""
    raise BadExpression(expression=shown(text), why=why, offset=offset)


def check_length(text: str, limits: ExpressionLimits) -> None:
    """Refuse a text that is longer than the limit, or that is not a text."""
    if not isinstance(text, str):
        raise BadExpression(why=f"an expression is a text, not {type(text).__name__}")
    if len(text) > limits.length:
        why = f"the expression has {len(text)} characters, the limit is {limits.length}"
        refuse(text, limits.length, why)


def scan(pattern: re.Pattern[str], text: str, start: int = 0) -> list[TextToken]:
    """Return the tokens of a text. The pattern names the kind of each token by a group, *skip* for
    blanks and comments; it must match at every place."""
    tokens = []
    for match in pattern.finditer(text, start):
        kind = match.lastgroup or ""
        if kind != "skip":
            tokens.append(TextToken(kind, match.group(), match.start(), match.end()))
    tokens.append(TextToken(END, "", len(text), len(text)))
    return tokens


Operator = tuple[str, int]
"""The canonical spelling of an operator, and its precedence: higher binds more tightly."""


def parse_chain(
    cursor: TokenCursor, operators: Mapping[str, Operator], operand: Callable[[], Node]
) -> Node:
    """Parse operands with operators between them, which group from left to right. One call parses
    all precedences, so that a level of nesting costs few frames of the stack."""
    nodes = [operand()]
    operations: list[tuple[str, int, int]] = []
    while cursor.token.kind in ("symbol", "word") and cursor.token.text in operators:
        token = cursor.advance()
        operator, level = operators[token.text]
        operations.append((operator, level, token.start))
        nodes.append(operand())
    if not operations:
        return nodes[0]
    for level in sorted({level for _, level, _ in operations}, reverse=True):
        nodes, operations = _fold(nodes, operations, level)
    return nodes[0]


def _fold(
    nodes: list[Node], operators: list[tuple[str, int, int]], level: int
) -> tuple[list[Node], list[tuple[str, int, int]]]:
    """Join the operands around the operators of one precedence."""
    folded: list[Node] = []
    rest: list[tuple[str, int, int]] = []
    run: list[tuple[str, Node, int]] = []
    first = nodes[0]
    for (operator, other, offset), node in zip(operators, nodes[1:], strict=True):
        if other == level:
            run.append((operator, node, offset))
            continue
        folded.append(_joined(first, run))
        rest.append((operator, other, offset))
        first = node
        run = []
    folded.append(_joined(first, run))
    return folded, rest


def _joined(first: Node, run: list[tuple[str, Node, int]]) -> Node:
    if not run:
        return first
    if run[0][0] in ("and", "or"):
        return Logic(run[0][0], (first, *(node for _, node, _ in run)), run[0][2])
    return Chain(first, tuple(run))


def made(
    language: str,
    text: str,
    parse: Callable[[], Node],
    limits: ExpressionLimits,
    names: frozenset[str] = frozenset(),
) -> Expression:
    """Return a parsed expression; refuse a tree that is too deep to be evaluated."""
    try:
        tree = parse()
    except RecursionError:
        refuse(text, 0, "the expression is nested too deeply")
    # Every level of a tree takes at least one character, so most texts need no further look.
    if len(text) > 3 * limits.depth and depth_of(tree) > 3 * limits.depth:
        refuse(text, 0, f"the expression is nested deeper than {limits.depth} levels")
    return Expression(language, text, tree, names)


class TokenCursor:
    """A position in the tokens of a text."""

    __slots__ = ("depth", "index", "limits", "text", "token", "tokens")

    def __init__(self, text: str, tokens: list[TextToken], limits: ExpressionLimits) -> None:
        self.text: str = text
        self.tokens: list[TextToken] = tokens
        self.limits: ExpressionLimits = limits
        self.index: int = 0
        self.token: TextToken = tokens[0]
        self.depth: int = 0

    def move(self, index: int) -> None:
        """Continue at another token."""
        self.index = index
        self.token = self.tokens[index]

    def advance(self) -> TextToken:
        """Return the current token and go to the next."""
        token = self.token
        if token.kind != END:
            self.index += 1
            self.token = self.tokens[self.index]
        return token

    def peek(self, distance: int = 1) -> TextToken:
        """Return a token behind the current one."""
        return self.tokens[min(self.index + distance, len(self.tokens) - 1)]

    def at(self, *texts: str) -> bool:
        """Return whether the current token is one of these symbols or words."""
        return self.token.text in texts and self.token.kind in ("symbol", "word")

    def accept(self, *texts: str) -> TextToken | None:
        """Go past the current token if it is one of these symbols or words."""
        if self.at(*texts):
            return self.advance()
        return None

    def expect(self, text: str, purpose: str) -> TextToken:
        """Go past a symbol or word that must stand here."""
        if not self.at(text):
            self.fail(f"`{text}` is missing {purpose}")
        return self.advance()

    def fail(self, why: str = "", token: TextToken | None = None) -> NoReturn:
        """Raise BadExpression for a token, by default the current one."""
        token = token or self.token
        if not why:
            why = f"`{shown(token.text)}` cannot stand here"
            if token.kind == END:
                why = "the expression ends too early"
        refuse(self.text, token.start, why)

    def finish(self) -> None:
        """Refuse tokens behind the end of the expression."""
        if self.token.kind != END:
            self.fail()

    def deepen(self) -> None:
        """Begin a level of nesting; refuse it beyond the limit."""
        self.depth += 1
        if self.depth > self.limits.depth:
            self.fail(f"the expression is nested deeper than {self.limits.depth} levels")
