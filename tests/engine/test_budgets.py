"""Runs with budgets: what they spend is counted once, and without room they stop, wait and go
on."""

from __future__ import annotations

import asyncio
import threading
from decimal import Decimal

import pytest

import holdfast
from holdfast import (
    AsyncEngine,
    Engine,
    Fail,
    compensate,
    gather,
    step,
    sync,
    wait_signal,
    workflow,
)
from holdfast.budgets import record, reserve, spend
from holdfast.errors import (
    BadOption,
    BudgetExceeded,
    BudgetNotFound,
    RunCancelled,
    RunFailed,
    UnknownDimension,
)
from holdfast.streams import emit
from holdfast.testing import internals
from holdfast.testing.lab import Lab
from tests.engine.waiting import wait_until

undone: list[str] = []


@step
async def think(tokens: int) -> int:
    spend(tokens=tokens)
    return tokens


@step
def ponder(tokens: int) -> int:
    spend(tokens=tokens)
    return tokens


@step
async def overthink(tokens: int) -> int:
    record(tokens=tokens)
    return tokens


@step
def overponder(tokens: int) -> int:
    sync.budgets.record(tokens=tokens)
    return tokens


@step
async def think_first(tokens: int, estimate: int = 0) -> int:
    async with reserve(tokens=estimate or tokens):
        spend(tokens=tokens)
    return tokens


@step
def ponder_first(tokens: int) -> int:
    with reserve(tokens=tokens):
        spend(tokens=tokens)
    return tokens


@step(retries=3, delay="1s")
async def stumble(tokens: int) -> int:
    spend(tokens=tokens)
    if holdfast.info().attempt < 3:
        raise ValueError("not yet")
    return tokens


@step(retries=3, delay="1s")
async def stumble_over_facts(tokens: int) -> int:
    record(tokens=tokens)
    if holdfast.info().attempt < 3:
        raise ValueError("not yet")
    return tokens


@step(retries=3, delay="1s")
async def stumble_on_one_bill(tokens: int) -> int:
    record(tokens=tokens, key="the bill")
    if holdfast.info().attempt < 3:
        raise ValueError("not yet")
    return tokens


@step
async def unthink() -> None:
    spend(tokens=1)
    undone.append("unthink")


@workflow
async def thinker(*tokens: int) -> int:
    return sum([await think(n) for n in tokens])


@workflow
def ponderer(*tokens: int) -> int:
    return sum(ponder(n) for n in tokens)


@workflow
async def overthinker(*tokens: int) -> int:
    return sum([await overthink(n) for n in tokens])


@workflow
def overponderer(*tokens: int) -> int:
    return sum(overponder(n) for n in tokens)


@workflow
async def careful(*tokens: int) -> int:
    return sum([await think_first(n) for n in tokens])


@workflow
def careful_in_a_thread(*tokens: int) -> int:
    return sum(ponder_first(n) for n in tokens)


@workflow
async def purchaser(*tokens: int) -> int:
    for n in tokens:
        await spend(tokens=n)
    return sum(tokens)


@workflow
def purchaser_in_a_thread(*tokens: int) -> int:
    for n in tokens:
        sync.budgets.spend(tokens=n)
    return sum(tokens)


@workflow
async def two_thinkers(tokens: int) -> int:
    return sum(await gather(thinker(tokens), thinker(tokens)))


@workflow
async def regretful(tokens: int) -> int:
    compensate(unthink)
    await overthink(tokens)
    return await think(1)


@pytest.fixture
def lab(database, clock):
    with Lab(database, clock=clock) as lab:
        yield lab
        assert lab.engine.database.check() == []


def used(engine, name):
    return {
        line.dimension: line.used / 1_000_000
        for line in internals(engine).store.budgets.lines([name])
    }


def aside(engine, name):
    return sum(line.reserved for line in internals(engine).store.budgets.lines([name]))


@pytest.mark.parametrize(
    "shape",
    [
        thinker,
        ponderer,
        overthinker,
        overponderer,
        careful,
        careful_in_a_thread,
        purchaser,
        purchaser_in_a_thread,
    ],
)
def test_what_is_spent_is_counted_for_the_run_its_tree_and_the_shared_budget(engine, shape):
    engine.budgets.set("team", {"tokens": 1000})

    run = engine.start(shape, 100, 20, 3, budget=["team", {"tokens": 500}])

    assert run.result(timeout=20) == 123
    assert engine.budgets.usage(run.id).total == {"tokens": 123}
    assert used(engine, "team") == used(engine, f"tree:{run.id}") == {"tokens": 123}
    assert aside(engine, "team") == 0


