"""Workflows and graphs with very many parts."""

from __future__ import annotations

from holdfast import workflow


@workflow(name="very_many_leaf")
async def leaf(number: int) -> int:
    return number


@workflow(name="very_many_total")
async def total(numbers: dict) -> int:
    return sum(numbers.values())
