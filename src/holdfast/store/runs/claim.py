"""Claim runs: promote delayed runs that are due, and lease the best ranked ones to a session."""

from __future__ import annotations

from holdfast.core import claiming
from holdfast.core.runs import RunRecord
from holdfast.core.status import CLAIMABLE, Move, Status, after
from holdfast.store.database import Transaction
from holdfast.store.lanes.fair_queue import LaneRoom, move_clocks, ready_from
from holdfast.store.rows import lanes_from, run_from
from holdfast.store.runs.operations import Claim, ClaimedRuns

WOKEN = (Status.PENDING, Status.WAITING, Status.BLOCKED, Status.CANCELLING)
"""The statuses in which a run can wait for an instant."""

PROMOTED_AT_ONCE = 5000
"""How many due runs one claim promotes at most; the next claim promotes more."""


def claim(tx: Transaction, op: Claim) -> ClaimedRuns:
    """Lease ready runs to a session, best rank first, within the limits of their lanes."""
    if not tx.rows("session", session_id=op.session_id):
        # The session was ended as dead: a run leased to it now would never be freed.
        return ClaimedRuns()
    # First: a run that has just become due may have the best rank.
    _promote(tx)
    lanes = {lane.name: lane for lane in lanes_from(*tx.sound_rows("lanes"))}
    room = LaneRoom(tx, lanes, op.limit)
    ready: list[claiming.Claimable] = []
    for route_id, lane in op.routes:
        if lane in room.lanes:
            ready += room.ready(route_id, lane)
            continue
        ready += ready_from(tx.rows("ready", route_id=route_id, limit=op.limit), lane)
    chosen = room.choose(ready + _suspects(tx, op))
    if not chosen:
        # Runs of full shares are not among the ready ones, so they are asked for again.
        return ClaimedRuns(
            behind=bool(ready)
            or any(tx.rows("ready", route_id=route_id, limit=1) for route_id in _by_share(op, room))
        )
    move_clocks(tx, chosen)
    return ClaimedRuns(lease(tx, op.session_id, [run.id for run in chosen]))


def _by_share(op: Claim, room: LaneRoom) -> list[int]:
    return [route_id for route_id, lane in op.routes if lane in room.lanes]


def _suspects(tx: Transaction, op: Claim) -> list[claiming.Claimable]:
    """Return the runs that may have killed their worker, unless the session already runs one.

    They run one at a time, so that other runs are not blamed for the next crash.
    """
    if not tx.rows("any_suspect") or holds_suspect(tx, op.session_id):
        return []
    ready_by_lane = [
        (lane, tx.rows("ready_suspect", route_id=route_id)) for route_id, lane in op.routes
    ]
    return [run for lane, rows in ready_by_lane for run in ready_from(rows, lane, suspect=True)]


def holds_suspect(tx: Transaction, session_id: str) -> bool:
    """Return whether a session runs a suspect that has not made progress yet."""
    return bool(
        tx.rows("held_suspect", session_id=session_id, no_progress=tx.as_list(claiming.NO_PROGRESS))
    )


def _promote(tx: Transaction) -> None:
    """Make delayed runs that are due claimable."""
    # Asked first: mostly nothing is due, and the updates below would scan for each status.
    if not tx.rows("due", now=tx.now):
        return
    for was in WOKEN:
        status = after(was, Move.WAKE)
        tx.change(
            "promote",
            now=tx.now,
            was=was,
            status=status,
            step=claiming.PRIORITY_STEP,
            limit=PROMOTED_AT_ONCE,
        )


def lease(tx: Transaction, session_id: str, ids: list[str]) -> list[RunRecord]:
    """Lease the claimable ones of these runs, and return them in the order of *ids*."""
    if not ids:
        return []
    wanted = tx.as_list(ids)
    claimed = 0
    # Pending first: most runs are, and then the other statuses need no statement.
    for was in sorted(CLAIMABLE, reverse=True):
        if claimed < len(ids):
            status = after(was, Move.CLAIM)
            claimed += tx.change(
                "claim_runs", ids=wanted, session_id=session_id, now=tx.now, was=was, status=status
            )
    if not claimed:
        return []
    order = {run_id: place for place, run_id in enumerate(ids)}
    # Filtered: some of these runs may not have been claimable.
    runs = [
        run_from(row)
        for row in tx.rows("runs_by_id", ids=wanted)
        if row["session_id"] == session_id
    ]
    return sorted(runs, key=lambda run: order[run.id])
