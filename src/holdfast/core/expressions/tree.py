"""The tree of expressions: the only operations that an expression can have.

The nodes are immutable. Offsets count characters from the beginning of the text, so that a caller
that knows where the text stands can compute line and column.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec


class Node(msgspec.Struct, frozen=True):
    """A part of an expression."""


class Literal(Node, frozen=True):
    """A constant."""

    value: Any


class Name(Node, frozen=True):
    """A variable."""

    name: str
    offset: int


class Field(Node, frozen=True):
    """An entry of a context, or a property of a date, time or duration."""

    base: Node
    name: str
    offset: int


class Item(Node, frozen=True):
    """An element of a list by position, or an entry of a context by key."""

    base: Node
    key: Node
    offset: int


class Filter(Node, frozen=True):
    """The elements of a list that satisfy a test, or the element at a position counted from 1."""

    base: Node
    test: Node
    offset: int


class Unary(Node, frozen=True):
    """An operator with one operand."""

    operator: str
    operand: Node
    offset: int


class Chain(Node, frozen=True):
    """Operators of one precedence, applied from left to right: ``a - b + c``. A chain of any length
    is one level deep."""

    first: Node
    rest: tuple[tuple[str, Node, int], ...]
    """The operator, its right operand and the offset of the operator."""


class Logic(Node, frozen=True):
    """A chain of `and` or of `or`."""

    operator: str
    operands: tuple[Node, ...]
    offset: int


class Conditional(Node, frozen=True):
    """A choice between two values."""

    test: Node
    then: Node
    otherwise: Node
    offset: int


class ListOf(Node, frozen=True):
    """A list."""

    items: tuple[Node, ...]


class ContextOf(Node, frozen=True):
    """A context; an entry sees the entries before it."""

    entries: tuple[tuple[str, Node], ...]


class FunctionCall(Node, frozen=True):
    """A call of a function of the language, or of a function that the expression defines."""

    function: Node
    arguments: tuple[Node, ...]
    names: tuple[str, ...]
    """The names of the arguments, if the call names them."""
    offset: int


class Method(Node, frozen=True):
    """A call of a method that the language allows for texts, lists, contexts and numbers."""

    base: Node
    name: str
    arguments: tuple[Node, ...]
    offset: int


class Interval(Node, frozen=True):
    """A range between two values; an end that is missing is open."""

    low: Node | None
    high: Node | None
    includes_low: bool
    includes_high: bool
    operator: str = ""
    """The operator of a range that is written as a comparison: ``(< 10)``."""


class Loop(Node, frozen=True):
    """The values of *body* for each combination of the iterated values."""

    iterators: tuple[tuple[str, Node], ...]
    body: Node


class Quantified(Node, frozen=True):
    """Whether some, or every, combination of the iterated values satisfies *test*."""

    every: bool
    iterators: tuple[tuple[str, Node], ...]
    test: Node


class FunctionOf(Node, frozen=True):
    """A function that the expression defines."""

    parameters: tuple[tuple[str, TypeOf | None], ...]
    body: Node


class TypeOf(Node, frozen=True):
    """A type: its name, its element types, its fields."""

    name: str
    elements: tuple[TypeOf, ...] = ()
    fields: tuple[tuple[str, TypeOf], ...] = ()


class InstanceOf(Node, frozen=True):
    """Whether a value has a type."""

    value: Node
    type: TypeOf


class Between(Node, frozen=True):
    """Whether a value lies between two others, both included."""

    value: Node
    low: Node
    high: Node


class Comparison(Node, frozen=True):
    """A test without its left side: ``< 10``."""

    operator: str
    operand: Node


class Membership(Node, frozen=True):
    """Whether a value passes one of several tests."""

    value: Node
    tests: tuple[Node, ...]


class UnaryTests(Node, frozen=True):
    """The tests of an input of a decision table; the tested value is the variable ``?``."""

    tests: tuple[Node, ...]
    negated: bool


Compiled = Callable[[Any], Any]
"""A node as a function of the scope in which it is evaluated."""


class Expression:
    """A parsed expression: reusable, hashable, and without state of its own.

    Two expressions are equal if they have the same language, text and known names.
    """

    __slots__ = ("key", "language", "run", "text", "tree")

    def __init__(
        self, language: str, text: str, tree: Node, known: frozenset[str] = frozenset()
    ) -> None:
        self.language: str = language
        self.text: str = text
        self.tree: Node = tree
        self.key: tuple[object, ...] = (language, text, known)
        self.run: Compiled | None = None  # compiled on first use

    @property
    def depth(self) -> int:
        """The number of levels of the tree."""
        return depth_of(self.tree)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expression) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return f"<{self.language} {self.text!r}>"


def depth_of(tree: Node) -> int:
    """Return the number of levels of a tree."""
    deepest = 0
    level = [tree]
    while level:
        deepest += 1
        level = [child for node in level for child in children(node)]
    return deepest


def children(node: Node) -> Iterator[Node]:
    """Yield the nodes directly below a node."""
    for name in node.__struct_fields__:
        yield from _nodes(getattr(node, name))


def _nodes(value: object) -> Iterator[Node]:
    if isinstance(value, Node):
        yield value
    elif isinstance(value, tuple):
        for element in value:
            yield from _nodes(element)
