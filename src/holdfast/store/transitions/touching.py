"""What reaches a run from outside: the end of a child, a knock; and who hears of the end of a
run."""

from __future__ import annotations

from holdfast.core import claiming
from holdfast.core.graphs.model import MARK, graph_of
from holdfast.core.status import Move, Status, after
from holdfast.store.contract import MemberOutcome
from holdfast.store.transitions.transaction import Row, Transaction


def notify_or_wake(tx: Transaction, state: Row, *, wakes: bool = True) -> None:
    """Something reached a run: its holder must look, or, if nobody holds it, somebody must claim
    it."""
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
    """Tell the holder of a run to look."""
    tx.change("insert_knock", session_id=session_id, run_id=run_id)
    tx.hints.runs.add(run_id)


def notify_parent(tx: Transaction, parent: tuple[str, str, int | None], *, completed: bool) -> None:
    """A child has ended: wake its parent, or only count when the parent waits for many."""
    run_id, step, index = parent
    if index is not None:
        left = tx.rows("count_down", run_id=run_id, step=step)
        if left and left[0]["remaining"] > 0 and not left[0]["eager"] and completed:
            return
    wake_parent(tx, run_id)


def wake_parent(tx: Transaction, run_id: str) -> None:
    """Let a parent look at its children, once for all of them that end in one transaction: the row
    of a parent that waits for thousands of children is large, and SQLite writes it as a whole."""
    if run_id in tx.told:
        return
    tx.told.add(run_id)
    found = tx.rows("load_state", run_id=run_id)
    if found and found[0]["finished_at"] is None:
        notify_or_wake(tx, found[0])


def release_schedule(tx: Transaction, run_id: str) -> None:
    """A run has ended: if a schedule started it, the ticks that waited for it go on."""
    if tx.change("free_schedule", run_id=run_id, now=tx.now):
        tx.hints.ready = True


def note_member_outcome(
    tx: Transaction, *run_ids: str, status: Status, result: bytes | None = None
) -> None:
    """Runs have ended: the graphs that they are members of, by their ids, will hear of it, in this
    transaction or after it."""
    for run_id in run_ids:
        if MARK in run_id:
            tx.news.append(MemberOutcome(run_id, status.value, result))


def write_outbox(tx: Transaction) -> None:
    """Write down what no graph has heard of in this transaction: somebody will settle it."""
    news, tx.news = tx.news, []
    tx.many(
        "insert_news",
        [
            {
                "graph_id": graph_of(one.run_id),
                "run_id": one.run_id,
                "status": one.status,
                "at": tx.now,
                "place": one.place,
            }
            for one in news
        ],
    )
    tx.hints.graphs = True
