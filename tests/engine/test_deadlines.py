"""Deadlines end a run whatever it is doing, and all below it; what it did is undone first."""

from __future__ import annotations

import threading
from contextlib import closing

import pytest

import holdfast
from holdfast import Engine, compensate, sleep, step, wait_signal, workflow
from holdfast.connect.open_store import open_store
from holdfast.errors import RunExpired
from holdfast.testing import Lab
from tests.engine.databases import execute

undone: list[str] = []
released = threading.Event()
begun = threading.Event()


@pytest.fixture(autouse=True)
def fresh():
    undone.clear()
    released.clear()
    begun.clear()
    yield
    released.set()


@pytest.fixture
def lab_of(database, clock):
    """Return what opens a lab on the database of the test."""

    def make(*workflows, **options) -> Lab:
        return Lab(
            database,
            clock=clock,
            store=open_store(database, clock=clock),
            workflows=workflows,
            **options,
        )

    return make


@step
async def prepare(name: str) -> str:
    return name


@step
async def undo(name: str) -> None:
    undone.append(name)


@step
async def undo_slowly(name: str) -> None:
    undone.append(name)


@step
async def hang() -> None:
    begun.set()
    await sleep("1d")


@step
def hang_in_a_thread() -> str:
    begun.set()
    released.wait(20)
    return "too late"


@workflow(name="deadline_waits")
async def waits() -> None:
    compensate(undo, await prepare("waits"))
    await wait_signal("never")


@workflow(name="deadline_hangs")
async def hangs() -> None:
    compensate(undo, await prepare("hangs"))
    await hang()


@workflow(name="deadline_hangs_in_a_thread")
async def hangs_in_a_thread() -> str:
    compensate(undo, await prepare("thread"))
    return await hang_in_a_thread.aio()


@workflow(name="deadline_blocking")
def blocking() -> str:
    compensate(undo, prepare.sync("blocking"))
    first = hang_in_a_thread()
    prepare.sync("after")
    return first


@workflow(name="deadline_sleeps_undoing")
async def sleeps_undoing() -> None:
    try:
        compensate(undo, await prepare("slow"))
        await wait_signal("never")
    finally:
        await sleep("2h")


@workflow(name="deadline_parent")
async def parent() -> None:
    compensate(undo, await prepare("parent"))
    later = await holdfast.start(waits, delay="3d")
    await holdfast.start(waits, on_parent_end="abandon" if later is None else "cancel")
    await wait_signal("never")


def expired(run) -> bool:
    try:
        run.result(timeout=20)
    except RunExpired:
        return True
    return False


@pytest.mark.parametrize("flow", [waits, hangs], ids=lambda flow: flow.name)
@pytest.mark.parametrize("idle_timeout", ["5s", 0])
def test_a_run_that_waits_or_hangs_in_a_step_is_undone_and_expires(lab_of, flow, idle_timeout):
    with lab_of(flow, idle_timeout=idle_timeout) as lab:
        run = lab.start(flow, deadline="1h")
        if flow is waits:
            lab.settle()
        else:
            assert begun.wait(20)
        lab.clock.advance("1h")
        assert expired(run)
        lab.settle()
        assert undone == [flow.name.removeprefix("deadline_")]
        assert lab.engine.database.check() == []


def test_a_run_that_nobody_serves_expires(lab_of):
    with lab_of(waits) as lab:
        run = lab.start("deadline_unserved", deadline="1h")
        assert "its deadline is" in lab.engine.why(run.id).blockers[-1].text
        lab.advance("1h")
        assert expired(run)


def test_a_blocked_run_expires(database, lab_of):
    with closing(Engine(database, workflows=[waits])) as other:
        run_id = other.start(waits, deadline="1ms").id
    execute(
        database,
        "UPDATE holdfast.run SET status = 'blocked', rank = NULL WHERE id = :id",
        id=run_id,
    )
    with Engine(database, workflows=[], poll="50ms") as engine:
        assert expired(engine.run(run_id))


