"""The history says that a step has begun once it runs for long; steps that end soon cost no line
and no timer of their own."""

from __future__ import annotations

import asyncio
import gc

import pytest

from holdfast import AsyncEngine, step, workflow
from holdfast.engine.execution.pending.steps import PendingStep
from holdfast.engine.runtime.long_steps import LongSteps
from holdfast.engine.runtime.timer_queue import TimerQueue
from holdfast.testing.clock import VirtualClock


class RunRecorder:
    """A run that records which of its steps it is told of."""

    def __init__(self):
        self.noted = []

    def note_started(self, want):
        self.noted.append(want)


@pytest.fixture
def loop():
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def turn(loop):
    """Let the loop make the calls that are due."""
    for _ in range(3):
        loop.call_soon(loop.stop)
        loop.run_forever()


def test_a_step_is_noted_once_and_only_if_it_runs_for_long(loop):
    clock = VirtualClock()
    timers = TimerQueue(clock, loop)
    steps = LongSteps(timers)
    run = RunRecorder()
    short, long, late = (PendingStep(None, 1, None) for _ in range(3))
    steps.begin(run, short, clock.now())
    steps.begin(run, long, clock.now())
    clock.advance("0.5s")
    steps.begin(run, late, clock.now())
    steps.end(short)
    turn(loop)
    assert run.noted == []

    clock.advance("0.5s")
    turn(loop)
    assert run.noted == [long]

    clock.advance("0.5s")
    turn(loop)
    assert run.noted == [long, late]
    clock.advance("60s")
    turn(loop)
    assert run.noted == [long, late]
    timers.close()


@step(name="long_steps.one")
async def one(number: int) -> int:
    return number


@workflow(name="long_steps.chain")
async def chain(count: int) -> int:
    return sum([await one(number) for number in range(count)])


def test_runs_that_have_ended_are_freed_without_the_garbage_collector(database):
    async def main() -> int:
        async with AsyncEngine(database, shutdown_timeout=1) as engine:
            await (await engine.start(chain, 3)).result()
            gc.collect()
            gc.disable()
            runs = await engine.start_many(chain, [3] * 40)
            await asyncio.gather(*(run.result() for run in runs))
            del runs
            return gc.collect()

    try:
        garbage = asyncio.run(main())
    finally:
        gc.enable()
    assert garbage < 40 * 3, "less than one object for each step"
