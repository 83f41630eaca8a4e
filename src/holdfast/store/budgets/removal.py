"""Remove budgets, and give back what a run has spent."""

from __future__ import annotations

from holdfast.core.budgets import rules as budget_rules
from holdfast.errors import BudgetInUse, RunNotFound
from holdfast.store.budgets.lines import current_lines, known_lines, load_budgets
from holdfast.store.budgets.operations import Refunded, RefundRun, RemoveBudget
from holdfast.store.budgets.waking import wake_waiting
from holdfast.store.database import Transaction

_NAMED = 3
"""How many of the runs that use a budget an error names."""


def remove_budget(tx: Transaction, op: RemoveBudget) -> None:
    """Remove a budget with its reservations and keys. Raises BudgetNotFound, BudgetInUse."""
    known_lines(tx, op.name)  # locked first, as in every change of a budget
    tx.rows("budget_to_remove", name=op.name)
    if not op.force:
        _check_unused(tx, op.name)
    # With the budget, or a budget of the same name would begin with the reservations of this one.
    tx.change("remove_reservations_in_budget", budget=op.name)
    tx.change("remove_keys_of_budget", budget=op.name)
    tx.change("remove_lines_of_budget", budget=op.name)
    tx.change("remove_budget", name=op.name)
    # Runs that wait for room would wait for ever: without the budget nothing limits them.
    wake_waiting(tx, op.name)


def _check_unused(tx: Transaction, name: str) -> None:
    rows = tx.rows("live_runs_of_budget", line_end="\n", line=f"\n{name}\n", limit=_NAMED + 1)
    if rows:
        runs = ", ".join(row["id"] for row in rows[:_NAMED])
        raise BudgetInUse(budget=name, runs=runs + (", ..." if len(rows) > _NAMED else ""))


def refund_run(tx: Transaction, op: RefundRun) -> Refunded:
    """Give back what a run has spent, once. Raises RunNotFound."""
    runs = tx.rows("budgets_of_run", run_id=op.run_id)
    if not runs:
        raise RunNotFound(run=op.run_id)
    names = runs[0]["budgets"].split("\n") if runs[0]["budgets"] else []
    account = f"{budget_rules.RUN}{op.run_id}"
    lines = current_lines(tx, [account, *names])
    spent = {line.dimension: line.used for line in lines if line.budget == account and line.used}
    if not spent:
        return Refunded()
    budgets = load_budgets(tx, names)
    refunds = budget_rules.refundable(lines, spent, budgets, runs[0]["created_at"])
    # The account, too: a second refund then finds nothing to give back.
    own = {(account, dimension): amount for dimension, amount in spent.items()}
    tx.many(
        "add_used",
        [
            {"budget": budget, "dimension": dimension, "amount": -amount}
            for (budget, dimension), amount in {**refunds, **own}.items()
        ],
    )
    refunded = sorted({budget for budget, _ in refunds})
    for name in refunded:
        wake_waiting(tx, name)
    return Refunded(amounts=spent, budgets=refunded)
