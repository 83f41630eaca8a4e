"""Commits that are made in another thread while the loop goes on: nobody is forgotten, nobody is answered twice."""

from __future__ import annotations

import asyncio
import threading
from functools import partial

import pytest

from holdfast import AsyncEngine, Engine, gather, step, workflow
from holdfast.engine import writer
from holdfast.testing import crash_everywhere
from holdfast.testing.postgres import _WIPE


@step
async def add_one(n: int) -> int:
    return n + 1


@workflow
async def counting_aside(n: int) -> int:
    return await add_one(await add_one(n))


@workflow
async def together_aside(n: int) -> int:
    return sum(await gather(*(add_one(m) for m in range(n))))


@pytest.fixture
def aside(monkeypatch):
    """Let every commit of the loop be made in another thread, two transitions at a time."""
    monkeypatch.setattr(writer, "MANY", 1)
    monkeypatch.setattr(writer, "PART", 2)


def test_threads_and_the_loop_write_at_the_same_time(database, aside):
    results: list[int] = []

    def call(engine, first):
        for n in range(first, first + 10):
            results.append(engine.start(counting_aside, n).result(timeout=60))

    with Engine(database, grace=1) as engine:
        threads = [threading.Thread(target=call, args=(engine, 10 * number)) for number in range(4)]
        for thread in threads:
            thread.start()
        many = [run.result(timeout=60) for run in engine.start_many(counting_aside, range(100, 150))]
        for thread in threads:
            thread.join()
        assert engine.check() == []

    assert sorted(results) == list(range(2, 42))
    assert many == list(range(102, 152))


def test_starts_of_one_turn_are_all_answered(database, aside):
    async def main():
        async with AsyncEngine(database, grace=1) as engine:
            runs = await asyncio.gather(*(engine.start(counting_aside, n, id=f"run-{n}") for n in range(30)))
            again = await asyncio.gather(*(engine.start(counting_aside, n, id=f"run-{n}") for n in range(30)))
            return [await run.result() for run in runs], [run.id for run in again]

    results, ids = asyncio.run(main())

    assert results == [n + 2 for n in range(30)]
    assert ids == [f"run-{n}" for n in range(30)]


def test_a_crash_in_the_other_thread_is_a_crash(postgres_server, aside):
    with postgres_server.lend() as url:
        clear = partial(postgres_server.execute, _WIPE, url)
        report = crash_everywhere(together_aside, 3, database=url, clear=clear, doubles=0, zombies=False, exact=False)

    assert report.boundaries >= 2
