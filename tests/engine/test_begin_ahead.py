"""The step that follows from a signal begins on the program's loop, before the worker hears that
the program wants it."""

from __future__ import annotations

import asyncio
import threading

import pytest

from holdfast import AsyncEngine, now, step, wait_signal, workflow
from holdfast.engine.runtime.program_loop import ProgramLoop
from holdfast.errors import RunCancelled
from holdfast.testing import internals
from tests.engine.waiting import PATIENCE, blocking_run


@pytest.fixture
def journeys(monkeypatch):
    """What the worker asks of the program's loop, by name."""
    found: list[str] = []
    post = ProgramLoop.post

    def noted(self, call, *args):
        found.append(call.__name__)
        post(self, call, *args)

    monkeypatch.setattr(ProgramLoop, "post", noted)
    return found


async def waiting(engine, run) -> None:
    while (await run.status()).value != "waiting":
        pass


def signalled(database, flow, *, signals=("go",)):
    """Run *flow* and send it signals whenever it waits; return its result and the kinds of its
    history."""

    async def main():
        async with AsyncEngine(database, workflows=[flow]) as engine:
            run = await engine.start(flow, id="r1")
            for name in signals:
                await waiting(engine, run)
                await engine.signal("r1", name)
            result = await run.result(timeout=20)
            assert await engine.database.check() == []
            return result, [event.kind for event in await run.history()]

    return asyncio.run(main())


def test_a_step_after_a_signal_takes_no_journey_of_its_own(database, journeys):
    @step(name="begin.count")
    async def count() -> int:
        journeys.append("count")
        return 7

    @workflow(name="begin.plain")
    async def plain() -> int:
        await wait_signal("go")
        return await count()

    result, kinds = signalled(database, plain)

    assert result == 7
    assert kinds[-3:] == ["signal_received", "step_completed", "run_completed"]
    assert journeys.index("count") == 2  # to begin the program, and to feed it the signal


def test_a_step_that_lives_by_the_time_of_the_signal_waits_for_its_commit(database, journeys):
    @step(name="begin.timed")
    async def timed(at: float) -> float:
        return at

    @workflow(name="begin.asks_time")
    async def asks_time() -> float:
        await wait_signal("go")
        return await timed(now().timestamp())

    result, kinds = signalled(database, asks_time)

    assert result > 0
    assert kinds[-3:] == ["signal_received", "step_completed", "run_completed"]
    assert "begin" in journeys


def test_a_step_that_has_failed_after_a_signal_is_tried_again(database):
    tries: list[int] = []

    @step(name="begin.flaky", retries=3, delay="1ms")
    async def flaky() -> int:
        tries.append(len(tries))
        if len(tries) < 3:
            raise ValueError("not yet")
        return len(tries)

    @workflow(name="begin.tried")
    async def tried() -> int:
        await wait_signal("go")
        return await flaky()

    result, kinds = signalled(database, tried)

    assert result == 3
    assert kinds.count("step_retried") == 2


def test_a_cancel_that_comes_while_the_program_takes_the_signal_follows_it(database):
    reached, passed = threading.Event(), threading.Event()

    @step(name="begin.long")
    async def long() -> None:
        await asyncio.get_running_loop().create_future()

    @workflow(name="begin.cancelled")
    async def cancelled() -> None:
        await wait_signal("go")
        reached.set()
        assert passed.wait(20)
        await long()

    async def main() -> None:
        async with AsyncEngine(database, workflows=[cancelled]) as engine:
            run = await engine.start(cancelled, id="r1")
            await waiting(engine, run)

            def cancel() -> None:
                assert reached.wait(20)
                blocking_run(engine, "r1").cancel("enough")
                internals(engine).worker.loop.call_soon_threadsafe(
                    passed.set
                )  # behind the news of the request

            asking = threading.Thread(target=cancel)
            asking.start()
            await engine.signal("r1", "go")
            with pytest.raises(RunCancelled):
                await run.result(timeout=20)
            asking.join()
            kinds = [event.kind for event in await run.history()]
            assert kinds.index("signal_received") < kinds.index("run_cancelled")
            assert await engine.database.check() == []

    asyncio.run(main())


def test_a_run_that_waits_on_after_a_signal_occupies_no_place(database):
    @workflow(name="begin.twice")
    async def twice() -> str:
        await wait_signal("first")
        await wait_signal("second")
        return "both"

    @workflow(name="begin.other")
    async def other() -> str:
        return "done"

    async def main() -> None:
        async with AsyncEngine(
            database, workflows=[twice, other], concurrency=1, idle_timeout="1h"
        ) as engine:
            run = await engine.start(twice, id="r1")
            await waiting(engine, run)
            await engine.signal("r1", "first")
            while "signal_received" not in [event.kind for event in await run.history()]:
                pass
            await waiting(engine, run)

            async with asyncio.timeout(PATIENCE):  # the place is free after the commit
                while internals(engine).worker.capacity.room() != 1:
                    await run.status()

            assert await (await engine.start(other)).result(timeout=20) == "done"
            await engine.signal("r1", "second")
            assert await run.result(timeout=20) == "both"

    asyncio.run(main())
