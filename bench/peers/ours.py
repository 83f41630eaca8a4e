"""Holdfast."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import holdfast
from bench.peers.notes import note
from bench.peers.raw import connect
from bench.place import Place
from holdfast import sleep, step, wait_signal, workflow


@step
async def one(number: int) -> int:
    return number


@workflow
async def steps(count: int) -> int:
    for number in range(count):
        await one(number)
    return count


@step
def plain_one(number: int) -> int:
    return number


@workflow
def plain_steps(count: int) -> int:
    for number in range(count):
        plain_one(number)
    return count


@workflow
async def mixed_steps(count: int) -> int:
    for number in range(count):
        await plain_one(number)
    return count


@step
async def costly(number: int) -> int:
    from holdfast.budgets import spend  # here: an earlier revision may not have the name

    spend(steps=1)
    return number


@workflow
async def spender(count: int) -> int:
    for number in range(count):
        await costly(number)
    return count


@step
async def speak(count: int) -> int:
    from holdfast.streams import emit

    for number in range(count):
        emit({"token": number}, name="token")
        if number % 20 == 19:
            await asyncio.sleep(0)
    return count


@workflow
async def speaker(count: int) -> int:
    return await speak(count)


@step
async def cpu() -> float:
    return time.process_time()


@workflow
async def marked(count: int, every: int) -> list[float]:
    """Make many steps and return the CPU time of the process at each of some."""
    marks = []
    for number in range(count):
        if number % every == 0:
            marks.append(await cpu())
        await one(number)
    return [*marks, await cpu()]


@step
async def payload(size: int) -> str:
    return "x" * size


@workflow
async def carry(size: int, times: int) -> int:
    for _ in range(times):
        await payload(size)
    return times


@workflow
async def sleeper(seconds: int) -> int:
    await sleep(seconds)
    return seconds


@workflow
async def job(number: int) -> int:
    return number


@workflow
async def listener(number: int) -> int:
    await wait_signal("go")
    return number


@workflow
async def parent(count: int) -> int:
    return len(await holdfast.map(job, range(count)))


@step
async def clock() -> int:
    return time.monotonic_ns()


@workflow
async def waiter() -> int:
    await wait_signal("go")
    return await clock()


log_path = ""


@step
async def logged(run: int, number: int) -> int:
    note(log_path, run, number)
    return number


@workflow
async def logged_steps(run: int) -> int:
    for number in range(5):
        await logged(run, number)
    return 5


def counter(place: Place, sql: str) -> Callable[[], int]:
    """Return a function that asks the database by SQL, past the engine."""
    db = connect(place)
    return lambda: int(db.execute(spelled(place, sql)).fetchone()[0])


def spelled(place: Place, sql: str) -> str:
    """Write the names of tables as the database has them."""
    return sql if place.store == "postgres" else sql.replace("holdfast.", "holdfast_")


def forever() -> None:
    while True:
        time.sleep(3600)
