"""Evaluation of FEEL: the tree becomes nested functions of the scope.

Invariants:
- A wrong operand or argument gives null; only limits and missing time raise.
- Each level of the tree costs one frame of the stack of Python. `Evaluation.descend` counts the
  levels of functions that call each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

from holdfast.core.expressions.feel_calls import builtin_value, call_function, function_value
from holdfast.core.expressions.feel_types import has_type
from holdfast.core.expressions.functions.signature import call_builtin
from holdfast.core.expressions.functions.table import BUILTINS
from holdfast.core.expressions.iteration import elements_of
from holdfast.core.expressions.operators import COMPARISONS, OPERATORS, compare, negate, passes
from holdfast.core.expressions.properties import property_of
from holdfast.core.expressions.scope import MISSING, Scope
from holdfast.core.expressions.tree import (
    Between,
    Chain,
    Comparison,
    Compiled,
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
    Logic,
    Loop,
    Membership,
    Name,
    Node,
    Quantified,
    Unary,
    UnaryTests,
    children,
    depth_of,
)
from holdfast.core.expressions.values import FeelFunction, FeelRange


def compile_feel(node: Node) -> Compiled:
    """Return a node as a function of the scope."""
    return _COMPILERS[type(node)](node)


def _literal(node: Literal) -> Compiled:
    value = node.value

    def literal(scope: Scope) -> Any:
        return value

    return literal


def _name(node: Name) -> Compiled:
    name = node.name

    def variable(scope: Scope) -> Any:
        value = scope.find(name)
        if value is not MISSING:
            return value
        if name in BUILTINS:
            return builtin_value(name, scope.evaluation)
        return None

    return variable


def _field(node: Field) -> Compiled:
    base = compile_feel(node.base)
    name = node.name

    def field(scope: Scope) -> Any:
        value = base(scope)
        if isinstance(value, list):
            scope.evaluation.produce(len(value))
            return [property_of(element, name) for element in value]
        return property_of(value, name)

    return field


def _filter(node: Filter) -> Compiled:
    base = compile_feel(node.base)
    test = compile_feel(node.test)

    def filtered(scope: Scope) -> Any:
        return filter_values(base(scope), test, scope)

    return filtered


def filter_values(values: Any, test: Compiled, scope: Scope) -> Any:
    """Return the elements of a list that satisfy a test, or the element at a position."""
    if values is None:
        return None
    if not isinstance(values, list):
        values = [values]
    evaluation = scope.evaluation
    evaluation.step(len(values))
    kept = []
    for value in values:
        inner = scope.inner({"item": value})
        if isinstance(value, dict):
            inner = inner.inner(value)
        answer = test(inner)
        if answer is True:
            kept.append(value)
        elif isinstance(answer, Decimal):
            return _element(values, answer)
    if not values and isinstance(test(scope), Decimal):
        return None
    evaluation.produce(len(kept))
    return kept


def _element(values: list[Any], position: Decimal) -> Any:
    place = int(position)
    if place == 0 or abs(place) > len(values) or place != position:
        return None
    if place > 0:
        place -= 1
    return values[place]


def _unary(node: Unary) -> Compiled:
    operand = compile_feel(node.operand)

    def negation(scope: Scope) -> Any:
        return negate(operand(scope))

    return negation


def _chain(node: Chain) -> Compiled:
    first = compile_feel(node.first)
    rest = [(OPERATORS[operator], compile_feel(operand)) for operator, operand, _ in node.rest]

    def chain(scope: Scope) -> Any:
        value = first(scope)
        for operation, operand in rest:
            value = operation(value, operand(scope))
            if type(value) is str:
                scope.evaluation.produce(len(value))
        return value

    return chain


def _logic(node: Logic) -> Compiled:
    operands = [compile_feel(operand) for operand in node.operands]
    decisive = node.operator == "or"

    def logic(scope: Scope) -> Any:
        unknown = False
        for operand in operands:
            value = operand(scope)
            if value is decisive:
                return decisive
            if not isinstance(value, bool):
                unknown = True
        if unknown:
            return None
        return not decisive

    return logic


def _conditional(node: Conditional) -> Compiled:
    test = compile_feel(node.test)
    then = compile_feel(node.then)
    otherwise = compile_feel(node.otherwise)

    def conditional(scope: Scope) -> Any:
        if test(scope) is True:
            return then(scope)
        return otherwise(scope)

    return conditional


def _list_of(node: ListOf) -> Compiled:
    items = [compile_feel(item) for item in node.items]

    def list_of(scope: Scope) -> Any:
        scope.evaluation.produce(len(items))
        return [item(scope) for item in items]

    return list_of


def _context_of(node: ContextOf) -> Compiled:
    entries = [(key, compile_feel(value)) for key, value in node.entries]

    def context_of(scope: Scope) -> Any:
        scope.evaluation.produce(len(entries))
        context: dict[str, Any] = {}
        inner = scope.inner(context)
        for key, value in entries:
            context[key] = value(inner)
        return context

    return context_of


def _interval(node: Interval) -> Compiled:
    low = _end(node.low)
    high = _end(node.high)
    shape = (node.includes_low, node.includes_high, node.operator)

    def interval(scope: Scope) -> Any:
        first = low(scope)
        last = high(scope)
        if shape[2] == "" and first is not None and last is not None:
            order = compare(first, last)
            if order is None or order > 0:
                return None
        return FeelRange(first, last, *shape)

    return interval


def _end(node: Node | None) -> Compiled:
    if node is None:
        return _literal(Literal(None))
    return compile_feel(node)


def _loop(node: Loop) -> Compiled:
    iterators = [(name, compile_feel(domain)) for name, domain in node.iterators]
    return _for(iterators, compile_feel(node.body))


def iterate(kind: str, name: str, values: Compiled, body: Compiled) -> Compiled:
    """Return a loop over one variable: ``for``, ``every`` or ``some``."""
    if kind == "for":
        return _for([(name, values)], body)
    return _quantify([(name, values)], body, every=kind == "every")


def _for(iterators: list[tuple[str, Compiled]], body: Compiled) -> Compiled:
    def loop(scope: Scope) -> Any:
        results: list[Any] = []
        inner = scope.inner({"partial": results})
        for combination in _combinations(iterators, inner):
            if combination is None:
                return None
            scope.evaluation.produce(1)
            results.append(body(combination))
        return results

    return loop


def _combinations(
    iterators: list[tuple[str, Compiled]], scope: Scope, place: int = 0
) -> Iterator[Scope | None]:
    """Yield a scope for each combination of the iterated values; None if a domain has no
    values."""
    name, domain = iterators[place]
    values = elements_of(domain(scope), scope.evaluation)
    if values is None:
        yield None
        return
    for value in values:
        scope.evaluation.step()
        inner = scope.inner({name: value})
        if place + 1 == len(iterators):
            yield inner
        else:
            yield from _combinations(iterators, inner, place + 1)


def _quantified(node: Quantified) -> Compiled:
    iterators = [(name, compile_feel(domain)) for name, domain in node.iterators]
    return _quantify(iterators, compile_feel(node.test), node.every)


def _quantify(iterators: list[tuple[str, Compiled]], test: Compiled, every: bool) -> Compiled:
    decisive = not every

    def quantified(scope: Scope) -> Any:
        unknown = False
        for combination in _combinations(iterators, scope):
            if combination is None:
                return None
            value = test(combination)
            if value is decisive:
                return decisive
            unknown = unknown or not isinstance(value, bool)
        if unknown:
            return None
        return not decisive

    return quantified


def _function_of(node: FunctionOf) -> Compiled:
    body = compile_feel(node.body)
    depth = depth_of(node.body)

    def function_of(scope: Scope) -> Any:
        return function_value(node.parameters, body, depth, scope)

    return function_of


def _call(node: FunctionCall) -> Compiled:
    arguments = [compile_feel(argument) for argument in node.arguments]
    names = node.names
    if not isinstance(node.function, Name):
        target = compile_feel(node.function)

        def call_value(scope: Scope) -> Any:
            return call_function(target(scope), [item(scope) for item in arguments], names)

        return call_value
    name = node.function.name
    builtin = BUILTINS.get(name)

    def call(scope: Scope) -> Any:
        evaluation = scope.evaluation
        evaluation.step()
        values = [argument(scope) for argument in arguments]
        function = scope.find(name)
        if isinstance(function, FeelFunction):
            return call_function(function, values, names)
        if builtin is not None:
            return call_builtin(builtin, evaluation, values, names)
        return None

    return call


def _instance_of(node: InstanceOf) -> Compiled:
    value = compile_feel(node.value)

    def instance_of(scope: Scope) -> Any:
        return has_type(value(scope), node.type, scope.evaluation.resolve_type)

    return instance_of


def _between(node: Between) -> Compiled:
    value = compile_feel(node.value)
    low = compile_feel(node.low)
    high = compile_feel(node.high)

    def between(scope: Scope) -> Any:
        middle = value(scope)
        above = COMPARISONS[">="](middle, low(scope))
        below = COMPARISONS["<="](middle, high(scope))
        if above is None or below is None:
            return None
        return above and below

    return between


def _comparison(node: Comparison) -> Compiled:
    operand = compile_feel(node.operand)
    operator = node.operator

    def comparison(scope: Scope) -> Any:
        end = operand(scope)
        if operator in ("<", "<="):
            return FeelRange(None, end, False, operator == "<=", operator)
        if operator in (">", ">="):
            return FeelRange(end, None, operator == ">=", False, operator)
        return FeelRange(end, end, True, True, operator)

    return comparison


Test = Callable[[Scope, Any], bool | None]


def _test(node: Node) -> Test:
    """Return a test of *in* as a function of the scope and the value."""
    if isinstance(node, Comparison):
        compare_with = COMPARISONS[node.operator]
        operand = compile_feel(node.operand)

        def compared(scope: Scope, value: Any) -> bool | None:
            return compare_with(value, operand(scope))

        return compared
    expected = compile_feel(node)

    def passed(scope: Scope, value: Any) -> bool | None:
        return passes(value, expected(scope))

    return passed


def _membership(node: Membership) -> Compiled:
    value = compile_feel(node.value)
    tests = [_test(test) for test in node.tests]

    def membership(scope: Scope) -> Any:
        tested = value(scope)
        answers = [test(scope, tested) for test in tests]
        if True in answers:
            return True
        if None in answers:
            return None
        return False

    return membership


def _unary_tests(node: UnaryTests) -> Compiled:
    tests = [_table_test(test) for test in node.tests]
    negated = node.negated

    def unary_tests(scope: Scope) -> Any:
        if not tests:
            return True
        value = scope.find("?")
        passed = any(test(scope, value) is True for test in tests)
        return passed is not negated

    return unary_tests


def _table_test(node: Node) -> Test:
    """Return a test of a decision table: a test of *in*, or an expression over ``?``."""
    if isinstance(node, Comparison):
        return _test(node)
    expected = compile_feel(node)
    over_value = _mentions_value(node)

    def passed(scope: Scope, value: Any) -> bool | None:
        result = expected(scope)
        if over_value:
            return result is True
        if result is True and not isinstance(value, bool):
            return True
        return passes(value, result)

    return passed


def _mentions_value(node: Node) -> bool:
    if isinstance(node, Name):
        return node.name == "?"
    return any(_mentions_value(child) for child in children(node))


_COMPILERS: dict[type[Node], Callable[[Any], Compiled]] = {
    Literal: _literal,
    Name: _name,
    Field: _field,
    Filter: _filter,
    Unary: _unary,
    Chain: _chain,
    Logic: _logic,
    Conditional: _conditional,
    ListOf: _list_of,
    ContextOf: _context_of,
    Interval: _interval,
    Loop: _loop,
    Quantified: _quantified,
    FunctionOf: _function_of,
    FunctionCall: _call,
    InstanceOf: _instance_of,
    Between: _between,
    Comparison: _comparison,
    Membership: _membership,
    UnaryTests: _unary_tests,
}
