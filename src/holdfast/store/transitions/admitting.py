"""Rates of lanes and of their shares: what began of late, how many more may begin, and when the next one may."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from holdfast.core import claims
from holdfast.core.rate import Rate, Window
from holdfast.core.records import Lane
from holdfast.store.transitions.transaction import Row, Transaction


class Windows:
    """What began of late in lanes that have rates."""

    def __init__(self, tx: Transaction, lanes: Mapping[str, Lane]) -> None:
        self.tx = tx
        self.rates: dict[tuple[str, bool], Rate] = {}
        """Of each lane, as a whole and by share."""
        for name, lane in lanes.items():
            for by_share, found in ((False, claims.rate_of(lane)), (True, claims.share_rate_of(lane))):
                if found is not None:
                    self.rates[name, by_share] = found
        self._seen: dict[tuple[str, str], Window] = {}

    def look(self, ready: Iterable[claims.Ready]) -> dict[claims.Account, int]:
        """Say how many more may begin of what is ready."""
        if not self.rates:
            return {}
        wanted: dict[tuple[str, bool], set[str]] = {}
        for run in ready:
            if (run.lane, False) in self.rates:
                wanted.setdefault((run.lane, False), set()).add("")
            if run.share is not None and (run.lane, True) in self.rates:
                wanted.setdefault((run.lane, True), set()).add(run.share)
        left: dict[claims.Account, int] = {}
        for (lane, by_share), shares in wanted.items():
            limits = self.rates[lane, by_share]
            found = _windows(self.tx, lane, shares, limits)
            for share in shares:
                window = self._seen[lane, share] = found.get(share, Window())
                left[claims.BEGIN, lane, share] = window.room(limits.limit)
        return left

    def admit(self, taken: Mapping[claims.Account, int]) -> None:
        """Note what begins now, and of what is full when one more may begin."""
        began = sorted((lane, share, count) for (kind, lane, share), count in taken.items() if kind == claims.BEGIN)
        if not began:
            return
        full: list[Row] = []
        noted: list[Row] = []
        for lane, share, count in began:
            window, limits = self._seen[lane, share], self.rates[lane, share != ""]
            total = window.total + count
            noted.append({"lane": lane, "share": share, "at": window.at(self.tx.now), "number": total, "count": count})
            if window.room(limits.limit) <= count:
                full.append({"lane": lane, "share": share, "edge": total - limits.limit, "per": limits.per})
        self._forget({(lane, share != "") for lane, share, _ in began})
        self.tx.many("admit", noted)
        _free(self.tx, full)

    def _forget(self, kinds: set[tuple[str, bool]]) -> None:
        """Forget what has left the window, of whatever share."""
        for lane, by_share in sorted(kinds):
            query = "forget_share_admissions" if by_share else "forget_admissions"
            self.tx.change(query, lane=lane, before=self.tx.now - self.rates[lane, by_share].per)


def _windows(tx: Transaction, lane: str, shares: Iterable[str], limits: Rate) -> dict[str, Window]:
    rows = tx.rows("windows", lane=lane, shares=tx.as_list(sorted(shares)), since=tx.now - limits.per)
    gone = {row["share"]: row["total"] if row["base"] is None else row["base"] for row in rows}
    return {row["share"]: Window(row["total"], gone[row["share"]], row["last_at"]) for row in rows}


def _free(tx: Transaction, full: Iterable[Row]) -> None:
    """Note when one more may begin where none may now."""
    lanes = [{name: value for name, value in row.items() if name != "share"} for row in full if not row["share"]]
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
        limits = claims.share_rate_of(lane) if row["share"] else claims.rate_of(lane)
        if limits is not None:
            found = {"lane": lane.name, "share": row["share"], "edge": row["number"] - limits.limit, "per": limits.per}
            full.append(found)
    _free(tx, full)
