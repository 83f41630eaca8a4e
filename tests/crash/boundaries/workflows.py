"""Steps and workflows that several tests kill before and after each of their commits.

``crash_everywhere`` checks what holds for all shapes; a test checks what its shape does to the
world.
"""

from __future__ import annotations

from collections import Counter
from functools import partial

import holdfast
from holdfast import Fail, step, workflow
from holdfast.testing import crash_everywhere
from holdfast.testing.recorder import RUN

world: Counter[str] = Counter()
"""What the steps have done to the world outside."""

everywhere = partial(crash_everywhere, setup=world.clear, doubles=3)


@step
async def add(x: int, y: int) -> int:
    world[f"add {x} {y}"] += 1
    return x + y


@step
def double(x: int) -> int:
    world[f"double {x}"] += 1
    return 2 * x


@step(retries=4, delay="1s")
async def fickle(x: int) -> int:
    if holdfast.info().attempt < 3:
        raise ValueError("not yet")
    return x


@step(retries=4, delay="1s")
def moody(x: int) -> int:
    if holdfast.info().attempt < 3:
        raise ValueError("not yet")
    return x


@step
async def broken(x: int) -> int:
    raise Fail(f"{x} cannot be done")


@step
def fails_on_two(x: int) -> int:
    if x == 2:
        raise Fail("two is too many")
    return x


@step
async def book(what: str) -> str:
    world[f"book {what}"] += 1
    return f"{what} 1"


@step
async def unbook(what: str) -> None:
    world[f"unbook {what}"] += 1


@workflow
async def sequence(x: int) -> int:
    for _ in range(3):
        x = await add(x, 1)
    return await double.aio(x)


def _status(lab, *wanted: str) -> None:
    assert lab.engine.run(RUN).status in wanted
