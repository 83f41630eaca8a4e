"""Functions of FEEL for lists, and for booleans in lists."""

from __future__ import annotations

from decimal import Decimal
from functools import cmp_to_key
from typing import Any

from holdfast.core.expressions.functions.signature import FunctionTable
from holdfast.core.expressions.operators import compare, equal
from holdfast.core.expressions.scope import Evaluation
from holdfast.core.expressions.values import FeelFunction

FUNCTIONS = FunctionTable()


def _made(evaluation: Evaluation, values: list[Any]) -> list[Any]:
    evaluation.produce(len(values))
    return values


@FUNCTIONS.define("list contains", "list:l, element:a*")
def _list_contains(evaluation: Evaluation, values: list[Any], element: Any) -> bool:
    evaluation.step(len(values))
    return any(equal(value, element) is True for value in values)


@FUNCTIONS.define("count", "list:l")
def _count(evaluation: Evaluation, values: list[Any]) -> Decimal:
    return Decimal(len(values))


@FUNCTIONS.define("not", "negand:b")
def _not(evaluation: Evaluation, value: bool) -> bool:
    return not value


def _decided(evaluation: Evaluation, values: list[Any], decisive: bool) -> bool | None:
    evaluation.step(len(values))
    if decisive in [value for value in values if isinstance(value, bool)]:
        return decisive
    if all(isinstance(value, bool) for value in values):
        return not decisive
    return None


@FUNCTIONS.define("all", "...list:l")
@FUNCTIONS.define("and", "...list:l")
def _all(evaluation: Evaluation, values: list[Any]) -> bool | None:
    return _decided(evaluation, values, False)


@FUNCTIONS.define("any", "...list:l")
@FUNCTIONS.define("or", "...list:l")
def _any(evaluation: Evaluation, values: list[Any]) -> bool | None:
    return _decided(evaluation, values, True)


@FUNCTIONS.define("sublist", "list:l, start position:n, length?:n")
def _sublist(
    evaluation: Evaluation, values: list[Any], start: Decimal, length: Decimal | None = None
) -> list[Any] | None:
    position = _position(values, start)
    if position is None:
        return None
    if length is None:
        return _made(evaluation, values[position:])
    if length < 1 or position + int(length) > len(values):
        return None
    return _made(evaluation, values[position : position + int(length)])


def _position(values: list[Any], position: Decimal) -> int | None:
    """Return the index of a position, which counts from 1, or from -1 backwards."""
    place = int(position)
    if place == 0 or abs(place) > len(values):
        return None
    if place < 0:
        return len(values) + place
    return place - 1


@FUNCTIONS.define("append", "list:l, item:a*")
def _append(evaluation: Evaluation, values: list[Any], item: Any) -> list[Any]:
    return _made(evaluation, [*values, item])


@FUNCTIONS.define("append", "...")
def _append_all(evaluation: Evaluation, arguments: list[Any]) -> list[Any] | None:
    if len(arguments) < 2 or arguments[0] is None:
        return None
    values, *items = arguments
    if not isinstance(values, list):
        values = [values]
    return _made(evaluation, [*values, *items])


@FUNCTIONS.define("insert before", "list:l, position:n, newItem:a*")
def _insert(
    evaluation: Evaluation, values: list[Any], position: Decimal, item: Any
) -> list[Any] | None:
    place = _position(values, position)
    if place is None:
        return None
    return _made(evaluation, [*values[:place], item, *values[place:]])


@FUNCTIONS.define("remove", "list:l, position:n")
def _remove(evaluation: Evaluation, values: list[Any], position: Decimal) -> list[Any] | None:
    place = _position(values, position)
    if place is None:
        return None
    return _made(evaluation, values[:place] + values[place + 1 :])


@FUNCTIONS.define("list replace", "list:l, position:n, newItem:a*")
def _replace_at(
    evaluation: Evaluation, values: list[Any], position: Decimal, item: Any
) -> list[Any] | None:
    place = _position(values, position)
    if place is None:
        return None
    return _made(evaluation, [*values[:place], item, *values[place + 1 :]])


