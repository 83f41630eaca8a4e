"""Code that leaves recorded outcomes behind: the run is stuck before anything new is done, and goes
on with code that fits."""

from __future__ import annotations

import asyncio
import threading
from functools import partial

import pytest

import holdfast
from holdfast import Engine, compensate, gather, sleep, step, wait_signal, workflow
from holdfast.errors import RunFailed, RunStuck
from tests.engine import helpers
from tests.engine.waiting import wait_for, wait_until

calls: list[str] = []
flags: dict[str, bool] = {}
begun = threading.Event()
broken = threading.Event()


@pytest.fixture(autouse=True)
def _calm():
    calls.clear()
    flags.clear()
    begun.clear()
    broken.clear()


@step
async def charge(n: int = 1) -> str:
    calls.append(f"charge {n}")
    return f"paid {n}"


@step
async def check() -> str:
    calls.append("check")
    return "checked"


@step
async def ship() -> str:
    calls.append("ship")
    return "shipped"


@step
async def refund() -> None:
    calls.append("refund")


def stop_at_wait(database, clock, flow) -> str:
    """Run until the workflow waits, then end the process, so to speak."""
    with Engine(database, clock=clock, workflows=[flow]) as engine:
        run = engine.start(flow)
        wait_for(engine, run, "waiting")
    return run.id


def go_on(database, clock, flow, run_id):
    with Engine(database, clock=clock, workflows=[flow]) as engine:
        engine.signal(run_id, "go")
        return engine.run(run_id).result(timeout=20)


def diverges(database, clock, flow, run_id, step_id) -> dict:
    done = list(calls)
    with pytest.raises(RunStuck, match="no longer matches") as stuck:
        go_on(database, clock, flow, run_id)
    assert calls == done
    facts = stuck.value.error["facts"]
    assert facts["step"] == step_id
    return facts


def test_a_flag_that_flips_skips_no_recorded_step(database, clock):
    @workflow
    async def flow() -> list:
        done = [] if flags.get("free") else [await charge()]
        await wait_signal("go")
        return [*done, await ship()]

    run_id = stop_at_wait(database, clock, flow)
    flags["free"] = True
    facts = diverges(database, clock, flow, run_id, "charge")
    assert facts["wanted"] == "RunStep ship" and "test_divergence.py" in facts["where"]

    flags.clear()
    with Engine(database, clock=clock, workflows=[flow]) as engine:
        engine.resume(run_id)
        assert engine.run(run_id).result(timeout=20) == ["paid 1", "shipped"]


def test_a_flag_that_flips_in_a_blocking_workflow_skips_no_recorded_step(database, clock):
    @workflow
    def flow() -> list:
        done = [] if flags.get("free") else [charge.sync()]
        holdfast.sync.wait_signal("go")
        return [*done, ship.sync()]

    run_id = stop_at_wait(database, clock, flow)
    flags["free"] = True
    diverges(database, clock, flow, run_id, "charge")


@pytest.mark.parametrize("colour", ["async", "blocking"])
def test_one_call_of_three_that_is_gone_diverges(database, clock, colour):
    flags["three"] = True

    if colour == "async":

        @workflow
        async def flow() -> list:
            done = [await charge(n) for n in range(3 if flags["three"] else 2)]
            await wait_signal("go")
            return done
    else:

        @workflow
        def flow() -> list:
            done = [charge.sync(n) for n in range(3 if flags["three"] else 2)]
            holdfast.sync.wait_signal("go")
            return done

    run_id = stop_at_wait(database, clock, flow)
    flags["three"] = False
    facts = diverges(database, clock, flow, run_id, "charge#3")
    assert facts["wanted"] == "the end of the run: completed"


@pytest.fixture
def many_threads():
    """A process with more threads than the code analysis would visit."""
    over = threading.Event()
    threads = [threading.Thread(target=over.wait, daemon=True) for _ in range(120)]
    for thread in threads:
        thread.start()
    yield
    over.set()
    for thread in threads:
        thread.join()


@pytest.mark.parametrize("colour", ["async", "blocking"])
def test_the_step_that_was_running_does_not_run_after_a_skipped_one(database, colour, many_threads):
    """Nothing was recorded after the skipped step: only the code shows that it cannot come to it
    any more."""
    stopped = threading.Event()

    @step
    async def slow() -> str:
        calls.append("slow")
        begun.set()
        if not stopped.is_set():
            await asyncio.Event().wait()
        return "slow"

    if colour == "async":

        @workflow
        async def flow() -> list:
            done = [] if flags.get("free") else [await charge()]
            return [*done, await slow()]
    else:

        @workflow
        def flow() -> list:
            done = [] if flags.get("free") else [charge.sync()]
            return [*done, slow.sync()]

    with Engine(database, shutdown_timeout=0, workflows=[flow]) as engine:
        run = engine.start(flow)
        assert begun.wait(20)
    stopped.set()
    flags["free"] = True
    with Engine(database, workflows=[flow]) as engine, pytest.raises(RunStuck):
        engine.run(run.id).result(timeout=20)
    assert calls == ["charge 1", "slow"]

    flags.clear()
    with Engine(database, workflows=[flow]) as engine:
        engine.resume(run.id)
        assert engine.run(run.id).result(timeout=20) == ["paid 1", "slow"]


