"""What a store promises about budgets."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast.core.budgets.model import SpendEntry
from holdfast.core.budgets.rules import UNIT, limits_from
from holdfast.core.events import Event, EventKind
from holdfast.core.runs import RunRecord
from holdfast.core.status import Status
from holdfast.errors import BudgetNotFound, LeaseLost, UnknownDimension
from holdfast.store.contract import Store
from holdfast.store.contract.budgets import (
    BudgetRefused,
    BudgetSpent,
    RaiseBudget,
    ReserveBudget,
    ResetBudget,
    SetBudget,
    SpendBudget,
    SpendRunBudget,
)
from holdfast.store.contract.leases import RevokeLease
from holdfast.store.contract.runs import (
    Advanced,
    BeginCopy,
    CopyRuns,
    EndCopy,
    EndSession,
    Prune,
    RequestCancel,
    RevisionChanged,
    StartRuns,
)
from holdfast.testing.conformance.fixture import MINUTE, SECOND, HandClock, OpenStore, StoreFixture

_ASIDE = (
    "INSERT INTO holdfast.reservation (run_id, key, budget, dimension, amount, lasting, at) VALUES"
)

BROKEN = {
    "a_budget_has_a_limit": "DELETE FROM holdfast.allowance WHERE budget = 'tree:waiting'",
    "nobody_has_spent_or_set_aside_less_than_nothing": (
        "INSERT INTO holdfast.allowance (budget, dimension, run_id, used) VALUES ('run:held',"
        " 'tokens', 'held', -1)"
    ),
    "what_is_set_aside_in_a_budget_is_what_runs_have_set_aside": (
        "INSERT INTO holdfast.allowance (budget, dimension, run_id, reserved) VALUES ('run:held',"
        " 'tokens', 'held', 5)"
    ),
    "only_a_run_that_lives_has_something_set_aside": (
        f"{_ASIDE} ('completed', 'step', 'b', 'tokens', 1, 1, 1)"
    ),
    "what_a_step_has_set_aside_belongs_to_a_run_that_is_held": (
        f"{_ASIDE} ('pending', 'step', 'b', 'tokens', 1, 0, 1)"
    ),
    "a_budget_of_a_tree_has_spent_what_its_runs_have_spent_or_less": (
        "UPDATE holdfast.allowance SET used = 7 WHERE budget = 'tree:waiting'"
    ),
    "a_limit_belongs_to_a_budget_and_an_account_to_a_run": (
        "INSERT INTO holdfast.allowance (budget, dimension, used) VALUES ('none', 'tokens', 1)"
    ),
    "a_run_that_is_blocked_is_held_by_nobody_and_cannot_be_claimed": (
        "UPDATE holdfast.run SET status = 'blocked' WHERE id = 'pending'"
    ),
}
"""One way to break each law about budgets."""


class BudgetConformance(StoreFixture):
    """What is spent is counted once, what does not fit is refused whole, and room that appears
    wakes whoever waits."""

    def budget(
        self, store: Store, name: str = "b", *, resets: str | None = None, **limits: Any
    ) -> None:
        soft, on_breach = limits.pop("soft", None), limits.pop("on_breach", "wait")
        self.do(
            store, SetBudget(name=name, limits=limits_from(limits, soft, on_breach), resets=resets)
        )

    def lines(self, store: Store, name: str = "b") -> dict[str, tuple[float, float]]:
        """What is used and set aside, by dimension."""
        return {
            line.dimension: (line.used / UNIT, line.reserved / UNIT)
            for line in store.allowances([name])
        }

    def spends(
        self, store: Store, run: RunRecord, amounts: dict[str, float], **options: Any
    ) -> Any:
        """Count what a step has spent, with its outcome."""
        found = {name: int(amount * UNIT) for name, amount in amounts.items()}
        spending = SpendEntry(found, options.pop("key", None), None, options.pop("fact", True))
        return self.advance(store, run, spends=[spending], budgets=run.budgets, **options)

    def takes(self, store: Store, run: RunRecord, tokens: float, **options: Any) -> Any:
        event = Event(EventKind.BUDGET_SPENT, "spend", seq=self.seq(store, run.id))
        return self.do(
            store,
            SpendRunBudget(
                **self.whose(run), amounts={"tokens": int(tokens * UNIT)}, event=event, **options
            ),
        )

    def sets_aside(
        self, store: Store, run: RunRecord, tokens: float, key: str = "step", **options: Any
    ) -> Any:
        if options.pop("lasting", False):
            options["event"] = Event(EventKind.BUDGET_RESERVED, key, seq=self.seq(store, run.id))
        return self.do(
            store,
            ReserveBudget(
                **self.whose(run), key=key, amounts={"tokens": int(tokens * UNIT)}, **options
            ),
        )

    def whose(self, run: RunRecord) -> dict[str, Any]:
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
            keep=False,
            waits=waits,
            demands=demands,
            budgets=run.budgets,
            events=[],
            **options,
        )

    def test_what_a_step_spends_is_counted_for_its_run_and_its_budgets(self, store: Store) -> None:
        self.budget(store, tokens=100, money="2.5")
        run = self.hold(store, budgets=("b",))

        answer = self.spends(store, run, {"tokens": 60, "money": 0.1})

        assert answer.breach is None
        assert self.lines(store) == {"tokens": (60, 0), "money": (0.1, 0)}
        assert store.spending("r1") == {"r1": {"tokens": 60 * UNIT, "money": UNIT // 10}}

    def test_a_run_without_budgets_has_an_account_too(self, store: Store) -> None:
        run = self.hold(store)

        self.spends(store, run, {"tokens": 1})
        self.spends(store, run, {"tokens": 2})

        assert store.spending("r1") == {"r1": {"tokens": 3 * UNIT}}

    def test_what_was_spent_is_counted_even_past_the_limit_and_the_breach_is_told(
        self, store: Store
    ) -> None:
        self.budget(store, tokens=100)
        run = self.hold(store, budgets=("b",))

        answer = self.spends(store, run, {"tokens": 130})

        assert (answer.breach.budget, answer.breach.dimension) == ("b", "tokens")
        assert (answer.breach.used, answer.breach.limit) == (130 * UNIT, 100 * UNIT)
        found = store.budget("b")
        assert found is not None
        assert (found.breaches, found.breached, found.breached_at) == (1, "tokens", store.now())

    @pytest.mark.parametrize("key", [None, "k"])
    def test_what_a_step_asks_for_is_taken_everywhere_or_nowhere(
        self, store: Store, key: str | None
    ) -> None:
        self.budget(store, tokens=100, calls=5)
        self.budget(store, "other", tokens=50)
        run = self.hold(store, budgets=("b", "other"))

        answer = self.spends(store, run, {"tokens": 60, "calls": 1}, fact=False, key=key)

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
        assert self.lines(store) == {"tokens": (0, 0), "calls": (0, 0)}
        assert (store.history("r1"), store.spending("r1")) == ([], {})
        found = store.budget("other")
        assert found is not None
        assert (found.breaches, found.breached) == (1, "tokens")

        self.do(store, RaiseBudget("other", {"tokens": 10 * UNIT}))
        assert isinstance(
            self.spends(store, run, {"tokens": 60, "calls": 1}, fact=False, key=key), Advanced
        )
        assert self.lines(store) == {"tokens": (60, 0), "calls": (1, 0)}
        assert store.spending("r1") == {"r1": {"tokens": 60 * UNIT, "calls": UNIT}}
        assert len(store.history("r1")) == 1

    def test_what_a_step_asks_for_may_be_what_it_has_set_aside(self, store: Store) -> None:
        self.budget(store, tokens=100)
        run = self.hold(store, budgets=("b",))
        self.sets_aside(store, run, 70)
        self.sets_aside(store, run, 30, key="block", lasting=True)

        assert isinstance(
            self.spends(store, run, {"tokens": 71}, fact=False, settles=["step"]), BudgetRefused
        )
        assert self.lines(store) == {"tokens": (0, 100)}
        assert isinstance(
            self.spends(store, run, {"tokens": 70}, fact=False, settles=["step"]), Advanced
        )
        assert self.lines(store) == {"tokens": (70, 30)}

    def test_what_a_step_asks_for_is_in_time_for_the_reset(
        self, store: Store, clock: HandClock
    ) -> None:
        self.budget(store, tokens=10, resets=str(60 * SECOND))
        run = self.hold(store, budgets=("b",))
        assert isinstance(self.spends(store, run, {"tokens": 8}, fact=False), Advanced)
        assert isinstance(self.spends(store, run, {"tokens": 8}, fact=False), BudgetRefused)

        clock.move(61 * SECOND)

        assert isinstance(self.spends(store, run, {"tokens": 8}, fact=False), Advanced)
        assert self.lines(store) == {"tokens": (8, 0)}

    def test_a_soft_limit_is_counted_when_it_is_passed_and_only_then(self, store: Store) -> None:
        self.budget(store, tokens=100, soft={"tokens": 50})
        run = self.hold(store, budgets=("b",))

        for number in range(4):
            assert self.spends(store, run, {"tokens": 20}, fact=number % 2 == 0).breach is None

        found = store.budget("b")
        assert found is not None
        assert (found.soft_breaches, found.breaches) == (1, 0)

    def test_a_stale_writer_spends_nothing(self, store: Store) -> None:
        self.budget(store, tokens=100)
        run = self.hold(store, budgets=("b",))
        run.generation += 1

        for fact in (True, False):
            with pytest.raises(LeaseLost):
                self.spends(store, run, {"tokens": 1}, fact=fact)
        with pytest.raises(LeaseLost):
            self.takes(store, run, 1)
        with pytest.raises(LeaseLost):
            self.sets_aside(store, run, 1)

        assert self.lines(store) == {"tokens": (0, 0)}
        assert store.spending("r1") == {}

    def test_a_key_is_counted_once(self, store: Store) -> None:
        self.budget(store, tokens=100)
        run = self.hold(store, budgets=("b",))

        for _ in range(3):
            self.spends(store, run, {"tokens": 7}, key="call 1")
        self.spends(store, run, {"tokens": 7}, key="call 2")

        assert self.lines(store) == {"tokens": (14, 0)}

    def test_all_dimensions_fit_or_nothing_is_taken(self, store: Store) -> None:
        self.budget(store, tokens=100, calls=1)
        run = self.hold(store, budgets=("b",))
        event = Event(EventKind.BUDGET_SPENT, "spend", seq=1)

        amounts = {"tokens": 50 * UNIT, "calls": 2 * UNIT}
        answer = self.do(
            store, SpendRunBudget(**self.whose(run), amounts=amounts, event=event, key="k")
        )

        assert isinstance(answer, BudgetRefused)
        assert (answer.breach.dimension, answer.breach.wanted) == ("calls", 2 * UNIT)
        assert self.lines(store) == {"tokens": (0, 0), "calls": (0, 0)}
        assert store.history("r1") == []
        event = Event(EventKind.BUDGET_SPENT, "spend", seq=1)
        amounts = {"tokens": 50 * UNIT, "calls": UNIT}
        assert isinstance(
            self.do(
                store, SpendRunBudget(**self.whose(run), amounts=amounts, event=event, key="k")
            ),
            BudgetSpent,
        )
        assert self.kinds(store) == [EventKind.BUDGET_SPENT]

    def test_all_budgets_of_a_run_must_have_room(self, store: Store) -> None:
        self.budget(store, "b", tokens=100)
        self.budget(store, "small", tokens=10)
        run = self.hold(store, budgets=("b", "small"))

        answer = self.takes(store, run, 11)

        assert isinstance(answer, BudgetRefused)
        assert answer.breach.budget == "small"
        assert self.lines(store, "b") == {"tokens": (0, 0)}

    def test_what_is_set_aside_is_not_there_for_others(self, store: Store) -> None:
        self.budget(store, tokens=100)
        one, other = self.hold(store, "r1", budgets=("b",)), self.hold(store, "r2", budgets=("b",))

        assert isinstance(self.sets_aside(store, one, 80), BudgetSpent)

        assert isinstance(self.sets_aside(store, other, 30), BudgetRefused)
        assert isinstance(self.takes(store, other, 21), BudgetRefused)
        assert isinstance(self.takes(store, other, 20), BudgetSpent)
        assert self.lines(store) == {"tokens": (20, 80)}
        assert store.reservations("b") == [("r1", "step", "tokens", 80 * UNIT, store.now())]

    def test_setting_aside_again_under_the_same_key_replaces_it(self, store: Store) -> None:
        self.budget(store, tokens=100)
        run = self.hold(store, budgets=("b",))

        for tokens in (60, 60, 90, 20):
            assert isinstance(self.sets_aside(store, run, tokens), BudgetSpent)
        assert isinstance(self.sets_aside(store, run, 101), BudgetRefused)

        assert self.lines(store) == {"tokens": (0, 20)}

    def test_what_was_set_aside_is_settled_with_the_outcome(self, store: Store) -> None:
        self.budget(store, tokens=100)
        run = self.hold(store, budgets=("b",))
        self.sets_aside(store, run, 80)

        self.spends(store, run, {"tokens": 30}, settles=["step"])

        assert self.lines(store) == {"tokens": (30, 0)}

    @pytest.mark.parametrize("crashed", [True, False])
    def test_what_a_step_set_aside_comes_back_with_the_session_of_its_worker(
        self, store: Store, crashed: bool
    ) -> None:
        self.budget(store, tokens=100)
        run = self.hold(store, budgets=("b",))
        self.sets_aside(store, run, 80)
        self.sets_aside(store, run, 10, key="block", lasting=True)

        self.do(store, EndSession("s1", crashed=crashed))

        assert self.lines(store) == {"tokens": (0, 10)}
        assert [one[1] for one in store.reservations("b")] == ["block"]

    def test_what_a_step_set_aside_comes_back_when_its_run_is_taken_from_its_holder(
        self, store: Store
    ) -> None:
        self.budget(store, tokens=100)
        run = self.hold(store, budgets=("b",))
        self.sets_aside(store, run, 80)

        assert (
            self.do(store, RevokeLease(run_id="r1", namespace="default", reason="enough")) is True
        )

        assert self.lines(store) == {"tokens": (0, 0)}

    @pytest.mark.parametrize("how", ["finish", "force"])
    def test_a_run_that_ends_has_nothing_set_aside(self, store: Store, how: str) -> None:
        self.budget(store, tokens=100)
        run = self.hold(store, budgets=("b",))
        self.sets_aside(store, run, 50)
        self.sets_aside(store, run, 10, key="block", lasting=True)

        if how == "finish":
            self.finish(store, run, settles_all=True)
        else:
            self.do(store, RequestCancel("r1", "enough", force=True))

        assert self.lines(store) == {"tokens": (0, 0)}

    def test_what_is_spent_under_something_set_aside_is_drawn_from_it(self, store: Store) -> None:
        self.budget(store, tokens=100)
        run = self.hold(store, budgets=("b",))
        self.sets_aside(store, run, 90, key="block", lasting=True)

        assert isinstance(self.takes(store, run, 60, under="block"), BudgetSpent)
        self.advance(
            store,
            run,
            spends=[SpendEntry({"tokens": 50 * UNIT}, None, "block", fact=True)],
            budgets=("b",),
        )

        assert self.lines(store) == {"tokens": (110, 0)}

    def test_a_tree_has_limits_of_its_own_from_its_start(self, store: Store) -> None:
        run = self.hold(
            store, budgets=("tree:r1",), limits=limits_from({"tokens": 10}, on_breach="fail")
        )
        self.do(store, StartRuns([self.child_of(run, "r2", budgets=("tree:r1",), session_id="s1")]))

        self.spends(store, self.get(store, "r2"), {"tokens": 6})
        answer = self.spends(store, run, {"tokens": 6})

        assert (answer.breach.used, answer.breach.on_breach) == (12 * UNIT, "fail")
        assert store.spending("r1") == {"r1": {"tokens": 6 * UNIT}, "r2": {"tokens": 6 * UNIT}}
        self.start(store, "r1", limits=limits_from({"tokens": 99}))
        found = store.budget("tree:r1")
        assert found is not None
        assert [line.hard for line in found.allowances] == [10 * UNIT]

    def test_a_run_with_a_budget_that_is_not_there_is_not_started(self, store: Store) -> None:
        with pytest.raises(BudgetNotFound):
            self.start(store, budgets=("none",))

        assert store.run("r1") is None

    def test_a_run_that_is_blocked_is_woken_when_the_budget_is_raised(self, store: Store) -> None:
        self.budget(store, tokens=100)
        run = self.hold(store, budgets=("b",))
        self.spends(store, run, {"tokens": 130})

        self.block(store, run)
        assert (self.status(store), self.claimed(store)) == (Status.BLOCKED, [])
        assert self.do(store, RaiseBudget("b", {"tokens": 50 * UNIT}, "once")) is True
        assert self.do(store, RaiseBudget("b", {"tokens": 50 * UNIT}, "once")) is False

        assert self.claimed(store) == ["r1"]
        assert [line.hard for line in store.allowances(["b"])] == [150 * UNIT]

    def test_setting_a_higher_limit_and_resetting_wake_as_well(self, store: Store) -> None:
        self.budget(store, tokens=10)
        run = self.hold(store, budgets=("b",))
        self.spends(store, run, {"tokens": 11})
        self.block(store, run)

        self.budget(store, tokens=20)
        (run,) = self.claim(store)
        self.spends(store, run, {"tokens": 11})
        self.block(store, run)
        self.budget(store, tokens=15)
        assert self.claimed(store) == []
        self.do(store, ResetBudget("b"))

        assert self.claimed(store) == ["r1"]
        assert self.lines(store) == {"tokens": (0, 0)}

    def test_a_run_is_not_blocked_when_there_is_room_by_now(self, store: Store) -> None:
        self.budget(store, tokens=100)
        run = self.hold(store, budgets=("b",))
        self.do(store, SpendBudget("b", {"tokens": 90 * UNIT}))
        assert isinstance(self.takes(store, run, 20), BudgetRefused)
        self.do(store, RaiseBudget("b", {"tokens": 50 * UNIT}))

        assert isinstance(self.block(store, run, 20), RevisionChanged)

        assert self.status(store) is Status.RUNNING
        self.block(store, run, 70)
        assert self.status(store) is Status.BLOCKED

    def test_a_signal_and_a_timer_wake_a_blocked_run(self, store: Store, clock: HandClock) -> None:
        self.budget(store, tokens=1)
        run = self.hold(store, budgets=("b",))
        self.spends(store, run, {"tokens": 2})
        self.block(store, run, wake_at=store.now() + MINUTE)

        assert self.claimed(store) == []
        clock.move(MINUTE)

        assert self.claimed(store) == ["r1"]

    def test_a_budget_is_reset_when_its_time_has_come(self, store: Store, clock: HandClock) -> None:
        self.budget(store, tokens=100, resets=str(MINUTE))
        run = self.hold(store, budgets=("b",))
        self.spends(store, run, {"tokens": 90})

        clock.move(MINUTE)
        assert self.lines(store) == {"tokens": (0, 0)}
        self.spends(store, run, {"tokens": 30})
        clock.move(SECOND)
        assert isinstance(self.takes(store, run, 70), BudgetSpent)
        assert isinstance(self.takes(store, run, 1), BudgetRefused)

        found = store.budget("b")
        assert found is not None
        assert (found.reset_count, found.reset_at) == (1, store.now() - SECOND + MINUTE)
        assert store.spending("r1") == {"r1": {"tokens": 190 * UNIT}}

    def test_whoever_asks_first_after_the_time_of_a_reset_finds_room(
        self, store: Store, clock: HandClock
    ) -> None:
        self.budget(store, tokens=100, resets=str(MINUTE))
        run = self.hold(store, budgets=("b",))
        self.spends(store, run, {"tokens": 130})
        assert isinstance(self.takes(store, run, 1), BudgetRefused)
        clock.move(MINUTE)

        assert isinstance(self.takes(store, run, 100), BudgetSpent)
        assert self.lines(store) == {"tokens": (100, 0)}

    def test_somebody_outside_spends_all_or_nothing_and_once_per_key(self, store: Store) -> None:
        self.budget(store, tokens=100)

        assert self.do(store, SpendBudget("b", {"tokens": 60 * UNIT}, "k")).counted is True
        assert self.do(store, SpendBudget("b", {"tokens": 60 * UNIT}, "k")).counted is False
        assert isinstance(
            self.do(store, SpendBudget("b", {"tokens": 60 * UNIT}, "other")), BudgetRefused
        )
        assert self.do(store, SpendBudget("b", {"tokens": 40 * UNIT}, "other")).counted is True

        assert self.lines(store) == {"tokens": (100, 0)}

    def test_what_is_not_there_is_said_by_name(self, store: Store) -> None:
        self.budget(store, tokens=100)

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

        assert self.lines(store) == {"tokens": (0, 0)}

    def test_budgets_move_with_what_they_belong_to(self, store: Store, reopen: OpenStore) -> None:
        self.budget(store, tokens=100, resets="day", soft={"tokens": 50})
        run = self.hold(store, budgets=("b", "tree:r1"), limits=limits_from({"tokens": 10}))
        self.spends(store, run, {"tokens": 6}, key="k")
        self.sets_aside(store, run, 3, key="block", lasting=True)
        self.do(store, SpendBudget("b", {"tokens": UNIT}, "outside"))
        self.do(store, EndSession("s1", crashed=False))
        there, standing, budgets = (
            store.dossiers("", 100, 1 << 20),
            store.standing(),
            store.budgets(),
        )
        self.execute(store, "DELETE FROM holdfast.run")

        self.end_sessions(store)
        self.do(store, BeginCopy([], standing))
        self.do(store, CopyRuns(there))
        self.do(store, EndCopy())

        assert (store.dossiers("", 100, 1 << 20), store.standing(), store.budgets()) == (
            there,
            standing,
            budgets,
        )
        assert self.do(store, SpendBudget("b", {"tokens": UNIT}, "outside")).counted is False

    def test_what_belongs_to_a_run_goes_with_it(self, store: Store, clock: HandClock) -> None:
        self.budget(store, tokens=100)
        run = self.hold(store, budgets=("b", "tree:r1"), limits=limits_from({"tokens": 10}))
        self.spends(store, run, {"tokens": 6}, key="k")
        self.finish(store, run)
        clock.move(MINUTE)

        self.do(store, Prune(store.now(), ["completed"]))

        assert [found.name for found in store.budgets()] == ["b"]
        assert (store.spending("r1"), self.lines(store)) == ({}, {"tokens": (6, 0)})
