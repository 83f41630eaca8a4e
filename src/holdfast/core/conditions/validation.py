"""Validation of conditions: size, depth, counts, names and payloads. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from holdfast.core.conditions.evaluation import _JSON, DISTINCT
from holdfast.core.conditions.model import (
    AllOf,
    AnyOf,
    Condition,
    Count,
    Leaf,
    SignalNamed,
    SignalToWait,
)
from holdfast.core.text import is_one_of, is_storable
from holdfast.errors import BadCondition, NotEncodable
from holdfast.errors.base import safe_repr

DEEPEST = 4
"""The largest number of nested levels of all-of, any-of and count."""


LARGEST = 8192
"""The largest size of a condition as JSON, in bytes."""


def checked_condition(condition: Condition) -> Condition:
    """Return the condition. Raises BadCondition if no signals could meet it, or if it is too large
    or too deep."""
    _check(condition, 0)
    size = len(msgspec.json.encode(condition))
    if size > LARGEST:
        raise BadCondition(why=f"it takes {size} bytes as JSON, and the limit is {LARGEST}")
    return condition


def _check(condition: Condition, depth: int) -> None:
    if isinstance(condition, Leaf):
        _check_leaf(condition)
        return
    if depth >= DEEPEST:
        raise BadCondition(
            condition=_label(condition),
            why=f"it is nested {depth + 1} levels deep, and the limit is {DEEPEST}",
        )
    name = {AllOf: "all_of", AnyOf: "any_of", Count: "count"}[type(condition)]
    if not condition.of:
        raise BadCondition(condition=name, why="it is empty: name at least one signal or wait")
    if isinstance(condition, Count):
        _check_count(condition)
    for member in condition.of:
        _check(member, depth + 1)


def _check_count(condition: Count) -> None:
    n = condition.n
    kind = condition.distinct
    if not is_one_of(kind, DISTINCT):
        raise BadCondition(
            condition="count",
            why=f"distinct={safe_repr(kind)} must be one of {', '.join(DISTINCT)}",
        )
    if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n < 2**62:
        raise BadCondition(
            condition="count", why=f"the count must be a whole number from 1 on, not {safe_repr(n)}"
        )
    if kind == "waits" and n > len(condition.of):
        raise BadCondition(
            condition="count", why=f"it needs {n} conditions, but has only {len(condition.of)}"
        )
    if kind != "waits" and not all(isinstance(member, Leaf) for member in condition.of):
        raise BadCondition(
            condition="count",
            why=f'it counts {kind}, so it takes only names and waits: use distinct="waits"',
        )


def _check_leaf(leaf: Leaf) -> None:
    name = leaf.name
    if (isinstance(leaf, SignalNamed) or name is not None) and (
        not isinstance(name, str) or not name.strip() or not is_storable(name)
    ):
        raise BadCondition(
            condition=safe_repr(name), why="the name of a signal must be text that is not blank"
        )
    if leaf.payload is None:
        return
    if not isinstance(leaf.payload, Mapping) or not all(
        isinstance(field, str) for field in leaf.payload
    ):
        raise BadCondition(
            condition=_label(leaf),
            why="the payload must be a mapping of its fields, such as {'currency': 'EUR'}",
        )
    try:
        _JSON.encode(leaf.payload, label="it")
    except NotEncodable as error:
        raise BadCondition(
            condition=_label(leaf),
            why=f"the payload must be plain data: {error.facts['value']}",
        ) from None


def _label(condition: Condition) -> str:
    """Return a short name of a condition for an error."""
    if isinstance(condition, SignalNamed):
        return str(condition.name)
    if isinstance(condition, SignalToWait):
        return condition.label
    return type(condition).__name__
