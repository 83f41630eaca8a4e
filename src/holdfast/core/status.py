"""The state machine of a run. A pair that is not in the table cannot happen.

Everything that moves a run from one status to another is decided here; the store only records it.
"""

from __future__ import annotations

from enum import StrEnum

from holdfast.errors import IllegalMove


class Status(StrEnum):
    """Where a run stands."""

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
    """What can happen to a run."""

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


S, M = Status, Move

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

FINAL = frozenset(status for status, moves in NEXT.items() if set(moves) == {M.REPLAY})
LIVE = frozenset(Status) - FINAL
HELD = frozenset(status for status, moves in NEXT.items() if M.LOSE in moves)
CLAIMABLE = frozenset(status for status, moves in NEXT.items() if M.CLAIM in moves)


def after(status: Status, move: Move) -> Status:
    """Say where *move* takes a run that is in *status*. Raises IllegalMove."""
    found = NEXT[status].get(move)
    if found is None:
        raise IllegalMove(status=status.value, move=move.value)
    return found
