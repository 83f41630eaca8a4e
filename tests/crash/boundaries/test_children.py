"""Trees of runs, killed at every commit."""

from __future__ import annotations

import pytest

import holdfast
from holdfast import (
    Fail,
    compensate,
    gather,
    map,
    sleep,
    start,
    sync,
    timeout,
    wait_signal,
    workflow,
)
from holdfast.engine.execution.pending import children
from tests.crash.boundaries.workflows import _status, add, broken, double, everywhere, unbook


@workflow
async def grow(x: int) -> int:
    return await add(x, 1) + await add(x, 2)


@workflow
def grow_blocking(x: int) -> int:
    return double(x) + double(x + 1)


@workflow
async def slow_child(x: int) -> int:
    await sleep("1h")
    return await add(x, 1)


@workflow
async def failing_child(x: int) -> int:
    compensate(unbook, f"child {x}")
    return await broken(x)


@workflow
async def picky_child(x: int) -> int:
    if x == 2:
        raise Fail("not two")
    return await add(x, 10)


@workflow
async def listening_child() -> str:
    return await wait_signal("word", type=str)


@workflow
async def calling(x: int) -> list[int]:
    return [await grow(x), await grow_blocking(x), await add(x, 1)]  # type: ignore[misc]


@workflow
def calling_blocking(x: int) -> list[int]:
    return [grow_blocking(x), grow(x), double(x)]  # type: ignore[list-item]


@workflow
async def calling_in_parallel(x: int) -> list[int]:
    return await gather(grow(x), slow_child(x), add(x, 1))


@workflow
async def calling_failing(x: int) -> int:
    try:
        return await failing_child(x)
    except holdfast.HoldfastError:
        return await add(x, 1)


@workflow
async def starting(x: int) -> list[int]:
    handle = await start(slow_child, x)
    y = await add(x, 5)
    return [y, await handle.result()]


@workflow
async def starting_and_leaving(x: int) -> int:
    await start(slow_child, x, on_parent_end="leave")
    await start(slow_child, x + 1, on_parent_end="cancel")
    return await add(x, 5)


@workflow
async def starting_and_cancelling(x: int) -> int:
    handle = await start(slow_child, x)
    await add(x, 5)
    await handle.cancel()
    try:
        return await handle.result()
    except holdfast.HoldfastError:
        return -1


@workflow
async def starting_and_telling(x: int) -> str:
    handle = await start(listening_child)
    await add(x, 5)
    await handle.signal("word", "hello")
    return await handle.result()


@workflow
async def calling_within_limits(x: int) -> int:
    try:
        async with timeout("5m"):
            return await slow_child(x)
    except TimeoutError:
        return await add(x, 9)


@workflow
def racing_child_blocking(x: int) -> int:
    def later() -> int:
        sync.sleep("10m")
        return -1

    return sync.first(lambda: slow_child(x), later)


@workflow
async def mapped_children(x: int) -> list[int]:
    return await map(grow, range(x), max_parallel=2)


@workflow
def mapped_children_blocking(x: int) -> list[int]:
    return sync.map(grow_blocking, range(x), max_parallel=2)


@workflow
async def collected_children(x: int) -> list[str]:
    return [
        type(outcome).__name__ for outcome in await map(picky_child, range(x), on_error="collect")
    ]


@pytest.mark.parametrize(
    "shape",
    [
        calling,
        calling_blocking,
        calling_in_parallel,
        calling_failing,
        starting,
        starting_and_cancelling,
        starting_and_telling,
        calling_within_limits,
        racing_child_blocking,
        mapped_children,
        mapped_children_blocking,
        collected_children,
    ],
    ids=lambda shape: shape.name,
)
def test_a_tree_of_runs_comes_to_the_same_end(shape):
    everywhere(shape, 3)


@workflow
async def mapped_in_portions(x: int) -> list[int]:
    return await map(grow, range(x))


@pytest.mark.parametrize(
    "shape", [mapped_in_portions, collected_children], ids=lambda shape: shape.name
)
def test_a_map_that_starts_its_children_in_portions_comes_to_the_same_end(shape, monkeypatch):
    monkeypatch.setattr(children, "PORTION", 1)
    everywhere(shape, 3)


def test_a_child_outlives_its_parent_only_if_it_may():
    def left_and_cancelled(lab):
        ends = {run.input[0]: run.status for run in lab.engine.runs(workflow="slow_child")}
        assert ends == {3: "completed", 4: "cancelled"}, ends

    everywhere(starting_and_leaving, 3, check=left_and_cancelled)


@workflow
async def children_failing_fast(x: int) -> list[int]:
    compensate(unbook, "all")
    return await map(picky_child, range(x))


def test_the_first_failing_child_ends_a_map():
    everywhere(children_failing_fast, 4, exact=False, check=lambda lab: _status(lab, "failed"))
