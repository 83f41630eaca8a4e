"""The parser of FEEL: tokens to tree.

The parser descends by recursion over few functions: operators of all precedences share one loop, so
that a level of nesting costs few frames of the stack of Python.
"""

from __future__ import annotations

from decimal import Decimal

from holdfast.core.expressions.cursor import END, TextToken, TokenCursor, parse_chain, refuse, scan
from holdfast.core.expressions.feel_names import (
    KEYWORDS,
    TOKEN,
    joined,
    match_name,
    name_table,
    normalized,
)
from holdfast.core.expressions.feel_texts import unescape
from holdfast.core.expressions.feel_types import parse_type
from holdfast.core.expressions.functions.table import FUNCTION_NAMES
from holdfast.core.expressions.limits import ExpressionLimits
from holdfast.core.expressions.temporal import parse_temporal
from holdfast.core.expressions.tree import (
    Between,
    Chain,
    Comparison,
    Conditional,
    ContextOf,
    Field,
    Filter,
    FunctionCall,
    FunctionOf,
    InstanceOf,
    Interval,
    ListOf,
    Literal,
    Loop,
    Membership,
    Name,
    Node,
    Quantified,
    TypeOf,
    Unary,
    UnaryTests,
)

_COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
_LOGIC = {"or": ("or", 1), "and": ("and", 2)}
_ARITHMETIC = {"+": ("+", 1), "-": ("-", 1), "*": ("*", 2), "/": ("/", 2), "**": ("**", 3)}
_CONSTANTS = {"true": True, "false": False, "null": None}

_CALLED = name_table(FUNCTION_NAMES)


