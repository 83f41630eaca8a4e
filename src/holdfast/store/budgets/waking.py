"""Wake the runs that wait for room in a budget."""

from __future__ import annotations

import msgspec

from holdfast.core import claiming
from holdfast.core.budgets import rules as budget_rules
from holdfast.store.database import Transaction
from holdfast.store.rows import load
from holdfast.store.wakeup import notify_or_wake


def wake_waiting(tx: Transaction, name: str) -> None:
    """Wake the runs that wait for room in this budget."""
    waiting = [
        row["id"]
        for row in tx.rows("blocked_runs")
        if name in budget_rules.names(msgspec.json.decode(bytes(row["waits"] or b"[]")))
    ]
    # Locked and checked again: a run may have continued since it was found.
    for run_id in waiting:
        state = load(tx, run_id)
        if claiming.is_parked(state):
            notify_or_wake(tx, state)
