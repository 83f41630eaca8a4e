"""Evaluation of parsed expressions, with limits.

Time is a parameter: `now()` and `today()` use it, and are refused without it. No clock is read, no
attribute of an object is reached, and nothing but the functions of the language is called.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from holdfast.core.expressions import conditions, feel, juel, text_conditions
from holdfast.core.expressions.condition_rules import CONDITIONS, TEXT_CONDITIONS, shown_value
from holdfast.core.expressions.cursor import shown
from holdfast.core.expressions.feel_evaluation import compile_feel
from holdfast.core.expressions.juel_rules import JUEL
from holdfast.core.expressions.limits import DEFAULT_LIMITS, ExpressionLimits
from holdfast.core.expressions.scope import Evaluation, Scope
from holdfast.core.expressions.strict import Unusable, compile_strict
from holdfast.core.expressions.tree import Compiled, Expression, Node
from holdfast.core.expressions.values import from_python, to_python
from holdfast.errors.expressions import BadExpression, ExpressionFailed, VariableMissing

_COMPILE: dict[str, Callable[[Node], Compiled]] = {
    feel.LANGUAGE: compile_feel,
    feel.TESTS: compile_feel,
    juel.LANGUAGE: lambda tree: compile_strict(tree, JUEL),
    conditions.LANGUAGE: lambda tree: compile_strict(tree, CONDITIONS),
    text_conditions.LANGUAGE: lambda tree: compile_strict(tree, TEXT_CONDITIONS),
}


def evaluate(
    expression: Expression,
    variables: Mapping[str, Any],
    *,
    limits: ExpressionLimits = DEFAULT_LIMITS,
    now: datetime | None = None,
) -> Any:
    """Return the value of an expression as plain Python.

    Raises:
        VariableMissing   a variable has no value, and the language does not read that as null
        ExpressionFailed  an operation cannot be applied to its operands
        BadExpression     the evaluation exceeds a limit, or needs the time and *now* is missing
    """
    evaluation = Evaluation(expression.text, limits, now)
    if expression.language in (feel.LANGUAGE, feel.TESTS):
        scope = Scope(FeelVariables(variables), None, evaluation)
        return to_python(run(expression, scope))
    return run(expression, Scope(variables, None, evaluation))


def evaluate_condition(
    expression: Expression,
    variables: Mapping[str, Any],
    *,
    limits: ExpressionLimits = DEFAULT_LIMITS,
    now: datetime | None = None,
) -> bool:
    """Return the value of an expression that must be true or false. Raises as `evaluate`;
    ExpressionFailed also if the value is something else."""
    value = evaluate(expression, variables, limits=limits, now=now)
    if isinstance(value, bool):
        return value
    why = f"the result is {shown_value(value)}, neither true nor false"
    raise ExpressionFailed(expression=shown(expression.text), why=why)


def run(expression: Expression, scope: Scope) -> Any:
    """Return the value of an expression in a scope, as its language represents it."""
    if expression.run is None:
        expression.run = _COMPILE[expression.language](expression.tree)
    try:
        return expression.run(scope)
    except Unusable as problem:
        kind = VariableMissing if problem.missing else ExpressionFailed
        text = shown(expression.text)
        raise kind(expression=text, why=problem.why, offset=problem.offset) from None
    except RecursionError:
        why = "the values or the calls are nested too deeply"
        raise BadExpression(expression=shown(expression.text), why=why) from None


class FeelVariables(Mapping[str, Any]):
    """Variables of Python as values of FEEL, each converted when it is first used."""

    __slots__ = ("_converted", "_variables")

    def __init__(self, variables: Mapping[str, Any]) -> None:
        self._variables: Mapping[str, Any] = variables
        self._converted: dict[str, Any] = {}

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of a variable."""
        if name in self._converted:
            return self._converted[name]
        if name not in self._variables:
            return default
        value = self._variables[name]
        try:
            converted = from_python(value)
        except TypeError:
            why = f"the variable `{name}` holds a {type(value).__name__}, which FEEL lacks"
            raise ExpressionFailed(variable=name, why=why) from None
        except RecursionError:
            why = f"the variable `{name}` is nested too deeply, or contains itself"
            raise ExpressionFailed(variable=name, why=why) from None
        self._converted[name] = converted
        return converted

    def __getitem__(self, name: str) -> Any:
        if name not in self._variables:
            raise KeyError(name)
        return self.get(name)

    def __iter__(self) -> Any:
        return iter(self._variables)

    def __len__(self) -> int:
        return len(self._variables)
