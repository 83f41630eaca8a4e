"""Uses of variables and of functions in an expression, for checks before it is evaluated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from holdfast.core.expressions.functions.table import FUNCTION_NAMES
from holdfast.core.expressions.tree import (
    ContextOf,
    Expression,
    Field,
    Filter,
    FunctionCall,
    FunctionOf,
    Loop,
    Name,
    Node,
    Quantified,
    children,
)

Bound = frozenset[str]
"""The variables that the expression itself defines around a node."""


_ANY = "*"
"""Among the bound variables: they may be any, as the fields of the items of a filtered list."""


class VariableUse(msgspec.Struct, frozen=True):
    """A use of a variable: its name and the fields that follow it. Or a call of a function by its
    name."""

    path: tuple[str, ...]
    offset: int
    is_call: bool = False


def references(expression: Expression) -> list[VariableUse]:
    """Return every use of a variable in an expression, in the order of the text. Variables that the
    expression itself defines, and names of functions in calls, are left out."""
    uses = [use for use in _uses(expression.tree, frozenset()) if not use.is_call]
    return sorted(uses, key=lambda use: use.offset)


def unknown_functions(expression: Expression) -> list[VariableUse]:
    """Return every call of a function that neither the language FEEL nor the expression itself
    defines, in the order of the text."""
    calls = [use for use in _uses(expression.tree, frozenset()) if use.is_call]
    unknown = [call for call in calls if call.path[0] not in FUNCTION_NAMES]
    return sorted(unknown, key=lambda call: call.offset)


def _uses(node: Node, bound: Bound) -> Iterator[VariableUse]:
    special = _SPECIAL.get(type(node))
    if special is not None:
        yield from special(node, bound)
        return
    for child in children(node):
        yield from _uses(child, bound)


def _name(node: Name, bound: Bound) -> Iterator[VariableUse]:
    if node.name not in bound:
        yield VariableUse((node.name,), node.offset)


def _path(node: Field, bound: Bound) -> Iterator[VariableUse]:
    fields: list[str] = []
    base: Node = node
    while isinstance(base, Field):
        fields.append(base.name)
        base = base.base
    if not isinstance(base, Name):
        yield from _uses(base, bound)
    elif base.name not in bound:
        yield VariableUse((base.name, *reversed(fields)), base.offset)


def _call(node: FunctionCall, bound: Bound) -> Iterator[VariableUse]:
    function = node.function
    if not isinstance(function, Name):
        yield from _uses(function, bound)
    elif function.name not in bound and _ANY not in bound:
        yield VariableUse((function.name,), function.offset, is_call=True)
    for argument in node.arguments:
        yield from _uses(argument, bound)


def _iterated(node: Loop | Quantified, bound: Bound) -> Iterator[VariableUse]:
    for name, domain in node.iterators:
        yield from _uses(domain, bound)
        bound |= {name}
    if isinstance(node, Loop):
        yield from _uses(node.body, bound | {"partial"})
    else:
        yield from _uses(node.test, bound)


def _function(node: FunctionOf, bound: Bound) -> Iterator[VariableUse]:
    return _uses(node.body, bound | {name for name, _ in node.parameters})


def _context(node: ContextOf, bound: Bound) -> Iterator[VariableUse]:
    for name, value in node.entries:
        own = {name} if isinstance(value, FunctionOf) else set()  # a function may call itself
        yield from _uses(value, bound | own)
        bound |= {name}


def _filter(node: Filter, bound: Bound) -> Iterator[VariableUse]:
    yield from _uses(node.base, bound)
    yield from _uses(node.test, bound | {"item", _ANY})


_SPECIAL: dict[type[Node], Callable[[Any, Bound], Iterator[VariableUse]]] = {
    Name: _name,
    Field: _path,
    FunctionCall: _call,
    Loop: _iterated,
    Quantified: _iterated,
    FunctionOf: _function,
    ContextOf: _context,
    Filter: _filter,
}
