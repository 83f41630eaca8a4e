"""Steps one after another, killed before and after each commit, and once more as a zombie."""

from __future__ import annotations

from contextlib import asynccontextmanager

import pytest

import holdfast
from holdfast import sleep, sync, workflow
from holdfast.versions import patched, version
from tests.crash.boundaries.workflows import (
    add,
    book,
    broken,
    double,
    everywhere,
    fails_on_two,
    fickle,
    moody,
    sequence,
    unbook,
    world,
)


@workflow
def sequence_blocking(x: int) -> int:
    for _ in range(3):
        x = add.sync(x, 1)
    return double(x)


@workflow
async def retrying(x: int) -> int:
    return await fickle(x) + await add(x, 1)


@workflow
def retrying_blocking(x: int) -> int:
    return moody(x) + double(x)


@workflow
async def sleeping(x: int) -> int:
    x = await add(x, 1)
    await sleep("2s")
    x = await add(x, 1)
    await sleep("30d")
    return await add(x, 1)


@workflow
def sleeping_blocking(x: int) -> int:
    x = double(x)
    sync.sleep("2s")
    x = double(x)
    sync.sleep("30d")
    return double(x)


@workflow
async def recovering_from_failure(x: int) -> int:
    try:
        return await broken(x)
    except holdfast.HoldfastError:
        return await add(x, 100)


@workflow
async def finally_a_step(x: int) -> int:
    try:
        await broken(x)
    finally:
        await add(x, 7)
    return x


@workflow
def finally_a_step_blocking(x: int) -> int:
    try:
        fails_on_two(x)
    finally:
        double(x)
    return x


@asynccontextmanager
async def borrowed(what: str):
    yield await book(what)
    await unbook(what)


@workflow
async def with_context(x: int) -> list[int]:
    async with borrowed("tool") as tool:
        await add(x, len(tool))
        async with borrowed("bench"):
            return [await add(x, 1), await add(x, 2)]


@workflow
async def dicey(x: int) -> list[str]:
    drawn = [
        str(holdfast.deterministic.random()),
        str(holdfast.deterministic.uuid()),
        holdfast.now().isoformat(),
    ]
    await add(x, 1)
    await sleep("1d")
    return [
        *drawn,
        str(holdfast.deterministic.random()),
        str(holdfast.deterministic.uuid()),
        holdfast.now().isoformat(),
    ]


@workflow
def dicey_blocking(x: int) -> list[str]:
    drawn = [
        str(sync.deterministic.random()),
        str(sync.deterministic.uuid()),
        sync.now().isoformat(),
    ]
    double(x)
    sync.sleep("1d")
    return [
        *drawn,
        str(sync.deterministic.random()),
        str(sync.deterministic.uuid()),
        sync.now().isoformat(),
    ]


@workflow
async def versioned(x: int) -> list[object]:
    x = await add(x, 1)
    if patched("twice"):
        x = await double.aio(x)
    await sleep("1h")
    return [x, version("shape", 3), await add(x, 1)]


@workflow
def versioned_blocking(x: int) -> list[object]:
    if sync.versions.patched("twice"):
        x = double(x)
    sync.sleep("1h")
    return [x, sync.versions.version("shape", 3), double(x)]


@pytest.mark.parametrize(
    "shape",
    [
        sequence,
        sequence_blocking,
        retrying,
        retrying_blocking,
        sleeping,
        sleeping_blocking,
        recovering_from_failure,
        finally_a_step,
        finally_a_step_blocking,
        with_context,
        dicey,
        dicey_blocking,
        versioned,
        versioned_blocking,
    ],
    ids=lambda shape: shape.name,
)
def test_a_run_comes_to_the_same_end_wherever_its_worker_dies(shape):
    report = everywhere(shape, 2)

    assert report.runs >= 3 * report.boundaries


@pytest.mark.parametrize(
    "shape", [sequence, sleeping, sleeping_blocking], ids=lambda shape: shape.name
)
def test_a_run_comes_to_the_same_end_when_it_never_waits_in_memory(shape):
    everywhere(shape, 2, engine={"idle_timeout": 0})


def test_a_step_takes_effect_once_more_at_most_for_each_crash():
    everywhere(sequence, 2, zombies=False, doubles=0, check=lambda lab: _at_most(2))


def _at_most(count: int) -> None:
    assert max(world.values()) <= count, world
