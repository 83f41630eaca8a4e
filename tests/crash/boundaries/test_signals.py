"""Workflows that wait for signals, killed at every commit."""

from __future__ import annotations

import pytest

from holdfast import gather, sleep, sync, wait_signal, workflow
from holdfast.testing.recorder import RUN
from tests.crash.boundaries.workflows import add, double, everywhere


@workflow
async def signalled(x: int) -> list[int]:
    x = await add(x, 1)
    return [
        x,
        await wait_signal("go", type=int),
        await add(x, 1),
        await wait_signal("go", type=int),
    ]


@workflow
def signalled_blocking(x: int) -> list[int]:
    return [
        double(x),
        sync.wait_signal("go", type=int),
        double(x),
        sync.wait_signal("go", type=int),
    ]


@workflow
async def signalled_in_time(x: int) -> list[int]:
    return [await wait_signal("go", type=int, timeout="1h"), await add(x, 1)]


@workflow
async def signalled_too_late(x: int) -> int:
    try:
        await wait_signal("go", timeout="1h")
    except TimeoutError:
        return await add(x, 1)
    return 0


@workflow
def signalled_too_late_blocking(x: int) -> int:
    try:
        sync.wait_signal("go", timeout="1h")
    except TimeoutError:
        return double(x)
    return 0


@pytest.mark.parametrize("early", [False, True], ids=["when waited for", "before"])
@pytest.mark.parametrize("shape", [signalled, signalled_blocking], ids=lambda shape: shape.name)
def test_no_signal_is_lost_or_taken_twice(shape, early):
    def got_both(lab):
        assert lab.engine.run(RUN).result()[1::2] == [10, 20]

    everywhere(shape, 2, signals=[("go", 10), ("go", 20)], early=early, check=got_both)


def test_a_signal_in_time_wins_over_the_timeout():
    everywhere(signalled_in_time, 2, signals=[("go", 10)])


@workflow
async def signalled_side_by_side(x: int) -> list[object]:
    async def word() -> int | None:
        try:
            return await wait_signal("go", timeout="1h", type=int)
        except TimeoutError:
            return None

    return await gather(word(), sleep("30m"), word(), add(x, 1))


def test_waits_side_by_side_take_one_signal_each():
    everywhere(signalled_side_by_side, 2, signals=[("go", 10)])


@pytest.mark.parametrize(
    "shape", [signalled_too_late, signalled_too_late_blocking], ids=lambda shape: shape.name
)
def test_a_timeout_of_a_signal_is_remembered(shape):
    everywhere(shape, 2)
