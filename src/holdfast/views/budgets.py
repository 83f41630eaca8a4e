"""Views of budgets, their lines and reservations, and of the spending of runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal

import msgspec

from holdfast.core.budgets import rules
from holdfast.core.budgets.model import Budget, BudgetLine, SoftBreach
from holdfast.views.values import amount, instant, optional_amount, optional_instant


class BudgetLineView(msgspec.Struct, kw_only=True):
    """One dimension of a budget: its limits, the amount used and the amount reserved. A hard limit
    of None counts the dimension without limiting it."""

    used: Decimal
    reserved: Decimal
    soft: Decimal | None
    hard: Decimal | None


class BudgetView(msgspec.Struct, kw_only=True):
    """The amounts that several runs may spend together. ``run`` is set for the budget of one tree
    of runs. ``dimensions`` are its lines, by dimension; ``breached`` is the dimension of the last
    breach."""

    name: str
    run: str | None
    on_breach: str
    resets: str | None
    next_reset: datetime | None
    last_reset: datetime | None
    reset_count: int
    breaches: int
    soft_breaches: int
    last_breach: datetime | None
    breached: str | None
    created_at: datetime
    dimensions: dict[str, BudgetLineView]


class ReservationView(msgspec.Struct, kw_only=True):
    """An amount that a run has reserved."""

    run: str
    dimension: str
    amount: Decimal
    since: datetime


class SoftBreachView(msgspec.Struct, kw_only=True):
    """A soft limit that the amount used of a budget exceeds."""

    budget: str
    dimension: str
    used: Decimal
    limit: Decimal


class SpentView(msgspec.Struct, kw_only=True):
    """The answer to a spending. ``counted`` is false if its key was used before; ``soft_breaches``
    are the soft limits that the budgets exceed with it, in its dimensions."""

    counted: bool
    soft_breaches: list[SoftBreachView]


class RefundView(msgspec.Struct, kw_only=True):
    """The amounts of a run that were given back, by dimension, and the budgets that got them. Both
    are empty if nothing was left to give back."""

    amounts: dict[str, Decimal]
    budgets: list[str]


class SpendingView(msgspec.Struct, kw_only=True):
    """The amounts that a run has spent, that each run of its tree has spent, and their total, by
    dimension."""

    run: dict[str, Decimal]
    runs: dict[str, dict[str, Decimal]]
    total: dict[str, Decimal]


def of(budget: Budget) -> BudgetView:
    """Return the view of a budget."""
    return BudgetView(
        name=budget.name,
        run=budget.run_id,
        on_breach=budget.on_breach,
        resets=rules.show_reset(budget.resets, budget.zone),
        next_reset=optional_instant(budget.reset_at),
        last_reset=optional_instant(budget.last_reset_at),
        reset_count=budget.reset_count,
        breaches=budget.breaches,
        soft_breaches=budget.soft_breaches,
        last_breach=optional_instant(budget.breached_at),
        breached=budget.breached,
        created_at=instant(budget.created_at),
        dimensions={line.dimension: line_of(line) for line in budget.lines},
    )


def line_of(line: BudgetLine) -> BudgetLineView:
    """Return the view of one dimension of a budget."""
    return BudgetLineView(
        used=amount(line.used),
        reserved=amount(line.reserved),
        soft=optional_amount(line.soft),
        hard=optional_amount(line.hard),
    )


def reservation_of(run_id: str, dimension: str, millionths: int, at: int) -> ReservationView:
    """Return the view of a reservation."""
    return ReservationView(
        run=run_id, dimension=dimension, amount=amount(millionths), since=instant(at)
    )


def spent_of(counted: bool, soft: Sequence[SoftBreach]) -> SpentView:
    """Return the view of the answer to a spending."""
    breaches = [
        SoftBreachView(
            budget=breach.budget,
            dimension=breach.dimension,
            used=amount(breach.used),
            limit=amount(breach.limit),
        )
        for breach in soft
    ]
    return SpentView(counted=counted, soft_breaches=breaches)


def refund_of(amounts: Mapping[str, int], budgets: Sequence[str]) -> RefundView:
    """Return the view of a refund."""
    return RefundView(amounts=_amounts(amounts), budgets=list(budgets))


def spending_of(run_id: str, by_run: Mapping[str, Mapping[str, int]]) -> SpendingView:
    """Return the view of the spending of a run and its descendants, in millionths by run."""
    total: Counter[str] = Counter()
    for spent in by_run.values():
        total.update(spent)
    return SpendingView(
        run=_amounts(by_run.get(run_id, {})),
        runs={member: _amounts(spent) for member, spent in by_run.items()},
        total=_amounts(total),
    )


def _amounts(spent: Mapping[str, int]) -> dict[str, Decimal]:
    return {dimension: amount(millionths) for dimension, millionths in spent.items()}
