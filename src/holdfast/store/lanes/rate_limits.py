"""Rate limits of lanes and shares: recent admissions, and when the next run may start."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from holdfast.core import claiming
from holdfast.core.rate_limits import RateLimit, Window
from holdfast.core.sessions import Lane
from holdfast.store.database import Row, Transaction

NOTHING = Window()


class Admissions(NamedTuple):
    """The admissions to rate-limited lanes that a claim has to record."""

    began: list[Row]
    """The runs that start, by lane and share, with their numbers."""
    full: list[Row]
    """The lanes and shares that are full afterwards, to compute when the next run may start."""
    gone: list[tuple[str, bool, int]]
    """Lanes, or their shares, whose admissions before an instant have left the window."""

    def write(self, tx: Transaction) -> None:
        """Write them."""
        for lane, by_share, before in self.gone:
            tx.change(
                "forget_share_admissions" if by_share else "forget_admissions",
                lane=lane,
                before=before,
            )
        if self.began:
            tx.many("admit", self.began)
        free(tx, self.full)


class RateWindows:
    """The recent admissions of lanes with rate limits."""

    def __init__(self, lanes: Mapping[str, Lane]) -> None:
        self.rates: dict[tuple[str, bool], RateLimit] = {}
        """By lane, for the lane as a whole and for each of its shares."""
        for name, lane in lanes.items():
            for by_share, rate in (
                (False, claiming.rate_of(lane)),
                (True, claiming.share_rate_of(lane)),
            ):
                if rate is not None:
                    self.rates[name, by_share] = rate
        self.seen: dict[tuple[str, str], Window] = {}
        """By lane and share; where nothing is entered nothing started."""

    def read(self, tx: Transaction, ready: Iterable[claiming.Claimable]) -> None:
        """Read the recent admissions of the lanes and shares of these runs."""
        for (lane, by_share), shares in self._wanted(ready).items():
            since = tx.now - self.rates[lane, by_share].per
            for row in tx.rows(
                "windows", lane=lane, shares=tx.as_list(sorted(shares)), since=since
            ):
                self.enter(lane, row["share"], row["total"], row["base"], row["last_at"])

    def enter(self, lane: str, share: str, total: int, base: int | None, last_at: int) -> None:
        """Enter a window. Without a base all earlier admissions have left it."""
        self.seen[lane, share] = Window(total, total if base is None else base, last_at)

    def _wanted(self, ready: Iterable[claiming.Claimable]) -> dict[tuple[str, bool], set[str]]:
        wanted: dict[tuple[str, bool], set[str]] = {}
        for run in ready if self.rates else ():
            if (run.lane, False) in self.rates:
                wanted.setdefault((run.lane, False), set()).add("")
            if run.share is not None and (run.lane, True) in self.rates:
                wanted.setdefault((run.lane, True), set()).add(run.share)
        return wanted

    def left(self, ready: Iterable[claiming.Claimable]) -> dict[claiming.Account, int]:
        """Return how many more runs may start, by lane and share of these runs."""
        return {
            (claiming.BEGIN, lane, share): self.seen.get((lane, share), NOTHING).room(
                self.rates[lane, by_share].limit
            )
            for (lane, by_share), shares in self._wanted(ready).items()
            for share in shares
        }

    def note(self, taken: Mapping[claiming.Account, int], now: int) -> Admissions:
        """Return the admissions to record for the runs that start now.

        Full lanes and shares are included, so that the instant of the next admission is known.
        """
        admissions = Admissions([], [], [])
        kinds: set[tuple[str, bool]] = set()
        # Sorted: two claims write the admissions of the same lanes in one order.
        for lane, share, count in sorted(
            (lane, share, n) for (kind, lane, share), n in taken.items() if kind == claiming.BEGIN
        ):
            window = self.seen.get((lane, share), NOTHING)
            limits = self.rates[lane, share != ""]
            total = window.total + count
            admissions.began.append(
                {
                    "lane": lane,
                    "share": share,
                    "at": window.at(now),
                    "number": total,
                    "count": count,
                }
            )
            # Full from now on: `free` computes when the next run may start.
            if window.room(limits.limit) <= count:
                admissions.full.append(
                    {"lane": lane, "share": share, "edge": total - limits.limit, "per": limits.per}
                )
            kinds.add((lane, share != ""))
        admissions.gone.extend(
            (lane, by_share, now - self.rates[lane, by_share].per)
            for lane, by_share in sorted(kinds)
        )
        return admissions


def free(tx: Transaction, full: Iterable[Row]) -> None:
    """Record when the next run may start in lanes and shares that are full."""
    lanes = [
        {name: value for name, value in row.items() if name != "share"}
        for row in full
        if not row["share"]
    ]
    shares = [row for row in full if row["share"]]
    if lanes:
        tx.many("free_lane", lanes)
    if shares:
        tx.many("free_share", shares)


def apply_new_rate(tx: Transaction, lane: Lane) -> None:
    """Apply a changed rate limit to recent admissions, too."""
    # All are free first: the shares that are full by the new rate are computed below.
    tx.change("save_rate_time", name=lane.name, free_at=0)
    tx.change("free_shares", lane=lane.name)
    full: list[Row] = []
    for row in tx.rows("admitted_shares", lane=lane.name):
        limits = claiming.share_rate_of(lane) if row["share"] else claiming.rate_of(lane)
        if limits is not None:
            full_share = {
                "lane": lane.name,
                "share": row["share"],
                "edge": row["number"] - limits.limit,
                "per": limits.per,
            }
            full.append(full_share)
    free(tx, full)
