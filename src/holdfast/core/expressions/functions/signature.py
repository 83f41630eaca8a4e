"""Signatures of the functions of FEEL: names and types of parameters, and the choice between
several signatures of one name.

A signature is a text: ``"string:s, start position:n, length?:n"``. A parameter with ``?`` is
optional, with ``*`` behind its type it may be null. The types are s text, n number, b boolean,
l list, c context, t date or time, d duration, p point (a value that has an order), r range,
f function, a any. An argument of another type makes the result null. A list of one element stands
for its element, an element for a list of itself. ``...list:l`` takes a list, or its elements as
arguments; ``...`` alone takes any arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import msgspec

from holdfast.core.expressions.scope import Evaluation
from holdfast.core.expressions.temporal import (
    DayTimeDuration,
    FeelDate,
    FeelDateTime,
    FeelTime,
    YearMonthDuration,
)
from holdfast.core.expressions.values import FeelFunction, FeelRange

REFUSED: Any = object()
"""An argument whose type does not fit."""

Implementation = Callable[..., Any]
"""A function of the evaluation and the arguments."""

_TYPES: dict[str, tuple[type, ...]] = {
    "s": (str,),
    "n": (Decimal,),
    "b": (bool,),
    "l": (list,),
    "c": (dict,),
    "t": (FeelDate, FeelTime, FeelDateTime),
    "d": (DayTimeDuration, YearMonthDuration),
    "p": (
        Decimal,
        str,
        FeelDate,
        FeelTime,
        FeelDateTime,
        DayTimeDuration,
        YearMonthDuration,
    ),
    "r": (FeelRange,),
    "f": (FeelFunction,),
    "a": (object,),
}


class Parameter(msgspec.Struct, frozen=True):
    """A parameter of a function."""

    name: str
    kind: str
    types: tuple[type, ...]
    optional: bool
    nullable: bool


class Overload(msgspec.Struct, frozen=True):
    """One signature of a function, and its implementation."""

    parameters: tuple[Parameter, ...]
    required: int
    variadic: bool
    function: Implementation

    def bind(self, values: Sequence[Any], names: Sequence[str]) -> list[Any] | None:
        """Return the arguments of a call if they fit, else None."""
        if names:
            return self.named(names, values)
        return self.positional(values)

    def positional(self, values: Sequence[Any]) -> list[Any] | None:
        """Return the arguments if they fit, else None."""
        if self.variadic and not self.parameters:
            return [list(values)]
        if self.variadic:
            return self._variadic(values)
        if not self.required <= len(values) <= len(self.parameters):
            return None
        arguments = []
        for parameter, value in zip(self.parameters, values, strict=False):
            if not isinstance(value, parameter.types) or parameter.kind == "a":
                value = _coerced(parameter, value)
                if value is REFUSED:
                    return None
            arguments.append(value)
        return arguments

    def _variadic(self, values: Sequence[Any]) -> list[Any] | None:
        if not values:
            return None
        if len(values) == 1:
            value = _coerced(self.parameters[0], values[0])
            if value is REFUSED:
                return None
            return [value]
        return [list(values)]

    def named(self, names: Sequence[str], values: Sequence[Any]) -> list[Any] | None:
        """Return the arguments of a call with names if they fit, else None."""
        by_name = dict(zip(names, values, strict=True))
        arguments = []
        for parameter in self.parameters:
            if parameter.name in by_name:
                value = _coerced(parameter, by_name.pop(parameter.name))
            elif parameter.optional:
                value = None
            else:
                return None
            if value is REFUSED:
                return None
            arguments.append(value)
        if by_name:
            return None
        while len(arguments) > self.required and self.parameters[len(arguments) - 1].name not in (
            names
        ):
            arguments.pop()
        return arguments


def _coerced(parameter: Parameter, value: Any) -> Any:
    """Return an argument as its parameter needs it, or REFUSED."""
    if value is None:
        if parameter.nullable:
            return None
        return REFUSED
    if parameter.kind == "a":
        return value
    if isinstance(value, parameter.types):
        if parameter.kind == "n" and isinstance(value, bool):
            return REFUSED
        return value
    if parameter.kind == "l":
        return [value]
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], parameter.types):
        return value[0]
    return REFUSED


class FunctionTable(dict[str, list[Overload]]):
    """Functions by name."""

    def define(self, name: str, signature: str) -> Callable[[Implementation], Implementation]:
        """Return a decorator that adds a signature of a function."""
        variadic = signature.startswith("...")
        parameters = tuple(_parameter(part) for part in signature.strip(".").split(",") if part)
        required = sum(not parameter.optional for parameter in parameters)

        def add(function: Implementation) -> Implementation:
            overload = Overload(parameters, required, variadic, function)
            self.setdefault(name, []).append(overload)
            return function

        return add


def _parameter(text: str) -> Parameter:
    name, _, kind = text.strip().partition(":")
    nullable = kind.endswith("*")
    kind = kind.rstrip("*")
    return Parameter(name.rstrip("?"), kind, _TYPES[kind], name.endswith("?"), nullable)


def call_builtin(
    overloads: list[Overload], evaluation: Evaluation, values: list[Any], names: tuple[str, ...]
) -> Any:
    """Call the first signature that fits the arguments; null if none does."""
    for overload in overloads:
        arguments = overload.bind(values, names)
        if arguments is not None:
            return overload.function(evaluation, *arguments)
    return None
