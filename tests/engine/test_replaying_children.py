"""A run that is replayed takes along its children that did not complete."""

from __future__ import annotations

import pytest

import holdfast
from holdfast import Engine, compensate, first, gather, start, step, sync, wait_signal, workflow
from holdfast.codecs import Encrypted
from holdfast.core.status import Status
from holdfast.errors import RunChanged, RunFailed
from holdfast.service.replay import plan_replay
from holdfast.service.requests import Request
from holdfast.testing import internals
from tests.engine.waiting import wait_for, wait_until

calls: list[str] = []
broken: set[str] = set()


@pytest.fixture(autouse=True)
def _calm():
    calls.clear()
    broken.clear()


@step
async def do(name: str) -> str:
    calls.append(name)
    if name in broken:
        raise ValueError(f"{name} is broken")
    return name


@step
async def undo(name: str) -> None:
    calls.append(f"undo {name}")


@workflow
async def leaf(name: str) -> str:
    return await do(name)


@workflow
async def branch(name: str) -> list:
    return [await do("branch"), await leaf(name)]


@workflow
async def caller(name: str) -> list:
    return [await do("before"), await leaf(name), await do("after")]


@workflow
def blocking_caller(name: str) -> list:
    return [do.sync("before"), leaf(name), do.sync("after")]


@workflow
async def grandparent(name: str) -> list:
    return await branch(name)


@workflow
async def mapper(names: list) -> list:
    return await holdfast.map(leaf, names)


@workflow
async def narrow_mapper(names: list) -> list:
    return await holdfast.map(leaf, names, max_parallel=1)


@workflow
async def collector(names: list) -> list:
    ends = await holdfast.map(leaf, names, on_error="collect")
    await do("collected")
    return [str(end) for end in ends]


@workflow
def blocking_mapper(names: list) -> list:
    return sync.map(leaf, names)


@workflow
async def saga_of_children(name: str) -> list:
    await do("booking")
    compensate(undo, "booking")
    return [await leaf("good"), *await holdfast.map(leaf, ["x", name])]


@workflow
async def answered_child() -> str:
    return await wait_signal("go", type=str)


def failed(engine, flow, *args):
    run = engine.start(flow, *args)
    with pytest.raises(RunFailed):
        run.result(timeout=20)
    settled(engine, run)
    return run


def settled(engine, run) -> None:
    """Wait until all children of a run have ended."""
    wait_until(
        engine,
        lambda: all(child.finished_at for child in internals(engine).store.children.all(run.id)),
    )


def replayed(engine, run, **options):
    broken.clear()
    engine.replay(run.id, **options)
    result = run.result(timeout=20)
    assert engine.database.check() == []
    return result


def children(engine, run) -> list:
    return internals(engine).store.children.all(run.id)


@pytest.mark.parametrize("flow", [caller, blocking_caller])
def test_a_failed_child_is_replayed_with_its_parent(engine, flow):
    broken.add("child")
    run = failed(engine, flow, "child")
    assert replayed(engine, run) == ["before", "child", "after"]
    assert calls == ["before", "child", "child", "after"]
    (child,) = children(engine, run)
    (event,) = [event for event in run.history() if event.kind == "run_replayed"]
    assert event.data["children"] == [child.id]


def test_failed_children_of_children_are_replayed_too(engine):
    broken.add("leaf")
    run = failed(engine, grandparent, "leaf")
    assert replayed(engine, run) == ["branch", "leaf"]
    assert calls == ["branch", "leaf", "leaf"]


@pytest.mark.parametrize("flow", [mapper, blocking_mapper, narrow_mapper])
def test_a_failed_map_repeats_only_what_did_not_complete(engine, flow):
    broken.add("b")
    run = failed(engine, flow, ["a", "b", "c"])
    assert replayed(engine, run) == ["a", "b", "c"]
    assert calls.count("b") == 2
    assert len(children(engine, run)) == 3


