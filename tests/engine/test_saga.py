"""Undoing: in reverse, durably, each once; cancellation and deadlines."""

from __future__ import annotations

import asyncio
import threading

import pytest

import holdfast
from holdfast import Engine, compensate, step, wait_signal, workflow
from holdfast.errors import RunCancelled, RunExpired, RunFailed, RunFinished
from tests.engine.waiting import wait_for

done: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_done():
    done.clear()


@step
async def do(what: str) -> str:
    done.append(f"do {what}")
    return what


@step
async def undo(what: str) -> None:
    done.append(f"undo {what}")


def undo_plainly(what: str) -> None:
    done.append(f"undo {what}")


@step
def do_plainly(what: str) -> str:
    done.append(f"do {what}")
    return what


@step
async def refuse(what: str) -> None:
    done.append(f"refuse {what}")
    raise holdfast.Fail("cannot be undone")


@workflow
async def trip(end: str) -> str:
    for booking in ("a", "b"):
        compensate(undo, await do(booking))
    compensate(undo_plainly, "c")
    if end == "fail":
        raise ValueError("broken")
    if end == "wait":
        await wait_signal("go")
    return "done"


@workflow
def blocking_trip(end: str) -> str:
    for booking in ("a", "b"):
        compensate(undo_plainly, do_plainly(booking))
    compensate(undo, "c")
    if end == "fail":
        raise ValueError("broken")
    if end == "wait":
        holdfast.sync.wait_signal("go")
    return "done"


BOTH = pytest.mark.parametrize("flow", [trip, blocking_trip])


@BOTH
def test_nothing_is_undone_when_all_goes_well(engine, flow):
    assert engine.start(flow, "well").result(timeout=20) == "done"
    assert done == ["do a", "do b"]


@BOTH
def test_a_failure_undoes_in_reverse_order(engine, flow):
    run = engine.start(flow, "fail")
    with pytest.raises(RunFailed, match="broken"):
        run.result(timeout=20)
    assert done == ["do a", "do b", "undo c", "undo b", "undo a"]
    assert run.history()[-1].kind == "run_failed"


@BOTH
def test_a_cancellation_undoes_too(engine, flow):
    run = engine.start(flow, "wait")
    wait_for(engine, run, "waiting")
    run.cancel("changed my mind")
    with pytest.raises(RunCancelled, match="changed my mind"):
        run.result(timeout=20)
    assert done[2:] == ["undo c", "undo b", "undo a"]
    assert run.status == "cancelled"


@BOTH
def test_a_deadline_undoes_too(database, clock, flow):
    with Engine(database, clock=clock) as engine:
        run = engine.start(flow, "wait", deadline="1d")
        wait_for(engine, run, "waiting")
    clock.advance("2d")
    with Engine(database, clock=clock) as engine, pytest.raises(RunExpired):
        engine.run(run.id).result(timeout=20)
    assert done[2:] == ["undo c", "undo b", "undo a"]


def test_a_deadline_ends_a_run_that_never_started(database, clock):
    engine = Engine(database, clock=clock)
    run = engine.start(trip, "well", delay="2d", deadline="1d")
    clock.advance("1d")
    with Engine(database, clock=clock) as working, pytest.raises(RunExpired):
        working.run(run.id).result(timeout=20)
    engine.close()


def test_a_failed_undo_is_visible_and_does_not_stop_the_others(engine):
    @workflow
    async def stubborn() -> None:
        compensate(undo, await do("a"))
        compensate(refuse, await do("b"))
        compensate(undo, await do("c"))
        raise ValueError("broken")

    run = engine.start(stubborn)
    with pytest.raises(RunFailed) as failure:
        run.result(timeout=20)
    assert done[3:] == ["undo c", "refuse b", "undo a"]
    assert failure.value.error["facts"]["undo_failed"] == ["undo refuse"]


def test_a_failed_undo_stops_the_others_when_asked(engine):
    @workflow(stop_undoing_on_failure=True)
    async def careful() -> None:
        compensate(undo, await do("a"))
        compensate(refuse, await do("b"))
        raise ValueError("broken")

    with pytest.raises(RunFailed):
        engine.start(careful).result(timeout=20)
    assert done[2:] == ["refuse b"]


def test_a_cancelled_workflow_may_clean_up_with_steps(engine):
    @workflow
    async def tidy() -> None:
        await do("open")
        try:
            await wait_signal("never")
        finally:
            await do("close")

    run = engine.start(tidy)
    wait_for(engine, run, "waiting")
    run.cancel()
    with pytest.raises(RunCancelled):
        run.result(timeout=20)
    assert done == ["do open", "do close"]


def test_a_workflow_may_decline_to_be_cancelled(engine):
    @workflow
    async def stubborn() -> str:
        try:
            await wait_signal("never")
        except asyncio.CancelledError:
            return "finished anyway"
        return "?"

    run = engine.start(stubborn)
    wait_for(engine, run, "waiting")
    run.cancel()
    assert run.result(timeout=20) == "finished anyway"


def test_cancelling_interrupts_a_running_step(engine):
    began = threading.Event()

    @step
    async def long() -> None:
        began.set()
        await asyncio.Event().wait()

    @workflow
    async def busy() -> None:
        await long()

    run = engine.start(busy)
    assert began.wait(20)
    run.cancel()
    with pytest.raises(RunCancelled):
        run.result(timeout=20)


def test_a_forced_cancellation_undoes_nothing(engine):
    run = engine.start(trip, "wait")
    wait_for(engine, run, "waiting")
    assert run.cancel(force=True) == "cancelled"
    assert done == ["do a", "do b"]
    with pytest.raises(RunFinished):
        run.cancel()


def test_a_run_that_never_started_is_cancelled_at_once(engine):
    run = engine.start(trip, "well", delay="1d")
    assert run.cancel() == "cancelled"
    assert done == []


@step(name="undo all")
async def step_named_undo(what: str) -> str:
    done.append(f"named {what}")
    return what


@workflow
async def clears_and_fails() -> str:
    await do("a")
    await step_named_undo("b")
    if len(done) < 3:
        done.append("failed")
        raise ValueError("broken")
    return "done"


def test_a_step_that_a_user_names_like_a_compensation_is_not_repeated_by_a_replay(engine):
    run = engine.start(clears_and_fails)
    with pytest.raises(RunFailed, match="broken"):
        run.result(timeout=20)

    engine.replay(run.id)

    assert engine.run(run.id).result(timeout=20) == "done"
    assert done == ["do a", "named b", "failed"]


def test_the_events_of_a_compensation_have_its_role_and_those_of_other_steps_have_none(engine):
    run = engine.start(trip, "fail")
    with pytest.raises(RunFailed, match="broken"):
        run.result(timeout=20)

    roles = {event.step: event.role for event in run.history() if event.step is not None}

    assert roles == {
        "do": None,
        "do#2": None,
        "undo undo": "compensation",
        "undo undo#2": "compensation",
        "undo undo_plainly": "compensation",
    }
    undone = {event.step: event.undoes for event in run.history() if event.role}
    assert set(undone.values()) <= {"do", "do#2"}
    assert [row.depth for row in run.timeline().rows if row.is_compensation] == [1, 1, 1]