def test_a_workflow_that_fails_without_a_recorded_step_does_not_compensate(database, clock):
    @workflow
    async def flow() -> None:
        await check()
        compensate(refund)
        if flags.get("fails"):
            raise ValueError("changed")
        await charge()
        await wait_signal("go")

    run_id = stop_at_wait(database, clock, flow)
    flags["fails"] = True
    facts = diverges(database, clock, flow, run_id, "charge")
    assert facts["wanted"] == "RunStep undo refund"


def test_a_workflow_that_fails_without_a_recorded_step_says_why(database, clock):
    @workflow
    async def flow() -> None:
        if flags.get("fails"):
            raise ValueError("changed")
        await charge()
        await wait_signal("go")

    run_id = stop_at_wait(database, clock, flow)
    flags["fails"] = True
    facts = diverges(database, clock, flow, run_id, "charge")
    assert facts["wanted"] == "the end of the run: failed, ValueError: changed"


def test_what_is_no_step_is_not_left_behind_either(database, clock):
    @workflow
    async def flow() -> str:
        if not flags.get("hurry"):
            await wait_signal("ready")
        await wait_signal("go")
        return await ship()

    with Engine(database, clock=clock, workflows=[flow]) as engine:
        run = engine.start(flow)
        run.signal("ready")
        wait_for(engine, run, "waiting")
    flags["hurry"] = True
    diverges(database, clock, flow, run.id, "signal ready")


def test_several_steps_may_be_added_before_a_recorded_one(database, clock):
    @workflow
    async def flow() -> list:
        more = [await check(), await ship(), await check()] if flags.get("more") else []
        done = [await charge()]
        await wait_signal("go")
        return [*more, *done]

    run_id = stop_at_wait(database, clock, flow)
    flags["more"] = True
    assert go_on(database, clock, flow, run_id) == ["checked", "shipped", "checked", "paid 1"]
    assert calls == ["charge 1", "check", "ship", "check"]


def test_steps_that_are_called_through_a_variable_may_be_preceded_by_others(database, clock):
    @workflow
    async def flow() -> list:
        plan = [check, charge] if flags.get("more") else [charge]
        done = [await call() for call in plan]
        await wait_signal("go")
        return done

    run_id = stop_at_wait(database, clock, flow)
    flags["more"] = True
    assert go_on(database, clock, flow, run_id) == ["checked", "paid 1"]


def test_a_branch_that_is_slower_than_before_still_gets_what_it_recorded(database, clock):
    async def pay() -> str:
        if flags.get("more"):
            await sleep("1s")
            await check()
        return await charge()

    async def pack() -> str:
        return await ship()

    @workflow
    async def flow() -> list:
        done = await gather(pay(), pack())
        await wait_signal("go")
        return list(done)

    run_id = stop_at_wait(database, clock, flow)
    flags["more"] = True
    with Engine(database, clock=clock, workflows=[flow]) as engine:
        engine.signal(run_id, "go")
        run = engine.run(run_id)
        wait_for(engine, run, "waiting")
        clock.advance("1s")
        assert run.result(timeout=20) == ["paid 1", "shipped"]
    assert calls == ["charge 1", "ship", "check"]


def test_a_replay_may_take_another_way_than_the_failure_that_it_repeats(database, clock):
    @step
    async def fetch() -> str:
        if not flags.get("mended"):
            raise ValueError("broken")
        return "fetched"

    @step
    async def deliver() -> str:
        if not flags.get("mended"):
            raise ValueError("broken")
        return "delivered"

    @workflow
    async def flow() -> list:
        try:
            way = await fetch()
        except holdfast.StepFailed:
            way = await check()
        return [way, await deliver()]

    with Engine(database, clock=clock, workflows=[flow]) as engine:
        run = engine.start(flow)
        with pytest.raises(RunFailed):
            run.result(timeout=20)
        flags["mended"] = True
        engine.replay(run.id)
        assert run.result(timeout=20) == ["fetched", "delivered"]


async def enter_courier() -> str:
    async with helpers.Courier() as delivered:
        return delivered


async def import_within() -> str:
    from tests.engine.helpers import deliver

    return await deliver()


async def with_a_chosen_id() -> str:
    return await helpers.deliver.options(id=f"deliver {len('x')}")()


