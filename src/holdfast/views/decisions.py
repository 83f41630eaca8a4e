"""The value of a decision as JSON."""

from __future__ import annotations

from typing import Any

from holdfast.core.expressions.values import FeelFunction, from_python


def decision_value(value: Any) -> Any:
    """Return a value as JSON data: dates, times, durations and ranges as their texts."""
    if isinstance(value, list):
        return [decision_value(element) for element in value]
    if isinstance(value, dict):
        return {key: decision_value(entry) for key, entry in value.items()}
    if isinstance(value, FeelFunction):
        return "function"
    if isinstance(value, str | bool | int | float | None):
        return value
    return str(from_python(value))