def test_a_map_that_tolerated_failures_is_repeated_where_it_failed(engine):
    broken.update({"b", "collected"})
    run = failed(engine, collector, ["a", "b"])
    assert replayed(engine, run) == ["a", "b"]
    assert sorted(calls) == ["a", "b", "b", "collected", "collected"]


def test_a_saga_that_was_undone_starts_new_children(engine):
    broken.add("bad")
    run = failed(engine, saga_of_children, "bad")
    old = {child.id for child in children(engine, run)}
    assert replayed(engine, run) == ["good", "x", "bad"]
    new = [child for child in children(engine, run) if child.id not in old]
    assert len(new) == 3 and {child.status for child in new} == {"completed"}
    assert (
        calls.count("booking") == 2
        and calls.count("undo booking") == 1
        and calls.count("good") == 2
    )


@pytest.mark.parametrize("flow", [caller, blocking_caller])
def test_a_replay_from_the_start_of_a_child_starts_another_one(engine, flow):
    run = engine.start(flow, "child")
    run.result(timeout=20)
    for _ in range(2):
        assert replayed(engine, run, from_step="run leaf") == ["before", "child", "after"]
    assert calls == ["before", *["child", "after"] * 3]
    assert len({child.parent_step for child in children(engine, run)}) == 3


@pytest.mark.parametrize("flow", [mapper, narrow_mapper])
def test_a_replay_from_a_map_starts_it_again(engine, flow):
    run = engine.start(flow, ["a", "b"])
    run.result(timeout=20)
    assert replayed(engine, run, from_step="map leaf") == ["a", "b"]
    assert sorted(calls) == ["a", "a", "b", "b"]


@workflow
async def chooser() -> str:
    child = await start(leaf, "mine", id="chosen")
    return await child.result()


@pytest.mark.parametrize("from_step", [None, "run leaf"])
def test_a_child_with_a_chosen_id_is_found_again_and_replayed(engine, from_step):
    broken.add("mine")
    run = failed(engine, chooser)
    assert replayed(engine, run, from_step=from_step) == "mine"
    assert calls == ["mine", "mine"] and [child.id for child in children(engine, run)] == ["chosen"]


@workflow
async def racer() -> list:
    quick = await first(leaf("quick"), answered_child())
    return [quick, await do("last")]


def test_a_child_that_lost_a_race_before_the_failure_stays_cancelled(engine):
    broken.add("last")
    run = failed(engine, racer)
    assert replayed(engine, run)[1] == "last"
    assert {child.parent_step.split("/")[-1]: child.status for child in children(engine, run)} == {
        "run leaf": "completed",
        "run answered_child": "cancelled",
    }


@workflow
async def pair() -> list:
    return list(await gather(answered_child(), do("fickle")))


def test_a_child_that_was_dropped_because_of_the_failure_is_replayed(engine):
    broken.add("fickle")
    run = failed(engine, pair)
    broken.clear()
    engine.replay(run.id)
    (child,) = children(engine, run)
    engine.signal(child.id, "go", "on")
    assert run.result(timeout=20) == ["on", "fickle"]


@workflow
async def canceller() -> str:
    child = await start(answered_child)
    await child.cancel()
    return await do("last")


@workflow
async def leaver() -> str:
    child = await start(leaf, "left", on_parent_end="leave")
    await do(child.id)
    return await do("last")


@pytest.mark.parametrize("flow", [canceller, leaver])
def test_a_child_that_the_run_does_without_stays_as_it_is(engine, flow):
    broken.update({"last", "left"})
    run = failed(engine, flow)
    (before,) = children(engine, run)
    assert replayed(engine, run) == "last"
    assert children(engine, run) == [before]


def test_children_of_a_run_that_was_cancelled_go_on_with_it(engine):
    @workflow(name="waits for its child")
    async def flow() -> str:
        return await answered_child()

    run = engine.start(flow)
    wait_for(engine, run, "waiting")
    (child,) = children(engine, run)
    engine.cancel(run.id)
    wait_until(engine, lambda: run.status == "cancelled")
    settled(engine, run)
    engine.replay(run.id)
    engine.signal(child.id, "go", "on")
    assert run.result(timeout=20) == "on"


