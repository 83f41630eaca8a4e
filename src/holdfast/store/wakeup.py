"""Notify holders, wake parked runs, and report the end of a run to parent, schedule and graph."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core import claiming
from holdfast.core.status import Move, Status, after
from holdfast.store.database import MemberOutcome, Row, Transaction


def notify_or_wake(tx: Transaction, state: Row, *, wakes: bool = True) -> None:
    """Notify the holder of a run that something has reached it; without a holder, make it
    claimable.

    With *wakes* false a run without a holder is not woken, only its revision grows.
    """
    run_id = state["id"]
    # The revision grows in any case: a holder that parks the run at this moment is refused, and
    # checks again.
    if state["session_id"] is not None:
        tx.change("bump_revision", run_id=run_id)
        notify_holder(tx, state["session_id"], run_id)
    elif wakes and claiming.is_parked(state):
        status = after(Status(state["status"]), Move.WAKE)
        tx.change(
            "wake_run", run_id=run_id, status=status, rank=claiming.rank(tx.now, state["priority"])
        )
        tx.hints.ready = True
    else:
        tx.change("bump_revision", run_id=run_id)


def notify_holder(tx: Transaction, session_id: str, run_id: str) -> None:
    """Notify the session that holds a run."""
    tx.change("insert_notification", session_id=session_id, run_id=run_id)
    tx.hints.runs.add(run_id)


def notify_parent(
    tx: Transaction, child_id: str, parent: tuple[str, str, int | None], *, completed: bool
) -> None:
    """Wake the parent of a run that has ended, or only count down if the parent awaits many
    children."""
    run_id, step, index = parent
    if index is not None:
        left = tx.rows("count_down", run_id=run_id, step=step)
        # A parent that needs all results is woken for the last child, or for one that has failed.
        if left and left[0]["remaining"] > 0 and not left[0]["eager"] and completed:
            return
    wake_parent(tx, run_id)
    if index is None:
        # A parent that awaits thousands of children one by one reads the ones that have ended.
        tx.change("number_ended_child", run_id=child_id, parent_id=run_id)


def wake_parent(tx: Transaction, run_id: str) -> None:
    """Notify or wake a parent, once per transaction however many of its children end in it.

    The row of a parent that waits for thousands of children is large, and SQLite rewrites it as a
    whole.
    """
    if run_id in tx.woken_parents:
        return
    tx.woken_parents.add(run_id)
    states = tx.rows("load_state", run_id=run_id)
    if states and states[0]["finished_at"] is None:
        notify_or_wake(tx, states[0])


def release_schedule(tx: Transaction, run_id: str) -> None:
    """Release the ticks that a schedule has queued until this run ended."""
    if tx.change("release_schedule", run_id=run_id, now=tx.now):
        tx.hints.ready = True


def write_outbox(tx: Transaction) -> None:
    """Write the member outcomes that were not resolved in this transaction to the outbox."""
    outcomes = tx.member_outcomes
    tx.member_outcomes = []
    insert_outcomes(tx, outcomes)
    tx.hints.graphs = True


def insert_outcomes(tx: Transaction, outcomes: Sequence[MemberOutcome]) -> None:
    """Insert member outcomes into the outbox of their graphs."""
    tx.many(
        "insert_outbox",
        [
            {
                "graph_id": outcome.graph_id,
                "run_id": outcome.run_id,
                "status": outcome.status,
                "at": tx.now,
                "place": outcome.place,
            }
            for outcome in outcomes
        ],
    )
