"""Shares of lanes: what each may have at work or begin, and whose turn it is. Costs only lanes and
runs that use shares."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from holdfast.core import claiming, fairness
from holdfast.core.runs import NewRun
from holdfast.core.sessions import Lane
from holdfast.store.transitions.admitting import Admissions, RateWindows
from holdfast.store.transitions.transaction import Row, Transaction


class LaneUsage(NamedTuple):
    """How many runs are at work."""

    shares: dict[tuple[str, str], int]
    """By lane and share, in the lanes that limit their shares."""
    lanes: Counter[str]


def take_down(rows: Iterable[Row], held: LaneUsage, windows: RateWindows) -> None:
    """Take down what rows say about what is held, of a lane or of a share, and about what began."""
    for row in rows:
        if row["what"] == "began":
            windows.see(row["lane"], row["share"], row["one"], row["three"], row["two"])
        elif row["share"] is None:
            held.lanes[row["lane"]] = row["one"]
        else:
            held.shares[row["lane"], row["share"]] = row["one"]


class LaneRoom:
    """What limited lanes and their shares have left."""

    def __init__(self, tx: Transaction, lanes: Mapping[str, Lane], limit: int) -> None:
        self.tx, self.limit, self._all = tx, limit, lanes
        self.lanes = {name: lane for name, lane in lanes.items() if lane.by_share}
        self._held = held_places(tx, lanes)
        self._full = {
            key
            for key, count in self._held.shares.items()
            if count >= (lanes[key[0]].per_share or count + 1)
        }
        for name, lane in self.lanes.items():
            if lane.share_rate_limit is not None:
                self._full |= {
                    (name, row["share"]) for row in tx.rows("spent_shares", lane=name, now=tx.now)
                }

    def ready(self, route_id: int, lane: str) -> list[claiming.Claimable]:
        """Return the best of a route, some of each share that is not full."""
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
        """Choose what may go, and take for it what is limited by time."""
        windows = RateWindows(self._all)
        windows.look(self.tx, ready)
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
    """Choose what may go, and say what is to be written about it."""
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
    """Say how many places the shares have left of which something is ready."""
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
    """Return what rows of a lane say that can be claimed."""
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
    """Return how many runs are at work: of each share in the lanes that limit them, and of each
    lane. Asks only for a limit."""
    held = LaneUsage({}, Counter())
    if any(lane.per_share is not None for lane in lanes.values()):
        for row in tx.rows("held_by_share"):
            held.lanes[row["lane"]] += row["held"]
            if row["share"] is not None and row["lane"] in lanes and lanes[row["lane"]].by_share:
                held.shares[row["lane"], row["share"]] = row["held"]
    elif claiming.count_needed(lanes.values()):
        held.lanes.update({row["lane"]: row["held"] for row in tx.rows("held_by_lane")})
    return held


def latest_turns(chosen: Sequence[claiming.Claimable]) -> dict[str, int]:
    """Say where the virtual time of lanes stands: that of a lane is that of the last run that it
    let go."""
    latest: dict[str, int] = {}
    for run in chosen:
        if run.share is not None:
            latest[run.lane] = max(latest.get(run.lane, 0), run.rank)
    return latest


def move_clocks(tx: Transaction, chosen: Sequence[claiming.Claimable]) -> None:
    """Let the virtual time of lanes go on."""
    for lane, vtime in latest_turns(chosen).items():
        tx.change("set_share_clock", lane=lane, share="", vtime=vtime)


Clocks = dict[tuple[str, str], tuple[int, float]]
"""Where the virtual time of a share stands, and what the share weighs, by lane and share."""


def rank_fairly(
    tx: Transaction, runs: Sequence[NewRun], rows: Sequence[Row]
) -> tuple[Clocks, set[str]]:
    """Rank new runs that can be claimed by the virtual time of their share. Writes nothing; answers
    where the clocks stand then, and which lanes begin anew."""
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
            start = fairness.begin(
                found["lane_vtime"], found["vtime"], busy=bool(found["busy"]), now=tx.now
            )
            clocks[key] = (start, fairness.weight_of(found["weights"], run.share))
        start, weight = clocks[key]
        row["rank"] = claiming.rank(start, run.priority)
        clocks[key] = (fairness.after(start, weight), weight)
    return clocks, idle


def set_clocks(tx: Transaction, clocks: Clocks, idle: set[str]) -> None:
    """Remember how far the shares have got; a lane that was idle has a history no more."""
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
