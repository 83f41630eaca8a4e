"""The threads for blocking calls are woken one after another, and none of the calls is left."""

from __future__ import annotations

import asyncio
import threading

import pytest

from holdfast.engine.runtime.thread_pool import ThreadPool

PATIENCE = 60


@pytest.fixture
def pool():
    pool = ThreadPool()
    yield pool
    pool.close()


def made(pool: ThreadPool, calls) -> None:
    """Make calls in the threads of a pool, and wait until all of them have returned."""
    left = threading.Semaphore(0)

    def call_and_count(call) -> None:
        call()
        left.release()

    for call in calls:
        pool.start(lambda call=call: call_and_count(call))
    for _ in calls:
        assert left.acquire(timeout=PATIENCE)


def test_calls_that_wait_for_each_other_are_made_at_once(pool):
    barrier = threading.Barrier(20)

    made(pool, [lambda: barrier.wait(PATIENCE)] * 20)
    made(pool, [lambda: barrier.wait(PATIENCE)] * 20)

    assert not barrier.broken


def test_a_call_that_was_queued_behind_a_blocked_one_gets_a_thread(pool):
    release = threading.Event()

    made(pool, [lambda: release.wait(PATIENCE), *[lambda: None] * 50, release.set])

    assert release.is_set()


def test_calls_beyond_the_most_wait_for_a_thread():
    pool = ThreadPool(most=2)
    names = set()
    barrier = threading.Barrier(2)

    def work() -> None:
        names.add(threading.current_thread().name)
        barrier.wait(PATIENCE)

    made(pool, [work] * 20)
    pool.close()

    assert names == {"holdfast step 1", "holdfast step 2"}


def test_many_callers_leave_no_call_behind(pool):
    done = threading.Semaphore(0)

    def ask() -> None:
        for _ in range(200):
            pool.start(done.release)

    callers = [threading.Thread(target=ask) for _ in range(8)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(PATIENCE)

    for _ in range(1600):
        assert done.acquire(timeout=PATIENCE)


def test_a_call_for_which_no_thread_can_be_started_is_refused(pool, monkeypatch):
    def refuse(thread) -> None:
        raise RuntimeError("can't start new thread")

    calls: list[str] = []
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="new thread"):
            pool.start(lambda: calls.append("refused"))

    made(pool, [lambda: calls.append("later")])

    assert calls == ["later"]


def test_a_busy_thread_makes_the_calls_for_which_no_other_can_be_started(pool, monkeypatch):
    calls: list[int] = []
    begun = threading.Event()
    release = threading.Event()

    def hold() -> None:
        begun.set()
        assert release.wait(PATIENCE)

    def refuse(thread) -> None:
        raise RuntimeError("can't start new thread")

    done = threading.Event()
    pool.start(hold)
    assert begun.wait(PATIENCE)
    pool._is_waking = True  # a thread is on its way: these calls wake no other
    for number in range(3):
        pool.start(lambda number=number: calls.append(number))
    pool.start(done.set)
    pool._is_waking = False
    monkeypatch.setattr(threading.Thread, "start", refuse)
    release.set()

    assert done.wait(PATIENCE)
    assert calls == [0, 1, 2]


def test_the_result_and_the_error_of_a_call_reach_the_loop(pool):
    async def main():
        assert await pool.run(lambda: 7) == 7
        with pytest.raises(ZeroDivisionError):
            await pool.run(lambda: 1 // 0)
        return await asyncio.gather(*(pool.run(lambda n=n: n) for n in range(100)))

    assert asyncio.run(main()) == list(range(100))


def test_a_closed_pool_ends_its_idle_threads():
    pool = ThreadPool("closing")
    barrier = threading.Barrier(5)
    made(pool, [lambda: barrier.wait(PATIENCE)] * 5)
    threads = [thread for thread in threading.enumerate() if thread.name.startswith("closing ")]

    pool.close()

    for thread in threads:
        thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in threads)