def test_a_stuck_run_expires(lab_of):
    @workflow(name="deadline_stuck")
    async def stuck() -> None:
        import asyncio

        await asyncio.Event().wait()

    with lab_of(stuck) as lab:
        run = lab.start(stuck, deadline="1h")
        lab.settle()
        assert run.status == "stuck"
        lab.advance("1h")
        assert expired(run)


def test_a_step_that_cannot_be_interrupted_does_not_keep_an_async_run(lab_of):
    with lab_of(hangs_in_a_thread) as lab:
        run = lab.start(hangs_in_a_thread, deadline="1h")
        assert begun.wait(20)
        lab.clock.advance("1h")
        assert expired(run)
        assert undone == ["thread"]
        released.set()
        lab.settle()
        assert [event.kind for event in run.history() if event.step == "hang_in_a_thread"] in (
            [],
            ["step_started", "step_dropped"],
        )


def test_a_blocking_run_expires_when_its_step_has_ended(lab_of):
    with lab_of(blocking) as lab:
        run = lab.start(blocking, deadline="1h")
        assert begun.wait(20)
        lab.clock.advance("1h")
        assert undone == []
        released.set()
        assert expired(run)
        lab.settle()
        assert undone == ["blocking"]
        assert "after" not in [event.step for event in run.history()]


def test_a_run_that_is_being_cancelled_already_ends_as_cancelled(lab_of):
    with lab_of(sleeps_undoing) as lab:
        run = lab.start(sleeps_undoing, deadline="1h")
        lab.settle()
        run.cancel("no longer wanted")
        lab.settle()
        lab.advance("1h")
        assert run.status == "cancelling"
        lab.advance("1h")
        assert (run.status, run.record.cancel_reason) == ("cancelled", "no longer wanted")
        assert undone == ["slow"]


@pytest.mark.parametrize("idle_timeout", ["5s", 0])
def test_a_run_that_is_cancelled_for_the_reason_deadline_does_not_expire(lab_of, idle_timeout):
    with lab_of(parent, waits, idle_timeout=idle_timeout) as lab:
        started = lab.start(parent)
        unstarted = lab.start(waits, delay="1h")
        lab.settle()

        started.cancel("deadline")
        unstarted.cancel("deadline")
        lab.settle()

        statuses = {run.status for run in lab.engine.runs()}
        assert statuses == {"cancelled"}
        assert undone == ["waits", "parent"]
        assert lab.engine.database.check() == []


@pytest.mark.parametrize("idle_timeout", ["5s", 0])
def test_all_below_an_expired_run_expires_with_it(lab_of, idle_timeout):
    with lab_of(parent, waits, idle_timeout=idle_timeout) as lab:
        run = lab.start(parent, deadline="1h")
        lab.settle()
        lab.advance("1h")
        assert expired(run)
        assert [listed_run.status for listed_run in lab.engine.runs(parent_id=run.id)] == [
            "expired",
            "expired",
        ]
        assert sorted(undone) == ["parent", "waits"]
        assert lab.engine.database.check() == []


def test_a_deadline_that_passed_while_nothing_ran_is_seen_to_at_once(lab_of, clock):
    with lab_of(waits) as lab:
        run = lab.start(waits, deadline="1h")
        lab.settle()
    clock.advance("1d")
    with lab_of(waits) as lab:
        lab.settle()
        assert lab.engine.run(run.id).status == "expired"
        assert undone == ["waits"]


@step(timeout="1h", retries=3, delay="1s")
async def limited() -> int:
    begun.set()
    if holdfast.info().attempt == 1:
        await sleep("2h")
    return holdfast.info().attempt


@workflow(name="deadline_limited")
async def with_limit() -> int:
    return await limited()


def test_the_timeout_of_an_attempt_begins_anew_with_the_attempt_after_a_restart(lab_of, clock):
    with lab_of(with_limit) as lab:
        run = lab.start(with_limit)
        assert begun.wait(20)
        lab.clock.advance("50m")
        lab.abandon()
    begun.clear()
    with lab_of(with_limit) as lab:
        assert begun.wait(20)
        lab.clock.advance("50m")
        assert lab.engine.run(run.id).status == "running"
        lab.clock.advance("10m")
        assert lab.finish(run.id) == 2
