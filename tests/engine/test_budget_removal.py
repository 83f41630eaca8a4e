"""Budgets and lanes are removed, spending is given back, and a soft limit is told to the caller."""

from __future__ import annotations

from decimal import Decimal

import pytest

from holdfast import Engine, step, workflow
from holdfast.budgets import spend
from holdfast.errors import (
    BadOption,
    BudgetInUse,
    BudgetNotFound,
    LaneInUse,
    LaneNotFound,
    RunNotFound,
)
from holdfast.testing import internals
from holdfast.views.budgets import RefundView, SoftBreachView, SpentView
from tests.engine.waiting import wait_until


@step
async def pay(**amounts: int) -> None:
    spend(**amounts)


@workflow(name="removal payer")
async def payer(tokens: int, calls: int = 0) -> int:
    await pay(tokens=tokens, calls=calls)
    return tokens


def test_the_answer_to_a_spending_names_the_soft_limit_that_is_exceeded(database):
    with Engine(database, work=False) as engine:
        engine.budgets.set("team", {"tokens": 100, "calls": None}, soft={"tokens": 50})

        below = engine.budgets.spend("team", {"tokens": 50, "calls": 1})
        above = engine.budgets.spend("team", {"tokens": "0.5"}, key="k")
        repeated = engine.budgets.spend("team", {"tokens": "0.5"}, key="k")

    breach = SoftBreachView(
        budget="team", dimension="tokens", used=Decimal("50.5"), limit=Decimal(50)
    )
    assert below == SpentView(counted=True, soft_breaches=[])
    assert above == SpentView(counted=True, soft_breaches=[breach])
    assert repeated == SpentView(counted=False, soft_breaches=[])


def test_a_run_gets_back_once_what_it_has_spent(database):
    with Engine(database) as engine:
        engine.budgets.set("team", {"tokens": 100, "calls": 10})
        run = engine.start(payer, 30, 2, budget=["team", {"tokens": 40}])
        run.result(timeout=20)

        first = engine.budgets.refund(run.id)
        second = engine.budgets.refund(run.id)

        lines = engine.budgets.get("team").dimensions
        assert first == RefundView(
            amounts={"calls": Decimal(2), "tokens": Decimal(30)},
            budgets=["team", f"tree:{run.id}"],
        )
        assert second == RefundView(amounts={}, budgets=[])
        assert [lines[name].used for name in ("calls", "tokens")] == [0, 0]
        assert engine.budgets.get(f"tree:{run.id}").dimensions["tokens"].used == 0
        assert engine.budgets.usage(run.id).total == {"calls": 0, "tokens": 0}
        with pytest.raises(RunNotFound):
            engine.budgets.refund("nobody")
        assert engine.database.check() == []


def test_a_refund_lets_a_run_that_waits_continue(database):
    with Engine(database) as engine:
        engine.budgets.set("team", {"tokens": 100, "calls": None})
        first = engine.start(payer, 100, budget="team")
        first.result(timeout=20)
        second = engine.start(payer, 60, budget="team")
        wait_until(engine, lambda: second.status == "blocked")

        engine.budgets.refund(first.id)

        assert second.result(timeout=20) == 60


def test_a_budget_in_use_is_removed_only_by_force_and_its_runs_continue(database):
    with Engine(database) as engine:
        engine.budgets.set("team", {"tokens": 10, "calls": None})
        run = engine.start(payer, 60, 1, budget=["team", {"tokens": 100}])
        wait_until(engine, lambda: run.status == "blocked")

        with pytest.raises(BudgetInUse) as refused:
            engine.budgets.remove("team")
        assert refused.value.facts == {"budget": "team", "runs": run.id}
        engine.budgets.remove("team", force=True)

        # No budget that is left counts calls: the removed one did, so they are no mistake.
        assert run.result(timeout=20) == 60
        assert engine.budgets.usage(run.id).total == {"calls": 1, "tokens": 60}
        assert [budget.name for budget in engine.budgets.list()] == [f"tree:{run.id}"]
        with pytest.raises(BudgetNotFound):
            engine.budgets.remove("team")
        with pytest.raises(BudgetNotFound):
            engine.start(payer, 1, budget="team")
        with pytest.raises(BadOption, match="deleted with its run"):
            engine.budgets.remove(f"tree:{run.id}", force=True)
        assert engine.database.check() == []


def test_a_lane_is_removed_when_its_runs_have_ended_or_by_force(database):
    with Engine(database, work=False) as engine:
        engine.lanes.set("mail", concurrency=1, weights={"gold": 3})
        run = engine.start(payer, 1, lane="mail")

        with pytest.raises(LaneInUse) as refused:
            engine.lanes.remove("mail")
        assert refused.value.facts == {"lane": "mail", "runs": run.id}
        engine.lanes.remove("mail", force=True)

        assert (engine.lanes.get("mail").concurrency, engine.lanes.get("mail").weights) == (
            None,
            {},
        )
        with pytest.raises(LaneNotFound):
            engine.lanes.remove("mail")
        engine.lanes.set("mail", paused=True)
        run.cancel(force=True)
        engine.lanes.remove("mail")
        assert internals(engine).store.lanes.all() == []
        # Listed from its use, without settings.
        assert [(lane.name, lane.paused) for lane in engine.lanes.list()] == [("mail", False)]


def test_lanes_and_budgets_are_listed_in_pages_by_name(database):
    with Engine(database, work=False) as engine:
        engine.lanes.set("b", concurrency=1)
        for lane in ("c", "a", "d"):
            engine.start(payer, 1, lane=lane)
        for budget in ("y", "x", "z"):
            engine.budgets.set(budget, {"tokens": 1})

        def names(namespace, **page):
            return [view.name for view in namespace.list(**page)]

        assert names(engine.lanes, limit=2) == ["a", "b"]
        assert names(engine.lanes, after="b") == ["c", "d"]
        assert names(engine.budgets, limit=2) == ["x", "y"]
        assert names(engine.budgets, after="y") == ["z"]
        with pytest.raises(BadOption):
            engine.lanes.list(limit=-1)


def test_weights_of_other_shares_are_kept(database):
    with Engine(database, work=False) as engine:
        engine.lanes.set("mail", weights={"gold": 3, "silver": 2})
        engine.lanes.set("mail", weights={"gold": 5, "tin": 0.5})
        assert engine.lanes.get("mail").weights == {"gold": 5, "silver": 2, "tin": 0.5}
        engine.lanes.set("mail", weights={"silver": None})
        assert engine.lanes.get("mail").weights == {"gold": 5, "tin": 0.5}
        engine.lanes.set("mail", weights=None)
        assert engine.lanes.get("mail").weights == {}


def test_a_holder_spends_after_its_budget_was_removed(database):
    with Engine(database, work=False) as engine:
        engine.budgets.set("team", {"calls": 10}, soft={"calls": 1})
        run = engine.start("removal task", budget=["team", {"tokens": 100}])
        with engine.tasks.worker("w", workflows=["removal task"]) as leases:
            (lease,) = leases.claim()
            assert [breach.dimension for breach in lease.spend({"calls": 2}).soft_breaches] == [
                "calls"
            ]
            engine.budgets.remove("team", force=True)

            assert lease.spend({"calls": 20, "tokens": 5}).soft_breaches == []
            lease.complete()
        assert engine.budgets.usage(run.id).total == {"calls": 22, "tokens": 5}
        assert engine.database.check() == []
