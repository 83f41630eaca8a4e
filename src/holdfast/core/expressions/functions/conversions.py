"""Functions of FEEL that convert values, and that compare them strictly."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from holdfast.core.expressions.functions.signature import FunctionTable
from holdfast.core.expressions.scope import Evaluation
from holdfast.core.expressions.values import text_of

FUNCTIONS = FunctionTable()

_NUMBER = re.compile(r"-?(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d{1,4})?", re.ASCII)


@FUNCTIONS.define("string", "from:a")
def _string(evaluation: Evaluation, value: Any) -> str:
    text = text_of(value)
    evaluation.produce(len(text))
    return text


@FUNCTIONS.define("number", "from:a, grouping separator?:a*, decimal separator?:a*")
def _number(
    evaluation: Evaluation, value: Any, grouping: Any = None, point: Any = None
) -> Decimal | None:
    if not isinstance(value, str):
        return value if isinstance(value, Decimal) and grouping is None and point is None else None
    if grouping not in (None, " ", ",", ".") or point not in (None, ",", "."):
        return None
    if grouping is not None and grouping == point:
        return None
    text = value
    if grouping is not None:
        text = text.replace(grouping, "")
    if point is not None:
        text = text.replace(point, ".")
    if len(text) > 6000 or not _NUMBER.fullmatch(text):
        return None
    return Decimal(text)


@FUNCTIONS.define("is", "value1?:a*, value2?:a*")
def _is(evaluation: Evaluation, left: Any = None, right: Any = None) -> bool:
    return identical(left, right)


def identical(left: Any, right: Any) -> bool:
    """Return whether two values are the same in the semantic domain: same type, same zone."""
    if type(left) is not type(right):
        return False
    if isinstance(left, list):
        return len(left) == len(right) and all(map(identical, left, right))
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(identical(left[key], right[key]) for key in left)
    return bool(left == right)
