"""What a key for the outside world spans: attempts and crashes, but not work that a replay has
declared void."""

from __future__ import annotations

import pytest

import holdfast
from holdfast import Engine, compensate, info, step, task, workflow
from holdfast.errors import RunFailed, StepFailed
from holdfast.fencing import fence
from tests.engine.waiting import wait_for

keys: list[tuple[str, str]] = []
broken: set[str] = set()


@pytest.fixture(autouse=True)
def _calm():
    keys.clear()
    broken.clear()


def act(name: str) -> str:
    assert fence().key == info().idempotency_key
    keys.append((name, info().idempotency_key))
    if name in broken:
        raise ValueError(f"{name} is broken")
    return name


@step
async def charge() -> str:
    return act("charge")


@step
async def pack() -> str:
    return act("pack")


@step(retries=1, delay=0)
async def ship() -> str:
    return act("ship")


@step
async def refund() -> str:
    return act("refund")


def of(name: str) -> list[str]:
    return [key for called, key in keys if called == name]


@workflow
async def paid_packed_shipped() -> list:
    return [await charge(), await pack(), await ship()]


@workflow
def paid_packed_shipped_blocking() -> list:
    return [charge.sync(), pack.sync(), ship.sync()]


@workflow
async def paid_and_shipped() -> list:
    paid = await charge()
    compensate(refund)
    return [paid, str(holdfast.deterministic.uuid()), await ship()]


def failed(engine, flow):
    broken.add("ship")
    run = engine.start(flow)
    with pytest.raises(RunFailed):
        run.result(timeout=20)
    broken.clear()
    return run


def test_a_saga_that_is_replayed_acts_under_new_keys(engine):
    run = failed(engine, paid_and_shipped)
    engine.replay(run.id)
    assert run.result(timeout=20)[0] == "charge"

    first, second = of("charge")
    assert first == f"{run.id}:charge" and second != first
    assert len({*of("ship")}) == 2, "the goods of another payment are another delivery"


def test_a_saga_that_fails_again_refunds_the_second_payment_too(engine):
    run = failed(engine, paid_and_shipped)
    broken.add("ship")
    engine.replay(run.id)
    with pytest.raises(RunFailed):
        run.result(timeout=20)
    broken.clear()
    engine.replay(run.id)
    run.result(timeout=20)

    assert len(set(of("charge"))) == 3
    assert len(set(of("refund"))) == 2


def test_a_saga_that_begins_again_has_other_random_numbers(engine):
    run = engine.start(paid_and_shipped)
    first = run.result(timeout=20)[1]
    engine.replay(run.id, from_step="ship")
    same = run.result(timeout=20)[1]
    engine.replay(run.id, from_step="charge")
    other = run.result(timeout=20)[1]

    assert first == same != other


@pytest.mark.parametrize("flow", [paid_packed_shipped, paid_packed_shipped_blocking])
def test_a_step_that_failed_keeps_its_key(engine, flow):
    run = failed(engine, flow)
    engine.replay(run.id)
    assert run.result(timeout=20) == ["charge", "pack", "ship"]

    assert set(of("ship")) == {f"{run.id}:ship"} and len(of("ship")) == 3
    assert of("charge") == [f"{run.id}:charge"]


@pytest.mark.parametrize("flow", [paid_packed_shipped, paid_packed_shipped_blocking])
def test_steps_from_which_a_run_is_replayed_have_new_keys(engine, flow):
    run = engine.start(flow)
    run.result(timeout=20)
    engine.replay(run.id, from_step="pack")
    run.result(timeout=20)
    engine.replay(run.id, from_step="ship")
    run.result(timeout=20)

    assert of("charge") == [f"{run.id}:charge"]
    assert of("pack") == [f"{run.id}:pack", f"{run.id}:pack~2"]
    assert of("ship") == [f"{run.id}:ship", f"{run.id}:ship~2", f"{run.id}:ship~3"]


def test_a_crash_after_a_replay_keeps_the_new_key(database, clock):
    @workflow(name="waits in between")
    async def flow() -> None:
        await charge()
        await holdfast.wait_signal("go")
        await ship()

    with Engine(database, clock=clock, workflows=[flow]) as engine:
        run = engine.start(flow)
        run.signal("go")
        run.result(timeout=20)
        engine.replay(run.id, from_step="charge")
        wait_for(engine, run, "waiting")
    with Engine(database, clock=clock, workflows=[flow]) as engine:
        engine.signal(run.id, "go")
        engine.run(run.id).result(timeout=20)

    assert of("ship") == [f"{run.id}:ship", f"{run.id}:ship~2"]


def test_a_fork_of_a_saga_that_was_undone_pays_itself(engine):
    run = failed(engine, paid_and_shipped)
    fork = engine.fork(run.id, from_step="ship")
    assert fork.result(timeout=20)[0] == "charge"

    assert of("charge") == [f"{run.id}:charge", f"{fork.id}:charge"]


def test_a_fork_of_a_replayed_run_has_the_history_that_counts(engine):
    @workflow(name="replayed, then forked")
    async def flow() -> list:
        try:
            way = await ship()
        except StepFailed:
            way = "no ship"
        return [await charge(), way, await pack()]

    broken.add("ship")
    run = engine.start(flow)
    assert run.result(timeout=20) == ["charge", "no ship", "pack"]
    broken.clear()
    engine.replay(run.id)
    assert run.result(timeout=20) == ["charge", "ship", "pack"]

    keys.clear()
    fork = engine.fork(run.id, from_step="pack")
    assert fork.result(timeout=20)[0::2] == ["charge", "pack"]
    assert of("charge") == []


def test_a_signal_that_a_replayed_run_sends_again_arrives(engine):
    @workflow(name="hears")
    async def hears() -> list:
        return [await holdfast.wait_signal("news"), await holdfast.wait_signal("news")]

    @workflow(name="tells")
    async def tells() -> None:
        await pack()
        child = await holdfast.start(hears, on_parent_end="leave", id="listener")
        await child.signal("news", "told")

    run = engine.start(tells)
    run.result(timeout=20)
    engine.replay(run.id, from_step="send news")
    run.result(timeout=20)

    assert engine.run("listener").result(timeout=20) == ["told", "told"]


@task(name="a leased payment")
def payment() -> None: ...


def test_a_leased_task_that_completed_and_is_replayed_has_a_new_key(idle):
    run = idle.start(payment)
    with idle.tasks.worker(workflows=[payment.name]) as leases:
        (lease,) = leases.claim()
        first = fence(lease).key
        lease.complete(None)
        idle.replay(run.id)
        (lease,) = leases.claim()
        second = fence(lease).key
        assert idle.tasks.lease(lease.proof).idempotency_key == second
        lease.fail("permanent", "no")
        idle.replay(run.id)
        (lease,) = leases.claim()
        assert fence(lease).key == second
        lease.complete(None)

    assert (first, second) == (run.id, f"{run.id}~2")
