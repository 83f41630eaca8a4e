"""Notify holders, wake parked runs, and report the end of a run to parent, schedule and graph."""

from __future__ import annotations

from holdfast.core import claiming
from holdfast.core.graphs.model import graph_of
from holdfast.core.status import Move, Status, after
from holdfast.store.database import MemberOutcome, Row, Transaction


def notify_or_wake(tx: Transaction, state: Row, *, wakes: bool = True) -> None:
    """Notify the holder of a run that something has reached it; without a holder, make it
    claimable.

    With *wakes* false a run without a holder is not woken, only its revision grows.
    """
    run_id = state["id"]
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


def notify_parent(tx: Transaction, parent: tuple[str, str, int | None], *, completed: bool) -> None:
    """Wake the parent of a run that has ended, or only count down if the parent awaits many
    children."""
    run_id, step, index = parent
    if index is not None:
        left = tx.rows("count_down", run_id=run_id, step=step)
        if left and left[0]["remaining"] > 0 and not left[0]["eager"] and completed:
            return
    wake_parent(tx, run_id)


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
    if tx.change("free_schedule", run_id=run_id, now=tx.now):
        tx.hints.ready = True


def note_member_outcome(tx: Transaction, run_id: str, status: Status, result: bytes | None) -> None:
    """Note the end of a member, for the resolution of its graph.

    Resolved in this transaction, or written to the outbox and resolved after it.
    """
    tx.news.append(MemberOutcome(run_id, status.value, result))


def write_outbox(tx: Transaction) -> None:
    """Write the member outcomes that were not resolved in this transaction to the outbox."""
    outcomes = tx.news
    tx.news = []
    tx.many(
        "insert_news",
        [
            {
                "graph_id": graph_of(outcome.run_id),
                "run_id": outcome.run_id,
                "status": outcome.status,
                "at": tx.now,
                "place": outcome.place,
            }
            for outcome in outcomes
        ],
    )
    tx.hints.graphs = True
