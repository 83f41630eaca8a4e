"""Conformance of budgets in batches: steps of many runs that spend in one commit, and the first
spending after a reset."""

from __future__ import annotations

from typing import Any

from holdfast.core.budgets.model import SpendEntry
from holdfast.core.budgets.rules import UNIT
from holdfast.core.events import Event, EventKind
from holdfast.errors import LeaseLost
from holdfast.store.budgets.operations import BudgetRefused, spending_effects
from holdfast.store.runs.operations import Advance, Advanced
from holdfast.store.store import Store
from holdfast.testing.conformance.budget_fixture import BudgetFixture
from holdfast.testing.conformance.fixture import MINUTE, HandClock


class BudgetBatchConformance(BudgetFixture):
    """A step and its spending are both written or both refused, independently of the spending of
    other runs in the same commit."""

    def complete_steps(
        self, store: Store, asked: dict[str, tuple[tuple[str, ...], dict[str, float]]]
    ) -> dict[str, Any]:
        """Complete one step of each run of *asked* in one batch, and return the answers by run.

        *asked* has the budgets and the amounts of each run. A step without budgets records its
        spending regardless of the limits. A run whose id begins with ``stale`` is written with
        a wrong generation.
        """
        ops = []
        for run_id, (names, amounts) in asked.items():
            run = self.hold(store, run_id, budgets=names)
            event = Event(EventKind.STEP_COMPLETED, "ask", b"1", seq=1)
            spends = [
                SpendEntry(
                    {name: int(amount * UNIT) for name, amount in amounts.items()},
                    None,
                    None,
                    bool(not names),
                )
            ]
            stale = run_id.startswith("stale")
            ops.append(
                Advance(
                    run_id=run_id,
                    generation=run.generation + stale,
                    events=[event],
                    effects=spending_effects(names, spends),
                )
            )
        return dict(zip(asked, store.apply(ops), strict=True))

    def test_spending_of_many_steps_in_one_batch_is_decided_for_each_step(
        self, store: Store
    ) -> None:
        self.set_budget(store, tokens=100, calls=5, soft={"tokens": 20})
        self.set_budget(store, "tight", tokens=25)

        answers = self.complete_steps(
            store,
            {
                "a": (("b",), {"tokens": 10}),
                "b": (("b", "tight"), {"tokens": 20, "calls": 1}),
                "c": (("b", "tight"), {"tokens": 20, "calls": 1}),
                "d": (("b",), {"tokens": 1, "calls": 2}),
                "stale": (("b",), {"tokens": 50}),
                "e": ((), {"tokens": 7, "coins": 1}),
                "f": (("b",), {"calls": 4}),
            },
        )

        kinds = {run_id: type(answer) for run_id, answer in answers.items()}
        passed = {run_id for run_id, kind in kinds.items() if kind is Advanced}
        assert kinds["stale"] is LeaseLost
        assert passed >= {"a", "d", "e"}
        assert len(passed & {"b", "c"}) == 1
        assert kinds["f"] is BudgetRefused
        assert (answers["f"].breach.budget, answers["f"].breach.dimension) == ("b", "calls")
        assert self.usage(store) == {"tokens": (31, 0), "calls": (3, 0)}
        assert self.usage(store, "tight") == {"tokens": (20, 0)}
        assert {run_id for run_id in answers if store.runs.history(run_id)} == passed
        assert store.budgets.spending("e") == {"e": {"tokens": 7 * UNIT, "coins": UNIT}}
        assert {
            run_id: store.budgets.spending(run_id) for run_id in answers if run_id not in passed
        } == {run_id: {} for run_id in answers if run_id not in passed}
        budget = store.budgets.get("b")
        assert budget is not None
        assert (budget.soft_breaches, budget.breaches) == (1, 1)

    def test_spending_of_many_steps_that_fit_is_counted_for_all(
        self, store: Store, clock: HandClock
    ) -> None:
        self.set_budget(store, tokens=100, soft={"tokens": 50}, resets=str(MINUTE))
        run = self.hold(store, "earlier", budgets=("b",))
        self.record_spending(store, run, {"tokens": 45})

        first = self.complete_steps(store, {f"r{n}": (("b",), {"tokens": 5}) for n in range(11)})
        assert {type(answer) for answer in first.values()} == {Advanced}
        second = self.complete_steps(store, {f"s{n}": (("b",), {"tokens": 1}) for n in range(2)})
        assert {type(answer) for answer in second.values()} == {BudgetRefused}
        clock.move(MINUTE)
        third = self.complete_steps(store, {f"t{n}": (("b",), {"tokens": 50}) for n in range(2)})
        assert {type(answer) for answer in third.values()} == {Advanced}

        budget = store.budgets.get("b")
        assert budget is not None
        assert (self.usage(store), budget.soft_breaches, budget.breaches) == (
            {"tokens": (100, 0)},
            2,
            2,
        )

    def test_the_first_spending_after_a_reset_may_exceed_the_limit(
        self, store: Store, clock: HandClock
    ) -> None:
        self.set_budget(store, tokens=100, resets=str(MINUTE))
        run = self.hold(store, budgets=("b",))
        self.record_spending(store, run, {"tokens": 90})
        clock.move(MINUTE)

        answer = self.record_spending(store, run, {"tokens": 120})

        assert (answer.breach.used, self.usage(store)) == (120 * UNIT, {"tokens": (120, 0)})
