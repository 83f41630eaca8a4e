"""Conformance of budgets: limits of trees, blocked runs, resets and copies."""

from __future__ import annotations

import pytest

from holdfast.core.budgets.rules import UNIT, limits_from
from holdfast.core.status import Status
from holdfast.errors import BudgetNotFound, UnknownDimension
from holdfast.store.budgets.operations import (
    BudgetRefused,
    BudgetSpent,
    RaiseBudget,
    ResetBudget,
    SpendBudget,
)
from holdfast.store.effects import RevisionChanged
from holdfast.store.runs.copy_operations import BeginCopy, CopyRuns, EndCopy
from holdfast.store.runs.operations import EndSession, Prune, StartRuns
from holdfast.store.store import Store
from holdfast.testing.conformance.budget_fixture import BudgetFixture
from holdfast.testing.conformance.fixture import MINUTE, SECOND, HandClock, OpenStore


class BudgetRoomConformance(BudgetFixture):
    """Room in a budget, by a raise, a reset or a release, wakes the runs that are blocked on it."""

    def test_a_tree_has_limits_of_its_own_from_its_start(self, store: Store) -> None:
        run = self.hold(
            store, budgets=("tree:r1",), limits=limits_from({"tokens": 10}, on_breach="fail")
        )
        self.do(store, StartRuns([self.child_of(run, "r2", budgets=("tree:r1",), session_id="s1")]))

        self.record_spending(store, self.get(store, "r2"), {"tokens": 6})
        answer = self.record_spending(store, run, {"tokens": 6})

        assert (answer.breach.used, answer.breach.on_breach) == (12 * UNIT, "fail")
        assert store.budgets.spending("r1") == {
            "r1": {"tokens": 6 * UNIT},
            "r2": {"tokens": 6 * UNIT},
        }
        self.start(store, "r1", limits=limits_from({"tokens": 99}))
        budget = store.budgets.get("tree:r1")
        assert budget is not None
        assert [line.hard for line in budget.lines] == [10 * UNIT]

    def test_a_run_with_an_unknown_budget_is_not_started(self, store: Store) -> None:
        with pytest.raises(BudgetNotFound):
            self.start(store, budgets=("none",))

        assert store.runs.get("r1") is None

    def test_a_run_that_is_blocked_is_woken_when_the_budget_is_raised(self, store: Store) -> None:
        self.set_budget(store, tokens=100)
        run = self.hold(store, budgets=("b",))
        self.record_spending(store, run, {"tokens": 130})

        self.block(store, run)
        assert (self.status(store), self.claimed(store)) == (Status.BLOCKED, [])
        assert self.do(store, RaiseBudget("b", {"tokens": 50 * UNIT}, "once")) is True
        assert self.do(store, RaiseBudget("b", {"tokens": 50 * UNIT}, "once")) is False

        assert self.claimed(store) == ["r1"]
        assert [line.hard for line in store.budgets.lines(["b"])] == [150 * UNIT]

    def test_setting_a_higher_limit_and_resetting_wake_as_well(self, store: Store) -> None:
        self.set_budget(store, tokens=10)
        run = self.hold(store, budgets=("b",))
        self.record_spending(store, run, {"tokens": 11})
        self.block(store, run)

        self.set_budget(store, tokens=20)
        (run,) = self.claim(store)
        self.record_spending(store, run, {"tokens": 11})
        self.block(store, run)
        self.set_budget(store, tokens=15)
        assert self.claimed(store) == []
        self.do(store, ResetBudget("b"))

        assert self.claimed(store) == ["r1"]
        assert self.usage(store) == {"tokens": (0, 0)}

    def test_a_run_is_not_blocked_if_its_budget_has_room_again(self, store: Store) -> None:
        self.set_budget(store, tokens=100)
        run = self.hold(store, budgets=("b",))
        self.do(store, SpendBudget("b", {"tokens": 90 * UNIT}))
        assert isinstance(self.spend(store, run, 20), BudgetRefused)
        self.do(store, RaiseBudget("b", {"tokens": 50 * UNIT}))

        assert isinstance(self.block(store, run, 20), RevisionChanged)

        assert self.status(store) is Status.RUNNING
        self.block(store, run, 70)
        assert self.status(store) is Status.BLOCKED

    def test_a_signal_and_a_timer_wake_a_blocked_run(self, store: Store, clock: HandClock) -> None:
        self.set_budget(store, tokens=1)
        run = self.hold(store, budgets=("b",))
        self.record_spending(store, run, {"tokens": 2})
        self.block(store, run, wake_at=store.now() + MINUTE)

        assert self.claimed(store) == []
        clock.move(MINUTE)

        assert self.claimed(store) == ["r1"]

    def test_a_budget_is_reset_when_its_time_has_come(self, store: Store, clock: HandClock) -> None:
        self.set_budget(store, tokens=100, resets=str(MINUTE))
        run = self.hold(store, budgets=("b",))
        self.record_spending(store, run, {"tokens": 90})

        clock.move(MINUTE)
        assert self.usage(store) == {"tokens": (0, 0)}
        self.record_spending(store, run, {"tokens": 30})
        clock.move(SECOND)
        assert isinstance(self.spend(store, run, 70), BudgetSpent)
        assert isinstance(self.spend(store, run, 1), BudgetRefused)

        budget = store.budgets.get("b")
        assert budget is not None
        assert (budget.reset_count, budget.reset_at) == (1, store.now() - SECOND + MINUTE)
        assert store.budgets.spending("r1") == {"r1": {"tokens": 190 * UNIT}}

    def test_the_first_request_after_the_reset_time_finds_room(
        self, store: Store, clock: HandClock
    ) -> None:
        self.set_budget(store, tokens=100, resets=str(MINUTE))
        run = self.hold(store, budgets=("b",))
        self.record_spending(store, run, {"tokens": 130})
        assert isinstance(self.spend(store, run, 1), BudgetRefused)
        clock.move(MINUTE)

        assert isinstance(self.spend(store, run, 100), BudgetSpent)
        assert self.usage(store) == {"tokens": (100, 0)}

    def test_spending_outside_a_run_is_all_or_nothing_and_once_per_key(self, store: Store) -> None:
        self.set_budget(store, tokens=100)

        assert self.do(store, SpendBudget("b", {"tokens": 60 * UNIT}, "k")).counted is True
        assert self.do(store, SpendBudget("b", {"tokens": 60 * UNIT}, "k")).counted is False
        assert isinstance(
            self.do(store, SpendBudget("b", {"tokens": 60 * UNIT}, "other")), BudgetRefused
        )
        assert self.do(store, SpendBudget("b", {"tokens": 40 * UNIT}, "other")).counted is True

        assert self.usage(store) == {"tokens": (100, 0)}

    def test_an_unknown_budget_or_dimension_is_refused(self, store: Store) -> None:
        self.set_budget(store, tokens=100)

        for op in (
            RaiseBudget("no", {"tokens": 1}),
            ResetBudget("no"),
            SpendBudget("no", {"tokens": 1}),
        ):
            with pytest.raises(BudgetNotFound):
                self.do(store, op)
        for other in (RaiseBudget("b", {"coins": 1}), SpendBudget("b", {"coins": 1}, "k")):
            with pytest.raises(UnknownDimension):
                self.do(store, other)

        assert self.usage(store) == {"tokens": (0, 0)}

    def test_a_copy_keeps_budgets_and_reservations(self, store: Store, reopen: OpenStore) -> None:
        self.set_budget(store, tokens=100, resets="day", soft={"tokens": 50})
        run = self.hold(store, budgets=("b", "tree:r1"), limits=limits_from({"tokens": 10}))
        self.record_spending(store, run, {"tokens": 6}, key="k")
        self.reserve(store, run, 3, key="block", lasting=True)
        self.do(store, SpendBudget("b", {"tokens": UNIT}, "outside"))
        self.do(store, EndSession("s1", crashed=False))
        there = store.run_snapshots.page("", 100, 1 << 20)
        standing = store.installation.rows()
        budgets = store.budgets.page("", 100)
        self.execute(store, "DELETE FROM holdfast.run")

        self.end_sessions(store)
        self.do(store, BeginCopy([], standing))
        self.do(store, CopyRuns(there))
        self.do(store, EndCopy())

        assert (
            store.run_snapshots.page("", 100, 1 << 20),
            store.installation.rows(),
            store.budgets.page("", 100),
        ) == (
            there,
            standing,
            budgets,
        )
        assert self.do(store, SpendBudget("b", {"tokens": UNIT}, "outside")).counted is False

    def test_the_tree_budget_and_the_spending_of_a_run_are_pruned_with_it(
        self, store: Store, clock: HandClock
    ) -> None:
        self.set_budget(store, tokens=100)
        run = self.hold(store, budgets=("b", "tree:r1"), limits=limits_from({"tokens": 10}))
        self.record_spending(store, run, {"tokens": 6}, key="k")
        self.finish(store, run)
        clock.move(MINUTE)

        self.do(store, Prune(store.now(), ["completed"]))

        assert [budget.name for budget in store.budgets.page("", 100)] == ["b"]
        assert (store.budgets.spending("r1"), self.usage(store)) == ({}, {"tokens": (6, 0)})
