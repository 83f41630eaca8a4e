"""Conformance of budgets: spending, reservations, breaches, blocked runs and resets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from holdfast.core.budgets.model import SpendEntry
from holdfast.core.budgets.rules import UNIT, limits_from
from holdfast.core.events import Event, EventKind
from holdfast.core.runs import RunRecord
from holdfast.core.status import Status
from holdfast.errors import BudgetNotFound, LeaseLost, UnknownDimension
from holdfast.store.budgets.operations import (
    BudgetRefused,
    BudgetSpent,
    RaiseBudget,
    ReleaseReservations,
    RequireBudget,
    ReserveBudget,
    ResetBudget,
    SetBudget,
    SpendBudget,
    SpendRunBudget,
    spending_effects,
)
from holdfast.store.effects import RevisionChanged
from holdfast.store.runs.operations import (
    Advanced,
    BeginCopy,
    CopyRuns,
    EndCopy,
    EndSession,
    Prune,
    RequestCancel,
    StartRuns,
)
from holdfast.store.store import Store
from holdfast.store.tasks.operations import RevokeLease
from holdfast.testing.conformance.fixture import MINUTE, SECOND, HandClock, OpenStore, StoreFixture

_ASIDE = (
    "INSERT INTO holdfast.reservation (run_id, key, budget, dimension, amount, lasting, at) VALUES"
)

BROKEN = {
    "a_budget_has_at_least_one_line": (
        "DELETE FROM holdfast.budget_line WHERE budget = 'tree:waiting'"
    ),
    "budget_amounts_are_not_negative": (
        "INSERT INTO holdfast.budget_line (budget, dimension, run_id, used) VALUES ('run:held',"
        " 'tokens', 'held', -1)"
    ),
    "the_reserved_amount_of_a_budget_is_the_sum_of_its_reservations": (
        "INSERT INTO holdfast.budget_line (budget, dimension, run_id, reserved) VALUES ('run:held',"
        " 'tokens', 'held', 5)"
    ),
    "a_reservation_belongs_to_a_run_that_has_not_ended": (
        f"{_ASIDE} ('completed', 'step', 'b', 'tokens', 1, 1, 1)"
    ),
    "a_reservation_of_a_step_belongs_to_a_leased_run": (
        f"{_ASIDE} ('pending', 'step', 'b', 'tokens', 1, 0, 1)"
    ),
    "a_tree_budget_has_used_at_most_the_sum_of_its_runs": (
        "UPDATE holdfast.budget_line SET used = 7 WHERE budget = 'tree:waiting'"
    ),
    "a_budget_line_belongs_to_a_budget_or_a_run": (
        "INSERT INTO holdfast.budget_line (budget, dimension, used) VALUES ('none', 'tokens', 1)"
    ),
    "a_blocked_run_is_not_leased_and_not_claimable": (
        "UPDATE holdfast.run SET status = 'blocked' WHERE id = 'pending'"
    ),
}
"""One statement per law about budgets that breaks it."""


class BudgetConformance(StoreFixture):
    """Spending is counted once, spending that does not fit is refused as a whole, and room in a
    budget wakes the runs that are blocked on it."""

    def set_budget(
        self, store: Store, name: str = "b", *, resets: str | None = None, **limits: Any
    ) -> None:
        soft = limits.pop("soft", None)
        on_breach = limits.pop("on_breach", "wait")
        self.do(
            store, SetBudget(name=name, limits=limits_from(limits, soft, on_breach), resets=resets)
        )

    def usage(self, store: Store, name: str = "b") -> dict[str, tuple[float, float]]:
        """Return the used and the reserved amount of each dimension."""
        return {
            line.dimension: (line.used / UNIT, line.reserved / UNIT)
            for line in store.budgets.lines([name])
        }

    def record_spending(
        self,
        store: Store,
        run: RunRecord,
        amounts: dict[str, float],
        *,
        releases: Sequence[str] = (),
        **options: Any,
    ) -> Any:
        """Apply an event together with its spending; ``fact=False`` lets the limits refuse both."""
        units = {name: int(amount * UNIT) for name, amount in amounts.items()}
        spending = SpendEntry(units, options.pop("key", None), None, options.pop("fact", True))
        effects = spending_effects(run.budgets, [spending])
        if releases:
            effects.append(ReleaseReservations(releases))
        return self.advance(store, run, effects=effects, **options)

    def spend(self, store: Store, run: RunRecord, tokens: float, **options: Any) -> Any:
        event = Event(EventKind.BUDGET_SPENT, "spend", seq=self.seq(store, run.id))
        return self.do(
            store,
            SpendRunBudget(
                **self.holder_fields(run),
                amounts={"tokens": int(tokens * UNIT)},
                event=event,
                **options,
            ),
        )

    def reserve(
        self, store: Store, run: RunRecord, tokens: float, key: str = "step", **options: Any
    ) -> Any:
        if options.pop("lasting", False):
            options["event"] = Event(EventKind.BUDGET_RESERVED, key, seq=self.seq(store, run.id))
        return self.do(
            store,
            ReserveBudget(
                **self.holder_fields(run),
                key=key,
                amounts={"tokens": int(tokens * UNIT)},
                **options,
            ),
        )

    def holder_fields(self, run: RunRecord) -> dict[str, Any]:
        return {"run_id": run.id, "generation": run.generation, "budgets": run.budgets}

    def block(self, store: Store, run: RunRecord, demand: float = 0, **options: Any) -> Any:
        waits = msgspec.json.encode(
            [{"kind": "budget", "step": "ask", "budget": run.budgets[0], "dimension": "tokens"}]
        )
        demands = [{"tokens": int(demand * UNIT)} if demand else {}]
        return self.advance(
            store,
            run,
            status=Status.BLOCKED,
            waits=waits,
            events=[],
            release=True,
            effects=[RequireBudget(run.budgets, demands)],
            **options,
        )

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
        there = store.runs.snapshots("", 100, 1 << 20)
        standing = store.installation.rows()
        budgets = store.budgets.all()
        self.execute(store, "DELETE FROM holdfast.run")

        self.end_sessions(store)
        self.do(store, BeginCopy([], standing))
        self.do(store, CopyRuns(there))
        self.do(store, EndCopy())

        assert (
            store.runs.snapshots("", 100, 1 << 20),
            store.installation.rows(),
            store.budgets.all(),
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

        assert [budget.name for budget in store.budgets.all()] == ["b"]
        assert (store.budgets.spending("r1"), self.usage(store)) == ({}, {"tokens": (6, 0)})
