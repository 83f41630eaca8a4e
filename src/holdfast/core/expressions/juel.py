"""JUEL, the expression language of `${...}` in models of Camunda and Flowable.

The parser accepts the operators of the unified expression language, access to fields and elements,
methods of texts, lists, contexts and numbers from a fixed table, getters, and
``execution.getVariable('name')``. It refuses every other call.
"""

from __future__ import annotations

import re

from holdfast.core.expressions.cursor import (
    END,
    TextToken,
    TokenCursor,
    check_length,
    made,
    parse_chain,
    refuse,
)
from holdfast.core.expressions.descent import (
    parse_enclosed,
    parse_field_name,
    parse_items,
    parse_postfix,
    parse_prefixed,
)
from holdfast.core.expressions.juel_functions import EXECUTION_METHODS, FUNCTIONS, METHODS
from holdfast.core.expressions.limits import DEFAULT_LIMITS, ExpressionLimits
from holdfast.core.expressions.tree import (
    Conditional,
    Expression,
    Field,
    FunctionCall,
    ListOf,
    Literal,
    Method,
    Name,
    Node,
    Unary,
)

LANGUAGE = "juel"

_TOKEN = re.compile(
    r"""(?P<skip>\s+)
    |(?P<number>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)
    |(?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    |(?P<word>[^\W\d][\w$]*)
    |(?P<symbol>==|!=|<=|>=|&&|\|\||[-+*/%<>()\[\],.?:!}])
    |(?P<unknown>.)""",
    re.VERBOSE | re.DOTALL,
)
_BEGIN = re.compile(r"\\?[$#]\{")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)

_CONSTANTS = {"true": True, "false": False, "null": None}
_OPERATORS = ("and", "or", "not", "eq", "ne", "lt", "gt", "le", "ge", "div", "mod", "empty")
_RESERVED = frozenset((*_OPERATORS, "instanceof", *_CONSTANTS))
_CHAINED = {
    **dict.fromkeys(("||", "or"), ("or", 1)),
    **dict.fromkeys(("&&", "and"), ("and", 2)),
    **dict.fromkeys(("==", "eq"), ("==", 3)),
    **dict.fromkeys(("!=", "ne"), ("!=", 3)),
    **dict.fromkeys(("<", "lt"), ("<", 4)),
    **dict.fromkeys(("<=", "le"), ("<=", 4)),
    **dict.fromkeys((">", "gt"), (">", 4)),
    **dict.fromkeys((">=", "ge"), (">=", 4)),
    "+": ("+", 5),
    "-": ("-", 5),
    "*": ("*", 6),
    **dict.fromkeys(("/", "div"), ("/", 6)),
    **dict.fromkeys(("%", "mod"), ("%", 6)),
}
_GETTER = re.compile(r"(?:get|is)([A-Z])(\w*)")


def parse_juel(text: str, limits: ExpressionLimits = DEFAULT_LIMITS) -> Expression:
    """Parse a text with `${...}` or `#{...}` in it. A text around expressions makes the value a
    text; a text without expressions is its own value. Raises BadExpression."""
    check_length(text, limits)
    return made(LANGUAGE, text, lambda: _composite(text, limits), limits)


def _composite(text: str, limits: ExpressionLimits) -> Node:
    parts: list[Node] = []
    place = 0
    literal = ""
    while match := _BEGIN.search(text, place):
        literal += text[place : match.start()]
        if match.group().startswith("\\"):
            literal += match.group()[1:]
            place = match.end()
            continue
        if literal.strip() or (literal and parts):
            parts.append(Literal(literal))
        literal = ""
        parser = _JuelParser(text, match.end(), limits)
        parts.append(parser.whole())
        place = parser.end
    literal += text[place:]
    if literal.strip() or not parts:
        parts.append(Literal(literal))
    if len(parts) == 1:
        return parts[0]
    return Unary("concatenate", ListOf(tuple(parts)), 0)


def _tokens(text: str, start: int) -> list[TextToken]:
    """Return the tokens up to the brace that closes the expression."""
    tokens: list[TextToken] = []
    for match in _TOKEN.finditer(text, start):
        kind = match.lastgroup or ""
        if kind == "symbol" and match.group() == "}":
            tokens.append(TextToken(END, "", match.start(), match.end()))
            return tokens
        if kind != "skip":
            tokens.append(TextToken(kind, match.group(), match.start(), match.end()))
    refuse(text, start - 2, "the expression has no closing brace")