async def made_before_it_is_awaited() -> str:
    call = helpers.deliver()
    if flags.get("more"):
        await check()
    return await call


TABLE = {"deliver": helpers.deliver}
ROUNDABOUT = {
    "a function of another module": helpers.deliver_it,
    "a method": lambda: helpers.Courier().bring(),
    "a class": lambda: helpers.Desk.hand_over(),
    "a table": lambda: TABLE["deliver"](),
    "a partial": lambda: partial(helpers.deliver)(),
    "a context manager": enter_courier,
    "an import": import_within,
    "a chosen id": with_a_chosen_id,
    "getattr": lambda: getattr(helpers, "".join(["deli", "ver"]))(),
    "a coroutine": made_before_it_is_awaited,
}


@pytest.mark.parametrize("way", ROUNDABOUT)
def test_a_step_may_be_added_before_one_that_is_called_in_a_roundabout_way(database, clock, way):
    call = ROUNDABOUT[way]

    @workflow
    async def flow() -> list:
        more = [await check()] if flags.get("more") else []
        done = [await call()]
        await wait_signal("go")
        return [*more, *done]

    run_id = stop_at_wait(database, clock, flow)
    flags["more"] = True
    assert go_on(database, clock, flow, run_id) == ["checked", "delivered"]


def test_a_step_may_be_added_before_one_whose_name_has_slashes(database, clock):
    bill = step(name="billing/charge")(charge.fn)

    @workflow
    async def flow() -> list:
        more = [await check()] if flags.get("more") else []
        done = [await bill()]
        await wait_signal("go")
        return [*more, *done]

    run_id = stop_at_wait(database, clock, flow)
    flags["more"] = True
    assert go_on(database, clock, flow, run_id) == ["checked", "paid 1"]


@workflow
async def old_child(n: int) -> str:
    return await charge(n)


@workflow
async def new_child(n: int) -> str:
    return await check()


async def call_old_child() -> object:
    return await old_child(1)


async def call_new_child() -> object:
    return await new_child(1)


async def map_old_child() -> object:
    return await holdfast.map(old_child, [1, 2])


async def map_new_child() -> object:
    return await holdfast.map(new_child, [1, 2])


async def nap() -> object:
    return await sleep("1s")


async def call_check() -> object:
    return await check()


CHANGES = {
    "another child": (call_old_child, call_new_child, "run old_child"),
    "a step for a child": (call_old_child, call_check, "run old_child"),
    "another map": (map_old_child, map_new_child, "map old_child"),
    "a step for a sleep": (nap, call_check, "sleep"),
}


def deployed(part):
    """Return the workflow with the code of one deployment."""

    async def body() -> object:
        result = await part()
        await wait_signal("go")
        return result

    return workflow(name="flow")(body)


@pytest.mark.parametrize("change", CHANGES)
def test_what_takes_the_place_of_something_recorded_is_not_begun(database, clock, change):
    before, after, step_id = CHANGES[change]
    flow = deployed(before)
    with Engine(database, clock=clock, workflows=[flow, old_child, new_child]) as engine:
        run = engine.start(flow)
        wait_for(engine, run, "waiting")
        clock.advance("1s")
        wait_until(engine, lambda: waits_for_go(run))
    done = list(calls)

    flow = deployed(after)
    with Engine(database, clock=clock, workflows=[flow, old_child, new_child]) as engine:
        engine.signal(run.id, "go")
        with pytest.raises(RunStuck) as stuck:
            engine.run(run.id).result(timeout=20)

    assert stuck.value.error["facts"]["step"] == step_id
    assert calls == done


def waits_for_go(run) -> bool:
    return any(event.kind == "signal_awaited" for event in run.history())


@pytest.mark.parametrize("items", [1, 3])
@pytest.mark.parametrize("colour", ["async", "blocking"])
def test_a_map_of_another_number_of_children_diverges(database, clock, items, colour):
    flags["items"] = 2

    if colour == "async":

        @workflow
        async def flow() -> list:
            done = await holdfast.map(old_child, range(flags["items"]))
            await wait_signal("go")
            return done
    else:

        @workflow
        def flow() -> list:
            done = holdfast.sync.map(old_child, range(flags["items"]))
            holdfast.sync.wait_signal("go")
            return done

    with Engine(database, clock=clock, workflows=[flow, old_child]) as engine:
        run = engine.start(flow)
        wait_until(engine, lambda: waits_for_go(run))
    flags["items"] = items
    with Engine(database, clock=clock, workflows=[flow, old_child]) as engine:
        engine.signal(run.id, "go")
        with pytest.raises(RunStuck) as stuck:
            engine.run(run.id).result(timeout=20)
    assert stuck.value.error["facts"]["step"] == "map old_child"
    assert f"of {items} items" in stuck.value.error["facts"]["wanted"]
