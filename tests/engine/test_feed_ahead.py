"""A program takes the outcome of its only step on its own loop. What else happens to the run
meanwhile comes after that."""

from __future__ import annotations

import asyncio
import random
import threading
from contextlib import suppress

import pytest

from holdfast import AsyncEngine, step, wait_signal, workflow
from holdfast.errors import RunCancelled, RunFinished
from holdfast.testing import internals
from tests.engine.waiting import blocking_run

STEPS = 20


class Moment:
    """A moment in the code of a workflow at which its loop is held until another thread has done
    something."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.passed = threading.Event()

    def hold(self) -> None:
        if not self.reached.is_set():
            self.reached.set()
            assert self.passed.wait(20)


@pytest.mark.parametrize("request_name", ["cancel", "signal"])
def test_a_request_that_comes_while_the_program_takes_an_outcome_follows_it(database, request_name):
    moment = Moment()

    @step(name="ahead.count")
    async def count(number: int) -> int:
        return number

    @workflow(name="ahead.held")
    async def held() -> str:
        await count(1)
        moment.hold()
        await count(2)
        await wait_signal("never" if request_name == "cancel" else "go")
        return "went"

    async def main() -> None:
        async with AsyncEngine(database) as engine:
            [run async for run in engine.runs()]  # the database is open

            def make_request() -> None:
                assert moment.reached.wait(20)
                blocking = blocking_run(engine, "r1")
                if request_name == "cancel":
                    blocking.cancel("enough")
                else:
                    blocking.signal("go")
                worker_loop = internals(engine).worker.loop
                worker_loop.call_soon_threadsafe(
                    moment.passed.set
                )  # behind the news of the request

            asking = threading.Thread(target=make_request)
            asking.start()
            run = await engine.start(held, id="r1")
            if request_name == "cancel":
                with pytest.raises(RunCancelled):
                    await run.result(timeout=20)
            else:
                assert await run.result(timeout=20) == "went"
            asking.join()
            kinds = [event.kind for event in await run.history()]
            assert kinds[0] == "step_completed"
            assert kinds[-1] == ("run_cancelled" if request_name == "cancel" else "run_completed")
            assert await engine.database.check() == []

    asyncio.run(main())


@pytest.mark.parametrize("seed", range(3))
def test_whenever_a_run_is_cancelled_it_ends_and_can_be_told_again(database, seed):
    """The second engine begins each program again from its history, which must have the order that
    the program has seen."""
    rng = random.Random(seed)

    @step(name="ahead.tick")
    async def tick(number: int) -> int:
        turn = asyncio.get_running_loop().create_future()
        turn.get_loop().call_soon(turn.set_result, None)
        await turn
        return number

    @workflow(name="ahead.ticking")
    async def ticking(waits: bool) -> int:
        for number in range(STEPS):
            await tick(number)
        if waits:
            await wait_signal("go")
        return STEPS

    async def first() -> list[str]:
        async with AsyncEngine(database, workflows=[ticking], shutdown_timeout=0) as engine:
            runs = await engine.start_many(ticking, [True] * 20 + [False] * 20)
            for run in rng.sample(runs, 20):
                await run.cancel("enough")
            return [run.id for run in runs]

    async def second(ids: list[str]) -> None:
        async with AsyncEngine(database, workflows=[ticking]) as engine:
            for run_id in ids:
                with suppress(RunFinished):
                    await engine.signal(run_id, "go")
            for run_id in ids:
                with suppress(RunCancelled):
                    assert await (await engine.run(run_id)).result(timeout=20) == STEPS
            assert await engine.database.check() == []

    asyncio.run(second(asyncio.run(first())))
