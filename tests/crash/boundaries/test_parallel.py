"""Steps side by side, killed at every commit."""

from __future__ import annotations

import pytest

from holdfast import first, gather, map, sleep, sync, timeout, workflow
from holdfast.testing.recorder import RUN
from tests.crash.boundaries.workflows import add, double, everywhere, fails_on_two, fickle, moody


@workflow
async def together(x: int) -> list[int]:
    return await gather(add(x, 1), fickle(x), double.aio(x), add(x, 2))


@workflow
def together_blocking(x: int) -> list[int]:
    return sync.gather(lambda: double(x), lambda: moody(x), lambda: double(x + 1))


async def branch(x: int) -> int:
    y = await add(x, 1)
    await sleep(f"{x}h")
    return await add(y, 1)


@workflow(name="boundary_branches")
async def branches(x: int) -> list[int]:
    return await gather(branch(1), branch(2), branch(3), sleep("90m"))


@workflow
async def race_with_time(x: int) -> str:
    async def late() -> str:
        await sleep("1h")
        return "late"

    async def soon() -> str:
        await sleep("1m")
        await add(x, 1)
        return "soon"

    return await first(late(), soon())


@workflow
def race_with_time_blocking(x: int) -> str:
    def late() -> str:
        sync.sleep("1h")
        return "late"

    def soon() -> str:
        sync.sleep("1m")
        double(x)
        return "soon"

    return sync.first(late, soon)


@workflow
async def race_of_steps(x: int) -> int:
    return await first(add(x, 1), add(x, 2)) + await add(x, 3)


@workflow
async def limited(x: int) -> list[int]:
    x = await add(x, 1)
    try:
        async with timeout("5m"):
            await add(x, 2)
            await sleep("1h")
            await add(x, 3)
    except TimeoutError:
        return [x, await add(x, 4)]
    return []


@workflow
async def mapped(x: int) -> list[int]:
    return await map(double, range(x), max_parallel=2)


@workflow
def mapped_blocking(x: int) -> list[int]:
    return sync.map(double, range(x), max_parallel=2)


@workflow
async def mapped_collecting(x: int) -> list[str]:
    return [str(outcome)[:30] for outcome in await map(fails_on_two, range(x), on_error="collect")]


@workflow
def mapped_collecting_blocking(x: int) -> list[str]:
    return [str(outcome)[:30] for outcome in sync.map(fails_on_two, range(x), on_error="collect")]


@pytest.mark.parametrize(
    "shape",
    [
        together,
        together_blocking,
        branches,
        race_with_time,
        race_with_time_blocking,
        limited,
        mapped,
        mapped_blocking,
        mapped_collecting,
        mapped_collecting_blocking,
    ],
    ids=lambda shape: shape.name,
)
def test_parallel_branches_come_to_the_same_end(shape):
    everywhere(shape, 4)


def test_a_race_of_steps_is_won_once_and_for_all():
    def won(lab):
        assert lab.engine.run(RUN).result() in (2 + 1 + 5, 2 + 2 + 5)

    everywhere(race_of_steps, 2, exact=False, check=won)


@workflow
async def mapped_failing_fast(x: int) -> list[int]:
    return await map(fails_on_two, range(x), max_parallel=1)


def test_the_first_failure_ends_a_map_of_steps():
    everywhere(mapped_failing_fast, 4)
