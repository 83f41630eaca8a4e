"""The state machine of a run, as a table: status and move to next status.

A pair that is not in the table is an illegal move. Every change of a run's status is decided here;
the store only records it.
"""

from __future__ import annotations

from enum import StrEnum

from holdfast.errors import IllegalMove


class Status(StrEnum):
    """The status of a run."""

    PENDING = "pending"
    BLOCKED = "blocked"
    RUNNING = "running"
    WAITING = "waiting"
    CANCELLING = "cancelling"
    STUCK = "stuck"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    SKIPPED = "skipped"


class Move(StrEnum):
    """The moves that change the status of a run."""

    CLAIM = "claim"
    PARK = "park"
    BLOCK = "block"
    GO_ON = "go on"
    WAKE = "wake"
    LOSE = "lose"
    RELEASE = "release"
    CANCEL = "cancel"
    COMPLETE = "complete"
    FAIL = "fail"
    END_CANCELLED = "end cancelled"
    EXPIRE = "expire"
    GIVE_UP = "give up"
    RESUME = "resume"
    REPLAY = "replay"


S = Status
M = Move

_REPLAY = {M.REPLAY: S.PENDING}

NEXT: dict[Status, dict[Move, Status]] = {
    S.PENDING: {
        M.CLAIM: S.RUNNING,
        M.WAKE: S.PENDING,
        M.CANCEL: S.CANCELLING,
        M.END_CANCELLED: S.CANCELLED,
        M.EXPIRE: S.EXPIRED,
        M.GIVE_UP: S.STUCK,
    },
    S.BLOCKED: {
        M.RESUME: S.PENDING,
        M.WAKE: S.PENDING,
        M.CANCEL: S.CANCELLING,
        M.END_CANCELLED: S.CANCELLED,
        M.EXPIRE: S.EXPIRED,
    },
    S.RUNNING: {
        M.GO_ON: S.RUNNING,
        M.PARK: S.WAITING,
        M.BLOCK: S.BLOCKED,
        M.WAKE: S.RUNNING,
        M.CANCEL: S.CANCELLING,
        M.LOSE: S.PENDING,
        M.RELEASE: S.PENDING,
        M.COMPLETE: S.COMPLETED,
        M.FAIL: S.FAILED,
        M.END_CANCELLED: S.CANCELLED,
        M.EXPIRE: S.EXPIRED,
        M.GIVE_UP: S.STUCK,
    },
    S.WAITING: {
        M.GO_ON: S.RUNNING,
        M.PARK: S.WAITING,
        M.BLOCK: S.BLOCKED,
        M.WAKE: S.PENDING,
        M.CANCEL: S.CANCELLING,
        M.LOSE: S.WAITING,
        M.RELEASE: S.WAITING,
        M.COMPLETE: S.COMPLETED,
        M.FAIL: S.FAILED,
        M.END_CANCELLED: S.CANCELLED,
        M.EXPIRE: S.EXPIRED,
        M.GIVE_UP: S.STUCK,
    },
    S.CANCELLING: {
        M.CLAIM: S.CANCELLING,
        M.GO_ON: S.CANCELLING,
        M.PARK: S.CANCELLING,
        M.WAKE: S.CANCELLING,
        M.CANCEL: S.CANCELLING,
        M.LOSE: S.CANCELLING,
        M.RELEASE: S.CANCELLING,
        M.COMPLETE: S.COMPLETED,
        M.FAIL: S.FAILED,
        M.END_CANCELLED: S.CANCELLED,
        M.EXPIRE: S.EXPIRED,
        M.GIVE_UP: S.STUCK,
    },
    S.STUCK: {
        M.RESUME: S.PENDING,
        M.WAKE: S.STUCK,
        M.CANCEL: S.CANCELLING,
        M.END_CANCELLED: S.CANCELLED,
        M.EXPIRE: S.EXPIRED,
    },
    S.COMPLETED: _REPLAY,
    S.FAILED: _REPLAY,
    S.CANCELLED: _REPLAY,
    S.EXPIRED: _REPLAY,
    S.SKIPPED: _REPLAY,
}

# Derived from the table: final statuses allow only a replay, held ones can lose their lease.
FINAL = frozenset(status for status, moves in NEXT.items() if set(moves) == {M.REPLAY})
LIVE = frozenset(Status) - FINAL
HELD = frozenset(status for status, moves in NEXT.items() if M.LOSE in moves)
CLAIMABLE = frozenset(status for status, moves in NEXT.items() if M.CLAIM in moves)


def after(status: Status, move: Move) -> Status:
    """Return the status that *move* leads to. Raises IllegalMove."""
    next_status = NEXT[status].get(move)
    if next_status is None:
        raise IllegalMove(status=status.value, move=move.value)
    return next_status
