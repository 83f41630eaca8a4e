"""Cancel runs from outside, and end runs that are past their deadline.

One transaction stops at most PORTION descendants of a run, because other writers wait for it.
Further transactions stop the rest: the caller applies the same operation again, or the program of
the run cancels its children when it stops. A run that ends without its program ends in the last of
these transactions, so that after a crash the next call finds it again. Only an operator who ends a
run at once stops all of its descendants in the same transaction.

Descendants are locked in the order of their ids.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from holdfast.core import claiming
from holdfast.core.events import Event, EventKind
from holdfast.core.runs import PAST_DEADLINE, CancelCause, Cancellation
from holdfast.core.status import Move, Status, after
from holdfast.errors import RowDamaged, RunFinished
from holdfast.store.database import Row, Transaction
from holdfast.store.gates.apply import withdraw_all
from holdfast.store.history import append_each, append_from_outside, last_seq, last_seqs
from holdfast.store.rows import load
from holdfast.store.runs.ending import RunEnd, end_from_outside, end_runs, parent_of
from holdfast.store.runs.operations import ExpireRuns, PartlyCancelled, RequestCancel, SetAside
from holdfast.store.runs.set_aside import set_aside
from holdfast.store.wakeup import notify_holder

PORTION = 500
"""How many runs one transaction stops at most."""

ALL = 10**9
"""The room for every descendant, however many they are."""


def request_cancel(tx: Transaction, op: RequestCancel) -> Status | PartlyCancelled:
    """Cancel a run and its descendants. End it at once if it never started, or if forced."""
    state = load(tx, op.run_id)
    if state["finished_at"] is not None:
        raise RunFinished(run=op.run_id, status=state["status"])
    cancellation = Cancellation(op.reason, op.cause, op.by)
    descendants = children_to_stop(tx, op.run_id)
    if len(descendants) > PORTION:
        # Not ended yet: after a crash, an ended run would not be cancelled again.
        status = _ask_to_stop(tx, state, cancellation)
        cancel_children(tx, op.run_id, cancellation.for_children(), descendants)
        return PartlyCancelled(status)
    status = _stop(tx, state, cancellation, force=op.force)
    cancel_children(tx, op.run_id, cancellation.for_children(), descendants)
    return status


def children_to_stop(tx: Transaction, run_id: str, room: int = PORTION) -> list[str]:
    """Return the descendants of a run that were not asked to stop yet, parents first.

    Runs that may outlive their parent are left out. One more than *room* means that there are more.
    """
    return [row["id"] for row in tx.rows("children_to_stop", run_id=run_id, limit=room + 1)]


def cancel_children(
    tx: Transaction,
    run_id: str,
    cancellation: Cancellation,
    below: Sequence[str] | None = None,
    *,
    at: int | None = None,
    room: int = PORTION,
) -> int:
    """Ask at most *room* descendants to stop. Return the room that is left: 0 if some may remain.

    *below* are the descendants if they were read before, *at* is the instant of the request.
    """
    processed: set[str] = set()
    descendants = children_to_stop(tx, run_id, room) if below is None else below
    # A damaged run is found again by each query, so it must be remembered as processed.
    while room and (new := [child for child in descendants if child not in processed]):
        part = new[:room]
        room -= len(part)
        processed.update(part)
        states, damaged = tx.sound_rows("states_by_id", ids=tx.as_list(sorted(part)))
        set_aside(tx, SetAside(damaged))
        stop_all(tx, [state for state in states if state["finished_at"] is None], cancellation, at)
        # Read again: a child may have started others before it was locked here.
        descendants = children_to_stop(tx, run_id, room + len(processed)) if room else ()
    return room


def expire_runs(tx: Transaction, op: ExpireRuns) -> int:
    """End runs past their deadline: at once if they never started, else through their compensation.

    A damaged run is set aside as stuck. Return how many runs were processed.
    """
    rows, damaged = tx.sound_rows("overdue", now=tx.now, limit=op.limit)
    set_aside(tx, SetAside(damaged))
    overdue = [
        (state, row["deadline"])
        for row in rows
        if (state := _load_or_set_aside(tx, row["id"])) is not None
    ]
    # Room for every run that was found, so that each call makes progress.
    room = max(PORTION, len(overdue))
    for expired, (state, deadline) in enumerate(overdue):
        if room <= 0:
            return expired
        room -= 1
        descendants = children_to_stop(tx, state["id"], room) if room else []
        if state["started_at"] is not None and state["status"] != Status.STUCK:
            _ask_to_stop(tx, state, PAST_DEADLINE, at=deadline)
        elif len(descendants) <= room:
            _end(tx, state, PAST_DEADLINE)
        if room:
            room = cancel_children(
                tx, state["id"], PAST_DEADLINE, descendants, at=deadline, room=room
            )
    return len(overdue)


def _load_or_set_aside(tx: Transaction, run_id: str) -> Row | None:
    """Return the state of a run, or None if its row is damaged; then it is set aside.

    It must not block the others, and every later call would find it again.
    """
    try:
        return load(tx, run_id)
    except RowDamaged as damage:
        set_aside(tx, SetAside([damage]))
        return None


def _stop(
    tx: Transaction, state: Row, cancellation: Cancellation, *, force: bool = False
) -> Status:
    if force or (state["started_at"] is None and state["session_id"] is None):
        return _end(tx, state, cancellation)
    return _ask_to_stop(tx, state, cancellation)


def _ask_to_stop(
    tx: Transaction, state: Row, cancellation: Cancellation, *, at: int | None = None
) -> Status:
    status = after(Status(state["status"]), Move.CANCEL)
    if state["status"] == status:
        return status  # already cancelling: the first reason is kept
    tx.change("save_cancel", **_cancel_row(tx, state, cancellation, at))
    if state["session_id"] is not None:
        notify_holder(tx, state["session_id"], state["id"])
    else:
        tx.hints.ready = True
    return status


def _how_it_ends(cancellation: Cancellation) -> tuple[Move, str]:
    """Return the move and the event that end a run without its program."""
    if cancellation.cause is CancelCause.DEADLINE:
        return Move.EXPIRE, EventKind.RUN_EXPIRED
    return Move.END_CANCELLED, EventKind.RUN_CANCELLED


def _end(tx: Transaction, state: Row, cancellation: Cancellation) -> Status:
    """End a run without its program: it never started, has no holder, or the caller forces it."""
    move, kind = _how_it_ends(cancellation)
    reason = cancellation.reason
    status = after(Status(state["status"]), move)
    error = msgspec.json.encode({"type": status.value, "message": reason})
    seq = last_seq(tx, state["id"]) + 1
    if state["started_at"] is not None:  # a run that never started has no gates
        seq = withdraw_all(tx, state["id"], f"the run is {status.value}: {reason}", seq)
    append_from_outside(
        tx, [(state["id"], Event(kind=kind, seq=seq, error=error, data=_made_by(cancellation)))]
    )
    tx.change("end_run", **_end_row(tx, state, status, error, cancellation))
    end_runs(tx, [end_from_outside(state, status)])
    return status


def _made_by(cancellation: Cancellation) -> bytes | None:
    """Return the data of the event that ends a run: who asked for it, if that is known."""
    return None if cancellation.by is None else msgspec.json.encode({"by": cancellation.by})


def _end_row(
    tx: Transaction, state: Row, status: Status, error: bytes, cancellation: Cancellation
) -> dict[str, object]:
    return {
        "run_id": state["id"],
        "status": status,
        "error": error,
        "now": tx.now,
        "reason": cancellation.reason,
        "cause": cancellation.cause,
        "by": cancellation.by,
    }


def stop_members(tx: Transaction, reasons: Mapping[str, str]) -> None:
    """Ask many members of graphs to stop, each for its reason, with their descendants. None of them
    is a child."""
    requests = {
        run_id: Cancellation(reason, CancelCause.GRAPH) for run_id, reason in reasons.items()
    }
    states = [
        state
        for state in tx.rows("states_by_id", ids=tx.as_list(sorted(reasons)))
        if state["finished_at"] is None
    ]
    unstarted = [state for state in states if _is_unstarted(state)]
    if unstarted:
        _end_unstarted(tx, [(state, requests[state["id"]]) for state in unstarted])
    started = [state for state in states if not _is_unstarted(state)]
    _ask_all(tx, [(state, requests[state["id"]]) for state in started])
    for child in (
        tx.rows("live_children_of", ids=tx.as_list([state["id"] for state in started]))
        if started
        else []
    ):
        reason = "its parent was asked to stop"
        request_cancel(tx, RequestCancel(child["id"], reason, cause=CancelCause.PARENT))


def stop_all(
    tx: Transaction, states: Sequence[Row], cancellation: Cancellation, at: int | None = None
) -> None:
    """Ask runs to stop, without their children. Runs that never started end at once."""
    unstarted = [state for state in states if _is_unstarted(state)]
    if unstarted:
        _end_unstarted(tx, [(state, cancellation) for state in unstarted])
    started = [state for state in states if not _is_unstarted(state)]
    _ask_all(tx, [(state, cancellation) for state in started], at)


def _is_unstarted(state: Row) -> bool:
    return state["started_at"] is None and state["session_id"] is None


def _ask_all(
    tx: Transaction, states: Sequence[tuple[Row, Cancellation]], at: int | None = None
) -> None:
    """Ask started runs to stop, each for its reason. A run that is already cancelling keeps its
    reason."""
    asked = [
        (state, cancellation)
        for state, cancellation in states
        if after(Status(state["status"]), Move.CANCEL) != state["status"]
    ]
    tx.many("save_cancel", [_cancel_row(tx, *request, at) for request in asked])
    held = [state for state, _ in asked if state["session_id"] is not None]
    tx.many(
        "insert_notification",
        [{"session_id": state["session_id"], "run_id": state["id"]} for state in held],
    )
    tx.hints.runs.update(state["id"] for state in held)
    # A run without a holder is claimable now: a worker has to compensate its steps.
    tx.hints.ready |= len(held) < len(asked)


def _end_unstarted(tx: Transaction, states: Sequence[tuple[Row, Cancellation]]) -> None:
    """End runs that never started, each for its reason: nothing to withdraw or to compensate."""
    lines: list[tuple[str, Event]] = []
    rows: list[dict[str, object]] = []
    ends: list[RunEnd] = []
    seqs = last_seqs(tx, [state["id"] for state, _ in states])
    for state, cancellation in states:
        move, kind = _how_it_ends(cancellation)
        status = after(Status(state["status"]), move)
        error = msgspec.json.encode({"type": status.value, "message": cancellation.reason})
        data = _made_by(cancellation)
        event = Event(kind=kind, seq=seqs[state["id"]] + 1, error=error, data=data)
        lines.append((state["id"], event))
        rows.append(_end_row(tx, state, status, error, cancellation))
        end = RunEnd(state["id"], status, parent=parent_of(state), graph_id=state["graph_id"])
        ends.append(end)
    # Statements for all runs together: a cancelled parent may have thousands of children.
    append_each(tx, lines)
    tx.many("end_run", rows)
    end_runs(tx, ends)


def _cancel_row(
    tx: Transaction, state: Row, cancellation: Cancellation, at: int | None = None
) -> dict[str, object]:
    row: dict[str, object] = {
        "run_id": state["id"],
        "status": after(Status(state["status"]), Move.CANCEL),
        "reason": cancellation.reason,
        "cause": cancellation.cause,
        "by": cancellation.by,
        "at": tx.now if at is None else at,
        "rank": None,
        "wake_at": state["wake_at"],
        "waits": state["waits"],
    }
    if state["session_id"] is None:
        # No holder: claimable at once, whatever the run waits for.
        row |= {
            "rank": claiming.rank(tx.now, state["priority"]),
            "wake_at": None,
            "waits": None,
        }
    return row
