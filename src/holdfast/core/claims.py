"""Who is claimed next, and what becomes of what a session held. Pure.

The rank of a run is the time at which it became ready, moved forward by its priority: a higher priority goes first, but an
old run outranks a new one in the end, so nothing starves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from holdfast.core import rate
from holdfast.core.records import Lane
from holdfast.core.status import Move, Status, after

PRIORITY_STEP = 60_000_000
"""One point of priority is worth as much as having waited a minute longer."""


class Ready(msgspec.Struct, order=True):
    """A run that can be claimed."""

    rank: int
    id: str
    lane: str
    suspect: bool = False
    share: str | None = None


class Fate(msgspec.Struct):
    """What becomes of a run whose session ended."""

    status: Status
    rank: int | None
    crashes: int
    crash_seq: int | None
    stuck: bytes | None = None


def rank(now: int, priority: int) -> int:
    """Say where a run stands that becomes ready now. The smallest goes first."""
    return now - priority * PRIORITY_STEP


def count_needed(lanes: Iterable[Lane]) -> bool:
    """Say whether any lane limits how many of its runs are held at once."""
    return any(lane.concurrency is not None for lane in lanes)


def choose(
    ready: list[Ready], lanes: Mapping[str, Lane], held: Mapping[str, int], *, now: int, limit: int,
    shares: Mapping[tuple[str, str], int] | None = None,
) -> tuple[list[Ready], dict[str, int]]:  # fmt: skip
    """Pick the best *limit* runs that their lanes admit, one suspect at most; also say until when each rate is spent.
    *shares* says how many more runs of a share may go, for those that have a limit and are not free of debt or load."""
    chosen: list[Ready] = []
    suspected = False
    left_of = dict(shares or {})
    room = {name: _room(lane, held.get(name, 0), now, limit) for name, lane in lanes.items()}
    for run in sorted(ready):
        if len(chosen) == limit:
            break
        left = min(room.get(run.lane, limit), _share_room(run, lanes, left_of, limit))
        if left > 0 and not (run.suspect and suspected):
            room[run.lane] = room.get(run.lane, limit) - 1
            chosen.append(run)
            suspected = suspected or run.suspect
    return chosen, _spent(chosen, lanes, now)


def _room(lane: Lane, held: int, now: int, limit: int) -> int:
    if lane.paused:
        return 0
    room = limit if lane.concurrency is None else min(limit, lane.concurrency - held)
    limits = rate_of(lane)
    if limits is not None and room > 0:
        room, _ = rate.admit(limits, lane.free_at, now, room)
    return max(room, 0)


def _share_room(run: Ready, lanes: Mapping[str, Lane], left_of: dict[tuple[str, str], int], limit: int) -> int:
    """Say how many more of a run's share may go, and count on this one."""
    lane = lanes.get(run.lane)
    if run.share is None or lane is None or not lane.by_share:
        return limit
    left = left_of.get((run.lane, run.share), share_room(lane, 0, 0, 0, limit))
    left_of[run.lane, run.share] = left - 1
    return left


def share_room(lane: Lane, held: int, free_at: int, now: int, limit: int) -> int:
    """Say how many more runs of a share may go that has so many at work, and whose rate is spent until *free_at*."""
    room = limit if lane.per_share is None else min(limit, lane.per_share - held)
    limits = share_rate_of(lane)
    if limits is not None and room > 0:
        room, _ = rate.admit(limits, free_at, now, room)
    return max(room, 0)


def share_rate_of(lane: Lane) -> rate.Rate | None:
    """Return the rate limit of each share of a lane, if it has one."""
    if lane.share_rate_limit is None or lane.share_rate_per is None:
        return None
    return rate.Rate(lane.share_rate_limit, lane.share_rate_per)


def _spent(chosen: list[Ready], lanes: Mapping[str, Lane], now: int) -> dict[str, int]:
    spent: dict[str, int] = {}
    for name, lane in lanes.items():
        limits = rate_of(lane)
        taken = sum(1 for run in chosen if run.lane == name) if limits is not None else 0
        if limits is not None and taken:
            _, spent[name] = rate.admit(limits, lane.free_at, now, taken)
    return spent


def rate_of(lane: Lane) -> rate.Rate | None:
    """Return the rate limit of a lane, if it has one."""
    if lane.rate_limit is None or lane.rate_per is None:
        return None
    return rate.Rate(lane.rate_limit, lane.rate_per)


def next_admission(lanes: Iterable[Lane], now: int) -> int | None:
    """Say when the first of these lanes, whose rates are spent, admits a run again."""
    instants = [rate.next_at(limits, lane.free_at, now) for lane in lanes if (limits := rate_of(lane)) is not None]
    return min((instant for instant in instants if instant > now), default=None)


def waits_for_signal(waits: bytes | None, name: str) -> bool:
    """Say whether a signal of that name ends what a run is parked on."""
    if waits is None:
        return False
    return any(wait.get("kind") == "signal" and wait.get("name") == name for wait in msgspec.json.decode(waits))


def is_parked(state: Mapping[str, Any]) -> bool:
    """Say whether a run waits; one that is being cancelled may wait too, in the middle of its undoing."""
    return state["status"] in (Status.WAITING, Status.BLOCKED) or (
        state["status"] == Status.CANCELLING and state["waits"] is not None
    )


def fate(state: Mapping[str, Any], *, last_seq: int, crashed: bool, limit: int, now: int) -> Fate:
    """Decide what becomes of a run whose session ended, in peace or by a crash."""
    status, crashes, crash_seq = Status(state["status"]), state["crashes"], state["crash_seq"]
    parked = is_parked(state)
    touched = state["revision"] != state["seen_revision"]
    if crashed and not parked:
        crashes, crash_seq = (crashes + 1 if crash_seq == last_seq else 1), last_seq
        if crashes >= limit:
            return Fate(after(status, Move.GIVE_UP), None, crashes, crash_seq, stuck=_poison(crashes))
    status = after(status, Move.LOSE if crashed else Move.RELEASE)
    if not parked:
        return Fate(status, rank(now, state["priority"]), crashes, crash_seq)
    if touched:  # something came that its holder had not looked at when it parked
        return Fate(after(status, Move.WAKE), rank(now, state["priority"]), crashes, crash_seq)
    return Fate(status, None, crashes, crash_seq)


def _poison(crashes: int) -> bytes:
    message = f"its worker died {crashes} times in a row while it made no progress"
    return msgspec.json.encode({"type": "TooManyCrashes", "message": message, "facts": {"crashes": crashes}})
