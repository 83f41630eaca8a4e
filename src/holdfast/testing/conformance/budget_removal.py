"""Conformance of budgets: soft limits in answers, refunds of runs, and removal."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.budgets.model import SoftBreach
from holdfast.core.budgets.rules import UNIT
from holdfast.core.status import Status
from holdfast.errors import BudgetInUse, BudgetNotFound, RunNotFound
from holdfast.store.budgets.operations import (
    BudgetRefused,
    BudgetSpent,
    Refunded,
    RefundRun,
    RemoveBudget,
    ResetBudget,
    SpendBudget,
)
from holdfast.store.runs.operations import StartRuns
from holdfast.store.store import Store
from holdfast.testing.conformance.budget_fixture import BudgetFixture
from holdfast.testing.conformance.fixture import SECOND, HandClock


class BudgetRemovalConformance(BudgetFixture):
    """A spending names the soft limits that are exceeded; a run gets its spending back once; a
    budget that live runs draw on is removed only by force, and then they continue."""

    def refund(self, store: Store, run_id: str = "r1") -> Any:
        return self.do(store, RefundRun(run_id))

    def test_spending_names_the_soft_limits_that_are_exceeded(self, store: Store) -> None:
        self.set_budget(store, tokens=100, calls=None, soft={"tokens": 50})
        run = self.hold(store, budgets=("b",))

        assert self.spend(store, run, 50).soft == []
        assert self.spend(store, run, 1).soft == [SoftBreach("b", "tokens", 51 * UNIT, 50 * UNIT)]
        assert self.do(store, SpendBudget("b", {"calls": UNIT})).soft == []
        outside = self.do(store, SpendBudget("b", {"tokens": UNIT}, "k"))

        assert outside.soft == [SoftBreach("b", "tokens", 52 * UNIT, 50 * UNIT)]
        repeated = self.do(store, SpendBudget("b", {"tokens": UNIT}, "k"))
        assert (repeated.counted, repeated.soft) == (False, [])
        budget = store.budgets.get("b")
        assert budget is not None
        assert budget.soft_breaches == 1

    def test_a_run_gets_back_once_the_amounts_that_it_has_spent(self, store: Store) -> None:
        self.set_budget(store, tokens=100, calls=5)
        self.set_budget(store, "other", tokens=50)
        run = self.hold(store, budgets=("b", "other"))
        self.record_spending(store, run, {"tokens": 30, "calls": 1})
        self.do(store, SpendBudget("b", {"tokens": 5 * UNIT}))

        first = self.refund(store)

        assert first == Refunded({"tokens": 30 * UNIT, "calls": UNIT}, ["b", "other"])
        assert self.usage(store) == {"tokens": (5, 0), "calls": (0, 0)}
        assert self.usage(store, "other") == {"tokens": (0, 0)}
        assert store.budgets.spending("r1") == {"r1": {"tokens": 0, "calls": 0}}
        assert self.refund(store) == Refunded()
        assert self.usage(store)["tokens"] == (5, 0)

    def test_a_budget_that_was_reset_since_the_run_was_created_gets_nothing_back(
        self, store: Store, clock: HandClock
    ) -> None:
        self.set_budget(store, tokens=100)
        self.set_budget(store, "steady", tokens=100)
        run = self.hold(store, budgets=("b", "steady"))
        self.record_spending(store, run, {"tokens": 30})
        clock.move(SECOND)
        self.do(store, ResetBudget("b"))
        self.do(store, SpendBudget("b", {"tokens": 40 * UNIT}))

        assert self.refund(store).budgets == ["steady"]

        assert (self.usage(store), self.usage(store, "steady")) == (
            {"tokens": (40, 0)},
            {"tokens": (0, 0)},
        )

    def test_a_refund_makes_room_for_a_run_that_waits(self, store: Store) -> None:
        self.set_budget(store, tokens=100)
        run = self.hold(store, budgets=("b",))
        self.record_spending(store, run, {"tokens": 100})
        other = self.hold(store, "r2", budgets=("b",))
        self.block(store, other, 10)

        self.refund(store)

        assert self.get(store, "r2").status is Status.PENDING

    def test_a_refund_of_no_run_is_refused(self, store: Store) -> None:
        with pytest.raises(RunNotFound):
            self.refund(store)

    def test_a_budget_that_live_runs_draw_on_is_not_removed(self, store: Store) -> None:
        self.set_budget(store, tokens=100)
        self.set_budget(store, "bb", tokens=100)
        for number in range(5):
            self.start(store, f"r{number}", budgets=("bb", "b"))

        with pytest.raises(BudgetInUse) as refused:
            self.do(store, RemoveBudget("b"))

        assert refused.value.facts["runs"] == "r0, r1, r2, ..."
        assert self.usage(store) == {"tokens": (0, 0)}

    def test_a_budget_that_only_ended_runs_have_drawn_on_is_removed(self, store: Store) -> None:
        self.set_budget(store, tokens=100)
        self.set_budget(store, "bb", tokens=100)
        run = self.hold(store, budgets=("b",))
        self.record_spending(store, run, {"tokens": 30})
        self.finish(store, self.get(store))
        self.start(store, "r2", budgets=("bb",))
        self.do(store, SpendBudget("b", {"tokens": UNIT}, "k"))

        self.do(store, RemoveBudget("b"))

        assert [budget.name for budget in store.budgets.page("", 100)] == ["bb"]
        with pytest.raises(BudgetNotFound):
            self.do(store, RemoveBudget("b"))
        self.set_budget(store, tokens=10)
        assert self.do(store, SpendBudget("b", {"tokens": UNIT}, "k")).counted
        assert self.usage(store) == {"tokens": (1, 0)}

    def test_a_removed_budget_is_inherited_but_not_named_by_new_runs(self, store: Store) -> None:
        self.set_budget(store, tokens=100)
        parent = self.hold(store, budgets=("b",))
        self.do(store, RemoveBudget("b", force=True))

        child = self.child_of(parent, "c1", budgets=("b",))
        assert [started.created for started in self.do(store, StartRuns([child]))] == [True]
        assert self.start(store, budgets=("b",)).created is False
        with pytest.raises(BudgetNotFound):
            self.start(store, "r2", budgets=("b",))

    def test_by_force_runs_continue_without_the_budget(self, store: Store) -> None:
        self.set_budget(store, tokens=100)
        self.set_budget(store, "other", tokens=1000)
        run = self.hold(store, budgets=("b", "other"))
        self.reserve(store, run, 60)
        other = self.hold(store, "r2", budgets=("b",))
        self.block(store, other, 50)

        self.do(store, RemoveBudget("b", force=True))

        assert self.get(store, "r2").status is Status.PENDING
        assert isinstance(self.spend(store, run, 500), BudgetSpent)
        assert isinstance(self.spend(store, run, 500), BudgetRefused)
        self.set_budget(store, tokens=1)
        self.record_spending(store, run, {"tokens": 1}, fact=False, releases=["step"])
        assert self.usage(store) == {"tokens": (1, 0)}
        assert self.usage(store, "other") == {"tokens": (501, 0)}
