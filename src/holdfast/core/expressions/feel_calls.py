"""Functions as values of FEEL, and calls of them."""

from __future__ import annotations

from typing import Any

from holdfast.core.expressions.feel_types import has_type
from holdfast.core.expressions.functions.signature import call_builtin
from holdfast.core.expressions.functions.table import BUILTINS
from holdfast.core.expressions.scope import Evaluation, Scope
from holdfast.core.expressions.tree import Compiled, TypeOf
from holdfast.core.expressions.values import FeelFunction


def builtin_value(name: str, evaluation: Evaluation) -> FeelFunction:
    """Return a function of the language as a value, for functions that take functions."""
    parameters = BUILTINS[name][0].parameters
    typed = tuple((parameter.name, None) for parameter in parameters)
    return FeelFunction(typed, lambda values: call_builtin(BUILTINS[name], evaluation, values, ()))


def _fits(value: Any, kind: TypeOf | None, evaluation: Evaluation) -> bool:
    return kind is None or value is None or has_type(value, kind, evaluation.resolve_type)


def function_value(
    parameters: tuple[tuple[str, TypeOf | None], ...], body: Compiled, depth: int, scope: Scope
) -> FeelFunction:
    """Return a function that evaluates *body*, which is *depth* levels deep, in *scope*."""
    evaluation = scope.evaluation

    def call(values: list[Any]) -> Any:
        variables = {}
        for (name, kind), value in zip(parameters, values, strict=True):
            if not _fits(value, kind, evaluation):
                return None
            variables[name] = value
        evaluation.step()
        evaluation.descend(depth + 4)
        result = body(scope.inner(variables))
        evaluation.depth -= depth + 4
        return result

    return FeelFunction(parameters, call)


def call_function(function: Any, values: list[Any], names: tuple[str, ...]) -> Any:
    """Call a function that is a value; null if it is none, or the arguments do not fit."""
    if not isinstance(function, FeelFunction):
        return None
    if names:
        by_name = dict(zip(names, values, strict=True))
        if by_name.keys() != {name for name, _ in function.parameters}:
            return None
        values = [by_name[name] for name, _ in function.parameters]
    if len(values) != len(function.parameters):
        return None
    return function.call(values)
