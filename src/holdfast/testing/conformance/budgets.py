"""Conformance of budgets: spending, reservations and breaches."""

from __future__ import annotations

import pytest

from holdfast.core.budgets.model import SpendEntry
from holdfast.core.budgets.rules import UNIT
from holdfast.core.events import Event, EventKind
from holdfast.errors import LeaseLost
from holdfast.store.budgets.operations import (
    BudgetRefused,
    BudgetSpent,
    RaiseBudget,
    ReleaseReservations,
    SpendRunBudget,
    spending_effects,
)
from holdfast.store.runs.operations import (
    Advanced,
    EndSession,
    RequestCancel,
)
from holdfast.store.store import Store
from holdfast.store.tasks.operations import RevokeLease
from holdfast.testing.conformance.budget_fixture import BudgetFixture
from holdfast.testing.conformance.fixture import SECOND, HandClock


class BudgetConformance(BudgetFixture):
    """Spending is counted once, and spending that does not fit is refused as a whole."""

    def test_spending_of_a_step_is_counted_for_its_run_and_its_budgets(self, store: Store) -> None:
        self.set_budget(store, tokens=100, money="2.5")
        run = self.hold(store, budgets=("b",))

        answer = self.record_spending(store, run, {"tokens": 60, "money": 0.1})

        assert answer.breach is None
        assert self.usage(store) == {"tokens": (60, 0), "money": (0.1, 0)}
        assert store.budgets.spending("r1") == {"r1": {"tokens": 60 * UNIT, "money": UNIT // 10}}

    def test_spending_of_a_run_without_budgets_is_counted(self, store: Store) -> None:
        run = self.hold(store)

        self.record_spending(store, run, {"tokens": 1})
        self.record_spending(store, run, {"tokens": 2})

        assert store.budgets.spending("r1") == {"r1": {"tokens": 3 * UNIT}}

    def test_recorded_spending_is_counted_past_the_limit_and_reports_the_breach(
        self, store: Store
    ) -> None:
        self.set_budget(store, tokens=100)
        run = self.hold(store, budgets=("b",))

        answer = self.record_spending(store, run, {"tokens": 130})

        assert (answer.breach.budget, answer.breach.dimension) == ("b", "tokens")
        assert (answer.breach.used, answer.breach.limit) == (130 * UNIT, 100 * UNIT)
        budget = store.budgets.get("b")
        assert budget is not None
        assert (budget.breaches, budget.breached, budget.breached_at) == (1, "tokens", store.now())

    @pytest.mark.parametrize("key", [None, "k"])
    def test_spending_is_taken_from_all_budgets_of_a_run_or_from_none(
        self, store: Store, key: str | None
    ) -> None:
        self.set_budget(store, tokens=100, calls=5)
        self.set_budget(store, "other", tokens=50)
        run = self.hold(store, budgets=("b", "other"))

        answer = self.record_spending(store, run, {"tokens": 60, "calls": 1}, fact=False, key=key)

        assert (type(answer), answer.breach.budget, answer.breach.dimension) == (
            BudgetRefused,
            "other",
            "tokens",
        )
        assert (answer.breach.used, answer.breach.wanted, answer.breach.limit) == (
            0,
            60 * UNIT,
            50 * UNIT,
        )
        assert self.usage(store) == {"tokens": (0, 0), "calls": (0, 0)}
        assert (store.runs.history("r1"), store.budgets.spending("r1")) == ([], {})
        budget = store.budgets.get("other")
        assert budget is not None
        assert (budget.breaches, budget.breached) == (1, "tokens")

        self.do(store, RaiseBudget("other", {"tokens": 10 * UNIT}))
        assert isinstance(
            self.record_spending(store, run, {"tokens": 60, "calls": 1}, fact=False, key=key),
            Advanced,
        )
        assert self.usage(store) == {"tokens": (60, 0), "calls": (1, 0)}
        assert store.budgets.spending("r1") == {"r1": {"tokens": 60 * UNIT, "calls": UNIT}}
        assert len(store.runs.history("r1")) == 1

    def test_a_step_may_spend_its_own_reservation(self, store: Store) -> None:
        self.set_budget(store, tokens=100)
        run = self.hold(store, budgets=("b",))
        self.reserve(store, run, 70)
        self.reserve(store, run, 30, key="block", lasting=True)

        assert isinstance(
            self.record_spending(store, run, {"tokens": 71}, fact=False, releases=["step"]),
            BudgetRefused,
        )
        assert self.usage(store) == {"tokens": (0, 100)}
        assert isinstance(
            self.record_spending(store, run, {"tokens": 70}, fact=False, releases=["step"]),
            Advanced,
        )
        assert self.usage(store) == {"tokens": (70, 30)}

    def test_spending_after_the_reset_time_sees_the_budget_reset(
        self, store: Store, clock: HandClock
    ) -> None:
        self.set_budget(store, tokens=10, resets=str(60 * SECOND))
        run = self.hold(store, budgets=("b",))
        assert isinstance(self.record_spending(store, run, {"tokens": 8}, fact=False), Advanced)
        assert isinstance(
            self.record_spending(store, run, {"tokens": 8}, fact=False), BudgetRefused
        )

        clock.move(61 * SECOND)

        assert isinstance(self.record_spending(store, run, {"tokens": 8}, fact=False), Advanced)
        assert self.usage(store) == {"tokens": (8, 0)}

    def test_a_soft_limit_is_counted_when_it_is_passed_and_only_then(self, store: Store) -> None:
        self.set_budget(store, tokens=100, soft={"tokens": 50})
        run = self.hold(store, budgets=("b",))

        for number in range(4):
            assert (
                self.record_spending(store, run, {"tokens": 20}, fact=number % 2 == 0).breach
                is None
            )

        budget = store.budgets.get("b")
        assert budget is not None
        assert (budget.soft_breaches, budget.breaches) == (1, 0)

    def test_a_stale_writer_spends_nothing(self, store: Store) -> None:
        self.set_budget(store, tokens=100)
        run = self.hold(store, budgets=("b",))
        run.generation += 1

        for fact in (True, False):
            with pytest.raises(LeaseLost):
                self.record_spending(store, run, {"tokens": 1}, fact=fact)
        with pytest.raises(LeaseLost):
            self.spend(store, run, 1)
        with pytest.raises(LeaseLost):
            self.reserve(store, run, 1)

        assert self.usage(store) == {"tokens": (0, 0)}
        assert store.budgets.spending("r1") == {}

    def test_a_key_is_counted_once(self, store: Store) -> None:
        self.set_budget(store, tokens=100)
        run = self.hold(store, budgets=("b",))

        for _ in range(3):
            self.record_spending(store, run, {"tokens": 7}, key="call 1")
        self.record_spending(store, run, {"tokens": 7}, key="call 2")

        assert self.usage(store) == {"tokens": (14, 0)}

    def test_all_dimensions_fit_or_nothing_is_taken(self, store: Store) -> None:
        self.set_budget(store, tokens=100, calls=1)
        run = self.hold(store, budgets=("b",))
        event = Event(EventKind.BUDGET_SPENT, "spend", seq=1)

        amounts = {"tokens": 50 * UNIT, "calls": 2 * UNIT}
        answer = self.do(
            store, SpendRunBudget(**self.holder_fields(run), amounts=amounts, event=event, key="k")
        )

        assert isinstance(answer, BudgetRefused)
        assert (answer.breach.dimension, answer.breach.wanted) == ("calls", 2 * UNIT)
        assert self.usage(store) == {"tokens": (0, 0), "calls": (0, 0)}
        assert store.runs.history("r1") == []
        event = Event(EventKind.BUDGET_SPENT, "spend", seq=1)
        amounts = {"tokens": 50 * UNIT, "calls": UNIT}
        assert isinstance(
            self.do(
                store,
                SpendRunBudget(**self.holder_fields(run), amounts=amounts, event=event, key="k"),
            ),
            BudgetSpent,
        )
        assert self.kinds(store) == [EventKind.BUDGET_SPENT]

    def test_all_budgets_of_a_run_must_have_room(self, store: Store) -> None:
        self.set_budget(store, "b", tokens=100)
        self.set_budget(store, "small", tokens=10)
        run = self.hold(store, budgets=("b", "small"))

        answer = self.spend(store, run, 11)

        assert isinstance(answer, BudgetRefused)
        assert answer.breach.budget == "small"
        assert self.usage(store, "b") == {"tokens": (0, 0)}

    def test_a_reservation_is_not_available_to_other_runs(self, store: Store) -> None:
        self.set_budget(store, tokens=100)
        run = self.hold(store, "r1", budgets=("b",))
        other = self.hold(store, "r2", budgets=("b",))

        assert isinstance(self.reserve(store, run, 80), BudgetSpent)

        assert isinstance(self.reserve(store, other, 30), BudgetRefused)
        assert isinstance(self.spend(store, other, 21), BudgetRefused)
        assert isinstance(self.spend(store, other, 20), BudgetSpent)
        assert self.usage(store) == {"tokens": (20, 80)}
        assert store.budgets.reservations("b") == [("r1", "step", "tokens", 80 * UNIT, store.now())]

    def test_reserving_again_under_the_same_key_replaces_the_reservation(
        self, store: Store
    ) -> None:
        self.set_budget(store, tokens=100)
        run = self.hold(store, budgets=("b",))

        for tokens in (60, 60, 90, 20):
            assert isinstance(self.reserve(store, run, tokens), BudgetSpent)
        assert isinstance(self.reserve(store, run, 101), BudgetRefused)

        assert self.usage(store) == {"tokens": (0, 20)}

    def test_a_reservation_is_released_with_the_outcome_of_its_step(self, store: Store) -> None:
        self.set_budget(store, tokens=100)
        run = self.hold(store, budgets=("b",))
        self.reserve(store, run, 80)

        self.record_spending(store, run, {"tokens": 30}, releases=["step"])

        assert self.usage(store) == {"tokens": (30, 0)}

    @pytest.mark.parametrize("crashed", [True, False])
    def test_a_reservation_is_released_when_the_session_of_its_worker_ends(
        self, store: Store, crashed: bool
    ) -> None:
        self.set_budget(store, tokens=100)
        run = self.hold(store, budgets=("b",))
        self.reserve(store, run, 80)
        self.reserve(store, run, 10, key="block", lasting=True)

        self.do(store, EndSession("s1", crashed=crashed))

        assert self.usage(store) == {"tokens": (0, 10)}
        assert [reservation[1] for reservation in store.budgets.reservations("b")] == ["block"]

    def test_a_reservation_is_released_when_its_run_is_taken_from_its_holder(
        self, store: Store
    ) -> None:
        self.set_budget(store, tokens=100)
        run = self.hold(store, budgets=("b",))
        self.reserve(store, run, 80)

        assert (
            self.do(store, RevokeLease(run_id="r1", namespace="default", reason="enough")) is True
        )

        assert self.usage(store) == {"tokens": (0, 0)}

    @pytest.mark.parametrize("how", ["finish", "force"])
    def test_a_run_that_ends_has_no_reservations(self, store: Store, how: str) -> None:
        self.set_budget(store, tokens=100)
        run = self.hold(store, budgets=("b",))
        self.reserve(store, run, 50)
        self.reserve(store, run, 10, key="block", lasting=True)

        if how == "finish":
            self.finish(store, run, effects=[ReleaseReservations(None)])
        else:
            self.do(store, RequestCancel("r1", "enough", force=True))

        assert self.usage(store) == {"tokens": (0, 0)}

    def test_spending_under_a_reservation_is_drawn_from_it(self, store: Store) -> None:
        self.set_budget(store, tokens=100)
        run = self.hold(store, budgets=("b",))
        self.reserve(store, run, 90, key="block", lasting=True)

        assert isinstance(self.spend(store, run, 60, under="block"), BudgetSpent)
        self.advance(
            store,
            run,
            effects=spending_effects(
                ("b",), [SpendEntry({"tokens": 50 * UNIT}, None, "block", fact=True)]
            ),
        )

        assert self.usage(store) == {"tokens": (110, 0)}