_PREFIXES = {"-": "-", "!": "not", "not": "not", "empty": "empty"}


class _JuelParser:
    """Recursive descent over the operators, weakest first."""

    def __init__(self, text: str, start: int, limits: ExpressionLimits) -> None:
        tokens = _tokens(text, start)
        self.cursor = TokenCursor(text, tokens, limits)
        self.end = tokens[-1].end

    def whole(self) -> Node:
        if self.cursor.token.kind == END:
            self.cursor.fail("the expression is empty")
        tree = self.expression()
        self.cursor.finish()
        return tree

    def expression(self) -> Node:
        self.cursor.deepen()
        test = parse_chain(self.cursor, _CHAINED, self._unary)
        token = self.cursor.accept("?")
        if token is not None:
            then = self.expression()
            self.cursor.expect(":", "between the two values")
            test = Conditional(test, then, self.expression(), token.start)
        self.cursor.depth -= 1
        return test

    def _unary(self) -> Node:
        return parse_prefixed(self.cursor, _PREFIXES, self._postfix)

    def _postfix(self) -> Node:
        return parse_postfix(self.cursor, self._primary, self._member, self.expression)

    def _member(self, base: Node, dot: TextToken) -> Node:
        token = parse_field_name(self.cursor)
        if not self.cursor.at("("):
            return Field(base, token.text, dot.start)
        self.cursor.advance()
        arguments = self._arguments()
        on_execution = isinstance(base, Name) and base.name == "execution"
        if on_execution and token.text in EXECUTION_METHODS:
            return FunctionCall(
                Name(f"execution.{token.text}", token.start), arguments, (), token.start
            )
        if token.text in METHODS:
            return Method(base, token.text, arguments, token.start)
        getter = _GETTER.fullmatch(token.text)
        if getter and not arguments and not on_execution:
            return Field(base, getter[1].lower() + getter[2], dot.start)
        self.cursor.fail(f"the method `{token.text}` cannot be called in an expression", token)

    def _primary(self) -> Node:
        token = self.cursor.token
        if token.kind == "number":
            self.cursor.advance()
            return Literal(self._number(token))
        if token.kind == "string":
            self.cursor.advance()
            return Literal(_ESCAPE.sub(r"\1", token.text[1:-1]))
        if token.kind == "word":
            return self._word()
        if self.cursor.accept("("):
            return parse_enclosed(self.cursor, self.expression)
        if token.text in ("'", '"'):
            self.cursor.fail("the text has no closing quote")
        self.cursor.fail()

    def _number(self, token: TextToken) -> int | float:
        if token.text.isdigit():
            if len(token.text) > 300:
                self.cursor.fail("the number has more than 300 digits", token)
            return int(token.text)
        return float(token.text)

    def _word(self) -> Node:
        token = self.cursor.token
        if token.text in _CONSTANTS:
            self.cursor.advance()
            return Literal(_CONSTANTS[token.text])
        if token.text in _RESERVED:
            self.cursor.fail()
        self.cursor.advance()
        name = token.text
        if self.cursor.at(":") and self.cursor.peek(2).text == "(":
            prefixed = f"{name}:{self.cursor.peek().text}"
            if prefixed in FUNCTIONS:
                self.cursor.advance()
                self.cursor.advance()
                name = prefixed
        if not self.cursor.at("("):
            return Name(name, token.start)
        if name not in FUNCTIONS:
            self.cursor.fail(f"the function `{name}` cannot be called in an expression", token)
        self.cursor.advance()
        arguments = self._arguments()
        if ":" in name and arguments and isinstance(arguments[0], Name):
            # Flowable takes the name of the variable with and without quotes
            arguments = (Literal(arguments[0].name), *arguments[1:])
        return FunctionCall(Name(name, token.start), arguments, (), token.start)

    def _arguments(self) -> tuple[Node, ...]:
        return parse_items(self.cursor, ")", self.expression, "between the arguments")
