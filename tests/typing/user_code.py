"""What a type checker sees of workflows, steps and runs. `mypy` checks this file with the rest;
nothing here is run."""

from __future__ import annotations

from collections.abc import Coroutine
from datetime import datetime
from functools import partial
from typing import Any, assert_type

import holdfast
from holdfast import AsyncEngine, AsyncRun, Engine, Run, gate, gather, sleep, step, sync, workflow
from holdfast.gates import Answer


@step
async def charge(order: dict[str, int], *, twice: bool = False) -> str:
    return "payment"


@step(retries=3, timeout="5s")
def pack(item: int) -> bytes:
    return b""


@workflow
async def checkout(order: dict[str, int]) -> list[bytes]:
    payment = await charge(order, twice=True)
    assert_type(payment, str)
    assert_type(await pack.aio(1), bytes)
    assert_type(await sleep("1h"), None)
    assert_type(await gate("Ship it?", options=["yes", "no"], timeout="2d"), Answer)
    assert_type(await holdfast.map(charge, [order]), list[str])
    assert_type(await holdfast.map(pack, [1]), list[bytes])
    assert_type(await holdfast.first(charge(order), charge(order)), str)
    child = await holdfast.start(counted, 3)
    assert_type(await child.result(), int)
    assert_type(await holdfast.map(checkout, [order]), list[list[bytes]])
    assert_type(await gather(charge(order), pack.aio(1)), tuple[str, bytes])
    assert_type(await gather(checkout(order), pack.aio(1)), tuple[list[bytes], bytes])
    three = await gather(charge(order), pack.aio(1), checkout(order))
    assert_type(three, tuple[str, bytes, list[bytes]])
    assert_type(await gather(*(pack.aio(n) for n in range(9))), list[bytes])
    ended = await gather(pack.aio(1), pack.aio(2), return_exceptions=True)
    assert_type(ended, list[bytes | BaseException])
    assert_type(await checkout(order), list[bytes])
    assert_type(await checkout.options(lane="slow")(order), list[bytes])
    holdfast.compensate(charge, order)
    return [await pack.aio(1)]


@workflow(version=2, lane="numbers")
def counted(n: int) -> int:
    assert_type(pack(n), bytes)
    assert_type(charge.sync({}), str)
    assert_type(sync.start(counted, n).result(), int)
    assert_type(sync.gate("Ship it?", quorum=2), Answer)
    assert_type(sync.first(lambda: 1, lambda: 2), int)
    assert_type(sync.gather(partial(pack, 1), lambda: "text"), tuple[bytes, str])
    assert_type(sync.gather(*(partial(pack, item) for item in range(n))), list[bytes])
    assert_type(sync.map(pack, [1]), list[bytes])
    assert_type(sync.map(counted, [1]), list[int])
    return n


def use(engine: Engine) -> None:
    run = engine.start(checkout, {"a": 1}, key="k")
    assert_type(run, Run[list[bytes]])
    assert_type(run.result(timeout="1s"), list[bytes])
    assert_type(run.record.created_at, datetime)
    assert_type([event.at for event in run.history()], list[datetime])
    assert_type([step.name for step in run.steps()], list[str])
    assert_type(run.why().since, datetime | None)
    assert_type([found.created_at for found in engine.runs()], list[datetime])
    assert_type(engine.start(counted, 1).result(), int)
    assert_type(engine.start(counted.options(id="x"), 1).result(), int)
    assert_type(engine.start(checkout.options(key="k"), {}).result(), list[bytes])
    assert_type(engine.start("checkout").result(), Any)
    assert_type(counted(1), int)
    coroutine: Coroutine[Any, Any, list[bytes]] = checkout({})
    coroutine.close()


async def use_async(engine: AsyncEngine) -> None:
    run = await engine.start(checkout, {"a": 1})
    assert_type(run, AsyncRun[list[bytes]])
    assert_type(await run.result(), list[bytes])
    assert_type((await run.record()).created_at, datetime)
    assert_type([found.finished_at async for found in engine.runs()], list[datetime | None])


def misuse() -> None:
    pack("text")  # type: ignore[arg-type]
    counted()  # type: ignore[call-arg]
    charge({"a": "b"})  # type: ignore[dict-item, unused-coroutine]
