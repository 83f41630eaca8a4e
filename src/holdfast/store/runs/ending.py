"""Report the ends of runs, in one place for all ways in which a run can end.

A run ends by the commit of its holder, by a completed lease, by a cancellation, a deadline, a
timeout or an operator. Each of these writes the row and the last event of the run by a statement of
its own, because their guards differ, and then calls `end_runs`.

Order: streams, schedule, holder, parents by id, graph, reservations. It is that of the effects of a
commit: budget lines are locked after runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.core.status import Status
from holdfast.store.budgets.reservations import release_reservations_of_run
from holdfast.store.database import MemberOutcome, Row, Transaction
from holdfast.store.wakeup import (
    notify_holder,
    notify_parent,
    release_schedule,
)

Parent = tuple[str, str, int | None]


class RunEnd(NamedTuple):
    """The end of a run, and the lookups that it needs: by default none but that of its graph."""

    run_id: str
    status: Status
    result: bytes | None = None
    """The result for the graph of the run; None if the graph must read it from the run."""
    parent: Parent | None = None
    """The parent to notify: its run id, the step, and the index in a map."""
    session_id: str | None = None
    """The holder that is to be notified, because it did not end the run itself."""
    is_from_outside: bool = False
    """Whether its holder has not ended the run: what it waits for is deleted."""
    closes: bool = False
    """Whether the run may have open streams."""
    releases: bool = False
    """Whether the run may have reservations."""
    scheduled: bool = False
    """Whether a schedule may wait for the end of the run."""
    graph_id: str | None = None
    """The graph that the run is a member of."""


def end_from_outside(state: Row, status: Status) -> RunEnd:
    """Return the end of a run that its holder has not written: nothing is known, so everything is
    looked up."""
    return RunEnd(
        state["id"],
        status,
        parent=parent_of(state),
        session_id=state["session_id"],
        is_from_outside=True,
        closes=True,
        releases=True,
        scheduled=True,
        graph_id=state["graph_id"],
    )


def parent_of(state: Row) -> Parent | None:
    """Return the parent of a run to notify, or None."""
    if state["parent_id"] is None:
        return None
    return state["parent_id"], state["parent_step"], state["parent_index"]


def end_runs(tx: Transaction, ends: Sequence[RunEnd]) -> None:
    """Report the ends of runs whose rows are written."""
    tx.hints.finished.update(end.run_id for end in ends)
    _close_streams(tx, [end for end in ends if end.closes])
    for end in ends:
        # A holder that ends its run deletes them by effects of its commit, if there are any.
        if end.is_from_outside:
            tx.change("delete_message_subscription", run_id=end.run_id)
            tx.change("delete_resting_token", run_id=end.run_id)
        if end.scheduled:
            release_schedule(tx, end.run_id)
        if end.session_id is not None:
            notify_holder(tx, end.session_id, end.run_id)
    # Parents after the holders, and budgets last: every commit locks in this order.
    _notify_parents(tx, ends)
    for end in ends:
        if end.graph_id is not None:
            result = end.result if end.status is Status.COMPLETED else None
            outcome = MemberOutcome(end.graph_id, end.run_id, end.status.value, result)
            # Resolved at the end of this transaction, or written to the outbox for a later one.
            tx.member_outcomes.append(outcome)
    for end in ends:
        if end.releases:
            release_reservations_of_run(tx, end.run_id)


def _close_streams(tx: Transaction, ends: Sequence[RunEnd]) -> None:
    rows: list[dict[str, object]] = [
        {"run_id": end.run_id, "now": tx.now, "reason": end.status.value, "least": 0}
        for end in ends
    ]
    if len(rows) == 1:
        tx.change("close_streams", **rows[0])
    elif rows:
        tx.many("close_streams", rows)


def _notify_parents(tx: Transaction, ends: Sequence[RunEnd]) -> None:
    """Notify parents in the order of their ids, because that locks them. A parent of several of
    these runs is woken once."""
    notices = [(end.parent, end) for end in ends if end.parent is not None]
    for parent, end in sorted(notices, key=_parent_id):
        notify_parent(tx, end.run_id, parent, completed=end.status is Status.COMPLETED)


def _parent_id(notice: tuple[Parent, RunEnd]) -> str:
    return notice[0][0]
