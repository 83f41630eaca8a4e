"""Validation of conditions."""

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
from holdfast.errors.base import shown

DEEPEST = 4
"""How many levels of all-of, any-of and count may stand in each other."""


LARGEST = 8192
"""Bytes of a condition as JSON, at most."""


def checked(condition: Condition) -> Condition:
    """Return a condition; refuse one that nothing could meet, or that is too big. Raises
    BadCondition."""
    _check(condition, 0)
    size = len(msgspec.json.encode(condition))
    if size > LARGEST:
        raise BadCondition(why=f"it takes {size} bytes, and at most {LARGEST} are kept")
    return condition


def _check(condition: Condition, depth: int) -> None:
    if isinstance(condition, SignalNamed | SignalToWait):
        _check_leaf(condition)
        return
    if depth >= DEEPEST:
        raise BadCondition(
            condition=_brief(condition),
            why=f"it stands {depth + 1} levels deep, and {DEEPEST} are the most",
        )
    name = {AllOf: "all_of", AnyOf: "any_of", Count: "count"}[type(condition)]
    if not condition.of:
        raise BadCondition(condition=name, why="it is empty: name what it waits for")
    if isinstance(condition, Count):
        _check_count(condition)
    for member in condition.of:
        _check(member, depth + 1)


def _check_count(condition: Count) -> None:
    n, kind = condition.n, condition.distinct
    if not is_one_of(kind, DISTINCT):
        raise BadCondition(
            condition="count", why=f"distinct={shown(kind)} is none of {', '.join(DISTINCT)}"
        )
    if isinstance(n, bool) or not isinstance(n, int) or not 1 <= n < 2**62:
        raise BadCondition(
            condition="count", why=f"it counts to a whole number from 1 on, not to {shown(n)}"
        )
    if kind == "waits" and n > len(condition.of):
        raise BadCondition(
            condition="count", why=f"it wants {n} of {len(condition.of)}: there are not so many"
        )
    if kind != "waits" and not all(
        isinstance(member, SignalNamed | SignalToWait) for member in condition.of
    ):
        raise BadCondition(
            condition="count",
            why=f'it counts {kind}, of names and waits only; other conditions: distinct="waits"',
        )


def _check_leaf(leaf: Leaf) -> None:
    name = leaf.name
    if (isinstance(leaf, SignalNamed) or name is not None) and (
        not isinstance(name, str) or not name.strip() or not is_storable(name)
    ):
        raise BadCondition(condition=shown(name), why="a signal has a name")
    if leaf.payload is None:
        return
    if not isinstance(leaf.payload, Mapping) or not all(
        isinstance(field, str) for field in leaf.payload
    ):
        raise BadCondition(
            condition=_brief(leaf),
            why="a payload is matched by a mapping of its fields, such as {'currency': 'EUR'}",
        )
    try:
        _JSON.encode(leaf.payload, what="it")
    except NotEncodable as error:
        raise BadCondition(
            condition=_brief(leaf),
            why=f"a payload is matched by plain data: {error.facts['value']}",
        ) from None


def _brief(condition: Condition) -> str:
    if isinstance(condition, SignalNamed):
        return str(condition.name)
    return condition.label if isinstance(condition, SignalToWait) else type(condition).__name__
