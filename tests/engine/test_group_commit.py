"""Commits of the loop, in its own thread or in another: nobody is forgotten, nobody is answered
twice, nobody starves."""

from __future__ import annotations

import asyncio
import threading
from contextlib import closing
from functools import partial

import pytest

from holdfast import AsyncEngine, Engine, gather, step, workflow
from holdfast.core.runs import NewRun, Route
from holdfast.engine.runtime import group_commit
from holdfast.engine.runtime.group_commit import GroupCommit
from holdfast.errors import RunCancelled
from holdfast.store.postgres import PostgresDatabase
from holdfast.store.runs.operations import StartRuns
from holdfast.store.store import Store
from holdfast.testing import crash_everywhere, internals
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
    monkeypatch.setattr(group_commit, "MANY", 1)
    monkeypatch.setattr(group_commit, "PART", 2)


def test_threads_and_the_loop_write_at_the_same_time(database, aside):
    results: list[int] = []

    def call(engine, first):
        for n in range(first, first + 10):
            results.append(engine.start(counting_aside, n).result(timeout=60))

    with Engine(database, shutdown_timeout=1) as engine:
        threads = [threading.Thread(target=call, args=(engine, 10 * number)) for number in range(4)]
        for thread in threads:
            thread.start()
        many = [
            run.result(timeout=60) for run in engine.start_many(counting_aside, range(100, 150))
        ]
        for thread in threads:
            thread.join()
        assert engine.database.check() == []

    assert sorted(results) == list(range(2, 42))
    assert many == list(range(102, 152))


def test_starts_of_one_turn_are_all_answered(database, aside):
    async def main():
        async with AsyncEngine(database, shutdown_timeout=1) as engine:
            runs = await asyncio.gather(
                *(engine.start(counting_aside, n, id=f"run-{n}") for n in range(30))
            )
            again = await asyncio.gather(
                *(engine.start(counting_aside, n, id=f"run-{n}") for n in range(30))
            )
            return [await run.result() for run in runs], [run.id for run in again]

    results, ids = asyncio.run(main())

    assert results == [n + 2 for n in range(30)]
    assert ids == [f"run-{n}" for n in range(30)]


def test_a_crash_in_the_other_thread_is_a_crash(postgres_server, aside):
    with postgres_server.lend() as url:
        clear = partial(postgres_server.execute, _WIPE, url)
        report = crash_everywhere(
            together_aside, 3, database=url, clear=clear, doubles=0, zombies=False, exact=False
        )

    assert report.boundaries >= 2


def test_the_loop_does_not_ask_again_and_again_while_a_thread_commits(postgres_server, monkeypatch):
    """It would take from that very thread the time it needs."""
    asked = []
    flush = GroupCommit._flush_once
    monkeypatch.setattr(GroupCommit, "_flush_once", lambda self: asked.append(1) or flush(self))

    async def main(store):
        loop = asyncio.get_running_loop()
        busy = GroupCommit(store)
        busy.attach(loop)
        with busy._lock:  # somebody else is at it
            started = busy.submit(
                StartRuns(
                    [NewRun(id="r1", route=Route("default", "busy", "1", "default"), input=b"[1]")]
                )
            )
            for _ in range(100):
                turn = loop.create_future()
                loop.call_soon(turn.set_result, None)
                await turn
        return (await started)[0].created

    with postgres_server.lend() as url, closing(Store(PostgresDatabase(url))) as store:
        assert asyncio.run(main(store))
        assert len(asked) == 1


# One run alone

TURNS: list[str] = []


@step
async def let_others_have_a_word(n: int) -> None:
    TURNS.append(f"step {n}")
    asyncio.get_running_loop().call_soon(TURNS.append, f"others {n}")


@step
async def say_step(n: int) -> None:
    TURNS.append(f"step {n}")


@workflow
async def alone_with_the_loop() -> None:
    await let_others_have_a_word(0)
    await say_step(1)
    await say_step(2)


@workflow
async def endless_alone() -> None:
    for n in range(100_000):
        await say_step(n)


def test_who_has_a_word_to_say_comes_before_the_next_commit_of_a_run_alone(database):
    TURNS.clear()
    with Engine(database, shutdown_timeout=1) as engine:
        engine.start(alone_with_the_loop).result(timeout=60)

    assert TURNS == ["step 0", "others 0", "step 1", "step 2"] or TURNS == [
        "step 0",
        "step 1",
        "others 0",
        "step 2",
    ]


def test_a_run_that_never_rests_can_still_be_stopped(database):
    with Engine(database, shutdown_timeout=1) as engine:
        run = engine.start(endless_alone)
        engine.cancel(run.id)
        with pytest.raises(RunCancelled):
            run.result(timeout=60)


def test_who_cannot_be_told_what_was_committed_keeps_nobody_waiting(database, caplog):
    told = []

    def fails(hints):
        raise ZeroDivisionError("nobody listens well")

    with Engine(database, shutdown_timeout=1) as engine:
        internals(engine).notifier.on_commit[:0] = [fails]
        internals(engine).notifier.on_commit.append(told.append)
        assert engine.start(counting_aside, 1).result(timeout=60) == 3
        internals(engine).notifier.on_commit.remove(fails)

    assert told and "nobody listens well" in caplog.text
