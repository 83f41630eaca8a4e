"""Every shape a workflow can have, killed before and after each of its commits, and once more as a
zombie.

What holds for all of them is checked by ``crash_everywhere``; what a shape does to the world is
checked here.
"""

from __future__ import annotations

from collections import Counter
from contextlib import asynccontextmanager
from functools import partial

import pytest

import holdfast
from holdfast import (
    Fail,
    compensate,
    first,
    gather,
    map,
    sleep,
    start,
    step,
    sync,
    timeout,
    wait_signal,
    workflow,
)
from holdfast.engine.execution.pending import children
from holdfast.testing import crash_everywhere, internals
from holdfast.testing.recorder import RUN
from holdfast.versions import patched, version

world: Counter[str] = Counter()
"""What the steps have done to the world outside."""

everywhere = partial(crash_everywhere, setup=world.clear, doubles=3)


# Steps


@step
async def add(x: int, y: int) -> int:
    world[f"add {x} {y}"] += 1
    return x + y


@step
def double(x: int) -> int:
    world[f"double {x}"] += 1
    return 2 * x


@step(retries=4, delay="1s")
async def fickle(x: int) -> int:
    if holdfast.info().attempt < 3:
        raise ValueError("not yet")
    return x


@step(retries=4, delay="1s")
def moody(x: int) -> int:
    if holdfast.info().attempt < 3:
        raise ValueError("not yet")
    return x


@step
async def broken(x: int) -> int:
    raise Fail(f"{x} cannot be done")


@step
def fails_on_two(x: int) -> int:
    if x == 2:
        raise Fail("two is too many")
    return x


@step
async def book(what: str) -> str:
    world[f"book {what}"] += 1
    return f"{what} 1"


@step
async def unbook(what: str) -> None:
    world[f"unbook {what}"] += 1


@step
def release(what: str) -> None:
    world[f"release {what}"] += 1


@step(retries=5, delay="10s")
async def hardly_unbook(what: str) -> None:
    if holdfast.info().attempt < 3:
        raise ValueError("not yet")


@step
async def cannot_unbook(what: str) -> None:
    raise Fail(f"{what} stays booked")


@step(transactional=True)
def enter(amount: int) -> int:
    connection = holdfast.sql.connection()
    connection.execute("CREATE TABLE IF NOT EXISTS account (run TEXT, amount INTEGER)")
    connection.execute("INSERT INTO account VALUES (?, ?)", (holdfast.info().run_id, amount))
    return amount


# Children


@workflow
async def grow(x: int) -> int:
    return await add(x, 1) + await add(x, 2)


@workflow
def grow_blocking(x: int) -> int:
    return double(x) + double(x + 1)


@workflow
async def slow_child(x: int) -> int:
    await sleep("1h")
    return await add(x, 1)


@workflow
async def failing_child(x: int) -> int:
    compensate(unbook, f"child {x}")
    return await broken(x)


@workflow
async def picky_child(x: int) -> int:
    if x == 2:
        raise Fail("not two")
    return await add(x, 10)


@workflow
async def listening_child() -> str:
    return await wait_signal("word", type=str)


# One after another


@workflow
async def sequence(x: int) -> int:
    for _ in range(3):
        x = await add(x, 1)
    return await double.aio(x)


@workflow
def sequence_blocking(x: int) -> int:
    for _ in range(3):
        x = add.sync(x, 1)
    return double(x)


@workflow
async def retrying(x: int) -> int:
    return await fickle(x) + await add(x, 1)


@workflow
def retrying_blocking(x: int) -> int:
    return moody(x) + double(x)


@workflow
async def sleeping(x: int) -> int:
    x = await add(x, 1)
    await sleep("2s")
    x = await add(x, 1)
    await sleep("30d")
    return await add(x, 1)


@workflow
def sleeping_blocking(x: int) -> int:
    x = double(x)
    sync.sleep("2s")
    x = double(x)
    sync.sleep("30d")
    return double(x)


@workflow
async def recovering_from_failure(x: int) -> int:
    try:
        return await broken(x)
    except holdfast.HoldfastError:
        return await add(x, 100)


@workflow
async def finally_a_step(x: int) -> int:
    try:
        await broken(x)
    finally:
        await add(x, 7)
    return x


@workflow
def finally_a_step_blocking(x: int) -> int:
    try:
        fails_on_two(x)
    finally:
        double(x)
    return x


