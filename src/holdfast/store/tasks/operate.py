"""Apply the operations of operators on leased runs: revoke a lease, set a priority, end a run."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from holdfast.core import claiming
from holdfast.core.events import Event, EventKind
from holdfast.core.status import Move, Status, after
from holdfast.core.streams.model import CloseReason
from holdfast.errors import RunFinished, RunNotFound
from holdfast.store.budgets.reservations import release_reservations_of_holder
from holdfast.store.database import Row, Transaction
from holdfast.store.gates.apply import withdraw_all
from holdfast.store.history import append_from_outside, last_seq
from holdfast.store.payloads.apply import keep
from holdfast.store.runs.cancel import ALL, cancel_children
from holdfast.store.runs.effects import why_children_stop
from holdfast.store.runs.ending import end_from_outside, end_runs
from holdfast.store.tasks.operations import (
    OverrideRun,
    RevokeLease,
    SetPriority,
)
from holdfast.store.wakeup import notify_holder


def revoke_lease(tx: Transaction, op: RevokeLease) -> bool:
    """Revoke the lease of a run. Return False if it has none, or another holder than *op* names."""
    state = load_lease(tx, op.run_id, op.namespace)
    if state["session_id"] is None or op.session_id not in (None, state["session_id"]):
        return False
    session_id = state["session_id"]
    # Damaged rows are dropped: the revocation must not depend on them.
    sessions = tx.sound_rows("worker_of", session_id=session_id)[0]
    worker = sessions[0]["worker"] if sessions else None
    _note(
        tx,
        op.run_id,
        EventKind.LEASE_REVOKED,
        {"reason": op.reason, "session": session_id, "worker": worker, **_by(op.by)},
    )
    end_lease(tx, state, wake_at=None)
    return True


def end_lease(tx: Transaction, state: Row, *, wake_at: int | None) -> None:
    """Take the lease of a run from its holder; another worker may claim the run, at once or at
    *wake_at*."""
    status = after(Status(state["status"]), Move.RELEASE)
    parked = status is Status.WAITING
    status = after(status, Move.WAKE) if parked else status
    rank = None if wake_at is not None else claiming.rank(tx.now, state["priority"])
    # Not those of the run itself: the next holder continues with them.
    release_reservations_of_holder(tx, state["id"])
    tx.change("revoke_lease", run_id=state["id"], status=status, rank=rank, wake_at=wake_at)
    tx.change(
        "close_streams", run_id=state["id"], now=tx.now, reason=CloseReason.TAKEN_BACK, least=1
    )
    notify_holder(tx, state["session_id"], state["id"])
    tx.hints.ready = True


def set_priority(tx: Transaction, op: SetPriority) -> int:
    """Change the priority of a run, and its place in the queue. Return the old priority."""
    state = load_lease(tx, op.run_id, op.namespace)
    old: int = state["priority"]
    if old != op.priority:
        # Only the holder may append to the history of a leased run.
        if state["session_id"] is None:
            data = {"old": old, "new": op.priority, **_by(op.by)}
            _note(tx, op.run_id, EventKind.PRIORITY_CHANGED, data)
        tx.change(
            "save_priority",
            run_id=op.run_id,
            priority=op.priority,
            shift=(old - op.priority) * claiming.PRIORITY_STEP,
        )
        tx.hints.ready = True
    return old


def override_run(tx: Transaction, op: OverrideRun) -> Status:
    """End a run with the status and result that an operator gives."""
    state = load_lease(tx, op.run_id, op.namespace)
    data = {"reason": op.reason, "status": op.status, **_by(op.by)}
    _note(tx, op.run_id, EventKind.RUN_OVERRIDDEN, data)
    kind = EventKind.RUN_COMPLETED if op.status is Status.COMPLETED else EventKind.RUN_FAILED
    # Gates close with their run: a decision after the end would reach no program.
    seq = withdraw_all(
        tx, op.run_id, f"the run was ended by hand: {op.reason}", last_seq(tx, op.run_id) + 1
    )
    append_from_outside(tx, [(op.run_id, Event(kind, error=op.error, seq=seq))])
    keep(tx, op.run_id, op.payloads)
    end_run(tx, state, op.status, op.result, op.error)
    return op.status


def end_run(
    tx: Transaction, state: Row, status: Status, result: bytes | None, error: bytes | None
) -> None:
    """End a run without its holder, and stop its children."""
    tx.change(
        "override_run", run_id=state["id"], status=status, result=result, error=error, now=tx.now
    )
    # All of them now: after this transaction the run has ended, and stops no others.
    cancel_children(tx, state["id"], why_children_stop(status), room=ALL)
    end_runs(tx, [end_from_outside(state, status)])


def load_lease(tx: Transaction, run_id: str, namespace: str | None = None) -> Row:
    """Return the state of a live run with its lease. Raises RunNotFound, RunFinished."""
    states = tx.rows("lease_state", run_id=run_id)
    if not states or namespace not in (None, states[0]["namespace"]):
        raise RunNotFound(run=run_id)
    if states[0]["finished_at"] is not None:
        raise RunFinished(run=run_id, status=states[0]["status"])
    return states[0]


def _by(person: str | None) -> dict[str, str]:
    """Return the field of an event that names the person or program that asked for it."""
    return {} if person is None else {"by": person}


def _note(tx: Transaction, run_id: str, kind: str, data: Mapping[str, object]) -> None:
    append_from_outside(
        tx, [(run_id, Event(kind, data=msgspec.json.encode(data), seq=last_seq(tx, run_id) + 1))]
    )
