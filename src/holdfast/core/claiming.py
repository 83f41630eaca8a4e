"""Who is claimed next, and what becomes of what a session held. Pure.

The rank of a run is the time at which it became ready, moved forward by its priority: a higher
priority goes first, but an old run outranks a new one in the end, so nothing starves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from holdfast.core import rate_limits
from holdfast.core.events import EventKind
from holdfast.core.sessions import Lane
from holdfast.core.status import Move, Status, after

CRASH_LIMIT = 5
"""After how many crashes in a row without progress a run is stuck, unless its worker says
otherwise."""

NO_PROGRESS = (
    EventKind.STEP_STARTED,
    EventKind.LEASE_LOST,
    EventKind.LEASE_REVOKED,
    EventKind.PRIORITY_CHANGED,
    EventKind.RUN_RELEASED,
)
"""The lines of a history that do not show that the run got any further: a step that still runs,
what holders lost, what operators did."""

PRIORITY_STEP = 60_000_000
"""One point of priority is worth as much as having waited a minute longer."""


PLACE, BEGIN = "place", "begin"

Account = tuple[str, str, str]
"""What a claimed run takes from: a place or a beginning, of a lane, and of which of its shares, if
not of the lane as a whole."""


class Claimable(msgspec.Struct, order=True):
    """A run that can be claimed."""

    rank: int
    id: str
    lane: str
    suspect: bool = False
    share: str | None = None
    started_at: int | None = None


class RecoveryDecision(msgspec.Struct):
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


def accounts(run: Claimable, lane: Lane | None, now: int) -> list[Account]:
    """Say what a claimed run takes from: places, and beginnings. One that began within the window
    is not counted again when it comes back, as after the death of its worker."""
    if lane is None:
        return []
    found = [(PLACE, run.lane, "")]
    if lane.rate_per is not None and not rate_limits.is_within(lane.rate_per, run.started_at, now):
        found.append((BEGIN, run.lane, ""))
    if run.share is None:
        return found
    if lane.per_share is not None:
        found.append((PLACE, run.lane, run.share))
    if lane.share_rate_per is not None and not rate_limits.is_within(
        lane.share_rate_per, run.started_at, now
    ):
        found.append((BEGIN, run.lane, run.share))
    return found


def choose(
    ready: list[Claimable],
    lanes: Mapping[str, Lane],
    left: Mapping[Account, int],
    *,
    now: int,
    limit: int,
) -> tuple[list[Claimable], Counter[Account]]:
    """Pick the best *limit* runs that their lanes admit, one suspect at most; also say what they
    take. *left* says how much there is, where that is limited."""
    chosen: list[Claimable] = []
    taken = Counter[Account]()
    suspected = False
    for run in sorted(ready):
        if len(chosen) == limit:
            break
        wanted = accounts(run, lanes.get(run.lane), now)
        if (run.suspect and suspected) or any(
            account in left and taken[account] >= left[account] for account in wanted
        ):
            continue
        taken.update(wanted)
        chosen.append(run)
        suspected = suspected or run.suspect
    return chosen, taken


def places(lanes: Iterable[Lane], held: Mapping[str, int]) -> dict[Account, int]:
    """Say how many places lanes have left, of which so many are held."""
    left = {
        (PLACE, lane.name, ""): lane.concurrency - held.get(lane.name, 0)
        for lane in lanes
        if lane.concurrency is not None
    }
    return left | {(PLACE, lane.name, ""): 0 for lane in lanes if lane.paused}


def most_of_a_share(lane: Lane, limit: int) -> int:
    """Say how many runs of one share may go at most, when none is at work."""
    return min(
        limit, *(most for most in (lane.per_share, lane.share_rate_limit) if most is not None)
    )


def share_rate_of(lane: Lane) -> rate_limits.RateLimit | None:
    """Return the rate limit of each share of a lane, if it has one."""
    if lane.share_rate_limit is None or lane.share_rate_per is None:
        return None
    return rate_limits.RateLimit(lane.share_rate_limit, lane.share_rate_per)


def rate_of(lane: Lane) -> rate_limits.RateLimit | None:
    """Return the rate limit of a lane, if it has one."""
    if lane.rate_limit is None or lane.rate_per is None:
        return None
    return rate_limits.RateLimit(lane.rate_limit, lane.rate_per)


def waits_for_signal(waits: bytes | None, name: str) -> bool:
    """Say whether a signal of that name ends what a run is parked on."""
    if waits is None:
        return False
    return any(
        wait.get("kind") == "signal" and wait.get("name") == name
        for wait in msgspec.json.decode(waits)
    )


def is_parked(state: Mapping[str, Any]) -> bool:
    """Say whether a run waits; one that is being cancelled may wait too, in the middle of its
    undoing."""
    return state["status"] in (Status.WAITING, Status.BLOCKED) or (
        state["status"] == Status.CANCELLING and state["waits"] is not None
    )


def recovery_decision(
    state: Mapping[str, Any],
    *,
    last_seq: int,
    last_progress: int,
    crashed: bool,
    limit: int,
    now: int,
) -> RecoveryDecision:
    """Decide what becomes of a run whose session ended, in peace or by a crash. *last_seq* is the
    number of the last line of its history, *last_progress* that of the last line that shows
    progress."""
    status, crashes, crash_seq = Status(state["status"]), state["crashes"], state["crash_seq"]
    parked = is_parked(state)
    touched = state["revision"] != state["seen_revision"]
    if crashed and not parked:
        has_progressed = crash_seq is None or last_progress > crash_seq
        crashes = 1 if has_progressed else crashes + 1
        crash_seq = last_seq
        if crashes >= limit:
            return RecoveryDecision(
                after(status, Move.GIVE_UP), None, crashes, crash_seq, stuck=_poison(crashes)
            )
    status = after(status, Move.LOSE if crashed else Move.RELEASE)
    if not parked:
        return RecoveryDecision(status, rank(now, state["priority"]), crashes, crash_seq)
    if touched:  # something came that its holder had not looked at when it parked
        return RecoveryDecision(
            after(status, Move.WAKE), rank(now, state["priority"]), crashes, crash_seq
        )
    return RecoveryDecision(status, None, crashes, crash_seq)


def _poison(crashes: int) -> bytes:
    message = f"its worker died {crashes} times in a row while it made no progress"
    return msgspec.json.encode(
        {"type": "TooManyCrashes", "message": message, "facts": {"crashes": crashes}}
    )