class FeelParser:
    """Recursive descent over the tokens of one text."""

    def __init__(self, text: str, names: frozenset[str], limits: ExpressionLimits) -> None:
        self.cursor = TokenCursor(text, scan(TOKEN, text), limits)
        self.names: frozenset[str] = names
        self.table = name_table(names)

    def whole(self) -> Node:
        """Parse the text as one expression."""
        if self.cursor.token.kind == END:
            refuse(self.cursor.text, 0, "the expression is empty")
        tree = self.expression()
        self.cursor.finish()
        return tree

    def whole_tests(self) -> Node:
        """Parse the text as unary tests."""
        cursor = self.cursor
        if cursor.token.kind == END or (cursor.at("-") and cursor.peek().kind == END):
            return UnaryTests((), False)
        negated = cursor.at("not") and cursor.peek().text == "("
        if negated:
            cursor.advance()
            cursor.advance()
        tests = [self._test()]
        while cursor.accept(","):
            tests.append(self._test())
        if negated:
            cursor.expect(")", "to close `not(`")
        cursor.finish()
        return UnaryTests(tuple(tests), negated)

    def _test(self) -> Node:
        """Parse one positive unary test."""
        token = self.cursor.accept(*_COMPARISONS)
        if token is not None:
            return Comparison(token.text, self._sum())
        return self.expression()

    def expression(self) -> Node:
        """Parse an expression of the weakest precedence."""
        self.cursor.deepen()
        node = parse_chain(self.cursor, _LOGIC, self._comparison)
        self.cursor.depth -= 1
        return node

    def _comparison(self) -> Node:
        cursor = self.cursor
        depth = cursor.depth
        left = self._sum()
        while cursor.token.text in _AFTER_VALUE and cursor.token.kind != "string":
            cursor.deepen()
            token = cursor.advance()
            if token.text == "between":
                low = self._sum()
                cursor.expect("and", "in `between`")
                left = Between(left, low, self._sum())
            elif token.text == "in":
                left = Membership(left, self._tests_of_in())
            else:
                if token.text == "==":
                    cursor.fail("FEEL compares with a single `=`", token)
                left = Chain(left, ((token.text, self._sum(), token.start),))
        cursor.depth = depth
        return left

    def _tests_of_in(self) -> tuple[Node, ...]:
        cursor = self.cursor
        if not cursor.at("(") or not _is_list_of_tests(cursor):
            return (self._test_of_in(),)
        cursor.advance()
        tests = [self._test_of_in()]
        while cursor.accept(","):
            tests.append(self._test_of_in())
        cursor.expect(")", "to close the tests")
        return tuple(tests)

    def _test_of_in(self) -> Node:
        token = self.cursor.accept(*_COMPARISONS)
        if token is not None:
            return Comparison(token.text, self._sum())
        return self._sum()

    def _sum(self) -> Node:
        """Parse arithmetic, from sums down to powers."""
        return parse_chain(self.cursor, _ARITHMETIC, self._signed)

    def _signed(self) -> Node:
        cursor = self.cursor
        signs = []
        while token := cursor.accept("-"):
            cursor.deepen()
            signs.append(token)
        node = self._postfix()
        while cursor.at("instance") and cursor.peek().text == "of":
            cursor.deepen()
            cursor.advance()
            cursor.advance()
            node = InstanceOf(node, parse_type(cursor, self.table))
            cursor.depth -= 1
        for token in reversed(signs):
            cursor.depth -= 1
            node = Unary("-", node, token.start)
        return node

    def _postfix(self) -> Node:
        cursor = self.cursor
        depth = cursor.depth
        node = self._primary()
        while cursor.token.kind == "symbol" and cursor.token.text in (".", "[", "("):
            if cursor.token.text == "[" and _ends_range(cursor):
                break
            cursor.deepen()
            token = cursor.advance()
            if token.text == ".":
                node = Field(node, self._name("the name of a field"), token.start)
            elif token.text == "[":
                test = self.expression()
                cursor.expect("]", "to close the filter")
                node = Filter(node, test, token.start)
            else:
                node = self._call(node, token)
        cursor.depth = depth
        return node

    def _call(self, function: Node, token: TextToken) -> Node:
        arguments: list[Node] = []
        names: list[str] = []
        cursor = self.cursor
        while not cursor.at(")"):
            if arguments:
                cursor.expect(",", "between the arguments")
            name = _argument_name(cursor)
            if (not name and names) or (name and len(names) < len(arguments)):
                cursor.fail("a call names all of its arguments, or none")
            if name:
                names.append(name)
            arguments.append(self.expression())
        cursor.advance()
        return FunctionCall(function, tuple(arguments), tuple(names), token.start)

    def _name(self, purpose: str) -> str:
        """Parse a name: the longest known one, else as many words as are not keywords."""
        cursor = self.cursor
        count = match_name(cursor.tokens, cursor.index, self.table)
        if not count:
            if cursor.token.kind != "word":
                cursor.fail(f"{purpose} is missing")
            count = 1
            while cursor.peek(count).kind == "word" and cursor.peek(count).text not in KEYWORDS:
                count += 1
        name = joined(cursor.tokens[cursor.index : cursor.index + count])
        cursor.move(cursor.index + count)
        return name

    def _primary(self) -> Node:
        token = self.cursor.token
        if token.kind == "number":
            self.cursor.advance()
            return Literal(_number(self.cursor, token))
        if token.kind == "string":
            self.cursor.advance()
            return Literal(unescape(self.cursor, token))
        if token.kind == "word" or token.text in self.table:
            return self._word()
        if self.cursor.accept("("):
            return self._parenthesis()
        if token.kind == "symbol":
            return self._symbol()
        if token.text == '"':
            self.cursor.fail("the text has no closing quote")
        self.cursor.fail()

    def _symbol(self) -> Node:
        cursor = self.cursor
        token = cursor.advance()
        if token.text == "[":
            return self._list()
        if token.text == "]":
            low = self._sum()
            cursor.expect("..", "between the ends of the range")
            return self._interval(low, False)
        if token.text == "{":
            return self._context()
        if token.text == "@" and cursor.token.kind == "string":
            literal = cursor.advance()
            value = parse_temporal(unescape(cursor, literal))
            if value is None:
                cursor.fail("this is neither a date, a time nor a duration", literal)
            return Literal(value)
        cursor.fail("", token)

    def _parenthesis(self) -> Node:
        cursor = self.cursor
        token = cursor.accept(*_COMPARISONS)
        if token is not None:
            node = self._comparison_range(token)
            cursor.expect(")", "to close the range")
            return node
        node = self.expression()
        if cursor.accept(".."):
            return self._interval(node, False)
        cursor.expect(")", "to close the parenthesis")
        return node

    def _comparison_range(self, token: TextToken) -> Node:
        end = self._sum()
        operator = token.text
        if operator in ("<", "<="):
            return Interval(None, end, False, operator == "<=", operator)
        if operator in (">", ">="):
            return Interval(end, None, operator == ">=", False, operator)
        return Interval(end, end, operator == "=", operator == "=", operator)

    def _interval(self, low: Node, includes_low: bool) -> Node:
        cursor = self.cursor
        high = self._sum()
        token = cursor.accept("]", ")", "[")
        if token is None:
            cursor.fail("the range has no end: `]` or `)`")
        return Interval(low, high, includes_low, token.text == "]")

    def _list(self) -> Node:
        cursor = self.cursor
        items: list[Node] = []
        while not cursor.at("]"):
            if items:
                cursor.expect(",", "between the elements")
            item = self._test()
            if not items and cursor.accept(".."):
                return self._interval(item, True)
            items.append(item)
        cursor.advance()
        return ListOf(tuple(items))

    def _context(self) -> Node:
        cursor = self.cursor
        outer = self.table, self.names
        entries: list[tuple[str, Node]] = []
        while not cursor.at("}"):
            if entries:
                cursor.expect(",", "between the entries")
            key = _key(cursor)
            if any(key == name for name, _ in entries):
                cursor.fail(f"the context has two entries `{key}`")
            entries.append((key, self.expression()))
            self._learn(key)
        cursor.advance()
        self.table, self.names = outer
        return ContextOf(tuple(entries))

    def _learn(self, name: str) -> None:
        """Know a name that the expression itself defines."""
        if name not in self.names and (" " in name or not name.isidentifier()):
            self.names |= {name}
            self.table = name_table(self.names)

    def _word(self) -> Node:
        cursor = self.cursor
        token = cursor.token
        if match_name(cursor.tokens, cursor.index, self.table) > 1:
            return Name(self._name("a name"), token.start)
        compound = _COMPOUNDS.get(token.text)
        if compound is not None and token.kind == "word":
            return compound(self, token)
        if token.text in _CONSTANTS:
            cursor.advance()
            return Literal(_CONSTANTS[token.text])
        count = match_name(cursor.tokens, cursor.index, _CALLED)
        if count > 1 and cursor.peek(count).text == "(":
            name = " ".join(word.text for word in cursor.tokens[cursor.index :][:count])
            cursor.move(cursor.index + count)
            return Name(name, token.start)
        if token.text in KEYWORDS:
            cursor.fail()
        return Name(self._name("a name"), token.start)

    def _conditional(self, token: TextToken) -> Node:
        cursor = self.cursor
        cursor.advance()
        test = self.expression()
        cursor.expect("then", "after the test of `if`")
        then = self.expression()
        cursor.expect("else", "after the value of `then`")
        return Conditional(test, then, self.expression(), token.start)

    def _loop(self, token: TextToken) -> Node:
        outer = self.table, self.names
        self.cursor.advance()
        iterators = self._iterators()
        self.cursor.expect("return", "after the values of `for`")
        body = self.expression()
        self.table, self.names = outer
        return Loop(iterators, body)

    def _quantified(self, token: TextToken) -> Node:
        outer = self.table, self.names
        self.cursor.advance()
        iterators = self._iterators()
        self.cursor.expect("satisfies", f"after the values of `{token.text}`")
        test = self.expression()
        self.table, self.names = outer
        return Quantified(token.text == "every", iterators, test)

    def _iterators(self) -> tuple[tuple[str, Node], ...]:
        cursor = self.cursor
        iterators: list[tuple[str, Node]] = []
        while not iterators or cursor.accept(","):
            name = self._name("the name of a variable")
            cursor.expect("in", "after the variable")
            domain = self.expression()
            if cursor.accept(".."):
                domain = Interval(domain, self._sum(), True, True, "..")
            iterators.append((name, domain))
            self._learn(name)
        return tuple(iterators)

    def _function(self, token: TextToken) -> Node:
        cursor = self.cursor
        outer = self.table, self.names
        cursor.advance()
        cursor.expect("(", "after `function`")
        parameters: list[tuple[str, TypeOf | None]] = []
        while not cursor.at(")"):
            if parameters:
                cursor.expect(",", "between the parameters")
            name = self._name("the name of a parameter")
            parameter_type = None
            if cursor.accept(":"):
                parameter_type = parse_type(cursor, self.table)
            parameters.append((name, parameter_type))
            self._learn(name)
        cursor.advance()
        if cursor.at("external"):
            cursor.fail("a function of Java or PMML cannot be called")
        body = self.expression()
        self.table, self.names = outer
        return FunctionOf(tuple(parameters), body)


