"""Runs that are born leased: where nobody waits, whoever starts a run and works, too, need not
claim it.

In a lane with limits that holds for what fits as a whole into what is left. Else all of it waits,
and is claimed in its order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from holdfast.core import claiming
from holdfast.core.runs import NewRun
from holdfast.core.sessions import Lane
from holdfast.store.transitions.admitting import RateWindows
from holdfast.store.transitions.sharing import LaneUsage, choose, take_down
from holdfast.store.transitions.transaction import Transaction, lane_from


class StartLeases:
    """Which runs of a start are born leased."""

    def __init__(self, tx: Transaction) -> None:
        self._tx = tx
        self._begun: list[tuple[Lane, RateWindows, dict[str, claiming.Claimable]]] = []

    def leased(self, runs: Sequence[NewRun]) -> set[int]:
        """Return the places of those that are."""
        asked: dict[tuple[str, str], list[int]] = {}
        for place, run in enumerate(runs):
            if run.session_id is not None and (
                run.available_at is None or run.available_at <= self._tx.now
            ):
                asked.setdefault((run.session_id, run.route.lane), []).append(place)
        found = [
            places
            for key, places in asked.items()
            if self._may(*key, [runs[place] for place in places])
        ]
        return {place for places in found for place in places}

    def _may(self, session_id: str, lane: str, runs: Sequence[NewRun]) -> bool:
        found, damaged = self._tx.sifted("may_lease_at_birth", session_id=session_id, lane=lane)
        if damaged:
            return False  # the limits of the lane cannot be read
        if not found or not found[0]["limited"]:
            return bool(found)  # nobody is there to work for a session that was ended
        if found[0]["name"] is None:
            return False  # somebody else is taking from what is left
        return self._fit(lane_from({name: found[0][name] for name in Lane.__struct_fields__}), runs)

    def _fit(self, lane: Lane, runs: Sequence[NewRun]) -> bool:
        """Say whether all of these may begin."""
        tx, lanes = self._tx, {lane.name: lane}
        held, windows = LaneUsage({}, Counter()), RateWindows(lanes)
        asked = {
            "": lane.rate_per,
            **{run.share: lane.share_rate_per for run in runs if run.share is not None},
        }
        rows = tx.rows(
            "look_at_birth",
            lane=lane.name,
            shares=tx.as_list(asked),
            since=tx.now - (lane.rate_per or 0),
            share_since=tx.now - (lane.share_rate_per or 0),
            counted=int(lane.concurrency is not None or lane.per_share is not None),
        )
        if lane.paused or any(row["what"] == "waits" for row in rows):
            return False
        take_down(rows, held, windows)
        ready = {
            run.id: claiming.Claimable(place, run.id, lane.name, share=run.share)
            for place, run in enumerate(runs)
        }
        chosen, _ = choose(list(ready.values()), lanes, held, windows, now=tx.now, limit=len(ready))
        if len(chosen) < len(ready):
            return False
        self._begun.append((lane, windows, ready))
        return True

    def note(self, new: set[str]) -> None:
        """Note what has begun, of these."""
        now = self._tx.now
        for lane, windows, ready in self._begun:
            taken = Counter(
                one
                for run in ready.values()
                if run.id in new
                for one in claiming.accounts(run, lane, now)
            )
            windows.note(taken, now).write(self._tx)
