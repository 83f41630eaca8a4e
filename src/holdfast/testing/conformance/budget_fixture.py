"""Helpers of the conformance tests of budgets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.core.budgets.model import SpendEntry
from holdfast.core.budgets.rules import UNIT, limits_from
from holdfast.core.events import Event, EventKind
from holdfast.core.runs import RunRecord
from holdfast.core.status import Status
from holdfast.store.budgets.operations import (
    ReleaseReservations,
    RequireBudget,
    ReserveBudget,
    SetBudget,
    SpendRunBudget,
    spending_effects,
)
from holdfast.store.store import Store
from holdfast.testing.conformance.fixture import StoreFixture

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


class BudgetFixture(StoreFixture):
    """Helpers that set budgets, spend, reserve and block."""

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