@FUNCTIONS.define("list replace", "list:l, match:f, newItem:a*")
def _replace_matching(
    evaluation: Evaluation, values: list[Any], match: FeelFunction, item: Any
) -> list[Any] | None:
    if len(match.parameters) != 2:
        return None
    replaced = []
    for value in values:
        evaluation.step()
        answer = match.call([value, item])
        if not isinstance(answer, bool):
            return None
        replaced.append(item if answer else value)
    return _made(evaluation, replaced)


@FUNCTIONS.define("reverse", "list:l")
def _reverse(evaluation: Evaluation, values: list[Any]) -> list[Any]:
    return _made(evaluation, values[::-1])


@FUNCTIONS.define("index of", "list:l, match:a*")
def _index_of(evaluation: Evaluation, values: list[Any], match: Any) -> list[Any]:
    evaluation.step(len(values))
    places = [place for place, value in enumerate(values, 1) if equal(value, match) is True]
    return _made(evaluation, [Decimal(place) for place in places])


@FUNCTIONS.define("concatenate", "...")
def _concatenate(evaluation: Evaluation, values: list[Any]) -> list[Any] | None:
    if not values or None in values:
        return None
    joined: list[Any] = []
    for value in values:
        part = value if isinstance(value, list) else [value]
        evaluation.produce(len(part))
        joined.extend(part)
    return joined


def distinct(evaluation: Evaluation, values: list[Any]) -> list[Any]:
    """Return the different elements of a list."""
    seen: list[Any] = []
    for value in values:
        evaluation.step(1 + len(seen))
        if not any(equal(value, other) is True for other in seen):
            seen.append(value)
    return _made(evaluation, seen)


@FUNCTIONS.define("union", "...")
def _union(evaluation: Evaluation, values: list[Any]) -> list[Any] | None:
    joined = _concatenate(evaluation, values)
    if joined is None:
        return None
    return distinct(evaluation, joined)


@FUNCTIONS.define("distinct values", "list:l")
def _distinct(evaluation: Evaluation, values: list[Any]) -> list[Any]:
    return distinct(evaluation, values)


@FUNCTIONS.define("duplicate values", "list:l")
def _duplicates(evaluation: Evaluation, values: list[Any]) -> list[Any]:
    evaluation.step(len(values) * len(values))
    repeated = [
        value for value in values if sum(equal(value, other) is True for other in values) > 1
    ]
    return distinct(evaluation, repeated)


@FUNCTIONS.define("flatten", "list:l")
def _flatten(evaluation: Evaluation, values: list[Any]) -> list[Any]:
    flat: list[Any] = []
    stack = list(reversed(values))
    while stack:
        evaluation.step()
        value = stack.pop()
        if isinstance(value, list):
            stack.extend(reversed(value))
        else:
            flat.append(value)
    return _made(evaluation, flat)


@FUNCTIONS.define("sort", "list:l, precedes?:f*")
def _sort(
    evaluation: Evaluation, values: list[Any], precedes: FeelFunction | None = None
) -> list[Any] | None:
    if precedes is not None and len(precedes.parameters) != 2:
        return None

    def order(left: Any, right: Any) -> int:
        evaluation.step()
        if precedes is None:
            answer = compare(left, right)
            if answer is None:
                raise ValueError
            return answer
        if precedes.call([left, right]) is True:
            return -1
        return int(precedes.call([right, left]) is True)

    try:
        return _made(evaluation, sorted(values, key=cmp_to_key(order)))
    except ValueError:
        return None


@FUNCTIONS.define("partition", "list:l, size:n")
def _partition(evaluation: Evaluation, values: list[Any], size: Decimal) -> list[Any] | None:
    if size < 1:
        return None
    count = int(size)
    evaluation.produce(len(values))
    return [values[place : place + count] for place in range(0, len(values), count)]