@pytest.mark.parametrize("shape", [overthinker, overponderer])
def test_a_run_past_its_limit_begins_no_further_step_until_the_budget_is_raised(lab, shape):
    run = lab.start(shape, 100, 100, 100, 100, budget={"tokens": 150})
    lab.settle()

    assert (run.status, used(lab.engine, f"tree:{run.id}")) == ("blocked", {"tokens": 200})
    assert not lab.hop() or run.status == "blocked"
    lab.engine.budgets.raise_limits(f"tree:{run.id}", {"tokens": 50})
    lab.settle()
    assert (run.status, used(lab.engine, f"tree:{run.id}")) == ("blocked", {"tokens": 300})
    lab.engine.budgets.raise_limits(f"tree:{run.id}", {"tokens": 500})

    assert lab.finish(run) == 400
    assert lab.engine.budgets.usage(run.id).total == {"tokens": 400}


@pytest.mark.parametrize(
    "shape", [thinker, ponderer, careful, careful_in_a_thread, purchaser, purchaser_in_a_thread]
)
def test_a_breach_applies_nothing(lab, shape):
    run = lab.start(shape, 100, 100, 100, budget={"tokens": 250})
    lab.settle()

    assert (run.status, used(lab.engine, f"tree:{run.id}")) == ("blocked", {"tokens": 200})
    assert aside(lab.engine, f"tree:{run.id}") == 0
    lab.engine.budgets.raise_limits(f"tree:{run.id}", {"tokens": 50})

    assert lab.finish(run) == 300


def test_raising_a_shared_budget_lets_every_run_go_on_that_waits_for_it(lab):
    lab.engine.budgets.set("team", {"tokens": 100})
    runs = [lab.start(purchaser, 100, budget="team") for _ in range(5)]
    lab.settle()
    assert sorted(run.status for run in runs) == ["blocked"] * 4 + ["completed"]

    lab.engine.budgets.raise_limits("team", {"tokens": 400})

    assert [lab.finish(run) for run in runs] == [100] * 5
    assert used(lab.engine, "team") == {"tokens": 500}


def test_a_run_that_waits_for_a_budget_goes_on_when_it_is_reset_by_the_calendar(lab):
    lab.engine.budgets.set("daily", {"tokens": 100}, reset="day", zone="Europe/Berlin")
    run = lab.start(purchaser, 100, 100, budget="daily")
    lab.settle()
    assert run.status == "blocked"

    assert lab.finish(run) == 200
    assert lab.clock.now() == 1767308400 * 1_000_000  # midnight in Berlin is 23:00 UTC
    assert used(lab.engine, "daily") == {"tokens": 100}


@pytest.mark.parametrize("shape", [thinker, ponderer, overthinker, careful, purchaser])
def test_on_breach_the_run_fails_if_that_is_said(lab, shape):
    run = lab.start(shape, 100, 100, 100, budget={"tokens": 150, "on_breach": "fail"})

    with pytest.raises(RunFailed, match="budget has no room left"):
        lab.finish(run)


@pytest.mark.parametrize("shape", [thinker, overthinker, careful, purchaser])
def test_on_breach_the_run_is_cancelled_if_that_is_said(lab, shape):
    run = lab.start(shape, 100, 100, 100, budget={"tokens": 150, "on_breach": "cancel"})

    with pytest.raises(RunCancelled, match="is spent"):
        lab.finish(run)


@pytest.mark.parametrize("on_breach", ["fail", "cancel"])
def test_what_is_undone_is_undone_whatever_the_budget_says(lab, on_breach):
    undone.clear()
    run = lab.start(regretful, 100, budget={"tokens": 10, "on_breach": on_breach})

    with pytest.raises(RunFailed):
        lab.finish(run)

    assert undone == ["unthink"]
    assert lab.engine.budgets.usage(run.id).total == {"tokens": 101}


@step(name="undo thoughts")
async def step_named_undo(tokens: int) -> int:
    spend(tokens=tokens)
    return tokens


@workflow
async def forgetful(*amounts: int) -> int:
    return sum([await step_named_undo(amount) for amount in amounts])


def test_a_step_that_a_user_names_like_a_compensation_keeps_to_the_hard_limit(lab):
    run = lab.start(forgetful, 100, 100, budget={"tokens": 150})
    lab.settle()

    assert (run.status, used(lab.engine, f"tree:{run.id}")) == ("blocked", {"tokens": 100})
    lab.engine.budgets.raise_limits(f"tree:{run.id}", {"tokens": 50})
    assert lab.finish(run) == 200


