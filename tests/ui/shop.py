"""Workflows that the tests of the web UI run."""

import msgspec

import holdfast
from holdfast import Fail, gate, gather, info, sleep, step, wait_signal, workflow
from holdfast.streams import emit


@step(retries=3, delay="10ms")
async def charge(order: str) -> dict:
    if info().attempt == 1:
        raise ConnectionError("the bank does not answer")
    return {"payment": f"p-{order}", "number": 12345678901234567890}


@step
async def reserve(item: int) -> int:
    return item


@step
async def refund(payment: dict) -> None: ...


@workflow
async def pack(order: str) -> str:
    return f"packed {order}"


@workflow
async def checkout(order: str, wait: bool = True) -> dict:
    payment = await charge(order)
    holdfast.compensate(refund, payment)
    await gather(*(reserve(item) for item in range(4)))
    await sleep("20ms")
    if wait:
        await gate("Ship it?", options=["approve", "reject"], timeout="2d", data={"order": order})
    await pack(order)
    return {"payment": payment}


class Amount(msgspec.Struct):
    euros: int
    reason: str
    note: str | None = None


@workflow
async def repay(order: str) -> object:
    answer = await gate("How much?", form=Amount)
    return [answer.choice, msgspec.to_builtins(answer.value)]


@workflow
async def lunch(order: str) -> list[str]:
    answer = await gate("What to eat?", options=["pie", "soup", "fish"])
    return [answer.choice, *answer.selections]


@workflow
async def two_gates(order: str) -> list[str]:
    left, right = await gather(
        gate("Left?", options=["approve", "reject"]), gate("Right?", options=["approve", "reject"])
    )
    return [left.choice, right.choice]


@workflow
async def refuse(order: str) -> None:
    await charge(order)
    raise Fail("card expired")


@workflow
async def decline(order: str) -> None:
    raise Fail("no credit")


@workflow
async def paid(order: str) -> object:
    return await wait_signal("paid", timeout="30d")


@step(retries=2, delay="10ms")
async def speak(words: int) -> None:
    for number in range(words):
        emit(f"word {number} of attempt {info().attempt}")
    if info().attempt == 1:
        raise ConnectionError("the line is dead")


@workflow
async def talk(words: int) -> None:
    await speak(words)
    while await wait_signal("say") != "end":
        emit("one more word")


@workflow
async def book(trip: str) -> None:
    payment = await charge(trip)
    holdfast.compensate(refund, payment)
    await pack(trip)
    raise Fail("no seat is left")


@workflow
async def count(steps: int) -> int:
    for number in range(steps):
        await reserve(number)
    return steps


@workflow
async def listen(names: list[str]) -> None:
    for name in names:
        await wait_signal(name)
