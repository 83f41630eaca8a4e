"""Read, lock, check and reset the lines of budgets; remember the keys of spending.

Lock order: the run, then budget lines by budget and dimension. Every statement that locks lines
uses this order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from holdfast.core.budgets import rules as budget_rules
from holdfast.core.budgets.model import Breach, Budget, BudgetLine
from holdfast.errors import BudgetNotFound
from holdfast.store.database import Row, Transaction

REMEMBERED = 30 * 86_400 * 1_000_000
"""Microseconds for which a key is remembered at least, even if its budget is reset often."""


def check_limits(
    tx: Transaction,
    names: Sequence[str],
    amounts: Mapping[str, int],
    credit: Mapping[str, int],
    *,
    noted: bool = True,
) -> Breach | None:
    """Return the limit that refuses these amounts, and count the breach if *noted*."""
    lines = current_lines(tx, names)
    budgets = load_budgets(tx, names)
    breach = budget_rules.refusal(lines, amounts, budgets, credit) or budget_rules.excess(
        lines, budgets, tx.now
    )
    if breach is not None and noted:
        count_breach(
            tx,
            [
                line
                for line in lines
                if (line.budget, line.dimension) == (breach.budget, breach.dimension)
            ],
            hard=1,
        )
    return breach


def current_lines(tx: Transaction, names: Sequence[str]) -> list[BudgetLine]:
    """Return the lines of budgets, locked. Budgets that are due are reset first."""
    lines = lock_lines(tx, names)
    due = sorted({line.budget for line in lines if budget_rules.is_due(line, tx.now)})
    for name in due:
        reset(tx, load_budgets(tx, [name])[name])
    # Read again, because the resets have changed them.
    return lock_lines(tx, names) if due else lines


def reset(tx: Transaction, budget: Budget) -> None:
    """Set the used amounts of a budget to zero, and start its next period."""
    at = budget_rules.next_reset(budget.resets, budget.zone, tx.now, budget.created_at)
    tx.change("reset_budget", name=budget.name, reset_at=at, now=tx.now)
    tx.change("reset_budget_lines", name=budget.name, reset_at=at)
    # Not all keys: a repetition may arrive after the reset, and must not count in the new period.
    tx.change("forget_spend_keys", budget=budget.name, before=tx.now - REMEMBERED)


def count_breach(tx: Transaction, lines: Sequence[BudgetLine], *, hard: int) -> None:
    """Count a breach of the hard limits (*hard* is 1) or of the soft limits (0) of these lines."""
    noted = [
        {
            "name": line.budget,
            "dimension": line.dimension,
            "hard": hard,
            "soft": 1 - hard,
            "now": tx.now,
        }
        for line in lines
        if not line.budget.startswith(budget_rules.RUN)
    ]
    tx.many("count_breach", noted)


def lock_lines(
    tx: Transaction, names: Sequence[str], dimensions: Iterable[str] | None = None
) -> list[BudgetLine]:
    """Return the lines of budgets, locked, or only those of some dimensions."""
    lines = (
        [BudgetLine(**dict(row)) for row in tx.rows("lock_budget_lines", budgets=tx.as_list(names))]
        if names
        else []
    )
    if dimensions is None:
        return lines
    wanted = set(dimensions)
    return [line for line in lines if line.dimension in wanted]


def known_lines(tx: Transaction, name: str) -> list[BudgetLine]:
    """Return the lines of a named budget, locked. Raises BudgetNotFound."""
    lines = lock_lines(tx, [name])
    if not lines or name.startswith(budget_rules.RUN):
        raise BudgetNotFound(budget=name)
    return lines


def load_budgets(tx: Transaction, names: Sequence[str]) -> dict[str, Budget]:
    """Return budgets by name; missing ones are left out."""
    return (
        {
            row["name"]: Budget(**dict(row))
            for row in tx.rows("budgets_named", names=tx.as_list(names))
        }
        if names
        else {}
    )


def amount_row(line: BudgetLine, amount: int) -> Row:
    """Return an amount as parameters of a change of the line."""
    return {"budget": line.budget, "dimension": line.dimension, "amount": amount}


def remember_key(tx: Transaction, budget: str, key: str, run_id: str | None) -> bool:
    """Remember a key. Return False if it was used before, so that nothing must be counted."""
    return tx.change("insert_spend_key", budget=budget, key=key, run_id=run_id, at=tx.now) == 1
