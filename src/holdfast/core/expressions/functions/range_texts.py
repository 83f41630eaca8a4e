"""The function `range` of FEEL: a range from its text."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from holdfast.core.expressions.functions.signature import FunctionTable
from holdfast.core.expressions.operators import compare
from holdfast.core.expressions.scope import Evaluation
from holdfast.core.expressions.temporal import (
    parse_date,
    parse_date_time,
    parse_duration,
    parse_temporal,
    parse_time,
)
from holdfast.core.expressions.values import FeelRange

FUNCTIONS = FunctionTable()

_END = r'((?:@|(?:date and time|date|time|duration)\()?"[^"]*"\)?|-?[0-9.]+?)'
_RANGE = re.compile(rf"\s*([\[\](])\s*{_END}\s*\.\.\s*{_END}\s*([\])\[])\s*")
_CALL = re.compile(r'(date and time|date|time|duration)\("([^"]*)"\)')
_NUMBER = re.compile(r"-?(?:\d+(?:\.\d+)?|\.\d+)", re.ASCII)
_PARSERS = {
    "date": parse_date,
    "time": parse_time,
    "date and time": parse_date_time,
    "duration": parse_duration,
}


@FUNCTIONS.define("range", "from:s")
def _range(evaluation: Evaluation, text: str) -> FeelRange | None:
    evaluation.step(1 + len(text) // 100)
    match = _RANGE.fullmatch(text[:1000])
    if match is None:
        return None
    low = _end(match[2])
    high = _end(match[3])
    order = compare(low, high)
    if order is None or order > 0:
        return None
    return FeelRange(low, high, match[1] == "[", match[4] == "]")


def _end(text: str) -> Any:
    call = _CALL.fullmatch(text)
    if call is not None:
        return _PARSERS[call[1]](call[2])
    if _NUMBER.fullmatch(text):
        return Decimal(text)
    if text.startswith('@"') and text.endswith('"'):
        return parse_temporal(text[2:-1])
    if text.startswith('"') and text.endswith('"'):
        return text[1:-1]
    return None
