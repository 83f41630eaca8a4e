"""What is tortured: runs of every shape whose steps leave a line in a file, so that what really happened can be compared with
what was recorded. The file is named by TORTURE_EFFECTS."""

from __future__ import annotations

import os
import time

import holdfast
from holdfast import compensate, first, gather, info, sleep, step, sync, timeout, wait_signal, workflow

now = lambda: time.time_ns() // 1000  # noqa: E731
"""The clock of the engine, once there is one: what is done and what is recorded of it are dated by the same."""


def effect(what: str) -> None:
    """Leave a line: who did what, in which attempt, and when. One write, so that lines never mix."""
    line = f"{info().run_id}\t{info().step}\t{info().generation}\t{info().attempt}\t{now()}\t{what}\n"
    handle = os.open(os.environ["TORTURE_EFFECTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(handle, line.encode())
    finally:
        os.close(handle)


@step
async def act(n: int) -> int:
    effect("act")
    return n + 1


@step
def act_plainly(n: int) -> int:
    effect("act")
    return n + 1


@step(retries=50, delay="5ms", cap="20ms")
async def flaky(n: int) -> int:
    effect("flaky")
    if info().attempt < 3:
        raise ConnectionError("not yet")
    return n + 1


@step
async def undo(n: int) -> None:
    effect("undo")


@workflow(name="torture.chain")
async def chain(n: int) -> int:
    for _ in range(10):
        n = await act(n)
    return n


@workflow(name="torture.plain_chain")
def plain_chain(n: int) -> int:
    for _ in range(10):
        n = act_plainly(n)
    sync.sleep("10ms")
    return n


@workflow(name="torture.parallel")
async def parallel(n: int) -> int:
    return sum(await gather(*(act(n) for _ in range(10))))


@workflow(name="torture.leaf")
async def leaf(n: int) -> int:
    return await flaky(n)


@workflow(name="torture.fan_out")
async def fan_out(n: int) -> int:
    return sum(await holdfast.map(leaf, [n] * 5)) + sum(await holdfast.map(leaf, [n] * 4, max_parallel=2))


@workflow(name="torture.signalled")
async def signalled(n: int) -> int:
    n = await act(n)
    for _ in range(3):
        n += await wait_signal("add")
        n = await act(n)
    return n


@workflow(name="torture.saga")
async def saga(n: int) -> int:
    for _ in range(5):
        compensate(undo, await act(n))
    await sleep("20ms")
    raise ValueError("it was meant to fail")


@workflow(name="torture.race")
async def race(n: int) -> int:
    async def slow() -> int:
        await sleep("1h")
        return 0

    try:
        async with timeout("10ms"):
            await wait_signal("never")
    except TimeoutError:
        n = await act(n)
    return await first(slow(), act(n))


EXPECTED = {
    "chain": lambda n: n + 10,
    "plain_chain": lambda n: n + 10,
    "parallel": lambda n: 10 * (n + 1),
    "fan_out": lambda n: 9 * (n + 1),
    "signalled": lambda n: n + 4 + 3,
    "saga": None,
    "race": lambda n: n + 2,
}
"""What each shape comes to; None: it fails, and undoes what it did."""
