"""A thousand runs that arrive together begin a few at a time, and are at work all at once if their
steps take time."""

from __future__ import annotations

import asyncio
import threading

import holdfast
from holdfast import Engine, step, workflow
from holdfast.engine.worker import begin_window

MANY = 3 * begin_window.MOST


@step
async def quick(n: int) -> int:
    return n


def test_runs_of_quick_steps_are_done_soon_after_they_begin(tmp_path):
    begun = 0
    most = 0

    @workflow
    async def windowed(n: int) -> int:
        nonlocal begun, most
        begun += 1
        most = max(most, begun)
        for _ in range(3):
            await quick(n)
        begun -= 1
        return n

    with Engine(tmp_path / "window.db") as engine:
        runs = engine.start_many(windowed, list(range(MANY)))
        assert [run.result(timeout=60) for run in runs] == list(range(MANY))

    assert 1 < most <= begin_window.MOST


def test_the_window_does_not_limit_runs_whose_steps_take_time(tmp_path):
    together = asyncio.Event()
    at_work = 0

    @step
    async def meet() -> int:
        nonlocal at_work
        at_work += 1
        if at_work == MANY:
            together.set()
        await asyncio.wait_for(together.wait(), 60)
        return at_work

    @workflow
    async def window_meeting(_: int) -> int:
        return await meet()

    with Engine(tmp_path / "window.db") as engine:
        runs = engine.start_many(window_meeting, list(range(MANY)))
        assert {run.result(timeout=60) for run in runs} == {MANY}


def test_runs_that_wait_to_begin_receive_signals_and_cancellations(tmp_path):
    @workflow
    async def window_listener(n: int) -> int:
        for _ in range(2):
            await quick(n)
        return await holdfast.wait_signal("go", type=int)

    with Engine(tmp_path / "window.db") as engine:
        runs = engine.start_many(window_listener, list(range(MANY)))
        runs[-1].cancel()
        for run in runs[-20:-1]:
            run.signal("go", 7)
        for run in runs[:-20]:
            run.signal("go", 8)
        results = [run.result(timeout=60) for run in runs[:-1]]
        assert results == [8] * (MANY - 20) + [7] * 19
        assert runs[-1].wait_until("cancelled", timeout=30) == "cancelled"


def test_a_worker_that_stops_hands_back_the_runs_that_wait_to_begin(tmp_path):
    @workflow
    async def handed_back(n: int) -> int:
        for _ in range(3):
            await quick(n)
        return n

    with Engine(tmp_path / "window.db") as engine:
        ids = [run.id for run in engine.start_many(handed_back, list(range(MANY)))]
    with Engine(tmp_path / "window.db") as engine:
        assert [engine.run(run_id).result(timeout=60) for run_id in ids] == list(range(MANY))


def test_plain_functions_use_threads_again(tmp_path):
    @workflow
    def threaded(n: int) -> int:
        return threading.get_native_id()

    with Engine(tmp_path / "threads.db") as engine:
        threads = {engine.start(threaded, n).result(timeout=20) for n in range(10)}

    assert len(threads) < 10  # the thread of a run may still be ending when the next begins
