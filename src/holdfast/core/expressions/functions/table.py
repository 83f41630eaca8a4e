"""All functions of FEEL by name."""

from __future__ import annotations

from holdfast.core.expressions.functions import (
    contexts,
    conversions,
    lists,
    numbers,
    patterns,
    range_texts,
    ranges,
    temporals,
    texts,
)
from holdfast.core.expressions.functions.signature import Overload

BUILTINS: dict[str, list[Overload]] = {}
for _module in (
    contexts,
    conversions,
    lists,
    numbers,
    patterns,
    range_texts,
    ranges,
    temporals,
    texts,
):
    BUILTINS.update(_module.FUNCTIONS)

FUNCTION_NAMES = frozenset(BUILTINS)
