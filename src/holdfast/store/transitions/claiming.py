"""Claiming: what waited until now becomes ready, and the best of what is ready is leased to a
session."""

from __future__ import annotations

from holdfast.core import claiming
from holdfast.core.runs import RunRecord
from holdfast.core.status import CLAIMABLE, Move, Status, after
from holdfast.store.contract.runs import Claim, ClaimedRuns
from holdfast.store.transitions.sharing import LaneRoom, move_clocks, ready_from
from holdfast.store.transitions.transaction import Transaction, lanes_from, run_from

WOKEN = (Status.PENDING, Status.WAITING, Status.BLOCKED, Status.CANCELLING)
"""Whoever waits for an instant is in one of these."""

PROMOTED_AT_ONCE = 5000
"""How many due runs one claim makes ready at most; the next claim goes on."""


def claim(tx: Transaction, op: Claim) -> ClaimedRuns:
    """Lease ready runs to a session, best rank first, within the limits of their lanes."""
    if not tx.rows("session", session_id=op.session_id):
        return ClaimedRuns()  # it was taken for dead, and what it leased now nobody would ever free
    _promote(tx)
    lanes = {lane.name: lane for lane in lanes_from(*tx.sifted("lanes"))}
    rooms = LaneRoom(tx, lanes, op.limit)
    ready: list[claiming.Claimable] = []
    for route_id, lane in op.routes:
        if lane in rooms.lanes:
            ready += rooms.ready(route_id, lane)
            continue
        ready += ready_from(tx.rows("ready", route_id=route_id, limit=op.limit), lane)
    chosen = rooms.choose(ready + _suspects(tx, op))
    if not chosen:
        return ClaimedRuns(
            behind=bool(ready)
            or any(tx.rows("ready", route_id=one, limit=1) for one in _by_share(op, rooms))
        )
    move_clocks(tx, chosen)
    return ClaimedRuns(lease(tx, op.session_id, [run.id for run in chosen]))


def _by_share(op: Claim, rooms: LaneRoom) -> list[int]:
    return [route_id for route_id, lane in op.routes if lane in rooms.lanes]


def _suspects(tx: Transaction, op: Claim) -> list[claiming.Claimable]:
    """What may have killed its worker is tried alone, so that its neighbours are not blamed for it
    again and again."""
    if not tx.rows("any_suspect") or holds_suspect(tx, op.session_id):
        return []
    found = [(lane, tx.rows("ready_suspect", route_id=route_id)) for route_id, lane in op.routes]
    return [run for lane, rows in found for run in ready_from(rows, lane, suspect=True)]


def holds_suspect(tx: Transaction, session_id: str) -> bool:
    """Return whether a session is at work on what may have killed its worker, and has not got any
    further with it."""
    return bool(
        tx.rows("held_suspect", session_id=session_id, no_progress=tx.as_list(claiming.NO_PROGRESS))
    )


def _promote(tx: Transaction) -> None:
    """Make claimable what waited until now."""
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
    """Lease these runs, as far as they can be claimed."""
    if not ids:
        return []
    wanted, claimed = tx.as_list(ids), 0
    for was in sorted(
        CLAIMABLE, reverse=True
    ):  # first those that are pending, which is most of them
        if claimed < len(ids):
            status = after(was, Move.CLAIM)
            claimed += tx.change(
                "claim_runs", ids=wanted, session_id=session_id, now=tx.now, was=was, status=status
            )
    if not claimed:
        return []
    order = {run_id: place for place, run_id in enumerate(ids)}
    runs = [
        run_from(row)
        for row in tx.rows("runs_by_id", ids=wanted)
        if row["session_id"] == session_id
    ]
    return sorted(runs, key=lambda run: order[run.id])
