"""Find rules of a decision table that match the same input, before any input comes.

The tests of a column name constants; the constants, their neighbours and the values between them
stand for all inputs of that column. Two rules overlap if each column has a value that passes the
tests of both. Every value is tried with the tests themselves, so an overlap that is reported is a
real one, as long as the inputs are independent of each other: a table whose inputs share variables
is not examined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from functools import cmp_to_key
from itertools import combinations, pairwise
from typing import Any

import msgspec

from holdfast.core.expressions.feel import parse_feel, parse_unary_tests
from holdfast.core.expressions.feel_evaluation import compile_feel
from holdfast.core.expressions.limits import DEFAULT_LIMITS
from holdfast.core.expressions.operators import add, compare, subtract
from holdfast.core.expressions.references import references
from holdfast.core.expressions.scope import Evaluation, Scope
from holdfast.core.expressions.tree import (
    Comparison,
    Expression,
    Interval,
    ListOf,
    Node,
    UnaryTests,
)
from holdfast.errors import BadExpression

MOST_TESTS = 50_000
"""A table that needs more tests of single values is not examined."""

MOST_REPORTED = 10
"""The most pairs of rules of one table that are reported."""

OTHER = "another value"
"""Stands for all texts that no test names."""

_STEPS = ('@"P1D"', '@"PT1S"', '@"P1M"')
"""The distances to the neighbours of dates, times and durations."""


class TableColumn(msgspec.Struct, frozen=True, kw_only=True):
    """An input of a table, as the file states it."""

    expression: str
    tests: tuple[str, ...]
    """The test of each rule."""
    allowed: str = ""
    variable: str = ""
    is_open: bool = True
    """Whether its type has values that no test names."""


class RuleOverlap(msgspec.Struct, frozen=True):
    """Two rules, counted from 1, and an input that both match."""

    first: int
    second: int
    example: str


def find_overlaps(columns: Sequence[TableColumn], names: frozenset[str]) -> list[RuleOverlap]:
    """Return the pairs of rules that match the same input, with an example of it."""
    try:
        if _share_variables(columns, names):
            return []
        groups = _grouped(columns)
        tried = [_TriedInput(group, names) for group in groups]
        return list(_pairs(tried)) if all(each.is_examined for each in tried) else []
    except (BadExpression, ArithmeticError):
        return []  # an expression or a number is beyond the limits


def _share_variables(columns: Sequence[TableColumn], names: frozenset[str]) -> bool:
    """Return whether different expressions use the same variable."""
    used: dict[str, str] = {}
    for column in columns:
        for use in references(parse_feel(column.expression, names)):
            path = ".".join(use.path)
            if used.setdefault(path, column.expression) != column.expression:
                return True
    return False


def _grouped(columns: Sequence[TableColumn]) -> list[list[TableColumn]]:
    """Return columns with the same expression together: they have the same value."""
    groups: dict[str, list[TableColumn]] = {}
    for column in columns:
        groups.setdefault(column.expression, []).append(column)
    return list(groups.values())


def _pairs(tried: Sequence[_TriedInput]) -> Iterator[RuleOverlap]:
    rules = range(len(tried[0].passed)) if tried else range(0)
    count = 0
    for first, second in combinations(rules, 2):
        common = [each.passed[first] & each.passed[second] for each in tried]
        if not all(common):
            continue
        parts = [each.shown(values) for each, values in zip(tried, common, strict=True)]
        yield RuleOverlap(first + 1, second + 1, ", ".join(part for part in parts if part))
        count += 1
        if count == MOST_REPORTED:
            return


class _TriedInput:
    """The values that are tried for one input, and for each rule the values that pass its tests, as
    bits."""

    def __init__(self, columns: Sequence[TableColumn], names: frozenset[str]) -> None:
        self.expression: str = columns[0].expression
        trees = [parse_unary_tests(text, names) for each in columns for text in _texts(each)]
        is_open = all(each.is_open for each in columns)
        self.values: list[Any] = _values(trees, is_open=is_open)
        rules = len(columns[0].tests)
        self.is_examined: bool = len(self.values) * rules * len(columns) <= MOST_TESTS
        self.passed: list[int] = [0] * rules
        if self.is_examined:
            self._try(columns, names)

    def _try(self, columns: Sequence[TableColumn], names: frozenset[str]) -> None:
        everything = (1 << len(self.values)) - 1
        self.passed = [everything] * len(self.passed)
        for column in columns:
            allowed = everything
            if column.allowed:
                allowed = self._passing(column.allowed, column.variable, names)
            for rule, text in enumerate(column.tests):
                self.passed[rule] &= allowed & self._passing(text, column.variable, names)

    def _passing(self, text: str, variable: str, names: frozenset[str]) -> int:
        """Return the values that pass a test, as bits."""
        test = compile_feel(parse_unary_tests(text, names).tree)
        bits = 0
        for place, value in enumerate(self.values):
            if _evaluated(test, {"?": value, variable: value}) is True:
                bits |= 1 << place
        return bits

    def shown(self, values: int) -> str:
        """Return one of the values, as bits, as the text of an example; empty if any value does."""
        value = self.values[(values & -values).bit_length() - 1]
        return "" if value is None else f"{self.expression} = {_text(value)}"


def _texts(column: TableColumn) -> list[str]:
    return [*column.tests, column.allowed] if column.allowed else list(column.tests)


def _evaluated(run: Callable[[Scope], Any], variables: dict[str, Any]) -> Any:
    return run(Scope(variables, None, Evaluation("", DEFAULT_LIMITS, None)))


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) else str(value)


# Values to try


def _values(trees: Iterable[Expression], *, is_open: bool) -> list[Any]:
    """Return the values that stand for all inputs of a column: null alone if no test names one."""
    by_type: dict[type, list[Any]] = {}
    for tree in trees:
        for constant in _constants(tree.tree):
            known = by_type.setdefault(type(constant), [])
            if constant not in known:
                known.append(constant)
    values: list[Any] = []
    for kind, constants in by_type.items():
        values += _around(kind, constants, is_open=is_open)
    return values or [None]


def _constants(tree: Node) -> Iterator[Any]:
    """Yield the values in a test that depend on no variable."""
    stack = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, UnaryTests):
            stack += reversed(node.tests)
        elif isinstance(node, Interval):
            stack += [end for end in (node.high, node.low) if end is not None]
        elif isinstance(node, Comparison):
            stack.append(node.operand)
        elif isinstance(node, ListOf):
            stack += reversed(node.items)
        elif not references(Expression("feel", "", node)):
            value = _evaluated(compile_feel(node), {})
            if value is not None and not isinstance(value, list | dict):
                yield value


def _around(kind: type, constants: list[Any], *, is_open: bool) -> list[Any]:
    """Return constants of one type with their neighbours and the values between them."""
    if kind is bool:
        return [True, False]
    if kind is str:
        return [*constants, OTHER] if is_open else constants
    if kind is Decimal:
        ordered = sorted(constants)
        near = [each + step for each in ordered for step in (1, -1)]
        between = [(low + high) / 2 for low, high in pairwise(ordered)]
        return list(dict.fromkeys([*ordered, *near, *between]))
    return _neighbours(kind, constants)


def _neighbours(kind: type, constants: list[Any]) -> list[Any]:
    """Return dates, times or durations with their neighbours."""
    steps = [_evaluated(compile_feel(parse_feel(text).tree), {}) for text in _STEPS]
    values = sorted(constants, key=cmp_to_key(lambda one, other: compare(one, other) or 0))
    for constant in constants:
        for step in steps:
            for neighbour in (add(constant, step), subtract(constant, step)):
                if type(neighbour) is kind and neighbour not in values:
                    values.append(neighbour)
    return values
