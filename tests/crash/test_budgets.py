"""Budgets, killed at each commit: what completed work says it spent is what was counted, and
nothing stays set aside."""

from __future__ import annotations

from functools import partial

import pytest

import holdfast
from holdfast import Fail, compensate, gather, sleep, step, sync, workflow
from holdfast.budgets import record, reserve, spend
from holdfast.core.budgets.rules import limits_from
from holdfast.store.budgets.operations import RaiseBudget, RefundRun, RemoveBudget, SetBudget
from holdfast.testing import internals
from holdfast.testing.recorder import RUN

stores: list = []
"""The store of the engine that is alive, for steps that do what people do."""


def with_budget(limit=1000, *, once=False, **options):
    """Put a shared budget into each new database, and remember the store. With *once*, a budget
    that a run has removed stays removed."""

    def wrap(store):
        stores[:] = [store]
        if store.budgets.get("team") is None and not (once and store.runs.get(RUN)):
            store.apply(
                [
                    SetBudget(
                        name="team", limits=limits_from({"tokens": limit, "calls": None}), **options
                    )
                ]
            )
        return store

    return wrap


def counted(lab, **expected):
    """What the run has spent, and the budget with it; nothing is set aside."""
    assert lab.engine.budgets.usage(RUN).total == expected
    lines = internals(lab.engine).store.budgets.lines(["team"])
    assert {line.dimension: line.used / 1_000_000 for line in lines if line.used} == expected
    assert [line.reserved for line in lines] == [0, 0]


def everywhere(crashing, workflow, *args, spent, limit=1000, resets=None, **options):
    return crashing(
        workflow,
        *args,
        options={"budget": "team"},
        wrap=with_budget(limit, resets=resets),
        check=partial(counted, **spent),
        **options,
    )


@step
async def think(tokens: int) -> int:
    spend(tokens=tokens, calls=1)
    return tokens


@step
async def overthink(tokens: int) -> int:
    record(tokens=tokens, calls=1)
    return tokens


@step
def ponder(tokens: int) -> int:
    with reserve(tokens=2 * tokens):
        spend(tokens=tokens)
    return tokens


@step
async def think_first(tokens: int) -> int:
    async with reserve(tokens=2 * tokens):
        spend(tokens=tokens)
    return tokens


@step(retries=2, delay="1s")
async def stumble(tokens: int) -> int:
    spend(tokens=tokens)
    if holdfast.info().attempt < 2:
        raise ValueError("not yet")
    return tokens


@step
async def unthink() -> None:
    spend(tokens=1)


@step
async def broken() -> None:
    raise Fail("no")


@step
def raise_the_budget() -> None:
    (store,) = stores
    store.apply([RaiseBudget("team", {"tokens": 500_000_000}, "once")])


@step
def remove_the_budget() -> None:
    (store,) = stores
    store.apply([RemoveBudget("team", force=True)])  # a second time it is gone already


@step
def give_back() -> None:
    (store,) = stores
    store.apply([RefundRun(RUN)])


@workflow
async def spending_in_steps() -> int:
    return await think(10) + await think(20) + await stumble(3)


@workflow
async def spending_side_by_side() -> int:
    return sum(await gather(think(10), think_first(20), think(30)))


@workflow
def pondering() -> int:
    sync.budgets.spend(calls=2)
    with sync.budgets.reserve(tokens=100):
        found = ponder(10) + ponder(20)
    return found


@workflow
async def reserving() -> int:
    async with reserve(tokens=300):
        first = await think_first(40)
        await sleep("1h")
        await spend(tokens=5)
    return first


@workflow
async def spending_and_undoing() -> None:
    compensate(unthink)
    await think(10)
    await broken()


@workflow
async def child_spending(tokens: int) -> int:
    return await think(tokens)


@workflow
async def spending_in_children() -> int:
    return sum(await gather(child_spending(10), child_spending(20)))


@workflow
async def asking_for_more() -> int:
    return await think_first(60) + await think_first(60)


@workflow
async def raising_for_another() -> int:
    async def helper() -> None:
        await sleep("1h")
        await raise_the_budget()

    await gather(asking_for_more(), helper())
    return 1


@workflow
async def removing_for_another() -> int:
    async def helper() -> None:
        await sleep("1h")
        await remove_the_budget()

    await gather(asking_for_more(), helper())
    return 1