def test_a_run_that_waits_for_a_budget_can_be_cancelled(lab):
    run = lab.start(purchaser, 100, budget={"tokens": 10})
    lab.settle()

    run.cancel()

    with pytest.raises(RunCancelled):
        lab.finish(run)


def test_a_step_spends_once_however_many_attempts_there_are_but_facts_are_facts(lab):
    @workflow(name="stumbler")
    async def stumbler() -> int:
        return await stumble(100) + await stumble_over_facts(10) + await stumble_on_one_bill(7)

    run = lab.start(stumbler, budget={"tokens": 1000})

    assert lab.finish(run) == 117
    assert lab.engine.budgets.usage(run.id).total == {"tokens": 100 + 3 * 10 + 7}


def test_children_draw_on_the_budgets_of_their_parent(lab):
    run = lab.start(two_thinkers, 60, budget={"tokens": 1000})

    assert lab.finish(run) == 120
    found = lab.engine.budgets.usage(run.id)
    assert (found.run, found.total, len(found.runs)) == ({}, {"tokens": 120}, 2)
    assert used(lab.engine, f"tree:{run.id}") == {"tokens": 120}


def test_money_is_added_without_an_error(lab):
    @step(name="pay a dime")
    async def pay() -> None:
        spend(money=0.1)
        spend(money="0.1")
        spend(money=Decimal("0.1"))

    @workflow(name="ten dimes")
    async def dimes() -> None:
        for _ in range(10):
            await pay()

    run = lab.start(dimes, budget={"money": 3})
    lab.finish(run)

    assert lab.engine.budgets.usage(run.id).total == {"money": 3}


def test_a_workflow_sets_aside_for_the_steps_in_its_block(lab):
    @workflow(name="block of steps")
    async def block() -> int:
        async with reserve(tokens=200):
            await think(60)
            await think_first(50)
            await wait_signal("go")
            await spend(tokens=30)
        await wait_signal("end")
        return 1

    lab.engine.budgets.set("team", {"tokens": 200})
    run = lab.start(block, budget="team")
    lab.settle()
    assert (used(lab.engine, "team"), aside(lab.engine, "team")) == ({"tokens": 110}, 90_000_000)
    other = lab.start(purchaser, 30, budget="team")
    lab.restart()
    lab.settle()
    assert (aside(lab.engine, "team"), lab.engine.run(other.id).status) == (90_000_000, "blocked")

    lab.signal(run, "go")
    lab.settle()
    assert (used(lab.engine, "team"), aside(lab.engine, "team")) == ({"tokens": 140}, 0)
    lab.engine.budgets.raise_limits("team", {"tokens": 1})

    assert lab.finish(other) == 30
    lab.signal(run, "end")
    assert lab.finish(run) == 1


def test_a_step_may_do_with_less_when_there_is_no_room(lab):
    @step(name="degrade")
    async def degrade() -> str:
        try:
            async with reserve(tokens=500):
                return "the big model"
        except BudgetExceeded as error:
            assert (error.facts["budget"], error.facts["limit"]) == (
                f"tree:{holdfast.info().run_id}",
                "100",
            )
            return "the small model"

    @workflow(name="degrading")
    async def degrading() -> str:
        return await degrade()

    assert lab.run_to_end(degrading, budget={"tokens": 100}) == "the small model"


def test_a_step_that_fails_spends_nothing_but_facts_and_has_nothing_set_aside(lab):
    @step(name="burn")
    async def burn() -> None:
        async with reserve(tokens=50):
            spend(tokens=7)
            record(tokens=20)
            raise Fail("burnt")

    @workflow(name="burning")
    async def burning() -> None:
        await burn()

    run = lab.start(burning, budget={"tokens": 100})
    with pytest.raises(RunFailed):
        lab.finish(run)

    assert (used(lab.engine, f"tree:{run.id}"), aside(lab.engine, f"tree:{run.id}")) == (
        {"tokens": 20},
        0,
    )


@pytest.mark.sqlite_only
def test_a_transactional_step_spends_in_its_own_transaction_and_without_room_leaves_nothing(lab):
    @step(name="enter", transactional=True)
    def enter() -> None:
        spend(tokens=60)
        holdfast.sql.connection().execute("CREATE TABLE IF NOT EXISTS entry (n INTEGER)")
        holdfast.sql.connection().execute("INSERT INTO entry VALUES (1)")

    @step(name="entries", transactional=True)
    def entries() -> int:
        return len(holdfast.sql.connection().execute("SELECT n FROM entry").fetchall())

    @workflow(name="entering")
    async def entering() -> int:
        await enter()
        await enter()
        return await entries()

    run = lab.start(entering, budget={"tokens": 100})
    lab.settle()
    assert (run.status, used(lab.engine, f"tree:{run.id}")) == ("blocked", {"tokens": 60})

    lab.engine.budgets.raise_limits(f"tree:{run.id}", {"tokens": 20})
    assert lab.finish(run) == 2
    assert lab.engine.budgets.usage(run.id).total == {"tokens": 120}