@asynccontextmanager
async def borrowed(what: str):
    yield await book(what)
    await unbook(what)


@workflow
async def with_context(x: int) -> list[int]:
    async with borrowed("tool") as tool:
        await add(x, len(tool))
        async with borrowed("bench"):
            return [await add(x, 1), await add(x, 2)]


@workflow
async def dicey(x: int) -> list[str]:
    drawn = [
        str(holdfast.deterministic.random()),
        str(holdfast.deterministic.uuid()),
        holdfast.now().isoformat(),
    ]
    await add(x, 1)
    await sleep("1d")
    return [
        *drawn,
        str(holdfast.deterministic.random()),
        str(holdfast.deterministic.uuid()),
        holdfast.now().isoformat(),
    ]


@workflow
def dicey_blocking(x: int) -> list[str]:
    drawn = [
        str(sync.deterministic.random()),
        str(sync.deterministic.uuid()),
        sync.now().isoformat(),
    ]
    double(x)
    sync.sleep("1d")
    return [
        *drawn,
        str(sync.deterministic.random()),
        str(sync.deterministic.uuid()),
        sync.now().isoformat(),
    ]


@workflow
async def versioned(x: int) -> list[object]:
    x = await add(x, 1)
    if patched("twice"):
        x = await double.aio(x)
    await sleep("1h")
    return [x, version("shape", 3), await add(x, 1)]


@workflow
def versioned_blocking(x: int) -> list[object]:
    if sync.versions.patched("twice"):
        x = double(x)
    sync.sleep("1h")
    return [x, sync.versions.version("shape", 3), double(x)]


@pytest.mark.parametrize(
    "shape",
    [
        sequence,
        sequence_blocking,
        retrying,
        retrying_blocking,
        sleeping,
        sleeping_blocking,
        recovering_from_failure,
        finally_a_step,
        finally_a_step_blocking,
        with_context,
        dicey,
        dicey_blocking,
        versioned,
        versioned_blocking,
    ],
    ids=lambda shape: shape.name,
)
def test_a_run_comes_to_the_same_end_wherever_its_worker_dies(shape):
    report = everywhere(shape, 2)

    assert report.runs >= 3 * report.boundaries


@pytest.mark.parametrize(
    "shape", [sequence, sleeping, sleeping_blocking], ids=lambda shape: shape.name
)
def test_a_run_comes_to_the_same_end_when_it_never_waits_in_memory(shape):
    everywhere(shape, 2, engine={"idle_timeout": 0})


def test_a_step_takes_effect_once_more_at_most_for_each_crash():
    everywhere(sequence, 2, zombies=False, doubles=0, check=lambda lab: _at_most(2))


def _at_most(count: int) -> None:
    assert max(world.values()) <= count, world


# Signals


@workflow
async def signalled(x: int) -> list[int]:
    x = await add(x, 1)
    return [
        x,
        await wait_signal("go", type=int),
        await add(x, 1),
        await wait_signal("go", type=int),
    ]


@workflow
def signalled_blocking(x: int) -> list[int]:
    return [
        double(x),
        sync.wait_signal("go", type=int),
        double(x),
        sync.wait_signal("go", type=int),
    ]


@workflow
async def signalled_in_time(x: int) -> list[int]:
    return [await wait_signal("go", type=int, timeout="1h"), await add(x, 1)]


@workflow
async def signalled_too_late(x: int) -> int:
    try:
        await wait_signal("go", timeout="1h")
    except TimeoutError:
        return await add(x, 1)
    return 0


@workflow
def signalled_too_late_blocking(x: int) -> int:
    try:
        sync.wait_signal("go", timeout="1h")
    except TimeoutError:
        return double(x)
    return 0


@pytest.mark.parametrize("early", [False, True], ids=["when waited for", "before"])
@pytest.mark.parametrize("shape", [signalled, signalled_blocking], ids=lambda shape: shape.name)
def test_no_signal_is_lost_or_taken_twice(shape, early):
    def got_both(lab):
        assert lab.engine.run(RUN).result()[1::2] == [10, 20]

    everywhere(shape, 2, signals=[("go", 10), ("go", 20)], early=early, check=got_both)


def test_a_signal_in_time_wins_over_the_timeout():
    everywhere(signalled_in_time, 2, signals=[("go", 10)])


