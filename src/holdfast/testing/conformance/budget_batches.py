"""What a store promises about steps of many runs that spend at once, and about what is spent first
after a reset."""

from __future__ import annotations

from typing import Any

from holdfast.core.budgets.model import SpendEntry
from holdfast.core.budgets.rules import UNIT
from holdfast.core.events import Event, EventKind
from holdfast.errors import LeaseLost
from holdfast.store.contract import Store
from holdfast.store.contract.budgets import BudgetRefused
from holdfast.store.contract.runs import Advance, Advanced
from holdfast.testing.conformance.budgets import BudgetConformance
from holdfast.testing.conformance.fixture import MINUTE, HandClock


class BudgetBatchConformance(BudgetConformance):
    """Each step is recorded with what it spends, or neither, whoever else spends in the same
    commit."""

    def steps_of_many(
        self, store: Store, asked: dict[str, tuple[tuple[str, ...], dict[str, float]]]
    ) -> dict[str, Any]:
        """Let a step of each of these runs end at once, with what it asks for of its budgets.
        Returns the answers."""
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
                    budgets=names,
                    events=[event],
                    spends=spends,
                )
            )
        return dict(zip(asked, store.apply(ops), strict=True))

    def test_what_many_steps_ask_for_at_once_is_decided_for_each_of_them(
        self, store: Store
    ) -> None:
        self.budget(store, tokens=100, calls=5, soft={"tokens": 20})
        self.budget(store, "tight", tokens=25)

        answers = self.steps_of_many(
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
        assert self.lines(store) == {"tokens": (31, 0), "calls": (3, 0)}
        assert self.lines(store, "tight") == {"tokens": (20, 0)}
        assert {run_id for run_id in answers if store.history(run_id)} == passed
        assert store.spending("e") == {"e": {"tokens": 7 * UNIT, "coins": UNIT}}
        assert {run_id: store.spending(run_id) for run_id in answers if run_id not in passed} == {
            run_id: {} for run_id in answers if run_id not in passed
        }
        found = store.budget("b")
        assert found is not None
        assert (found.soft_breaches, found.breaches) == (1, 1)

    def test_many_steps_that_all_fit_are_all_counted(self, store: Store, clock: HandClock) -> None:
        self.budget(store, tokens=100, soft={"tokens": 50}, resets=str(MINUTE))
        run = self.hold(store, "earlier", budgets=("b",))
        self.spends(store, run, {"tokens": 45})

        first = self.steps_of_many(store, {f"r{n}": (("b",), {"tokens": 5}) for n in range(11)})
        assert {type(answer) for answer in first.values()} == {Advanced}
        second = self.steps_of_many(store, {f"s{n}": (("b",), {"tokens": 1}) for n in range(2)})
        assert {type(answer) for answer in second.values()} == {BudgetRefused}
        clock.move(MINUTE)
        third = self.steps_of_many(store, {f"t{n}": (("b",), {"tokens": 50}) for n in range(2)})
        assert {type(answer) for answer in third.values()} == {Advanced}

        found = store.budget("b")
        assert found is not None
        assert (self.lines(store), found.soft_breaches, found.breaches) == (
            {"tokens": (100, 0)},
            2,
            2,
        )

    def test_what_is_spent_first_after_a_reset_may_pass_the_limit_too(
        self, store: Store, clock: HandClock
    ) -> None:
        self.budget(store, tokens=100, resets=str(MINUTE))
        run = self.hold(store, budgets=("b",))
        self.spends(store, run, {"tokens": 90})
        clock.move(MINUTE)

        answer = self.spends(store, run, {"tokens": 120})

        assert (answer.breach.used, self.lines(store)) == (120 * UNIT, {"tokens": (120, 0)})