def test_a_history_that_grew_since_the_replay_was_planned_refuses_it(engine):
    broken.add("child")
    run = failed(engine, caller, "child")
    (child,) = children(engine, run)
    plan = plan_replay(internals(engine).store, run.id)
    engine.replay(child.id)
    wait_until(engine, lambda: engine.run(child.id).status == "failed")
    with pytest.raises(
        RunChanged
    ) as refused:  # the history of the child has grown since the plan was made
        internals(engine).commit(Request(plan, Status))
    assert refused.value.facts["run"] == child.id
    assert run.status == "failed" and engine.run(child.id).status == "failed"
    assert replayed(engine, run) == ["before", "child", "after"]


def test_a_child_that_is_at_work_again_is_waited_for(engine):
    broken.add("child")
    run = failed(engine, caller, "child")
    (child,) = children(engine, run)
    broken.clear()
    engine.replay(child.id)
    assert engine.run(child.id).result(timeout=20) == "child"
    assert replayed(engine, run) == ["before", "child", "after"]
    assert calls == ["before", "child", "child", "after"]


@workflow
async def impatient() -> str:
    try:
        async with holdfast.timeout("10ms"):
            await answered_child()
    except TimeoutError:
        raise ValueError("nobody has answered") from None
    return "answered"


def test_a_child_that_was_too_late_stays_cancelled(engine):
    run = failed(engine, impatient)
    (before,) = children(engine, run)
    engine.replay(run.id)
    with pytest.raises(RunFailed):  # the timer has fired, and that stands
        run.result(timeout=20)
    assert children(engine, run) == [before]


@pytest.mark.parametrize(
    ("flow", "args"), [(caller, "bad"), (mapper, ["a", "bad"])], ids=["child", "map"]
)
def test_children_with_encrypted_values_are_replayed_too(database, flow, args):
    broken.add("bad")
    with Engine(
        database, codec=Encrypted({"k1": b"k" * 32}, current="k1"), shutdown_timeout=1
    ) as engine:
        run = failed(engine, flow, args)
        assert "bad" in replayed(engine, run)


# Forks


@workflow
async def starter(name: str) -> list:
    child = await start(leaf, name)
    return [await do("between"), await child.result()]


@pytest.mark.parametrize("from_step", ["run leaf", "run leaf end"])
def test_a_fork_starts_a_failed_child_again(engine, from_step):
    broken.add("child")
    run = failed(engine, caller, "child")
    broken.clear()
    fork = engine.fork(run.id, from_step=from_step)
    assert fork.result(timeout=20) == ["before", "child", "after"]
    assert calls == ["before", "child", "child", "after"]
    assert [child.status for child in children(engine, run)] == ["failed"]


@pytest.mark.parametrize(
    ("is_broken", "times"), [(True, 2), (False, 1)], ids=["failed", "completed"]
)
def test_a_fork_takes_over_the_result_of_a_child_that_completed(engine, is_broken, times):
    if is_broken:
        broken.add("child")
    run = engine.start(starter, "child")
    wait_until(engine, lambda: run.status in ("completed", "failed"))
    settled(engine, run)
    broken.clear()
    fork = engine.fork(run.id, from_step="do")
    assert fork.result(timeout=20) == ["between", "child"]
    assert calls.count("child") == times


@workflow
async def beside_a_map(names: list) -> list:
    return list(await gather(holdfast.map(leaf, names), do("beside")))


def test_a_fork_starts_a_map_again_that_had_not_ended(engine):
    broken.add("beside")
    run = failed(engine, beside_a_map, ["a", "b"])
    broken.clear()
    steps = [event.step for event in run.history() if event.kind == "step_failed"]
    fork = engine.fork(run.id, from_step=steps[0])
    assert fork.result(timeout=20) == [["a", "b"], "beside"]