@workflow
async def signalled_side_by_side(x: int) -> list[object]:
    async def word() -> int | None:
        try:
            return await wait_signal("go", timeout="1h", type=int)
        except TimeoutError:
            return None

    return await gather(word(), sleep("30m"), word(), add(x, 1))


def test_waits_side_by_side_take_one_signal_each():
    everywhere(signalled_side_by_side, 2, signals=[("go", 10)])


@pytest.mark.parametrize(
    "shape", [signalled_too_late, signalled_too_late_blocking], ids=lambda shape: shape.name
)
def test_a_timeout_of_a_signal_is_remembered(shape):
    everywhere(shape, 2)


# Side by side


@workflow
async def together(x: int) -> list[int]:
    return await gather(add(x, 1), fickle(x), double.aio(x), add(x, 2))


@workflow
def together_blocking(x: int) -> list[int]:
    return sync.gather(lambda: double(x), lambda: moody(x), lambda: double(x + 1))


async def branch(x: int) -> int:
    y = await add(x, 1)
    await sleep(f"{x}h")
    return await add(y, 1)


@workflow(name="boundary_branches")
async def branches(x: int) -> list[int]:
    return await gather(branch(1), branch(2), branch(3), sleep("90m"))


@workflow
async def race_with_time(x: int) -> str:
    async def late() -> str:
        await sleep("1h")
        return "late"

    async def soon() -> str:
        await sleep("1m")
        await add(x, 1)
        return "soon"

    return await first(late(), soon())


@workflow
def race_with_time_blocking(x: int) -> str:
    def late() -> str:
        sync.sleep("1h")
        return "late"

    def soon() -> str:
        sync.sleep("1m")
        double(x)
        return "soon"

    return sync.first(late, soon)


@workflow
async def race_of_steps(x: int) -> int:
    return await first(add(x, 1), add(x, 2)) + await add(x, 3)


@workflow
async def limited(x: int) -> list[int]:
    x = await add(x, 1)
    try:
        async with timeout("5m"):
            await add(x, 2)
            await sleep("1h")
            await add(x, 3)
    except TimeoutError:
        return [x, await add(x, 4)]
    return []


@workflow
async def mapped(x: int) -> list[int]:
    return await map(double, range(x), max_parallel=2)


@workflow
def mapped_blocking(x: int) -> list[int]:
    return sync.map(double, range(x), max_parallel=2)


@workflow
async def mapped_collecting(x: int) -> list[str]:
    return [str(one)[:30] for one in await map(fails_on_two, range(x), on_error="collect")]


@workflow
def mapped_collecting_blocking(x: int) -> list[str]:
    return [str(one)[:30] for one in sync.map(fails_on_two, range(x), on_error="collect")]


@pytest.mark.parametrize(
    "shape",
    [
        together,
        together_blocking,
        branches,
        race_with_time,
        race_with_time_blocking,
        limited,
        mapped,
        mapped_blocking,
        mapped_collecting,
        mapped_collecting_blocking,
    ],
    ids=lambda shape: shape.name,
)
def test_parallel_branches_come_to_the_same_end(shape):
    everywhere(shape, 4)


def test_a_race_of_steps_is_won_once_and_for_all():
    def won(lab):
        assert lab.engine.run(RUN).result() in (2 + 1 + 5, 2 + 2 + 5)

    everywhere(race_of_steps, 2, exact=False, check=won)


@workflow
async def mapped_failing_fast(x: int) -> list[int]:
    return await map(fails_on_two, range(x), max_parallel=1)


def test_the_first_failure_ends_a_map_of_steps():
    everywhere(mapped_failing_fast, 4)


# Children


@workflow
async def calling(x: int) -> list[int]:
    return [await grow(x), await grow_blocking(x), await add(x, 1)]  # type: ignore[misc]


@workflow
def calling_blocking(x: int) -> list[int]:
    return [grow_blocking(x), grow(x), double(x)]  # type: ignore[list-item]


@workflow
async def calling_in_parallel(x: int) -> list[int]:
    return await gather(grow(x), slow_child(x), add(x, 1))


@workflow
async def calling_failing(x: int) -> int:
    try:
        return await failing_child(x)
    except holdfast.HoldfastError:
        return await add(x, 1)


@workflow
async def starting(x: int) -> list[int]:
    handle = await start(slow_child, x)
    y = await add(x, 5)
    return [y, await handle.result()]