@workflow
async def refunded() -> int:
    await think(60)
    await give_back()
    return await think(70)


@workflow
async def buying_twice() -> int:
    await spend(tokens=80)
    await spend(tokens=70)
    return 2


@workflow
async def thinking_past_the_limit() -> int:
    return await overthink(80) + await overthink(70) + await think(5)


@workflow
async def thinking_up_to_the_limit() -> int:
    return await think(80) + await think(70) + await think(5)


@pytest.mark.parametrize(
    ("shape", "spent"),
    [
        (spending_in_steps, {"tokens": 33, "calls": 2}),
        (spending_side_by_side, {"tokens": 60, "calls": 2}),
        (pondering, {"tokens": 30, "calls": 2}),
        (reserving, {"tokens": 45}),
        (spending_and_undoing, {"tokens": 11, "calls": 1}),
        (spending_in_children, {"tokens": 30, "calls": 2}),
    ],
)
def test_what_was_spent_is_counted_once_wherever_it_is_killed(crashing_in_a_file, shape, spent):
    report = everywhere(crashing_in_a_file, shape, spent=spent)

    assert report.boundaries > 2


def test_what_was_set_aside_and_spent_in_postgres_is_counted_once_wherever_it_is_killed(
    crashing_in_postgres,
):
    everywhere(crashing_in_postgres, reserving, spent={"tokens": 45})


def test_a_run_that_had_no_room_goes_on_when_another_raises_the_budget(crashing_in_a_file):
    report = everywhere(
        crashing_in_a_file, raising_for_another, spent={"tokens": 120}, limit=150, exact=False
    )

    assert report.boundaries > 5


def test_a_run_goes_on_wherever_it_is_killed_when_its_budget_is_removed(crashing_in_a_file):
    def removed(lab):
        assert lab.engine.budgets.usage(RUN).total == {"tokens": 120}

    report = crashing_in_a_file(
        removing_for_another,
        options={"budget": "team"},
        wrap=with_budget(100, once=True),
        check=removed,
        exact=False,
    )

    assert report.boundaries > 5


def test_spending_is_given_back_once_wherever_the_run_is_killed(crashing_in_a_file):
    report = everywhere(crashing_in_a_file, refunded, spent={"tokens": 70, "calls": 1}, limit=100)

    assert report.boundaries > 3


def total(lab, tokens, left):
    assert lab.engine.budgets.usage(RUN).total["tokens"] == tokens
    (line,) = (
        each_line
        for each_line in internals(lab.engine).store.budgets.lines(["team"])
        if each_line.dimension == "tokens"
    )
    assert (line.used, line.reserved) == (left * 1_000_000, 0)


def test_a_run_that_had_no_room_goes_on_after_the_reset(crashing_in_a_file):
    """What it spent before is forgotten by the budget, not by the run."""
    minute = str(60_000_000)
    crashing_in_a_file(
        buying_twice,
        options={"budget": "team"},
        wrap=with_budget(100, resets=minute),
        check=partial(total, tokens=150, left=70),
    )


def test_a_run_past_its_limit_stops_wherever_it_is_killed_and_goes_on_after_the_reset(
    crashing_in_a_file,
):
    minute = str(60_000_000)
    crashing_in_a_file(
        thinking_past_the_limit,
        options={"budget": "team"},
        wrap=with_budget(100, resets=minute),
        check=partial(total, tokens=155, left=5),
    )


def test_a_step_without_room_leaves_nothing_wherever_it_is_killed_and_is_made_after_the_reset(
    crashing,
):
    minute = str(60_000_000)
    crashing(
        thinking_up_to_the_limit,
        options={"budget": "team"},
        wrap=with_budget(100, resets=minute),
        check=partial(total, tokens=155, left=75),
    )


def test_limits_of_a_tree_that_fail_its_run(crashing_in_a_file):
    @workflow(name="failing on a budget")
    async def failing() -> int:
        compensate(unthink)
        return await think(60) + await overthink(60) + await think(60)

    def spent(lab):
        assert lab.engine.budgets.usage(RUN).total["tokens"] == 121

    crashing_in_a_file(
        failing,
        options={"budget": {"tokens": 100, "calls": None, "on_breach": "fail"}},
        check=spent,
    )


def test_a_run_that_is_cancelled_with_something_set_aside(crashing_in_a_file):
    everywhere(crashing_in_a_file, reserving, spent={"tokens": 40}, cancel_at="think_first")
