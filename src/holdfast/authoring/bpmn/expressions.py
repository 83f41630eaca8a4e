"""Evaluate the expressions of a model: one parser per language, each text parsed once."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any

from holdfast.authoring.bpmn.dialects.texts import (
    CONDITION,
    FEEL,
    JUEL,
    LIST,
    LITERAL,
    MAP,
    PLAIN,
    computed,
)
from holdfast.authoring.bpmn.model import ModelExpression
from holdfast.core.expressions.evaluate import evaluate
from holdfast.core.expressions.feel import LANGUAGE, parse_feel
from holdfast.core.expressions.juel import parse_juel
from holdfast.core.expressions.references import unknown_functions
from holdfast.core.expressions.text_conditions import parse_text_condition
from holdfast.core.expressions.values import from_python
from holdfast.errors import BadExpression

VARIABLE = "variable"
"""The language of a text that is the name of a variable."""

EVALUATED = frozenset({FEEL, JUEL, CONDITION, LITERAL, PLAIN, VARIABLE, LIST, MAP})


@lru_cache(maxsize=4096)
def parsed(expression: ModelExpression) -> Any:
    """Return the tree of an expression. Raises BadExpression."""
    text = expression.text
    if expression.language == FEEL:
        return parse_feel(text[1:] if text.startswith("=") else text)
    if expression.language == JUEL:
        return parse_juel(text)
    if expression.language == CONDITION:
        return parse_text_condition(text)
    if expression.language == PLAIN:
        return _parse_plain(text)
    raise BadExpression(expression=text, why=f"the language {expression.language!r} is not known")


def _parse_plain(text: str) -> Any:
    """Parse a condition without a language: FEEL, or else the condition language of JSON models."""
    try:
        return parse_feel(text)
    except BadExpression as error:
        try:
            return parse_text_condition(text)
        except BadExpression:
            raise error from None


def check_expression(expression: ModelExpression) -> None:
    """Raise BadExpression if an expression cannot be evaluated, whatever the variables are: they
    are JSON, so they hold no function that the language lacks."""
    if expression.language in (LITERAL, VARIABLE):
        return
    if expression.language in (LIST, MAP):
        for _, part in expression.parts:
            check_expression(part)
        return
    tree = parsed(expression)
    if tree.language == LANGUAGE:
        for call in unknown_functions(tree):
            name = call.path[0]
            why = f"the function `{name}` cannot be called in an expression"
            raise BadExpression(expression=expression.text, why=why, offset=call.offset)


def value_of(expression: ModelExpression, variables: Mapping[str, Any], now: int = 0) -> Any:
    """Return the value of an expression. Raises BadExpression."""
    if expression.language == LITERAL:
        return expression.text
    if expression.language == VARIABLE:
        return _named(expression.text, variables)
    if expression.language == LIST:
        return [value_of(part, variables, now) for _, part in expression.parts]
    if expression.language == MAP:
        return {key: value_of(part, variables, now) for key, part in expression.parts}
    return evaluate(parsed(expression), variables, now=datetime.fromtimestamp(now / 1e6, UTC))


def name_of(text: str, variables: Mapping[str, Any], now: int = 0) -> str:
    """Return the name of a message, a signal, a process or another thing, which the model may
    compute. Raises BadExpression if it computes no name."""
    expression = computed(text)
    if expression is None:
        return text
    value = stored_value(value_of(expression, variables, now))
    if isinstance(value, bool) or not isinstance(value, str | int | float) or value == "":
        why = f"it must give a name, and it gives {_shown(value)}"
        raise BadExpression(expression=text, why=why)
    return str(value)


def stored_value(value: Any) -> Any:
    """Return a value as a variable keeps it: numbers as JSON has them, dates and durations as texts
    of ISO 8601."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, Mapping):
        return {str(name): stored_value(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [stored_value(entry) for entry in value]
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    if isinstance(value, timedelta):
        return str(from_python(value))
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def _named(name: str, variables: Mapping[str, Any]) -> Any:
    try:
        return variables[name]
    except KeyError:
        raise BadExpression(expression=name, why=f"there is no variable {name!r}") from None


def is_met(expression: ModelExpression, variables: Mapping[str, Any], now: int = 0) -> bool:
    """Return whether a condition is true. Raises BadExpression if it is neither true nor false."""
    value = value_of(expression, variables, now)
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    raise BadExpression(
        expression=expression.text,
        why=f"a condition must be true or false, and it is {_shown(value)}",
    )


def _shown(value: Any) -> str:
    return "null" if value is None else repr(value)[:80]
