"""Rates of lanes and of their shares: what began of late, how many more may begin, and when the
next one may."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from holdfast.core import claiming
from holdfast.core.rate_limits import RateLimit, Window
from holdfast.core.sessions import Lane
from holdfast.store.transitions.transaction import Row, Transaction

NOTHING = Window()


class Admissions(NamedTuple):
    """What is to be written about what begins now."""

    began: list[Row]
    """What begins, of which share of which lane, and how it is numbered."""
    full: list[Row]
    """What is full then: when may one more begin?"""
    gone: list[tuple[str, bool, int]]
    """Of which lanes, or of their shares, what began before some instant counts no more."""

    def write(self, tx: Transaction) -> None:
        """Write it down."""
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
    """What began of late in lanes that have rates."""

    def __init__(self, lanes: Mapping[str, Lane]) -> None:
        self.rates: dict[tuple[str, bool], RateLimit] = {}
        """Of each lane, as a whole and by share."""
        for name, lane in lanes.items():
            for by_share, found in (
                (False, claiming.rate_of(lane)),
                (True, claiming.share_rate_of(lane)),
            ):
                if found is not None:
                    self.rates[name, by_share] = found
        self.seen: dict[tuple[str, str], Window] = {}
        """By lane and share; of what is not here nothing began."""

    def look(self, tx: Transaction, ready: Iterable[claiming.Claimable]) -> None:
        """See what began of late of what is ready."""
        for (lane, by_share), shares in self._wanted(ready).items():
            since = tx.now - self.rates[lane, by_share].per
            for row in tx.rows(
                "windows", lane=lane, shares=tx.as_list(sorted(shares)), since=since
            ):
                self.see(lane, row["share"], row["total"], row["base"], row["last_at"])

    def see(self, lane: str, share: str, total: int, base: int | None, last_at: int) -> None:
        """Take down what was seen; without a base all that began has left the window."""
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
        """Say how many more may begin of what is ready."""
        return {
            (claiming.BEGIN, lane, share): self.seen.get((lane, share), NOTHING).room(
                self.rates[lane, by_share].limit
            )
            for (lane, by_share), shares in self._wanted(ready).items()
            for share in shares
        }

    def note(self, taken: Mapping[claiming.Account, int], now: int) -> Admissions:
        """Say what to write about what begins now: of what is full also that, so that it is known
        when one more may begin."""
        notes = Admissions([], [], [])
        kinds: set[tuple[str, bool]] = set()
        for lane, share, count in sorted(
            (lane, share, n) for (kind, lane, share), n in taken.items() if kind == claiming.BEGIN
        ):
            window, limits = self.seen.get((lane, share), NOTHING), self.rates[lane, share != ""]
            total = window.total + count
            notes.began.append(
                {
                    "lane": lane,
                    "share": share,
                    "at": window.at(now),
                    "number": total,
                    "count": count,
                }
            )
            if window.room(limits.limit) <= count:
                notes.full.append(
                    {"lane": lane, "share": share, "edge": total - limits.limit, "per": limits.per}
                )
            kinds.add((lane, share != ""))
        notes.gone.extend(
            (lane, by_share, now - self.rates[lane, by_share].per)
            for lane, by_share in sorted(kinds)
        )
        return notes


def free(tx: Transaction, full: Iterable[Row]) -> None:
    """Note when one more may begin where none may now."""
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
    """Let a rate hold from now on for what began of late, too."""
    tx.change("spend_rate", name=lane.name, free_at=0)
    tx.change("free_shares", lane=lane.name)
    full: list[Row] = []
    for row in tx.rows("admitted_shares", lane=lane.name):
        limits = claiming.share_rate_of(lane) if row["share"] else claiming.rate_of(lane)
        if limits is not None:
            found = {
                "lane": lane.name,
                "share": row["share"],
                "edge": row["number"] - limits.limit,
                "per": limits.per,
            }
            full.append(found)
    free(tx, full)