@workflow
async def starting_and_leaving(x: int) -> int:
    await start(slow_child, x, on_parent_end="leave")
    await start(slow_child, x + 1, on_parent_end="cancel")
    return await add(x, 5)


@workflow
async def starting_and_cancelling(x: int) -> int:
    handle = await start(slow_child, x)
    await add(x, 5)
    await handle.cancel()
    try:
        return await handle.result()
    except holdfast.HoldfastError:
        return -1


@workflow
async def starting_and_telling(x: int) -> str:
    handle = await start(listening_child)
    await add(x, 5)
    await handle.signal("word", "hello")
    return await handle.result()


@workflow
async def calling_within_limits(x: int) -> int:
    try:
        async with timeout("5m"):
            return await slow_child(x)
    except TimeoutError:
        return await add(x, 9)


@workflow
def racing_child_blocking(x: int) -> int:
    def later() -> int:
        sync.sleep("10m")
        return -1

    return sync.first(lambda: slow_child(x), later)


@workflow
async def mapped_children(x: int) -> list[int]:
    return await map(grow, range(x), max_parallel=2)


@workflow
def mapped_children_blocking(x: int) -> list[int]:
    return sync.map(grow_blocking, range(x), max_parallel=2)


@workflow
async def collected_children(x: int) -> list[str]:
    return [type(one).__name__ for one in await map(picky_child, range(x), on_error="collect")]


@pytest.mark.parametrize(
    "shape",
    [
        calling,
        calling_blocking,
        calling_in_parallel,
        calling_failing,
        starting,
        starting_and_cancelling,
        starting_and_telling,
        calling_within_limits,
        racing_child_blocking,
        mapped_children,
        mapped_children_blocking,
        collected_children,
    ],
    ids=lambda shape: shape.name,
)
def test_a_tree_of_runs_comes_to_the_same_end(shape):
    everywhere(shape, 3)


@workflow
async def mapped_in_portions(x: int) -> list[int]:
    return await map(grow, range(x))


@pytest.mark.parametrize(
    "shape", [mapped_in_portions, collected_children], ids=lambda shape: shape.name
)
def test_a_map_that_starts_its_children_in_portions_comes_to_the_same_end(shape, monkeypatch):
    monkeypatch.setattr(children, "PORTION", 1)
    everywhere(shape, 3)


def test_a_child_outlives_its_parent_only_if_it_may():
    def left_and_cancelled(lab):
        ends = {run.input: run.status for run in lab.engine.runs(workflow="slow_child")}
        assert ends == {b"[3]": "completed", b"[4]": "cancelled"}, ends

    everywhere(starting_and_leaving, 3, check=left_and_cancelled)


@workflow
async def children_failing_fast(x: int) -> list[int]:
    compensate(unbook, "all")
    return await map(picky_child, range(x))


def test_the_first_failing_child_ends_a_map():
    everywhere(children_failing_fast, 4, exact=False, check=lambda lab: _status(lab, "failed"))


def _status(lab, *wanted: str) -> None:
    assert lab.engine.run(RUN).status in wanted


# Undoing


@workflow
async def saga(x: int) -> int:
    for what in ("flight", "hotel", "car"):
        await book(what)
        compensate(release if what == "hotel" else unbook, what)
    return await broken(x)


@workflow
def saga_blocking(x: int) -> int:
    for what in ("flight", "hotel", "car"):
        book.sync(what)
        sync.compensate(release, what)
    return fails_on_two(x)


@workflow
async def saga_with_failing_undo(x: int) -> int:
    for what in ("flight", "hotel", "car"):
        await book(what)
        compensate(cannot_unbook if what == "hotel" else unbook, what)
    return await broken(x)


@workflow(stop_undoing_on_failure=True)
async def saga_that_stops(x: int) -> int:
    for what in ("flight", "hotel", "car"):
        await book(what)
        compensate(cannot_unbook if what == "hotel" else unbook, what)
    return await broken(x)


@workflow
async def saga_with_retried_undo(x: int) -> int:
    for what in ("flight", "hotel"):
        await book(what)
        compensate(hardly_unbook, what)
    return await broken(x)


async def good_branch(x: int) -> int:
    await book("good")
    compensate(unbook, "good")
    await sleep("1h")
    return await add(x, 1)


