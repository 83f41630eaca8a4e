"""Apply the operations on lanes."""

from __future__ import annotations

import msgspec

from holdfast.core.sessions import Lane
from holdfast.errors import LaneInUse, LaneNotFound
from holdfast.store.database import SettingsChanged, Transaction
from holdfast.store.lanes.operations import RemoveLane, SetLane
from holdfast.store.lanes.rate_limits import apply_new_rate
from holdfast.store.rows import lanes_from

_NAMED = 3
"""How many of the runs of a lane an error names."""


def set_lane(tx: Transaction, op: SetLane) -> SettingsChanged | None:
    """Create a lane or change its limits."""
    lane = op.lane
    exists = True
    if op.expected is not None:
        lanes = lanes_from(*tx.sound_rows("lane_to_change", name=lane.name))
        exists = bool(lanes)
        stored = lanes[0] if lanes else Lane(name=lane.name)
        if _settings(stored) != _settings(op.expected):
            return SettingsChanged()
    saved = tx.change(
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
        replaces=int(exists),
    )
    if not saved:
        return SettingsChanged()  # another process has just created the lane
    apply_new_rate(tx, lane)
    tx.hints.ready = tx.hints.routes = True
    return None


def remove_lane(tx: Transaction, op: RemoveLane) -> None:
    """Delete the settings of a lane. Raises LaneNotFound, LaneInUse."""
    rows, damaged = tx.sound_rows("lane_to_change", name=op.name)
    if not rows and not damaged:
        raise LaneNotFound(lane=op.name)
    live = [] if op.force else tx.rows("live_runs_of_lane", lane=op.name, limit=_NAMED + 1)
    if live:
        runs = ", ".join(row["id"] for row in live[:_NAMED])
        raise LaneInUse(lane=op.name, runs=runs + (", ..." if len(live) > _NAMED else ""))
    tx.change("remove_lane", name=op.name)
    # With the lane, or new settings of the same name would begin with its clocks and admissions.
    tx.change("remove_shares", lane=op.name)
    tx.change("remove_admissions", lane=op.name)
    tx.hints.ready = True
    tx.hints.routes = True


def _settings(lane: Lane) -> Lane:
    return msgspec.structs.replace(lane, free_at=0)
