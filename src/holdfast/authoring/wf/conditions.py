"""Expressions of conditions: parse them with the text, and find the names that they use."""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.authoring.wf.ast import ExpressionCondition
from holdfast.core.expressions.conditions import parse_condition
from holdfast.core.expressions.references import references
from holdfast.core.expressions.tree import Expression
from holdfast.errors import BadExpression

_SPACES = ("inputs", "variables")
"""Names that are never steps: ``inputs.NAME``, ``variables.NAME``."""


ITEM = "item"
"""In the body of an inline foreach, ``item.NAME`` is a fact of its item, unless a step is called
``item``."""


def expression_fault(condition: ExpressionCondition) -> tuple[int, str] | None:
    """Return the offset in the document of the first wrong token of an expression, and the reason;
    None if the expression can be evaluated."""
    try:
        parse_condition(condition.text)
    except BadExpression as error:
        offset = error.facts.get("offset")
        place = condition.start
        if condition.exact and isinstance(offset, int):
            place += offset
        return place, str(error.facts.get("why", "the expression cannot be read"))
    return None


def parsed(condition: ExpressionCondition) -> Expression:
    """Return the tree of an expression. Raises BadExpression."""
    return parse_condition(condition.text)


def step_references(condition: ExpressionCondition) -> Iterator[tuple[str, bool, int]]:
    """Return the steps and inputs that an expression names: the name, whether it is a step, and the
    offset in the document. An expression that cannot be read names nothing."""
    try:
        expression = parse_condition(condition.text)
    except BadExpression:
        return
    for reference in references(expression):
        start = condition.start + (reference.offset if condition.exact else 0)
        first = reference.path[0]
        if first not in _SPACES:
            yield first, len(reference.path) > 1, start
        elif first == "inputs" and len(reference.path) > 1:
            yield reference.path[1], False, start