async def bad_branch(x: int) -> int:
    await book("bad")
    compensate(unbook, "bad")
    await sleep("1m")
    return await broken(x)


@workflow
async def saga_in_branches(x: int) -> list[int]:
    return await gather(good_branch(x), bad_branch(x))


@workflow
def saga_in_branches_blocking(x: int) -> list[int]:
    def good() -> int:
        book.sync("good")
        sync.compensate(release, "good")
        sync.sleep("1h")
        return double(x)

    def bad() -> int:
        book.sync("bad")
        sync.compensate(release, "bad")
        sync.sleep("1m")
        return fails_on_two(2)

    return sync.gather(good, bad)


@workflow
async def saga_that_succeeds(x: int) -> int:
    await book("flight")
    compensate(unbook, "flight")
    return await add(x, 1)


@pytest.mark.parametrize(
    "shape",
    [
        saga,
        saga_blocking,
        saga_with_failing_undo,
        saga_that_stops,
        saga_with_retried_undo,
        saga_in_branches,
        saga_in_branches_blocking,
        saga_that_succeeds,
    ],
    ids=lambda shape: shape.name,
)
def test_what_failed_is_undone_once_and_in_reverse(shape):
    everywhere(shape, 2)


@workflow
async def long_saga(x: int) -> int:
    for day in range(3):
        await book(f"day {day}")
        compensate(unbook, f"day {day}")
        await sleep("1d")
    return x


@workflow
def long_saga_blocking(x: int) -> int:
    for day in range(3):
        book.sync(f"day {day}")
        sync.compensate(release, f"day {day}")
        sync.sleep("1d")
    return x


@workflow
async def working_when_cancelled(x: int) -> int:
    await book("room")
    try:
        await sleep("1d")
    finally:
        await add(x, 1)
        await sleep("1h")
        await add(x, 2)
    return x


@workflow
def working_when_cancelled_blocking(x: int) -> int:
    book.sync("room")
    try:
        sync.sleep("1d")
    finally:
        double(x)
        sync.sleep("1h")
        double(x)
    return x


@workflow
async def parent_of_sagas(x: int) -> list[int]:
    compensate(unbook, "everything")
    return await gather(long_saga(x), long_saga(x + 1))


@pytest.mark.parametrize("at", ["book", "book#2"])
@pytest.mark.parametrize("shape", [long_saga, long_saga_blocking], ids=lambda shape: shape.name)
def test_a_cancelled_run_undoes_what_it_did(shape, at):
    everywhere(shape, 2, cancel_at=at, check=lambda lab: _status(lab, "cancelled"))


@pytest.mark.parametrize(
    "shape", [working_when_cancelled, working_when_cancelled_blocking], ids=lambda shape: shape.name
)
def test_a_cancelled_run_ends_what_it_does_at_last(shape):
    def done(lab):
        assert sum(event.kind == "step_completed" for event in lab.history(RUN)) == 3

    everywhere(shape, 2, cancel_at="book", check=done)


def test_children_are_cancelled_with_their_parent():
    everywhere(parent_of_sagas, 2, cancel_at=8, check=lambda lab: _status(lab, "cancelled"))


@pytest.mark.parametrize("shape", [long_saga, long_saga_blocking], ids=lambda shape: shape.name)
def test_a_run_past_its_deadline_undoes_what_it_did(shape):
    everywhere(shape, 2, options={"deadline": "36h"}, check=lambda lab: _status(lab, "expired"))


def test_a_run_may_expire_before_it_begins():
    everywhere(
        sequence,
        2,
        options={"delay": "2h", "deadline": "1h"},
        check=lambda lab: _status(lab, "expired"),
    )


# Exactly once


@workflow
async def paying(x: int) -> int:
    return await add(await enter.aio(x), await enter.aio(x + 1))


@workflow
def paying_blocking(x: int) -> int:
    return double(enter(x)) + enter(x + 1)


@pytest.mark.parametrize("shape", [paying, paying_blocking], ids=lambda shape: shape.name)
def test_a_transactional_step_takes_effect_exactly_once(shape):
    def entered_once(lab):
        rows = internals(lab.engine).store.database.fetch(
            "SELECT amount FROM account ORDER BY amount"
        )
        assert [row["amount"] for row in rows] == [2, 3]

    everywhere(shape, 2, check=entered_once)
