"""Count what runs and other programs spend, within the limits or regardless of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from holdfast.core.budgets import rules as budget_rules
from holdfast.core.budgets.model import Breach, Budget, BudgetLine, SoftBreach, SpendEntry
from holdfast.core.runs import RunRecord
from holdfast.store.budgets.lines import (
    amount_row,
    check_limits,
    count_breach,
    current_lines,
    known_lines,
    load_budgets,
    lock_lines,
    remember_key,
    reset,
)
from holdfast.store.budgets.operations import (
    BudgetRefused,
    BudgetSpent,
    SpendBudget,
    SpendRunBudget,
)
from holdfast.store.budgets.reservations import credit_under, draw
from holdfast.store.database import Transaction
from holdfast.store.history import append
from holdfast.store.rows import check_lease


class Counted(NamedTuple):
    """The first hard limit and the soft limits that counted spending exceeds."""

    breach: Breach | None = None
    soft: Sequence[SoftBreach] = ()


def record_spend(
    tx: Transaction, run_id: str, names: Sequence[str], spendings: Iterable[SpendEntry]
) -> Counted:
    """Count spending that has happened, regardless of limits."""
    breach: Breach | None = None
    soft: dict[tuple[str, str], SoftBreach] = {}
    for spending in spendings:
        if spending.key is not None and not remember_key(
            tx, f"{budget_rules.RUN}{run_id}", spending.key, run_id
        ):
            continue
        counted = _count(tx, run_id, names, spending.amounts)
        if spending.under is not None:
            draw(tx, run_id, spending.under, spending.amounts)
        breach = breach or counted.breach
        soft.update({(passed.budget, passed.dimension): passed for passed in counted.soft})
    return Counted(breach, list(soft.values()))


def _count(
    tx: Transaction, run_id: str, names: Sequence[str], amounts: Mapping[str, int]
) -> Counted:
    rows = tx.rows(
        "count_spending",
        run_id=run_id,
        budgets=tx.as_list(names),
        dimensions=tx.as_list(amounts),
        amounts=tx.as_list(amounts.values()),
    )
    lines = [BudgetLine(**dict(row)) for row in rows]
    due = sorted({line.budget for line in lines if budget_rules.is_due(line, tx.now)})
    if due:
        lines = _reset_due(tx, due, lines, amounts)
    soft = budget_rules.over_soft(lines, amounts)
    passed = [line for line in lines if line.hard is not None and line.used > line.hard]
    if not (soft or passed):
        return Counted()
    count_breach(tx, budget_rules.crossed(lines, amounts), hard=0)
    if not passed:
        return Counted(soft=soft)
    count_breach(tx, passed, hard=1)
    budgets = load_budgets(tx, [line.budget for line in passed])
    return Counted(budget_rules.excess(passed, budgets, tx.now), soft)


def _reset_due(
    tx: Transaction, due: Sequence[str], lines: list[BudgetLine], amounts: Mapping[str, int]
) -> list[BudgetLine]:
    """Reset budgets that are due, and add the amounts of this call again. Return all lines."""
    for name in due:
        reset(tx, load_budgets(tx, [name])[name])
        tx.many(
            "add_used",
            [amount_row(line, amounts[line.dimension]) for line in lines if line.budget == name],
        )
    # Read again: the reset and the addition have changed them.
    return [line for line in lines if line.budget not in due] + lock_lines(tx, due, amounts)


def spend_from_run(tx: Transaction, op: SpendRunBudget) -> BudgetSpent | BudgetRefused:
    """Spend from the budgets of a run, or refuse. Raises LeaseLost."""
    check_lease(tx, op.run_id, op.generation)
    if op.key is not None and not remember_key(
        tx, f"{budget_rules.RUN}{op.run_id}", op.key, op.run_id
    ):
        append(tx, op.run_id, [op.event])
        return BudgetSpent(tx.now, counted=False)
    # After the key: a repeated call is answered even if there is no room any more.
    credit = credit_under(tx, op.run_id, op.under)
    breach = None if op.force else check_limits(tx, op.budgets, op.amounts, credit)
    if breach is not None:
        if op.key is not None:
            # Refused, so not spent: the same key may be used when there is room.
            tx.change("forget_spend_key", budget=f"{budget_rules.RUN}{op.run_id}", key=op.key)
        return BudgetRefused(breach)
    counted = record_spend(tx, op.run_id, op.budgets, [SpendEntry(op.amounts, None, op.under)])
    append(tx, op.run_id, [op.event])
    return BudgetSpent(tx.now, breach=counted.breach, soft=list(counted.soft))


def is_blocked(tx: Transaction, names: Sequence[str], demands: Sequence[Mapping[str, int]]) -> bool:
    """Return whether one of these demands still does not fit. An empty demand only requires that
    no limit is exceeded."""
    lines = current_lines(tx, names)
    known = load_budgets(tx, names)
    return any(_stops(lines, known, demand, tx.now) for demand in demands)


def _stops(
    lines: Sequence[BudgetLine], known: Mapping[str, Budget], demand: Mapping[str, int], now: int
) -> bool:
    breach = (
        budget_rules.refusal(lines, demand, known)
        if demand
        else budget_rules.excess(lines, known, now)
    )
    return breach is not None


def spend_budget(tx: Transaction, op: SpendBudget) -> BudgetSpent | BudgetRefused:
    """Count what a program outside any run has spent, or refuse."""
    lines = known_lines(tx, op.name)
    budget_rules.check_dimensions(op.amounts, [line.dimension for line in lines])
    # Not counted as a breach yet: a repeated key is answered before a refusal.
    breach = check_limits(tx, [op.name], op.amounts, {}, noted=False)
    if op.key is not None and not remember_key(tx, op.name, op.key, lines[0].run_id):
        return BudgetSpent(tx.now, counted=False)
    if breach is not None:
        count_breach(tx, [line for line in lines if line.dimension == breach.dimension], hard=1)
        # Refused, so the key was not used: the next attempt with it must count.
        if op.key is not None:
            tx.change("forget_spend_key", budget=op.name, key=op.key)
        return BudgetRefused(breach)
    counted = [line for line in lock_lines(tx, [op.name]) if line.dimension in op.amounts]
    tx.many("add_used", [amount_row(line, op.amounts[line.dimension]) for line in counted])
    spent = lock_lines(tx, [op.name], op.amounts)
    count_breach(tx, budget_rules.crossed(spent, op.amounts), hard=0)
    return BudgetSpent(tx.now, soft=budget_rules.over_soft(spent, op.amounts))


def limits_without_room(
    tx: Transaction, runs: Sequence[RunRecord], begun: Collection[str]
) -> dict[str, Breach]:
    """Return the hard limits that leave no room, by the id of the run that draws on them. A limit
    that is used up stops only runs that have not *begun*: others may have spent all they need.

    The lines are locked, so that no room appears before the caller has parked the runs."""
    names = sorted({name for run in runs for name in run.budgets})
    if not names:
        return {}
    lines = current_lines(tx, names)
    known = load_budgets(tx, names)
    breaches: dict[str, Breach] = {}
    for run in runs:
        own = [line for line in lines if line.budget in run.budgets]
        rule = budget_rules.excess if run.id in begun else budget_rules.exhausted
        breach = rule(own, known, tx.now)
        if breach is not None:
            breaches[run.id] = breach
    return breaches