def test_a_breach_in_one_dimension_applies_none_and_is_counted(lab):
    @step(name="two dimensions")
    async def pay(calls: int) -> int:
        spend(tokens=10, calls=calls)
        return calls

    @workflow(name="paying twice")
    async def paying() -> int:
        return await pay(1) + await pay(5)

    lab.engine.budgets.set("team", {"tokens": 100, "calls": 3})
    run = lab.start(paying, budget="team")
    lab.settle()

    assert used(lab.engine, "team") == {"tokens": 10, "calls": 1}
    (found,) = lab.engine.budgets.list()
    assert (found.breaches, found.breached) == (1, "calls")
    assert run.why().remedy == "holdfast budgets raise team calls=3"
    lab.engine.budgets.raise_limits("team", {"calls": 3})
    assert lab.finish(run) == 6
    assert used(lab.engine, "team") == {"tokens": 20, "calls": 6}


def test_an_attempt_that_others_were_quicker_than_has_not_completed(lab):
    """It asks when it has ended, for there was room when it began: then nothing of it stands, and
    it is made again."""
    made: list[int] = []

    @step(name="beaten")
    async def beaten() -> int:
        spend(tokens=60)
        emit("tried")
        made.append(1)
        if len(made) == 1:  # somebody else was quicker
            await asyncio.to_thread(lab.engine.budgets.spend, "team", {"tokens": 50})
        return len(made)

    @workflow(name="being beaten")
    async def being_beaten() -> int:
        return await beaten()

    lab.engine.budgets.set("team", {"tokens": 100})
    run = lab.start(being_beaten, budget="team")
    lab.settle()
    assert (run.status, used(lab.engine, "team")) == ("blocked", {"tokens": 50})
    assert [event.kind for event in run.history()] == ["step_blocked"]

    lab.engine.budgets.raise_limits("team", {"tokens": 10})
    assert lab.finish(run) == 2
    assert used(lab.engine, "team") == {"tokens": 110}
    assert [frame.value for frame in lab.engine.streams.read(run.id)] == ["tried", "tried"]


def test_steps_side_by_side_that_end_together_get_what_there_is(lab):
    @workflow(name="side by side")
    async def side_by_side() -> int:
        return sum(await gather(*(think(40) for _ in range(4))))

    run = lab.start(side_by_side, budget={"tokens": 100})
    lab.settle()
    assert (run.status, used(lab.engine, f"tree:{run.id}")) == ("blocked", {"tokens": 80})

    lab.engine.budgets.raise_limits(f"tree:{run.id}", {"tokens": 60})
    assert lab.finish(run) == 160
    assert used(lab.engine, f"tree:{run.id}") == {"tokens": 160}


def test_why_names_the_budget_the_figures_and_the_command(lab):
    lab.engine.budgets.set("team", {"tokens": 100}, reset="1h")
    run = lab.start(purchaser, 90, 20, budget="team")
    lab.settle()

    found = run.why()

    assert found.reason == (
        "there is no room in the budget team: 90 of 100 tokens are used, step 'spend#2' wants 20;"
        " it is reset at 2026-01-01 01:00:00 UTC (in 1h)"
    )
    assert found.remedy == "holdfast budgets raise team tokens=10"
    assert found.blockers[0].holder == "team"


@pytest.mark.parametrize(
    ("option", "error"),
    [
        ("none", BudgetNotFound),
        ({}, BadOption),
        ({"tokens": -1}, BadOption),
        ({"tokens": "many"}, BadOption),
        ({"tokens": True}, BadOption),
        ({"two words": 1}, BadOption),
        ({"tokens": 5, "on_breach": "explode"}, BadOption),
        ({"tokens": 5, "soft": {"coins": 1}}, UnknownDimension),
        ({"tokens": 5, "soft": {"tokens": 6}}, BadOption),
        ([{"tokens": 1}, {"tokens": 2}], BadOption),
        (7, BadOption),
        ("run:x", BadOption),
    ],
)
def test_a_start_with_a_budget_that_cannot_be_is_refused(engine, option, error):
    with pytest.raises(error):
        engine.start(thinker, 1, budget=option)

    assert list(engine.runs()) == []
    assert engine.budgets.list() == []


