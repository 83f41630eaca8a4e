"""Shares of lanes: what each may have at work or begin, and whose turn it is. Costs only lanes and runs that use shares."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from holdfast.core import claims, shares
from holdfast.core.records import Lane, NewRun
from holdfast.store.transitions.admitting import Windows
from holdfast.store.transitions.transaction import Row, Transaction


class Rooms:
    """What limited lanes and their shares have left."""

    def __init__(self, tx: Transaction, lanes: Mapping[str, Lane], limit: int) -> None:
        self.tx, self.limit, self._all = tx, limit, lanes
        self.lanes = {name: lane for name, lane in lanes.items() if lane.by_share}
        self._held, held = held_places(tx, lanes)
        self._places = claims.places(lanes.values(), held)
        self._full = {key for key, count in self._held.items() if count >= (self.lanes[key[0]].per_share or count + 1)}
        for name, lane in self.lanes.items():
            if lane.share_rate_limit is not None:
                self._full |= {(name, row["share"]) for row in tx.rows("spent_shares", lane=name, now=tx.now)}

    def ready(self, route_id: int, lane: str) -> list[claims.Ready]:
        """Return the best of a route, some of each share that is not full."""
        full = self.tx.as_list([share for name, share in self._full if name == lane])
        each = claims.most_of_a_share(self.lanes[lane], self.limit)
        rows = list(self.tx.rows("ready_by_share", route_id=route_id, each=each, full=full, limit=self.limit)) if each > 0 else []
        rows += self.tx.rows("ready_unshared", route_id=route_id, limit=self.limit)
        return ready_from(rows, lane)

    def choose(self, ready: list[claims.Ready]) -> list[claims.Ready]:
        """Choose what may go, and take for it what is limited by time."""
        windows = Windows(self.tx, self._all)
        left = {**self._places, **self._shares_left(ready), **windows.look(ready)}
        chosen, taken = claims.choose(ready, self._all, left, now=self.tx.now, limit=self.limit)
        windows.admit(taken)
        return chosen

    def _shares_left(self, ready: list[claims.Ready]) -> dict[claims.Account, int]:
        """Say how many places the shares have left of which something is ready."""
        keys = {(run.lane, run.share) for run in ready if run.share is not None and run.lane in self.lanes}
        most = [(lane, share, self.lanes[lane].per_share) for lane, share in keys]
        return {
            (claims.PLACE, lane, share): limit - self._held.get((lane, share), 0)
            for lane, share, limit in most
            if limit is not None
        }


def ready_from(rows: Sequence[Row], lane: str, *, suspect: bool = False) -> list[claims.Ready]:
    """Return what rows of a lane say that can be claimed."""
    return [
        claims.Ready(row["rank"], row["id"], lane, suspect=suspect, share=row["share"], started_at=row["started_at"])
        for row in rows
    ]


def held_places(tx: Transaction, lanes: Mapping[str, Lane]) -> tuple[dict[tuple[str, str], int], Counter[str]]:
    """Return how many runs are at work: of each share in the lanes that limit them, and of each lane. Asks only for a limit."""
    held, all_held = {}, Counter[str]()
    if any(lane.per_share is not None for lane in lanes.values()):
        for row in tx.rows("held_by_share"):
            all_held[row["lane"]] += row["held"]
            if row["share"] is not None and row["lane"] in lanes and lanes[row["lane"]].by_share:
                held[row["lane"], row["share"]] = row["held"]
    elif claims.count_needed(lanes.values()):
        all_held.update({row["lane"]: row["held"] for row in tx.rows("held_by_lane")})
    return held, all_held


def move_clocks(tx: Transaction, chosen: Sequence[claims.Ready]) -> None:
    """The virtual time of a lane is that of the last run that it let go."""
    latest: dict[str, int] = {}
    for run in chosen:
        if run.share is not None:
            latest[run.lane] = max(latest.get(run.lane, 0), run.rank)
    for lane, vtime in latest.items():
        tx.change("set_share_clock", lane=lane, share="", vtime=vtime)


Clocks = dict[tuple[str, str], tuple[int, float]]
"""Where the virtual time of a share stands, and what the share weighs, by lane and share."""


def rank_fairly(tx: Transaction, runs: Sequence[NewRun], rows: Sequence[Row]) -> tuple[Clocks, set[str]]:
    """Rank new runs that can be claimed by the virtual time of their share. Writes nothing; answers where the clocks stand
    then, and which lanes begin anew."""
    clocks: Clocks = {}
    idle: set[str] = set()
    for run, row in zip(runs, rows, strict=True):
        if run.share is None or row["rank"] is None:
            continue
        key = (run.route.lane, run.share)
        if key not in clocks:
            (found,) = tx.rows("share_clock", lane=key[0], share=key[1])
            if not found["busy"]:
                idle.add(key[0])
            start = shares.begin(found["lane_vtime"], found["vtime"], busy=bool(found["busy"]), now=tx.now)
            clocks[key] = (start, shares.weight_of(found["weights"], run.share))
        start, weight = clocks[key]
        row["rank"] = claims.rank(start, run.priority)
        clocks[key] = (shares.after(start, weight), weight)
    return clocks, idle


def set_clocks(tx: Transaction, clocks: Clocks, idle: set[str]) -> None:
    """Remember how far the shares have got; a lane that was idle has a history no more."""
    for lane in sorted(idle):
        tx.change("begin_share_clocks", lane=lane, now=tx.now)
    moved = [*((lane, "", tx.now) for lane in sorted(idle)), *((*key, vtime) for key, (vtime, _) in clocks.items())]
    tx.many("set_share_clock", [{"lane": lane, "share": share, "vtime": vtime} for lane, share, vtime in moved])
