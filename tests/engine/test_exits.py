"""Code that raises what is no Exception fails its step or its run, by name, and nothing else: not
the engine, not its thread."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import textwrap
import threading
import types
from contextlib import closing

import pytest

import holdfast
from holdfast import AsyncEngine, Engine, step, sync, wait_signal, workflow
from holdfast.errors import RunCancelled, RunFailed
from holdfast.testing import internals


class Abandon(BaseException):
    """What a library may raise to leave many frames at once."""


EXITS = [
    SystemExit(3),
    KeyboardInterrupt(),
    asyncio.CancelledError(),
    GeneratorExit(),
    Abandon("all"),
]
undone: list[str] = []
exit_with: BaseException = SystemExit()


@pytest.fixture(params=EXITS, ids=lambda one: type(one).__name__)
def exits(request):
    global exit_with
    exit_with = request.param
    return type(request.param).__name__


@types.coroutine
def turn():
    """Let the others have their turn."""
    yield


@pytest.fixture(autouse=True)
def _nothing_undone():
    undone.clear()


def leave_now() -> None:
    raise exit_with


async def await_what_was_cancelled() -> None:
    """Await an inner task that was cancelled, or fails with whatever else."""

    async def inner() -> None:
        leave_now()

    task = asyncio.ensure_future(inner())
    if isinstance(exit_with, asyncio.CancelledError):
        task.cancel()
    await task


@step(name="exits.undo")
def undo(what: str) -> None:
    undone.append(what)


@step(name="exits.leave")
def leave() -> None:
    leave_now()


@step(name="exits.leave_async")
async def leave_async() -> None:
    leave_now()


@step(name="exits.leave_later")
async def leave_later() -> None:
    await turn()
    leave_now()


@step(name="exits.leave_timed", timeout="20s")
def leave_timed() -> None:
    leave_now()


@step(name="exits.leave_timed_async", timeout="20s")
async def leave_timed_async() -> None:
    leave_now()


@step(name="exits.leave_transaction", transactional=True)
def leave_transaction() -> None:
    leave_now()


LEAVING = {
    one.name: one
    for one in (leave, leave_async, leave_later, leave_timed, leave_timed_async, leave_transaction)
}


@workflow(name="exits.calling")
async def calling(name: str) -> None:
    holdfast.compensate(undo, "calling")
    await LEAVING[name].aio()


@workflow(name="exits.calling_blocking")
def calling_blocking(name: str) -> None:
    holdfast.compensate(undo, "calling")
    LEAVING[name].sync()


@workflow(name="exits.fine")
async def fine() -> str:
    return "fine"


@pytest.mark.parametrize("outer", [calling, calling_blocking], ids=["async", "blocking"])
@pytest.mark.parametrize("name", LEAVING)
def test_a_step_that_raises_it_fails_like_any_other(engine, exits, outer, name):
    run = engine.start(outer, name)
    with pytest.raises(RunFailed, match=f"the step raised {exits}"):
        run.result(timeout=20)
    assert undone == ["calling"]
    assert run.history()[0].kind == "step_failed"
    assert engine.start(fine).result(timeout=20) == "fine"


@pytest.mark.parametrize("transactional", [False, True])
def test_a_step_that_raises_it_is_tried_again(engine, exits, transactional):
    attempts: list[int] = []

    @step(name="exits.flaky", retries=2, delay="1ms", transactional=transactional)
    def flaky() -> str:
        attempts.append(holdfast.info().attempt)
        if len(attempts) < 3:
            leave_now()
        return "fine"

    @workflow(name="exits.trying")
    async def trying() -> str:
        return await flaky.aio()

    assert engine.start(trying).result(timeout=20) == "fine"
    assert attempts == [1, 2, 3]


@pytest.mark.parametrize("blocking", [False, True])
def test_a_workflow_that_raises_it_fails_and_undoes_what_it_did(engine, exits, blocking):
    @workflow(name="exits.plain")
    def plain() -> None:
        holdfast.compensate(undo, "plain")
        leave_now()

    @workflow(name="exits.coloured")
    async def coloured() -> None:
        holdfast.compensate(undo, "plain")
        leave_now()

    with pytest.raises(RunFailed, match=f"the workflow raised {exits}") as failed:
        engine.start(plain if blocking else coloured).result(timeout=20)
    assert type(failed.value) is RunFailed
    assert undone == ["plain"]
    assert engine.start(fine).result(timeout=20) == "fine"


@pytest.mark.parametrize(
    "where", ["task of a workflow", "task of a step", "branch of a plain workflow"]
)
def test_a_branch_that_raises_it_fails_who_waits_for_it(engine, exits, where):
    @step(name="exits.awaiting")
    async def awaiting() -> None:
        await await_what_was_cancelled()

    @workflow(name="exits.branching")
    async def branching() -> None:
        await (await_what_was_cancelled() if where == "task of a workflow" else awaiting())

    @workflow(name="exits.branching_blocking")
    def branching_blocking() -> None:
        sync.gather(leave_now, lambda: None)

    outer = branching_blocking if where == "branch of a plain workflow" else branching
    with pytest.raises(RunFailed, match=exits):
        engine.start(outer).result(timeout=20)
    assert engine._calls.worker_thread.thread.is_alive()
    assert engine.start(fine).result(timeout=20) == "fine"


def test_it_fails_its_run_on_the_loop_of_an_async_engine(database, exits):
    async def main() -> None:
        async with AsyncEngine(database) as engine:
            for name in LEAVING:
                run = await engine.start(calling, name)
                with pytest.raises(RunFailed, match=f"the step raised {exits}"):
                    await run.result(timeout=20)
            assert await (await engine.start(fine)).result(timeout=20) == "fine"

    asyncio.run(main())


def test_a_run_that_was_cancelled_is_cancelled_and_no_failure(engine):
    @workflow(name="exits.waiting")
    async def waiting() -> None:
        await wait_signal("never")

    @workflow(name="exits.waiting_blocking")
    def waiting_blocking() -> None:
        sync.wait_signal("never")

    for outer in (waiting, waiting_blocking):
        run = engine.start(outer)
        run.cancel()
        with pytest.raises(RunCancelled):
            run.result(timeout=20)


def test_a_step_that_cancels_its_own_task_fails(engine):
    @step(name="exits.hasty")
    async def hasty() -> None:
        asyncio.current_task().cancel()
        await turn()

    @workflow(name="exits.hurrying")
    async def hurrying() -> None:
        await hasty()

    with pytest.raises(RunFailed, match="the step raised CancelledError"):
        engine.start(hurrying).result(timeout=20)


def test_a_step_that_its_workflow_drops_leaves_nothing_behind(engine):
    begun = threading.Event()

    @step(name="exits.slow")
    async def slow() -> None:
        begun.set()
        await asyncio.Event().wait()

    @workflow(name="exits.racing")
    async def racing() -> object:
        return await holdfast.first(slow(), wait_signal("go"))

    run = engine.start(racing)
    assert begun.wait(20)
    run.signal("go", 1)
    assert run.result(timeout=20) == 1
    assert "step_failed" not in [event.kind for event in run.history()]


def test_a_program_that_ends_without_closing_its_engine_does_not_fail_its_steps(database):
    begun = asyncio.Event()

    @step(name="exits.left")
    async def left() -> str:
        begun.set()
        if len(made) == 1:
            await asyncio.Event().wait()
        return "fine"

    @workflow(name="exits.leaving_behind")
    async def leaving_behind() -> str:
        return await left()

    made: list[int] = []

    async def main() -> None:
        made.append(1)
        engine = AsyncEngine(database)
        await engine.work()
        await engine.start(leaving_behind, id="r1")
        await begun.wait()
        engines.append(engine)

    engines: list[AsyncEngine] = []
    asyncio.run(main())
    made.append(2)
    asyncio.run(engines[0].close(shutdown_timeout=0))
    with closing(Engine(database)) as after:
        assert after.run("r1").history() == []


def test_a_callback_that_raises_it_is_heard_by_who_gave_it(engine, exits):
    engine.start(fine).result(timeout=20)

    def callback(events, connection):
        leave_now()

    expected = type(exit_with) if exits in ("SystemExit", "KeyboardInterrupt") else RuntimeError
    with pytest.raises(expected):
        engine.events.consume("reader", callback)
    assert engine.start(fine).result(timeout=20) == "fine"


def test_a_start_whose_engine_is_closed_between_its_commit_and_its_end_does_not_raise(database):
    """The run is written: to raise would say that it is not."""
    with Engine(database) as other:
        parts = internals(other)
        runs, request = parts.starts.start(fine, (), {}, {"id": "r1"}, parts.lease)
        answers = internals(other).commit(request)
    parts.adopt(runs, answers)
    with Engine(database) as engine:
        assert engine.run("r1").result(timeout=20) == "fine"


CTRL_C = """
import signal
import sys
import holdfast
from holdfast import Engine, workflow

# A shell starts background jobs with the signal ignored, and children inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

@workflow
async def for_ever() -> None:
    await holdfast.wait_signal("never")

with Engine(sys.argv[1]) as engine:
    run = engine.start(for_ever)
    try:
        print("waiting", flush=True)
        run.result()
    except KeyboardInterrupt:
        print("interrupted", run.status, flush=True)
"""


@pytest.mark.sqlite_only
def test_ctrl_c_interrupts_the_call_of_the_program_and_no_run(database):
    command = [sys.executable, "-c", textwrap.dedent(CTRL_C), database]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "waiting\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() in ("interrupted waiting\n", "interrupted running\n")
        assert process.wait(20) == 0


def test_ctrl_c_that_meets_a_transactional_step_interrupts_the_call_once_it_has_committed(engine):
    engine.start(fine).result(timeout=20)

    def callback(events, connection):
        internals(engine).writer.interrupt()  # as a step does that is part of the same commit

    with pytest.raises(KeyboardInterrupt):
        engine.events.consume("reader", callback)
    assert engine.events.consume("reader", callback) == 0