def test_bad_limits_amounts_and_rhythms_are_refused_and_nothing_is_written(engine):
    engine.budgets.set("team", {"tokens": 10})
    refused = [
        (BadOption, lambda: engine.budgets.set("team", {"tokens": -1})),
        (BadOption, lambda: engine.budgets.set("team", {"tokens": float("nan")})),
        (BadOption, lambda: engine.budgets.set("tree:x", {"tokens": 1})),
        (BadOption, lambda: engine.budgets.set("team", {"tokens": 1}, zone="Atlantis")),
        (BadOption, lambda: engine.budgets.set("team", {"tokens": 1}, reset="1ms")),
        (BadOption, lambda: engine.budgets.set("new", {})),
        (BadOption, lambda: engine.budgets.raise_limits("team", {"tokens": -5})),
        (BadOption, lambda: engine.budgets.spend("team", {})),
        (UnknownDimension, lambda: engine.budgets.spend("team", {"coins": 1})),
        (BudgetNotFound, lambda: engine.budgets.raise_limits("nobody", {"tokens": 5})),
        (BudgetExceeded, lambda: engine.budgets.spend("team", {"tokens": 11})),
    ]
    for error, call in refused:
        with pytest.raises(error):
            call()

    (found,) = engine.budgets.list()
    assert {name: (line.hard, line.used) for name, line in found.dimensions.items()} == {
        "tokens": (10, 0)
    }


def test_a_step_that_spends_what_nobody_counts_fails_by_name(engine):
    @step(name="misspell")
    async def misspell() -> None:
        spend(token=5)

    @workflow(name="misspelling")
    async def misspelling() -> None:
        await misspell()

    with pytest.raises(RunFailed, match="UnknownDimension"):
        engine.start(misspelling, budget={"tokens": 5}).result(timeout=20)
    with pytest.raises(BadOption):
        spend(tokens=-1)


def test_outside_a_run_steps_that_spend_are_just_functions():
    assert ponder(5) == 5
    assert ponder_first(5) == 5


async def drive(database):
    async with AsyncEngine(database) as engine:
        await engine.budgets.set("team", {"tokens": 100}, soft={"tokens": 50})
        run = await engine.start(careful, 40, 40, budget="team")
        assert await run.result(timeout=20) == 80
        assert await engine.budgets.spend("team", {"tokens": 20}, key="k")
        assert [
            await engine.budgets.raise_limits("team", {"tokens": 1}, key="r") for _ in range(2)
        ] == [
            True,
            False,
        ]
        await engine.budgets.reset("team")
        assert (await engine.budgets.usage(run.id)).total == {"tokens": 80}
        (found,) = await engine.budgets.list()
        return found


def test_an_asynchronous_engine_offers_the_same(database):
    found = asyncio.run(drive(database))

    assert (found.soft_breaches, found.reset_count, found.dimensions["tokens"].hard) == (1, 1, 101)


def test_a_step_that_spends_costs_one_statement_more(tmp_path):
    with Engine(tmp_path / "cost.db", poll="1h", session_ttl="1h", driver="sqlite3") as engine:
        engine.budgets.set("team", {"tokens": 1000})
        engine.start(thinker, 1, budget="team").result(timeout=20)
        said: list[str] = []
        internals(engine).store.database._db.raw.set_trace_callback(said.append)

        def once() -> list[str]:
            said.clear()
            engine.start(thinker, 1, 1, 1, budget="team").result(timeout=20)
            return [
                statement.split()[0] for statement in said if not statement.startswith("PRAGMA")
            ]

        words = min(
            (once() for _ in range(3)), key=len
        )  # the one in which the worker did the least besides
        internals(engine).store.database._db.raw.set_trace_callback(None)

    steps = words[words.index("COMMIT") + 1 :]
    assert steps[:12] == ["BEGIN", "WITH", "INSERT", "COMMIT"] * 3


def test_a_branch_without_room_goes_on_though_others_are_at_work(database):
    gate = threading.Event()

    @step(name="long work")
    def long_work() -> int:
        gate.wait(30)
        return 1

    @workflow(name="two branches")
    async def branches() -> int:
        return sum(await gather(long_work.aio(), think_first(50)))

    with Engine(database, shutdown_timeout=1) as engine:
        engine.budgets.set("team", {"tokens": 10})
        run = engine.start(branches, budget="team")
        wait_until(engine, lambda: any(event.kind == "step_blocked" for event in run.history()))
        engine.budgets.raise_limits("team", {"tokens": 90})
        wait_until(engine, lambda: any(event.kind == "step_completed" for event in run.history()))
        gate.set()
        assert run.result(timeout=20) == 51
