"""Conditions: markers of steps, boolean inputs, and expressions over both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

from holdfast.authoring.wf.ast import ExpressionCondition, InputCondition, MarkerCondition
from holdfast.authoring.wf.conditions import ITEM
from holdfast.authoring.wf.interpreter.failures import Stopped
from holdfast.authoring.wf.interpreter.machine import Machine
from holdfast.authoring.wf.interpreter.state import FlowState, Place, StepResult
from holdfast.core.expressions.conditions import parse_condition
from holdfast.core.expressions.evaluate import evaluate
from holdfast.core.expressions.references import references
from holdfast.errors import HoldfastError
from holdfast.errors.wf_runs import ConditionFailed

parsed = lru_cache(maxsize=1024)(parse_condition)
"""Parses the text of a condition once."""


def is_met(machine: Machine, condition: Any, state: FlowState, place: Place) -> bool:
    """Return whether a condition holds. Raises Stopped if it cannot be evaluated."""
    if isinstance(condition, MarkerCondition):
        return state.has_marker(condition.step, condition.marker)
    if isinstance(condition, InputCondition):
        return _is_true(machine.typed.get(condition.name))
    return _expression(machine, condition, state, place)


def _is_true(value: Any) -> bool:
    if isinstance(value, str):
        return value.strip().lower() == "true"
    return value is True


def _expression(
    machine: Machine, condition: ExpressionCondition, state: FlowState, place: Place
) -> bool:
    values = ConditionValues(machine, state, place)
    try:
        value = evaluate(parsed(condition.text), values)
    except HoldfastError as error:
        raise Stopped(_failed(machine, condition, values, str(error))) from error
    if not isinstance(value, bool):
        raise Stopped(
            _failed(machine, condition, values, f"its value {value!r} is neither true nor false")
        )
    return value


def _failed(
    machine: Machine, condition: ExpressionCondition, values: ConditionValues, why: str
) -> ConditionFailed:
    line, _ = machine.document.position(condition.start)
    return ConditionFailed(
        where=machine.where(line),
        expression=condition.text,
        values=compared(condition, values),
        why=why,
    )


def compared(condition: ExpressionCondition, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of all names in an expression."""
    compared_values: dict[str, Any] = {}
    for reference in references(parsed(condition.text)):
        value: Any = values
        for part in reference.path:
            value = value.get(part) if isinstance(value, Mapping) else None
        if isinstance(value, Mapping):
            value = dict(value)
        compared_values[".".join(reference.path)] = value
    return compared_values


def facts_of(machine: Machine, condition: Any, state: FlowState, place: Place) -> Any:
    """Return the facts by which a loop is stuck if they do not change: the markers of the step, or
    the values of all names in the expression."""
    if isinstance(condition, MarkerCondition):
        result = state.result(condition.step)
        if result is not None:
            return frozenset(result.markers)
        return frozenset()
    if isinstance(condition, ExpressionCondition):
        return repr(compared(condition, ConditionValues(machine, state, place)))
    return None


class ConditionValues(Mapping[str, Any]):
    """The names that an expression may use: inputs, ``inputs``, ``variables`` and steps."""

    def __init__(self, machine: Machine, state: FlowState, place: Place) -> None:
        self._machine: Machine = machine
        self._state: FlowState = state
        self._place: Place = place

    def __getitem__(self, name: str) -> Any:
        if name == "inputs":
            return dict(self._machine.typed)
        if name == "variables":
            return self._state.variables(self._place.extra)
        if name in self._machine.plan.keys or self._state.result(name) is not None:
            return StepFacts(self._state.result(name))
        if name == ITEM and self._machine.arguments.body is not None:
            return self._item()
        return self._machine.typed[name]

    def _item(self) -> dict[str, Any]:
        """Return the facts of the item whose body is executed."""
        prefix = f"{ITEM}."
        return {
            name.removeprefix(prefix): value
            for name, value in self._machine.typed.items()
            if name.startswith(prefix)
        }

    def __iter__(self) -> Iterator[str]:
        yield from {"inputs", "variables", *self._machine.typed, *self._state.all_results()}

    def __len__(self) -> int:
        return sum(1 for _ in self)


class StepFacts(Mapping[str, Any]):
    """A step in an expression: its output, markers, context and status; any other word is true if
    the step has that marker."""

    def __init__(self, result: StepResult | None) -> None:
        self._result: StepResult | None = result

    def __getitem__(self, name: str) -> Any:
        result = self._result
        if name in ("output", "markers", "context", "status"):
            if result is None:
                return None
            return getattr(result, name)
        return result is not None and name in result.markers

    def __iter__(self) -> Iterator[str]:
        yield from ("output", "markers", "context", "status")

    def __len__(self) -> int:
        return 4
