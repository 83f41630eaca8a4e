"""Parallel work: gather, map, children."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import pytest

import holdfast
from holdfast import Engine, gather, step, wait_signal, workflow
from holdfast.errors import BadOption, ChildFailed, RunFailed, StepFailed
from tests.engine.waiting import wait_for, wait_until


@step
async def double(n: int) -> int:
    if n < 0:
        raise holdfast.Fail(f"{n} is negative")
    return 2 * n


@workflow
async def doubled(n: int) -> int:
    return await double(n)


@workflow
async def hearing(name: str) -> object:
    return await wait_signal(name)


def test_gather_runs_side_by_side_and_keeps_the_order(engine):
    meeting = threading.Barrier(2, timeout=20)

    @step
    def meet(n: int) -> int:
        meeting.wait()
        return n

    @workflow
    async def pair() -> list:
        return await gather(meet(1), meet(2))

    @workflow
    def blocking_pair() -> list:
        return holdfast.sync.gather(lambda: meet(1), lambda: meet(2))

    assert engine.start(pair).result(timeout=20) == [1, 2]
    assert engine.start(blocking_pair).result(timeout=20) == [1, 2]


def test_asyncio_itself_works_in_a_workflow(engine):
    @workflow
    async def native() -> list:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(double(n)) for n in range(3)]
        more = await asyncio.gather(double(5), double(6))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(wait_signal("never"), 0.01)
        return [task.result() for task in tasks] + more

    assert engine.start(native).result(timeout=20) == [0, 2, 4, 10, 12]


@pytest.mark.parametrize("target", [double, doubled])
@pytest.mark.parametrize("max_parallel", [None, 1, 3])
def test_map_keeps_the_order(engine, target, max_parallel):
    @workflow
    async def mapped() -> list:
        return await holdfast.map(target, range(10), max_parallel=max_parallel)

    @workflow
    def blocking_mapped() -> list:
        return holdfast.sync.map(target, range(10), max_parallel=max_parallel)

    assert engine.start(mapped).result(timeout=30) == [2 * n for n in range(10)]
    assert engine.start(blocking_mapped).result(timeout=30) == [2 * n for n in range(10)]


@pytest.mark.parametrize("target", [double, doubled])
def test_map_fails_fast_or_collects(engine, target):
    @workflow
    async def strict() -> list:
        return await holdfast.map(target, [1, -1, 2])

    @workflow
    async def lenient() -> list:
        results = await holdfast.map(target, [1, -1, 2], on_error="collect")
        return [
            type(result).__name__ if isinstance(result, Exception) else result for result in results
        ]

    @workflow
    async def at_least(n: int) -> int:
        return len(await holdfast.map(target, [1, -1, 2], min_success=n))

    failure = StepFailed if target is double else ChildFailed
    with pytest.raises(RunFailed, match=r"^Fail: -1 is negative \(in step double"):
        engine.start(strict).result(timeout=20)
    assert engine.start(lenient).result(timeout=20) == [2, failure.__name__, 4]
    assert engine.start(at_least, 2).result(timeout=20) == 3
    with pytest.raises(RunFailed, match="TooManyFailures"):
        engine.start(at_least, 3).result(timeout=20)


def test_map_refuses_options_that_make_no_sense(engine):
    @workflow
    async def silly(option: dict) -> None:
        await holdfast.map(doubled, [1], **option)

    for option in ({"max_parallel": 0}, {"on_error": "ignore"}, {"min_success": 2}, {"colour": 1}):
        with pytest.raises(RunFailed, match="BadOption"):
            engine.start(silly, option).result(timeout=20)


def test_ten_thousand_children_in_one_call(engine):
    @workflow
    async def child(n: int) -> int:
        return n

    @workflow
    async def many(n: int) -> int:
        return sum(await holdfast.map(child, range(n)))

    assert engine.start(many, 10_000).result(timeout=250) == sum(range(10_000))


def test_a_child_is_a_run_of_its_own(engine):
    @workflow
    async def parent() -> int:
        return await doubled(21)

    run = engine.start(parent)
    assert run.result(timeout=20) == 42
    (child,) = list(engine.runs(parent_id=run.id))
    assert (child.workflow, child.status, child.root_id) == ("doubled", "completed", run.id)


def test_a_failed_child_is_an_error_in_its_parent(engine):
    @workflow
    async def parent() -> str:
        try:
            await doubled(-1)
        except ChildFailed as error:
            return str(error.facts["message"])
        return ""

    assert "negative" in engine.start(parent).result(timeout=20)


def test_children_with_handles(engine):
    @workflow
    async def parent() -> list:
        handle = await holdfast.start(hearing, "word")
        await handle.signal("word", 5)
        return [await handle.result()]

    @workflow
    def blocking_parent() -> list:
        handle = holdfast.sync.start(hearing, "word")
        handle.signal("word", 5)
        return [handle.result()]

    assert engine.start(parent).result(timeout=20) == [5]
    assert engine.start(blocking_parent).result(timeout=20) == [5]


@pytest.mark.parametrize(("policy", "status"), [("cancel", "cancelled"), ("leave", "waiting")])
def test_a_parents_end_cancels_or_leaves_its_children(engine, policy, status):
    @workflow
    async def parent() -> str:
        handle = await holdfast.start(hearing, "word", on_parent_end=policy)
        return handle.id

    child = engine.run(engine.start(parent).result(timeout=20))
    wait_for(engine, child, status)
    if policy == "leave":
        child.signal("word", 1)
        assert child.result(timeout=20) == 1


def test_cancelling_a_parent_cancels_the_children_it_waits_for(engine):
    @workflow
    async def parent() -> None:
        await holdfast.map(hearing, ["a", "b"])

    run = engine.start(parent)
    wait_until(engine, lambda: engine.runs(parent_id=run.id).count() == 2)
    run.cancel("enough")
    with pytest.raises(holdfast.errors.RunCancelled):
        run.result(timeout=20)
    wait_until(
        engine,
        lambda: [child.status for child in engine.runs(parent_id=run.id)] == ["cancelled"] * 2,
    )


def test_the_losers_of_a_race_are_stopped(engine):
    stopped = threading.Event()

    @step
    async def for_ever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    @workflow
    async def race() -> int:
        return await holdfast.first(for_ever(), double(2), doubled_slowly())

    async def doubled_slowly() -> int:
        return await hearing("never")

    run = engine.start(race)
    assert run.result(timeout=20) == 4
    assert stopped.wait(20)
    wait_until(
        engine, lambda: all(child.status == "cancelled" for child in engine.runs(parent_id=run.id))
    )


def test_a_child_under_the_id_of_another_run_fails_its_parent(engine):
    engine.start(doubled, 1, id="taken").result(timeout=20)

    @workflow
    async def parent() -> None:
        await holdfast.start(doubled, 2, id="taken")

    with pytest.raises(RunFailed, match="RunExists"):
        engine.start(parent).result(timeout=20)


def test_unknown_child_options_are_refused(engine):
    @workflow
    async def parent() -> None:
        await holdfast.start(doubled, 2, on_parent_end="forget")

    with pytest.raises(RunFailed, match="on_parent_end"):
        engine.start(parent).result(timeout=20)
    with pytest.raises(BadOption):
        holdfast.step(3)


def test_a_step_that_takes_long_is_noted_and_so_is_that_nobody_needs_it_any_more(database, clock):
    began = threading.Event()

    @step
    async def for_ever() -> None:
        began.set()
        await asyncio.Event().wait()

    @workflow
    async def race() -> object:
        return await holdfast.first(for_ever(), wait_signal("go"))

    with Engine(database, clock=clock) as engine:
        run = engine.start(race)
        assert began.wait(20)
        clock.advance("2s")
        wait_until(engine, lambda: any(event.kind == "step_started" for event in run.history()))
        assert "for_ever" in str(run.why())
        run.signal("go", 1)
        assert run.result(timeout=20) == 1
        assert [event.kind for event in run.history() if event.step == "for_ever"] == [
            "step_started",
            "step_dropped",
        ]


@pytest.mark.parametrize("blocking", [False, True])
def test_a_child_that_ended_before_anybody_asked_is_not_waited_for_in_vain(engine, blocking):
    @workflow(name="late_parent")
    async def late() -> int:
        handle = await holdfast.start(doubled, 3)
        await wait_signal("go")
        return await handle.result()

    @workflow(name="late_parent")
    def late_blocking() -> int:
        handle = holdfast.sync.start(doubled, 3)
        holdfast.sync.wait_signal("go")
        return handle.result()

    run = engine.start(late_blocking if blocking else late)
    wait_until(
        engine, lambda: [child.status for child in engine.runs(parent_id=run.id)] == ["completed"]
    )
    run.signal("go")
    assert run.result(timeout=20) == 6


def test_what_a_step_says_about_its_failure_reaches_the_workflow(engine):
    @step
    async def declined() -> None:
        raise holdfast.Fail("declined", code=7)

    @workflow
    async def pay() -> object:
        try:
            await declined()
        except StepFailed as error:
            return error.facts["details"]["code"]

    assert engine.start(pay).result(timeout=20) == 7


@workflow
async def labelled(id: int, lane: str = "none") -> list[object]:
    return [id, lane]


def test_options_of_a_start_stand_apart_from_the_arguments(engine):
    @workflow
    async def options_apart() -> list[object]:
        called = await labelled.options(id="called", tags={"a": "b"})(1, lane="x")
        handle = await holdfast.start(labelled.options(id="started"), id=2)
        many = await holdfast.map(labelled.options(tags={"c": "d"}), [3])
        return [called, handle.id, await handle.result(), many]

    result = engine.start(options_apart).result(timeout=20)

    assert result == [[1, "x"], "started", [2, "none"], [[3, "none"]]]
    assert [run.id for run in engine.runs(tags={"a": "b"})] == ["called"]
    assert engine.runs(tags={"c": "d"}).count() == 1


def test_an_option_with_the_name_of_a_parameter_is_refused(engine):
    @workflow
    async def ambiguous(plain: bool) -> None:
        await holdfast.start(labelled, 1, lane="slow")

    with pytest.raises(RunFailed, match=r"BadOption: .*labelled\.options\("):
        engine.start(ambiguous, True).result(timeout=20)
    with pytest.raises(TypeError, match="colour"):
        labelled.options(colour="red")


def test_plain_functions_keep_options_apart_as_well(engine):
    @workflow
    def options_apart_plain() -> list[object]:
        called = labelled.options(id="called-plain")(1, lane="x")
        handle = holdfast.sync.start(labelled.options(id="started-plain"), id=2)
        return [called, handle.id, handle.result()]

    result = engine.start(options_apart_plain).result(timeout=20)

    assert result == [[1, "x"], "started-plain", [2, "none"]]
    assert engine.run("called-plain").status == "completed"


def test_an_engine_keeps_options_apart_as_well(engine):
    run = engine.start(labelled.options(id="apart"), id=4, lane="x")

    assert (run.id, run.result(timeout=20)) == ("apart", [4, "x"])
    with pytest.raises(BadOption, match="parameter of this name"):
        engine.start(labelled, id=4)
