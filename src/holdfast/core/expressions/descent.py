"""Parts of recursive descent that the languages share: signs, fields and items, lists of values."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from holdfast.core.expressions.cursor import TextToken, TokenCursor
from holdfast.core.expressions.tree import Item, Node, Unary


def parse_prefixed(
    cursor: TokenCursor, operators: Mapping[str, str], operand: Callable[[], Node]
) -> Node:
    """Parse an operand with any number of operators before it; *operators* maps each to its
    canonical spelling."""
    tokens = []
    while token := cursor.accept(*operators):
        cursor.deepen()
        tokens.append(token)
    node = operand()
    for token in reversed(tokens):
        cursor.depth -= 1
        node = Unary(operators[token.text], node, token.start)
    return node


def parse_postfix(
    cursor: TokenCursor,
    primary: Callable[[], Node],
    member: Callable[[Node, TextToken], Node],
    key: Callable[[], Node],
) -> Node:
    """Parse a value with any number of fields and items after it; *member* parses the part after a
    dot, *key* the part in brackets."""
    depth = cursor.depth
    node = primary()
    while token := cursor.accept(".", "["):
        cursor.deepen()
        if token.text == ".":
            node = member(node, token)
        else:
            position = key()
            cursor.expect("]", "after the position or key")
            node = Item(node, position, token.start)
    cursor.depth = depth
    return node


def parse_field_name(cursor: TokenCursor) -> TextToken:
    """Parse the name after a dot."""
    if cursor.token.kind != "word":
        cursor.fail("the name of a field is missing after `.`")
    return cursor.advance()


def parse_items(
    cursor: TokenCursor, closing: str, item: Callable[[], Node], purpose: str
) -> tuple[Node, ...]:
    """Parse values with commas between them, up to a closing symbol."""
    items: list[Node] = []
    while not cursor.at(closing):
        if items:
            cursor.expect(",", purpose)
        items.append(item())
    cursor.advance()
    return tuple(items)


def parse_enclosed(cursor: TokenCursor, expression: Callable[[], Node]) -> Node:
    """Parse an expression up to the parenthesis that closes it."""
    node = expression()
    cursor.expect(")", "to close the parenthesis")
    return node
