"""Open, extend and end the sessions of workers, and free the runs of an ended session."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

import msgspec

from holdfast.core import claiming, typed_json
from holdfast.core.events import Event, EventKind
from holdfast.core.streams.model import CloseReason
from holdfast.errors import StoreHalfCopied
from holdfast.store.budgets.reservations import release_reservations_of_session
from holdfast.store.database import Row, Transaction
from holdfast.store.history import append_from_outside, last_progress, last_seqs
from holdfast.store.installation import HALF_COPIED
from holdfast.store.runs.operations import EndSession, FreedRuns, Heartbeat, OpenSession

PORTION = 1000
"""How many runs one transaction frees at most, because other writers wait for it."""

STAND_IN = " (ended)"
"""Suffix of the id of a stand-in session, which takes over the runs beyond one portion."""


class _Limited(msgspec.Struct):
    """The part of a session's offer that matters when the session ends."""

    crash_limit: int = claiming.CRASH_LIMIT


def open_session(tx: Transaction, op: OpenSession) -> None:
    """Register a worker, or what it serves now. Raises StoreHalfCopied."""
    tx.change("insert_session", **msgspec.structs.asdict(op.session))
    # After the insert, not before: the insert waits for a copy that begins at the same time.
    if tx.rows("setting", name=HALF_COPIED):
        raise StoreHalfCopied(
            why="its runs still continue in the database that they are copied from"
        )


def heartbeat(tx: Transaction, op: Heartbeat) -> bool:
    """Extend a session, and delete the notifications that it has processed. Return whether it
    exists."""
    # With the heartbeat, which saves a transaction of its own for each processed notification.
    if op.seen_notification:
        tx.change("delete_notifications", session_id=op.session_id, seen=op.seen_notification)
    return (
        tx.change(
            "heartbeat", session_id=op.session_id, now=tx.now, expires_at=tx.now + op.lifetime
        )
        == 1
    )


def end_session(tx: Transaction, op: EndSession) -> FreedRuns:
    """Free the runs of a session. A run that crashes its worker repeatedly without progress is
    stuck."""
    # Damaged rows are dropped: the end of a session must not depend on them.
    worker = tx.sound_rows("worker_of", session_id=op.session_id)[0] if op.crashed else []
    # Before the runs are read: a claim for this session locks its row, so that after the delete
    # no further run can be leased to it.
    tx.change("delete_session", session_id=op.session_id)
    if not op.crashed:
        tx.change("free_webhooks", session_id=op.session_id)
    tx.change("forget_notifications", session_id=op.session_id)
    tx.change("forget_claims", session_id=op.session_id)
    # One more than a portion tells whether there are more.
    held = tx.rows("held_states", session_id=op.session_id, limit=PORTION + 1)
    rest = None
    if len(held) > PORTION:
        held = held[:PORTION]
        op, rest = _leave_rest(tx, op, held[-1]["id"], worker)
    if held:
        release_reservations_of_session(tx, op.session_id)
        reason = CloseReason.TAKEN_OVER if op.crashed else CloseReason.RELEASED
        tx.change("close_streams_of_session", session_id=op.session_id, now=tx.now, reason=reason)
        lines: list[tuple[str, Event]] = []
        lease_lost = msgspec.json.encode(
            {"session": op.session_id, "worker": worker[0]["worker"] if worker else None}
        )
        seqs = last_seqs(tx, [state["id"] for state in held])
        limit = op.limit if op.limit is not None else _crash_limit(worker)
        decisions = _recovery_decisions(tx, held, seqs, crashed=op.crashed, limit=limit)
        freed = [
            _freed(op, state, decisions[state["id"]], seqs[state["id"]], lease_lost, lines)
            for state in held
        ]
        tx.many("free_run", freed)
        append_from_outside(tx, lines)
        tx.hints.ready = True
    return FreedRuns([state["id"] for state in held], rest=rest)


def _leave_rest(
    tx: Transaction, op: EndSession, last: str, worker: Sequence[Row]
) -> tuple[EndSession, str]:
    """Move the runs after *last* to a stand-in session. Return the operation to continue with, and
    the id of the stand-in.

    A stand-in has no process and has already expired: no worker can extend it, and after a crash it
    is ended like any other session.
    """
    own = op.session_id
    first = own.removesuffix(STAND_IN)
    rest = first + STAND_IN
    description = (
        {"worker": worker[0]["worker"], "serves": bytes(worker[0]["serves"])}
        if worker
        else {"worker": own, "serves": b"{}"}
    )
    tx.change(
        "insert_session",
        id=rest,
        host="",
        pid=0,
        slot=-1,
        started_at=tx.now,
        beat_at=tx.now,
        expires_at=0,
        **description,
    )
    if own != rest:
        tx.change("move_held_after", session_id=own, target=rest, last=last)
        return op, rest
    # The session that ends is a stand-in itself: move the first portion out of it instead.
    tx.change("move_held_until", session_id=rest, target=first, last=last)
    return msgspec.structs.replace(op, session_id=first), rest


def _crash_limit(sessions: Sequence[Row]) -> int:
    """Return the crash limit that the session was opened with, or the default."""
    for row in sessions:
        with suppress(msgspec.DecodeError, TypeError):  # a damaged row must not keep its runs
            return typed_json.decode(bytes(row["serves"]), _Limited).crash_limit
    return claiming.CRASH_LIMIT


def _recovery_decisions(
    tx: Transaction, held: Sequence[Row], seqs: Mapping[str, int], *, crashed: bool, limit: int
) -> dict[str, claiming.RecoveryDecision]:
    """Decide how each run continues. *seqs* has the number of the last event of each history."""
    progress = last_progress(tx, seqs) if crashed else dict.fromkeys(seqs, 0)
    return {
        run_id: claiming.recovery_decision(
            state,
            last_seq=seqs[run_id],
            last_progress=progress[run_id],
            crashed=crashed,
            limit=limit,
            now=tx.now,
        )
        for state in held
        for run_id in [state["id"]]
    }


def _freed(
    op: EndSession,
    state: Row,
    decision: claiming.RecoveryDecision,
    seq: int,
    lease_lost: bytes,
    lines: list[tuple[str, Event]],
) -> dict[str, object]:
    crash_seq = 0
    if decision.stuck is not None:
        lines.append(
            (state["id"], Event(kind=EventKind.RUN_STUCK, seq=seq + 1, error=decision.stuck))
        )
    elif op.crashed and not claiming.is_parked(state):
        lines.append((state["id"], Event(kind=EventKind.LEASE_LOST, seq=seq + 1, data=lease_lost)))
        crash_seq = seq + 1  # the lost lease itself does not count as progress
    sleeps = decision.rank is None and decision.stuck is None
    return {
        "run_id": state["id"],
        "session_id": op.session_id,
        "status": decision.status,
        "rank": decision.rank,
        "waits": state["waits"] if sleeps else None,
        "wake_at": state["wake_at"] if sleeps else None,
        "crashes": decision.crashes,
        "crash_seq": crash_seq or decision.crash_seq,
        "error": decision.stuck,
    }
