"""Reserve amounts of budgets for work that has not been paid yet, draw on reservations, and release
them.

Invariants:
- A reservation belongs to a run and a key. Its amounts are counted as reserved in the lines of its
  budgets, and every change of one is written together with the other.
- A reservation without an event belongs to an attempt: it is released when the lease of the run
  ends. Others last until the run releases them or ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from holdfast.core.budgets.model import BudgetLine
from holdfast.store.budgets.lines import amount_row, check_limits, lock_lines
from holdfast.store.budgets.operations import (
    BudgetRefused,
    BudgetSpent,
    ReserveBudget,
)
from holdfast.store.database import Row, Transaction
from holdfast.store.history import append
from holdfast.store.rows import check_lease


def reserve(tx: Transaction, op: ReserveBudget) -> BudgetSpent | BudgetRefused:
    """Set the reservation under a key to these amounts, or refuse and leave it as it was."""
    check_lease(tx, op.run_id, op.generation)
    # Counted as free: the new amounts replace the old ones.
    old = {
        (row["budget"], row["dimension"]): row["amount"]
        for row in tx.rows("reservation", run_id=op.run_id, key=op.key)
    }
    credit = {dimension: amount for (_, dimension), amount in old.items()}
    for dimension, amount in credit_under(tx, op.run_id, op.under).items():
        credit[dimension] = credit.get(dimension, 0) + amount
    breach = None if op.force else check_limits(tx, op.budgets, op.amounts, credit)
    if breach is not None:
        return BudgetRefused(breach)
    # After the check, which may have reset an overdue budget.
    lines = [line for line in lock_lines(tx, op.budgets) if line.dimension in op.amounts]
    tx.many("save_reservation", [_reservation(tx, op, line) for line in lines])
    more = [
        (line, op.amounts[line.dimension] - old.get((line.budget, line.dimension), 0))
        for line in lines
    ]
    tx.many("add_reserved", [amount_row(line, amount) for line, amount in more if amount])
    if op.event is not None:
        append(tx, op.run_id, [op.event])
    return BudgetSpent(tx.now)


def _reservation(tx: Transaction, op: ReserveBudget, line: BudgetLine) -> Row:
    return {
        "run_id": op.run_id,
        "key": op.key,
        "budget": line.budget,
        "dimension": line.dimension,
        "amount": op.amounts[line.dimension],
        "lasting": int(op.event is not None),
        "at": tx.now,
    }


def credit_under(tx: Transaction, run_id: str, under: str | None) -> dict[str, int]:
    """Return the rest of the reservation *under*, by dimension."""
    if under is None:
        return {}
    return {
        row["dimension"]: row["amount"] for row in tx.rows("reservation", run_id=run_id, key=under)
    }


def draw(tx: Transaction, run_id: str, key: str, amounts: Mapping[str, int]) -> None:
    """Reduce a reservation by the amounts that were spent from it."""
    reservations = tx.rows("reservation", run_id=run_id, key=key)
    taken = [(row, min(row["amount"], amounts.get(row["dimension"], 0))) for row in reservations]
    drawn = [
        {"budget": row["budget"], "dimension": row["dimension"], "amount": -amount}
        for row, amount in taken
        if amount
    ]
    tx.many("draw_reservation", [{"run_id": run_id, "key": key, **draw} for draw in drawn])
    tx.many("add_reserved", drawn)


def release_keys(tx: Transaction, run_id: str, keys: Iterable[str]) -> None:
    for key in keys:
        reservations = tx.rows("reservation", run_id=run_id, key=key)
        tx.many("add_reserved", [_released(row) for row in reservations])
        tx.change("delete_one_reservation", run_id=run_id, key=key)


def release_reservations_of_run(tx: Transaction, run_id: str) -> None:
    """Release all reservations of a run that has ended."""
    _release(tx, tx.rows("reservations_of_run", run_id=run_id))


def release_reservations_of_holder(tx: Transaction, run_id: str) -> None:
    """Release the reservations of a run's steps: its lease is taken from its holder."""
    _release(
        tx, [row for row in tx.rows("reservations_of_run", run_id=run_id) if not row["lasting"]]
    )


def release_reservations_of_session(tx: Transaction, session_id: str) -> None:
    """Release the reservations of the steps that an ended session was running.

    Whether these steps run again is decided later, with new reservations.
    """
    _release(tx, tx.rows("reservations_of_session", session_id=session_id))


def _release(tx: Transaction, reservations: Sequence[Row]) -> None:
    if reservations:
        tx.many("add_reserved", [_released(row) for row in reservations])
        # Sorted: two transactions that release for the same runs must not deadlock.
        keys = sorted({(row["run_id"], row["key"]) for row in reservations})
        tx.many("delete_one_reservation", [{"run_id": run_id, "key": key} for run_id, key in keys])


def _released(row: Row) -> Row:
    return {"budget": row["budget"], "dimension": row["dimension"], "amount": -row["amount"]}
