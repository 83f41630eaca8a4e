"""Replay: what stays the same, what new code may change, and what happens when it changes too
much."""

from __future__ import annotations

import pytest

import holdfast
from holdfast import Engine, step, wait_signal, workflow
from holdfast.errors import RunStuck
from holdfast.versions import patched, version
from tests.engine.waiting import wait_for

calls: list[str] = []


@pytest.fixture(autouse=True)
def _no_calls():
    calls.clear()


@step
async def a() -> str:
    calls.append("a")
    return "a"


@step
async def b() -> str:
    calls.append("b")
    return "b"


@step
async def c() -> str:
    calls.append("c")
    return "c"


def first_half(database, clock, flow, *args):
    """Run until the workflow waits, then end the process, so to speak."""
    with Engine(database, clock=clock, workflows=[flow]) as engine:
        run = engine.start(flow, *args)
        wait_for(engine, run, "waiting")
    return run.id


def second_half(database, clock, flow, run_id):
    with Engine(database, clock=clock, workflows=[flow]) as engine:
        engine.signal(run_id, "go")
        return engine.run(run_id).result(timeout=20)


def test_time_and_dice_replay_the_same(database, clock):
    seen = []

    @workflow
    async def flow() -> list:
        await a()
        values = [
            holdfast.now().isoformat(),
            holdfast.deterministic.random(),
            str(holdfast.deterministic.uuid()),
            holdfast.deterministic.random(),
        ]
        seen.append(values)
        await wait_signal("go")
        return values

    run_id = first_half(database, clock, flow)
    clock.advance("1d")
    assert second_half(database, clock, flow, run_id) == seen[0]
    assert seen[0] == seen[1] and seen[0][1] != seen[0][3]
    assert calls == ["a"]


def test_a_step_that_was_added_before_a_recorded_one_does_no_harm(database, clock):
    @workflow(name="flow")
    async def old() -> list:
        return [await a(), await b(), await wait_signal("go")]

    @workflow(name="flow")
    async def new() -> list:
        return [await a(), await c(), await b(), await wait_signal("go")]

    run_id = first_half(database, clock, old)
    assert second_half(database, clock, new, run_id) == ["a", "c", "b", None]
    assert calls == ["a", "b", "c"]


def test_code_that_diverged_is_stuck_until_it_is_mended(database, clock):
    @workflow(name="flow")
    async def old() -> list:
        return [await a(), await b(), await wait_signal("go")]

    @workflow(name="flow")
    async def renamed() -> list:
        return [await a(), await c(), await wait_signal("go")]

    run_id = first_half(database, clock, old)
    with pytest.raises(RunStuck, match="no longer matches") as stuck:
        second_half(database, clock, renamed, run_id)
    facts = stuck.value.error["facts"]
    assert facts["step"] == "b" and "b" in facts["recorded"] and "c" in facts["wanted"]
    assert "test_replay.py:" in facts["where"] and "renamed" in facts["where"]
    assert calls == ["a", "b"]

    with Engine(database, clock=clock, workflows=[old]) as engine:
        engine.resume(run_id)
        assert engine.run(run_id).result(timeout=20) == ["a", "b", None]
    assert calls == ["a", "b"]


def test_a_step_that_became_something_else_diverges(database, clock):
    @step(name="thing")
    async def thing() -> str:
        return "x"

    @workflow(name="flow")
    async def old() -> list:
        return [await thing(), await wait_signal("go")]

    @workflow(name="thing")
    async def thing_child() -> str:
        return "y"

    @workflow(name="flow")
    async def new() -> list:
        await holdfast.start(thing_child)
        return [await wait_signal("go")]

    run_id = first_half(database, clock, old)
    with pytest.raises(RunStuck):
        second_half(database, clock, new, run_id)


def test_patched_tells_old_runs_from_new_ones(database, clock):
    @workflow(name="flow")
    async def old() -> str:
        await a()
        await wait_signal("go")
        return "old"

    @workflow(name="flow")
    async def new() -> str:
        await a()
        way = "new" if patched("better") else "old"
        await wait_signal("go")
        assert patched("better") == (way == "new")
        return way

    old_run = first_half(database, clock, old)
    new_run = first_half(database, clock, new)
    assert second_half(database, clock, new, old_run) == "old"
    assert second_half(database, clock, new, new_run) == "new"


def test_version_stays_what_it_was(database, clock):
    @workflow(name="flow")
    async def one() -> int:
        number = version("part", 1)
        await wait_signal("go")
        return number

    @workflow(name="flow")
    async def two() -> int:
        number = version("part", 2)
        await wait_signal("go")
        return number

    run_id = first_half(database, clock, one)
    assert second_half(database, clock, two, run_id) == 1
    assert second_half(database, clock, two, first_half(database, clock, two)) == 2


def test_the_order_in_which_branches_finished_is_history(database, clock):
    orders = []

    @workflow
    async def flow() -> list:
        order = []

        async def branch(name: str) -> None:
            await wait_signal(name)
            order.append(name)

        await holdfast.gather(branch("x"), branch("y"), branch("z"))
        orders.append(list(order))
        await wait_signal("go")
        return order

    with Engine(database, clock=clock, workflows=[flow]) as engine:
        run = engine.start(flow)
        wait_for(engine, run, "waiting")
        for name in "yzx":
            engine.signal(run.id, name)
        from tests.engine.waiting import wait_until

        wait_until(engine, lambda: bool(orders) and run.status == "waiting")
    assert second_half(database, clock, flow, run.id) == ["y", "z", "x"]
    assert orders == [["y", "z", "x"]] * 2


def test_malformed_stored_input_is_stuck_not_lost(database, clock):
    @workflow(name="flow")
    async def old(n: int) -> None:
        await wait_signal("go")

    @workflow(name="flow")
    async def new(n: int, m: dict) -> None:
        await wait_signal("go")

    run_id = first_half(database, clock, old, 1)
    with pytest.raises(RunStuck, match=r"flow|new"):
        second_half(database, clock, new, run_id)
    with Engine(database, clock=clock, workflows=[old]) as engine:
        engine.resume(run_id)
        assert engine.run(run_id).result(timeout=20) is None


def test_leaving_memory_runs_finally_blocks_but_records_nothing(database, clock):
    @workflow
    async def flow() -> str:
        try:
            await wait_signal("go")
        finally:
            await a()
        return "done"

    run_id = first_half(database, clock, flow)
    assert calls == []
    assert second_half(database, clock, flow, run_id) == "done"
    assert calls == ["a"]


def test_a_blocking_workflow_replays_too(database, clock):
    @workflow
    def flow() -> list:
        got = [a.sync(), b.sync()]
        holdfast.sync.wait_signal("go")
        return [*got, holdfast.deterministic.random(), c.sync()]

    run_id = first_half(database, clock, flow)
    result = second_half(database, clock, flow, run_id)
    assert result[:2] == ["a", "b"] and result[3] == "c"
    assert calls == ["a", "b", "c"]
