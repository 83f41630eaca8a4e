"""Tasks that begin at once behave like any other, but for the moment at which they begin."""

import asyncio
import contextvars
import select
import selectors
import sys
import threading
import types
from asyncio import tasks
from contextlib import closing

import pytest

from holdfast.engine.runtime.eager_task import (
    IdleWait,
    NativeEagerTasks,
    PooledEagerTasks,
    eager_tasks_of,
    loop_has_other_work,
)

NATIVE = sys.version_info >= (3, 12)

colour = contextvars.ContextVar("colour", default="none")


@types.coroutine
def turn():
    """Let the others have their turn."""
    yield


def answer():
    """Wait for a future that is done soon."""
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    loop.call_soon(loop.call_soon, future.set_result, None)
    return future


@pytest.fixture(params=[PooledEagerTasks, *([NativeEagerTasks] if NATIVE else [])])
def alone(request):
    """Run a test on a loop of its own, and see that no task is left behind."""

    def run(test):
        async def main():
            eager = request.param(asyncio.get_running_loop())
            await test(eager)
            eager.close()
            await turn()
            assert asyncio.all_tasks() == {asyncio.current_task()}

        asyncio.run(main(), debug=True)

    return run


def test_what_never_waits_has_ended_and_needs_no_task(alone):
    seen = []

    async def quick(n):
        seen.append((n, asyncio.current_task()))

    async def test(eager):
        mine = asyncio.current_task()
        assert [eager.start(quick(n)) for n in range(3)] == [None] * 3
        assert [n for n, _ in seen] == [0, 1, 2]
        assert isinstance(eager, NativeEagerTasks) or len({task for _, task in seen}) == 1
        assert seen[0][1] is not mine is asyncio.current_task()

    alone(test)


def test_what_waits_goes_on_in_the_task_in_which_it_began(alone):
    seen = []

    async def slow():
        for _ in range(3):
            seen.append(asyncio.current_task())
            await answer()
        async with asyncio.timeout(10), asyncio.TaskGroup() as group:
            group.create_task(turn())

    async def test(eager):
        task = eager.start(slow())
        await task
        assert seen == [task] * 3

    alone(test)


def test_one_that_yields_to_others_goes_on_a_turn_later(alone):
    seen = []

    async def polite():
        seen.append("first")
        await turn()
        seen.append("second")

    async def test(eager):
        task = eager.start(polite())
        assert seen == ["first"]
        await task
        assert seen == ["first", "second"]

    alone(test)


@pytest.mark.parametrize("turns", [0, 1, 2, 3])
@pytest.mark.parametrize("used", [False, True])
def test_it_can_be_cancelled_at_any_time(alone, turns, used):
    seen = []

    async def quick():
        pass

    async def for_ever():
        try:
            await asyncio.Event().wait()
        finally:
            seen.append(asyncio.current_task())
            await turn()
            seen.append("tidied")

    async def test(eager):
        if used:
            eager.start(quick())
            await turn()
        task = eager.start(for_ever())
        for _ in range(turns):
            await turn()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert seen == [task, "tidied"]

    alone(test)


def test_a_timeout_within_it_is_heard(alone):
    seen = []

    async def impatient():
        try:
            async with asyncio.timeout(0):
                await asyncio.Event().wait()
        except TimeoutError:
            seen.append("too late")

    async def test(eager):
        await eager.start(impatient())
        assert seen == ["too late"]

    alone(test)


def test_a_task_that_was_cancelled_is_not_used_again(alone):
    seen = []

    async def hasty():
        asyncio.current_task().cancel()
        seen.append(asyncio.current_task())

    async def quick():
        await turn()
        seen.append(asyncio.current_task())

    async def test(eager):
        assert eager.start(hasty()) is None
        task = eager.start(quick())
        await task
        assert seen[0] is not seen[1] is task

    alone(test)


def test_each_has_a_context_of_its_own(alone):
    seen = []

    async def paint(new):
        seen.append(colour.get())
        colour.set(new)
        await turn()
        seen.append(colour.get())

    async def quick(new):
        colour.set(new)

    async def test(eager):
        colour.set("white")
        eager.start(quick("black"))
        tasks = [eager.start(paint(new)) for new in ("red", "green")]
        await asyncio.gather(*tasks)
        assert seen == ["white", "white", "red", "green"]
        assert colour.get() == "white"

    alone(test)


def test_one_may_begin_while_another_does(alone):
    seen = []

    async def inner():
        seen.append(asyncio.current_task())

    async def test(eager):
        async def outer():
            mine = asyncio.current_task()
            eager.start(inner())
            assert asyncio.current_task() is mine
            assert seen.pop() is not mine
            await turn()
            assert asyncio.current_task() is mine
            seen.append("done")

        await eager.start(outer())
        assert seen == ["done"]

    alone(test)


def test_what_it_raises_is_raised_where_it_is_awaited(alone):
    async def faulty():
        await turn()
        raise ValueError("oops")

    async def test(eager):
        with pytest.raises(ValueError, match="oops"):
            await eager.start(faulty())

    alone(test)


def test_the_private_names_of_asyncio_exist_on_this_version():
    async def main():
        loop = asyncio.get_running_loop()
        assert isinstance(eager_tasks_of(loop), PooledEagerTasks)
        assert not loop_has_other_work(loop)
        loop.call_soon(turn)
        assert loop_has_other_work(loop)

    assert callable(tasks._enter_task)
    assert callable(tasks._leave_task)
    assert hasattr(asyncio.Future, "_asyncio_future_blocking")
    asyncio.run(main())


@pytest.mark.skipif(not hasattr(select, "epoll"), reason="there is no epoll here")
def test_an_idle_wait_ends_with_an_event_a_timer_or_other_work():
    async def main() -> None:
        loop = asyncio.get_running_loop()
        wait = IdleWait.of(loop)
        assert wait is not None
        loop.call_soon(turn)
        assert not wait.until_event()
        await turn()
        timer = loop.call_later(0.01, turn)
        assert not wait.until_event()
        assert loop.time() >= timer.when() - 0.001
        await turn()
        await turn()
        thread = threading.Thread(target=loop._write_to_self)
        thread.start()
        assert wait.until_event()
        thread.join()

    asyncio.run(main(), debug=False)


def test_a_loop_that_reports_long_callbacks_or_cannot_be_polled_has_no_idle_wait():
    async def main() -> None:
        assert IdleWait.of(asyncio.get_running_loop()) is None

    asyncio.run(main(), debug=True)
    with closing(asyncio.SelectorEventLoop(selectors.SelectSelector())) as loop:
        assert IdleWait.of(loop) is None


def test_a_loop_that_does_not_tell_counts_as_busy():
    assert loop_has_other_work(object())


def test_without_the_private_names_tasks_start_by_public_means(monkeypatch):
    monkeypatch.setattr("holdfast.engine.runtime.eager_task._enter_task", None)

    with closing(asyncio.new_event_loop()) as loop:
        assert isinstance(eager_tasks_of(loop), NativeEagerTasks)
