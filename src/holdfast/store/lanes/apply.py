"""Apply the operations on lanes."""

from __future__ import annotations

from holdfast.store.database import Transaction
from holdfast.store.lanes.operations import SetLane
from holdfast.store.lanes.rate_limits import apply_new_rate


def set_lane(tx: Transaction, op: SetLane) -> None:
    """Create a lane or change its limits."""
    lane = op.lane
    tx.change(
        "save_lane",
        name=lane.name,
        concurrency=lane.concurrency,
        rate_limit=lane.rate_limit,
        rate_per=lane.rate_per,
        paused=int(lane.paused),
        per_share=lane.per_share,
        share_rate_limit=lane.share_rate_limit,
        share_rate_per=lane.share_rate_per,
        weights=lane.weights,
        draining=int(lane.draining),
    )
    apply_new_rate(tx, lane)
    tx.hints.ready = tx.hints.routes = True
