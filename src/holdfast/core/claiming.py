"""Choose the runs to claim next, and decide what happens to the runs of an ended session. Pure.

The rank of a run is the time at which it became ready minus a bonus for its priority, and the
smallest rank is claimed first. So a higher priority goes first, but a run that has waited long
enough outranks any newer run: no run starves.
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
"""The default number of consecutive crashes without progress after which a run is stuck; a worker
can set another one."""

NO_PROGRESS = (
    EventKind.STEP_CALLED,
    EventKind.STEP_STARTED,
    EventKind.LEASE_LOST,
    EventKind.LEASE_REVOKED,
    EventKind.PRIORITY_CHANGED,
    EventKind.RUN_RELEASED,
)
"""The kinds of events that are not progress of the run: the call and the start of a step, the loss
of a lease, actions of operators."""

PRIORITY_STEP = 60_000_000
"""Microseconds of waiting that one point of priority is worth: one minute."""


PLACE = "place"
"""The resource that a lane's concurrency limits: one per held run."""
BEGIN = "begin"
"""The resource that a lane's rate limits: one per run that begins."""

Account = tuple[str, str, str]
"""A limited resource that a claimed run consumes: PLACE or BEGIN, the lane, and the share (empty
for the lane as a whole)."""


class Claimable(msgspec.Struct, order=True):
    """A run that can be claimed."""

    rank: int
    id: str
    lane: str
    suspect: bool = False
    share: str | None = None
    started_at: int | None = None


class RecoveryDecision(msgspec.Struct):
    """The new state of a run whose session ended."""

    status: Status
    rank: int | None
    crashes: int
    crash_seq: int | None
    stuck: bytes | None = None


def rank(now: int, priority: int) -> int:
    """Return the rank of a run that becomes ready at *now*. The smallest rank is claimed first."""
    return now - priority * PRIORITY_STEP


def count_needed(lanes: Iterable[Lane]) -> bool:
    """Return whether any lane limits how many of its runs are held at once."""
    return any(lane.concurrency is not None for lane in lanes)


def accounts(run: Claimable, lane: Lane | None, now: int) -> list[Account]:
    """Return the accounts that a claimed run consumes from: places and beginnings.

    A run that began within the rate window and is claimed again, for example after the death of its
    worker, does not count as another beginning."""
    if lane is None:
        return []
    consumed = [(PLACE, run.lane, "")]
    if lane.rate_per is not None and not rate_limits.is_within(lane.rate_per, run.started_at, now):
        consumed.append((BEGIN, run.lane, ""))
    if run.share is None:
        return consumed
    if lane.per_share is not None:
        consumed.append((PLACE, run.lane, run.share))
    if lane.share_rate_per is not None and not rate_limits.is_within(
        lane.share_rate_per, run.started_at, now
    ):
        consumed.append((BEGIN, run.lane, run.share))
    return consumed


def choose(
    ready: list[Claimable],
    lanes: Mapping[str, Lane],
    left: Mapping[Account, int],
    *,
    now: int,
    limit: int,
) -> tuple[list[Claimable], Counter[Account]]:
    """Return the at most *limit* best-ranked runs that their lanes admit, and what they consume.

    *left* has the remaining amount of each limited account. At most one suspect run, which has
    crashed its workers before, is chosen."""
    chosen: list[Claimable] = []
    taken = Counter[Account]()
    has_suspect = False
    for run in sorted(ready):
        if len(chosen) == limit:
            break
        consumed = accounts(run, lanes.get(run.lane), now)
        if (run.suspect and has_suspect) or any(
            account in left and taken[account] >= left[account] for account in consumed
        ):
            continue
        taken.update(consumed)
        chosen.append(run)
        has_suspect = has_suspect or run.suspect
    return chosen, taken


def places(lanes: Iterable[Lane], held: Mapping[str, int]) -> dict[Account, int]:
    """Return the remaining places of each limited lane, given the number of held runs by lane.

    A paused lane has none."""
    left = {
        (PLACE, lane.name, ""): lane.concurrency - held.get(lane.name, 0)
        for lane in lanes
        if lane.concurrency is not None
    }
    return left | {(PLACE, lane.name, ""): 0 for lane in lanes if lane.paused}


def most_of_a_share(lane: Lane, limit: int) -> int:
    """Return how many runs of one idle share can be claimed at once, at most *limit*."""
    share_limits = (lane.per_share, lane.share_rate_limit)
    return min(limit, *(maximum for maximum in share_limits if maximum is not None))


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
    """Return whether the stored *waits* of a parked run include one for a signal *name*."""
    if waits is None:
        return False
    return any(
        wait.get("kind") == "signal" and wait.get("name") == name
        for wait in msgspec.json.decode(waits)
    )


def is_parked(state: Mapping[str, Any]) -> bool:
    """Return whether a run is parked on waits.

    A run that is being cancelled can be parked too, in the middle of its compensations."""
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
    """Decide the new state of a run whose session ended, orderly or by a crash.

    *last_seq* is the number of the last event of its history, *last_progress* the number of the
    last event that is progress. A run is stuck after *limit* consecutive crashes without
    progress."""
    status = Status(state["status"])
    crashes = state["crashes"]
    crash_seq = state["crash_seq"]
    parked = is_parked(state)
    has_unseen_change = state["revision"] != state["seen_revision"]
    if crashed and not parked:
        has_progressed = crash_seq is None or last_progress > crash_seq
        crashes = 1 if has_progressed else crashes + 1
        crash_seq = last_seq
        if crashes >= limit:
            return RecoveryDecision(
                after(status, Move.GIVE_UP), None, crashes, crash_seq, stuck=_crash_error(crashes)
            )
    status = after(status, Move.LOSE if crashed else Move.RELEASE)
    if not parked:
        return RecoveryDecision(status, rank(now, state["priority"]), crashes, crash_seq)
    if has_unseen_change:  # it arrived after the last read of the holder: the run must check it
        return RecoveryDecision(
            after(status, Move.WAKE), rank(now, state["priority"]), crashes, crash_seq
        )
    return RecoveryDecision(status, None, crashes, crash_seq)


def _crash_error(crashes: int) -> bytes:
    """Return the stored error of a run that is stuck because of its crashes."""
    message = f"its worker died {crashes} times in a row while it made no progress"
    return msgspec.json.encode(
        {"type": "TooManyCrashes", "message": message, "facts": {"crashes": crashes}}
    )