def _is_list_of_tests(cursor: TokenCursor) -> bool:
    """Return whether the parenthesis here holds tests: a comma stands directly in it."""
    depth = 0
    for index in range(cursor.index, len(cursor.tokens)):
        token = cursor.tokens[index]
        if token.kind != "symbol":
            continue
        if token.text in "([{":
            depth += 1
        elif token.text in ")]}":
            depth -= 1
            if depth == 0:
                return False
        elif token.text == "," and depth == 1:
            return True
    return False


def _ends_range(cursor: TokenCursor) -> bool:
    """Return whether the bracket here is the open end of a range, as in ``]1..5[``: no filter
    follows it."""
    token = cursor.peek()
    return token.kind == END or token.text in _AFTER_RANGE


def _argument_name(cursor: TokenCursor) -> str:
    """Go past the name of an argument and its colon, if they stand here."""
    index = cursor.index
    while cursor.tokens[index].kind == "word":
        index += 1
    if index == cursor.index or cursor.tokens[index].text != ":":
        return ""
    name = joined(cursor.tokens[cursor.index : index])
    cursor.move(index + 1)
    return name


def _number(cursor: TokenCursor, token: TextToken) -> Decimal:
    value = Decimal(token.text)
    if value.adjusted() > 6144 or value.adjusted() < -6143:
        cursor.fail("the number is too large", token)
    return value


def _key(cursor: TokenCursor) -> str:
    if cursor.token.kind == "string":
        key = unescape(cursor, cursor.advance())
        cursor.expect(":", "after the key")
        return key
    first = cursor.index
    while not cursor.at(":"):
        if cursor.token.kind in (END, "string") or cursor.at("{", "}", ",", "(", "["):
            cursor.fail("the key of an entry is missing")
        cursor.advance()
    if cursor.index == first:
        cursor.fail("the key of an entry is missing")
    key = joined(cursor.tokens[first : cursor.index])
    cursor.advance()
    return normalized(key)


_AFTER_RANGE = frozenset((")", "]", "}", ",", "and", "or", "then", "else", "return", "satisfies"))
_AFTER_VALUE = frozenset((*_COMPARISONS, "==", "between", "in"))
_COMPOUNDS = {
    "if": FeelParser._conditional,
    "for": FeelParser._loop,
    "some": FeelParser._quantified,
    "every": FeelParser._quantified,
    "function": FeelParser._function,
}
