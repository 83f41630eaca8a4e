"""Lease new runs directly to the worker that starts them.

If the starting process also runs a worker that can serve the run, the run is created as ``running``
under that worker's session, which saves the claim. In a lane with limits this happens only if
nothing is queued in the lane and *all* runs of the call fit into the remaining capacity; otherwise
they are queued and claimed in order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from holdfast.core import claiming
from holdfast.core.runs import NewRun
from holdfast.core.sessions import Lane
from holdfast.store.database import Transaction
from holdfast.store.lanes.fair_queue import LaneUsage, choose, enter_usage
from holdfast.store.lanes.rate_limits import RateWindows
from holdfast.store.rows import lane_from


class StartLeases:
    """Decides which runs of a start are created as leased."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._begun: list[tuple[Lane, RateWindows, dict[str, claiming.Claimable]]] = []

    def leased(self, runs: Sequence[NewRun]) -> set[int]:
        """Return the positions of the runs that are created as leased."""
        by_session: dict[tuple[str, str], list[int]] = {}
        for place, run in enumerate(runs):
            if run.session_id is not None and (
                run.available_at is None or run.available_at <= self._tx.now
            ):
                by_session.setdefault((run.session_id, run.route.lane), []).append(place)
        fitting = [
            places
            for key, places in by_session.items()
            if self._may(*key, [runs[place] for place in places])
        ]
        return {place for places in fitting for place in places}

    def _may(self, session_id: str, lane: str, runs: Sequence[NewRun]) -> bool:
        sessions, damaged = self._tx.sound_rows(
            "may_lease_at_start", session_id=session_id, lane=lane
        )
        if damaged:
            return False  # the limits of the lane cannot be read
        if not sessions or not sessions[0]["limited"]:
            return bool(sessions)  # an ended session has no worker to run it
        if sessions[0]["name"] is None:
            return False  # another transaction has the lane locked and is taking capacity
        return self._fit(
            lane_from({name: sessions[0][name] for name in Lane.__struct_fields__}), runs
        )

    def _fit(self, lane: Lane, runs: Sequence[NewRun]) -> bool:
        """Return whether all of these runs may start now."""
        tx = self._tx
        lanes = {lane.name: lane}
        held = LaneUsage({}, Counter())
        windows = RateWindows(lanes)
        periods = {
            "": lane.rate_per,
            **{run.share: lane.share_rate_per for run in runs if run.share is not None},
        }
        rows = tx.rows(
            "usage_at_start",
            lane=lane.name,
            shares=tx.as_list(periods),
            since=tx.now - (lane.rate_per or 0),
            share_since=tx.now - (lane.share_rate_per or 0),
            counted=int(lane.concurrency is not None or lane.per_share is not None),
        )
        if lane.paused or any(row["fact"] == "waits" for row in rows):
            return False
        enter_usage(rows, held, windows)
        ready = {
            run.id: claiming.Claimable(place, run.id, lane.name, share=run.share)
            for place, run in enumerate(runs)
        }
        chosen, _ = choose(list(ready.values()), lanes, held, windows, now=tx.now, limit=len(ready))
        # All or none: a part that starts at once would overtake the queue that the rest joins.
        if len(chosen) < len(ready):
            return False
        self._begun.append((lane, windows, ready))
        return True

    def note(self, new: set[str]) -> None:
        """Record the admissions of the runs that were created, by their ids in *new*."""
        now = self._tx.now
        for lane, windows, ready in self._begun:
            taken = Counter(
                account
                for run in ready.values()
                if run.id in new
                for account in claiming.accounts(run, lane, now)
            )
            windows.note(taken, now).write(self._tx)
