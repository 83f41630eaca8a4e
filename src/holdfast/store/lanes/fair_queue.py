"""Fair queueing: limit what each share of a lane may run or start, and rank runs by virtual time.

Lanes and runs without shares pay nothing for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from holdfast.core import claiming, fairness
from holdfast.core.runs import NewRun
from holdfast.core.sessions import Lane
from holdfast.store.database import Row, Transaction
from holdfast.store.lanes.rate_limits import Admissions, RateWindows


class LaneUsage(NamedTuple):
    """How many runs are running."""

    shares: dict[tuple[str, str], int]
    """By lane and share, in the lanes that limit their shares."""
    lanes: Counter[str]


def enter_usage(rows: Iterable[Row], held: LaneUsage, windows: RateWindows) -> None:
    """Enter the rows of a query on usage: running by lane or share, and started in the rate
    window."""
    for row in rows:
        if row["fact"] == "began":
            windows.enter(row["lane"], row["share"], row["one"], row["three"], row["two"])
        elif row["share"] is None:
            held.lanes[row["lane"]] = row["one"]
        else:
            held.shares[row["lane"], row["share"]] = row["one"]


class LaneRoom:
    """The remaining capacity of limited lanes and of their shares."""

    def __init__(self, tx: Transaction, lanes: Mapping[str, Lane], limit: int) -> None:
        self.tx = tx
        self.limit = limit
        self._all = lanes
        self.lanes = {name: lane for name, lane in lanes.items() if lane.by_share}
        self._held = held_places(tx, lanes)
        self._full = {
            key
            for key, running in self._held.shares.items()
            if running >= (lanes[key[0]].per_share or running + 1)
        }
        # Full shares are left out when runs are read: they would use up the limit of the query.
        for name, lane in self.lanes.items():
            if lane.share_rate_limit is not None:
                self._full |= {
                    (name, row["share"]) for row in tx.rows("spent_shares", lane=name, now=tx.now)
                }

    def ready(self, route_id: int, lane: str) -> list[claiming.Claimable]:
        """Return the best ranked runs of a route, some of each share that is not full."""
        full = self.tx.as_list([share for name, share in self._full if name == lane])
        each = claiming.most_of_a_share(self.lanes[lane], self.limit)
        rows = (
            list(
                self.tx.rows(
                    "ready_by_share", route_id=route_id, each=each, full=full, limit=self.limit
                )
            )
            if each > 0
            else []
        )
        rows += self.tx.rows("ready_unshared", route_id=route_id, limit=self.limit)
        return ready_from(rows, lane)

    def choose(self, ready: list[claiming.Claimable]) -> list[claiming.Claimable]:
        """Choose the runs to start, and record their admissions to rate-limited lanes."""
        windows = RateWindows(self._all)
        windows.read(self.tx, ready)
        chosen, notes = choose(
            ready, self._all, self._held, windows, now=self.tx.now, limit=self.limit
        )
        notes.write(self.tx)
        return chosen


def choose(
    ready: list[claiming.Claimable],
    lanes: Mapping[str, Lane],
    held: LaneUsage,
    windows: RateWindows,
    *,
    now: int,
    limit: int,
) -> tuple[list[claiming.Claimable], Admissions]:
    """Choose the runs that may start. Return them, and the admissions to record."""
    left = {
        **claiming.places(lanes.values(), held.lanes),
        **_shares_left(ready, lanes, held),
        **windows.left(ready),
    }
    chosen, taken = claiming.choose(ready, lanes, left, now=now, limit=limit)
    return chosen, windows.note(taken, now)


def _shares_left(
    ready: Sequence[claiming.Claimable], lanes: Mapping[str, Lane], held: LaneUsage
) -> dict[claiming.Account, int]:
    """Return how many more runs each share with ready runs may have running."""
    keys = {(run.lane, run.share) for run in ready if run.share is not None and run.lane in lanes}
    most = [(lane, share, lanes[lane].per_share) for lane, share in keys]
    return {
        (claiming.PLACE, lane, share): limit - held.shares.get((lane, share), 0)
        for lane, share, limit in most
        if limit is not None
    }


def ready_from(
    rows: Sequence[Row], lane: str, *, suspect: bool = False
) -> list[claiming.Claimable]:
    """Return the claimable runs of the rows of a lane."""
    return [
        claiming.Claimable(
            row["rank"],
            row["id"],
            lane,
            suspect=suspect,
            share=row["share"],
            started_at=row["started_at"],
        )
        for row in rows
    ]


def held_places(tx: Transaction, lanes: Mapping[str, Lane]) -> LaneUsage:
    """Return how many runs are running, by share where a lane limits its shares, and by lane.

    Reads nothing if no lane has such a limit.
    """
    held = LaneUsage({}, Counter())
    # By share only if a lane limits its shares, because the count by lane is cheaper.
    if any(lane.per_share is not None for lane in lanes.values()):
        for row in tx.rows("held_by_share"):
            held.lanes[row["lane"]] += row["held"]
            if row["share"] is not None and row["lane"] in lanes and lanes[row["lane"]].by_share:
                held.shares[row["lane"], row["share"]] = row["held"]
    elif claiming.count_needed(lanes.values()):
        held.lanes.update({row["lane"]: row["held"] for row in tx.rows("held_by_lane")})
    return held


def latest_turns(chosen: Sequence[claiming.Claimable]) -> dict[str, int]:
    """Return the virtual time of each lane: the rank of the last run that it admitted."""
    latest: dict[str, int] = {}
    for run in chosen:
        if run.share is not None:
            latest[run.lane] = max(latest.get(run.lane, 0), run.rank)
    return latest


def move_clocks(tx: Transaction, chosen: Sequence[claiming.Claimable]) -> None:
    """Advance the virtual time of lanes to the last run that was chosen."""
    for lane, vtime in latest_turns(chosen).items():
        tx.change("set_share_clock", lane=lane, share="", vtime=vtime)


Clocks = dict[tuple[str, str], tuple[int, float]]
"""Virtual time and weight of a share, by lane and share."""


def rank_fairly(
    tx: Transaction, runs: Sequence[NewRun], rows: Sequence[Row]
) -> tuple[Clocks, set[str]]:
    """Set the rank of new claimable runs by the virtual time of their share.

    Writes nothing. Return the clocks as they stand afterwards, and the lanes that were idle.
    """
    clocks: Clocks = {}
    idle: set[str] = set()
    for run, row in zip(runs, rows, strict=True):
        # Delayed and leased runs have no rank: they take no turn now.
        if run.share is None or row["rank"] is None:
            continue
        key = (run.route.lane, run.share)
        if key not in clocks:
            (clock,) = tx.rows("share_clock", lane=key[0], share=key[1])
            # In an idle lane the clocks begin again, so that no share keeps an advantage from the
            # past.
            if not clock["busy"]:
                idle.add(key[0])
            start = fairness.begin(
                clock["lane_vtime"], clock["vtime"], busy=bool(clock["busy"]), now=tx.now
            )
            clocks[key] = (start, fairness.weight_of(clock["weights"], run.share))
        start, weight = clocks[key]
        row["rank"] = claiming.rank(start, run.priority)
        clocks[key] = (fairness.after(start, weight), weight)
    return clocks, idle


def set_clocks(tx: Transaction, clocks: Clocks, idle: set[str]) -> None:
    """Store the clocks of the shares; the clocks of a lane that was idle are deleted first."""
    # Sorted: lanes are locked in the order of their names.
    for lane in sorted(idle):
        tx.change("begin_share_clocks", lane=lane, now=tx.now)
    moved = [
        *((lane, "", tx.now) for lane in sorted(idle)),
        *((*key, vtime) for key, (vtime, _) in clocks.items()),
    ]
    tx.many(
        "set_share_clock",
        [{"lane": lane, "share": share, "vtime": vtime} for lane, share, vtime in moved],
    )
