"""Evaluation in the languages that refuse wrong operands: JUEL and the two kinds of conditions.

`LanguageRules` say what a language allows: operators, functions, methods, names and truth. The tree
becomes nested functions once; each evaluation calls them with a scope.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from holdfast.core.expressions.scope import Evaluation, Scope
from holdfast.core.expressions.tree import (
    Chain,
    Compiled,
    Conditional,
    Field,
    FunctionCall,
    Item,
    ListOf,
    Literal,
    Logic,
    Method,
    Name,
    Node,
    Unary,
)

LARGEST = 10**300
"""Whole numbers stay below this, so that no product of products grows without bound."""


class Unusable(Exception):
    """An operation cannot be applied to its operands; the evaluator adds the expression."""

    def __init__(self, why: str, missing: bool = False) -> None:
        super().__init__(why)
        self.why: str = why
        self.missing: bool = missing
        self.offset: int | None = None

    def locate(self, offset: int) -> None:
        """Set the place of the operation; the innermost one counts."""
        if self.offset is None:
            self.offset = offset


Function = Callable[..., Any]


class LanguageRules(msgspec.Struct, frozen=True):
    """The rules of one language."""

    name: Callable[[Scope, str], Any]
    field: Callable[[Any, str], Any]
    item: Callable[[Any, Any], Any]
    truth: Callable[[Any], bool]
    unary: Mapping[str, Callable[[Any], Any]]
    binary: Mapping[str, Callable[[Any, Any], Any]]
    functions: Mapping[str, Function]
    """Functions of the scope and the arguments."""
    methods: Mapping[str, Function]
    """Functions of the object and the arguments."""


def compile_strict(node: Node, rules: LanguageRules) -> Compiled:
    """Return a node as a function of the scope."""
    return _COMPILERS[type(node)](node, rules)


def kind_of(value: Any) -> str:
    """Return the type of a value as users call it."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "text"
    if isinstance(value, Mapping):
        return "context"
    if isinstance(value, Sequence):
        return "list"
    return type(value).__name__


def checked(value: Any, evaluation: Evaluation) -> Any:
    """Return a computed value; refuse it if it is too large."""
    if isinstance(value, str | list):
        evaluation.produce(len(value))
    elif isinstance(value, int) and not -LARGEST < value < LARGEST:
        raise Unusable("the number is too large")
    return value


def _literal(node: Literal, rules: LanguageRules) -> Compiled:
    value = node.value

    def literal(scope: Scope) -> Any:
        return value

    return literal


def _name(node: Name, rules: LanguageRules) -> Compiled:
    name = node.name
    find = rules.name

    def variable(scope: Scope) -> Any:
        try:
            return find(scope, name)
        except Unusable as problem:
            problem.locate(node.offset)
            raise

    return variable


def _field(node: Field, rules: LanguageRules) -> Compiled:
    base = compile_strict(node.base, rules)
    name = node.name

    def field(scope: Scope) -> Any:
        try:
            return rules.field(base(scope), name)
        except Unusable as problem:
            problem.locate(node.offset)
            raise

    return field


def _item(node: Item, rules: LanguageRules) -> Compiled:
    base = compile_strict(node.base, rules)
    key = compile_strict(node.key, rules)

    def item(scope: Scope) -> Any:
        try:
            return rules.item(base(scope), key(scope))
        except Unusable as problem:
            problem.locate(node.offset)
            raise

    return item


def _unary(node: Unary, rules: LanguageRules) -> Compiled:
    operand = compile_strict(node.operand, rules)
    if node.operator == "not":
        truth = rules.truth

        def negation(scope: Scope) -> Any:
            return not truth(operand(scope))

        return negation
    if node.operator == "variable or text" and isinstance(node.operand, Name):
        return _variable_or_text(node.operand, rules)
    operation = rules.unary[node.operator]

    def unary(scope: Scope) -> Any:
        try:
            return checked(operation(operand(scope)), scope.evaluation)
        except Unusable as problem:
            problem.locate(node.offset)
            raise

    return unary


def _variable_or_text(node: Name, rules: LanguageRules) -> Compiled:
    def operand(scope: Scope) -> Any:
        value = rules.name(scope, node.name)
        if value is None:
            return node.name
        return value

    return operand


def _chain(node: Chain, rules: LanguageRules) -> Compiled:
    first = compile_strict(node.first, rules)
    rest = [
        (rules.binary[operator], compile_strict(operand, rules), offset)
        for operator, operand, offset in node.rest
    ]

    def chain(scope: Scope) -> Any:
        value = first(scope)
        for operation, operand, offset in rest:
            right = operand(scope)
            try:
                value = checked(operation(value, right), scope.evaluation)
            except Unusable as problem:
                problem.locate(offset)
                raise
        return value

    return chain


def _logic(node: Logic, rules: LanguageRules) -> Compiled:
    operands = [compile_strict(operand, rules) for operand in node.operands]
    truth = rules.truth
    decisive = node.operator == "or"

    def logic(scope: Scope) -> Any:
        for operand in operands:
            try:
                if truth(operand(scope)) is decisive:
                    return decisive
            except Unusable as problem:
                problem.locate(node.offset)
                raise
        return not decisive

    return logic


def _conditional(node: Conditional, rules: LanguageRules) -> Compiled:
    test = compile_strict(node.test, rules)
    then = compile_strict(node.then, rules)
    otherwise = compile_strict(node.otherwise, rules)
    truth = rules.truth

    def conditional(scope: Scope) -> Any:
        if truth(test(scope)):
            return then(scope)
        return otherwise(scope)

    return conditional


def _list_of(node: ListOf, rules: LanguageRules) -> Compiled:
    items = [compile_strict(item, rules) for item in node.items]

    def list_of(scope: Scope) -> Any:
        return [item(scope) for item in items]

    return list_of


def _call(node: FunctionCall, rules: LanguageRules) -> Compiled:
    assert isinstance(node.function, Name)
    function = rules.functions[node.function.name]
    arguments = [compile_strict(argument, rules) for argument in node.arguments]
    name = node.function.name

    def call(scope: Scope) -> Any:
        scope.evaluation.step()
        values = [argument(scope) for argument in arguments]
        return _called(name, function, (scope, *values), node.offset)

    return call


def _method(node: Method, rules: LanguageRules) -> Compiled:
    base = compile_strict(node.base, rules)
    method = rules.methods[node.name]
    arguments = [compile_strict(argument, rules) for argument in node.arguments]

    def call(scope: Scope) -> Any:
        scope.evaluation.step()
        values = [base(scope), *(argument(scope) for argument in arguments)]
        value = _called(node.name, method, tuple(values), node.offset)
        return checked(value, scope.evaluation)

    return call


def _called(name: str, function: Function, values: tuple[Any, ...], offset: int) -> Any:
    try:
        return function(*values)
    except Unusable as problem:
        problem.locate(offset)
        raise
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError):
        kinds = ", ".join(kind_of(value) for value in values if not isinstance(value, Scope))
        refusal = Unusable(f"`{name}` cannot be applied to ({kinds})")
        refusal.locate(offset)
        raise refusal from None


_COMPILERS: dict[type[Node], Callable[[Any, LanguageRules], Compiled]] = {
    Literal: _literal,
    Name: _name,
    Field: _field,
    Item: _item,
    Unary: _unary,
    Chain: _chain,
    Logic: _logic,
    Conditional: _conditional,
    ListOf: _list_of,
    FunctionCall: _call,
    Method: _method,
}
