"""Apply `Advance`: the commit of a run's holder, with its events, new status and effects.

The lease is checked by the guarded write itself; only commits that must read before they write
check it by a query of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeGuard

from holdfast.core import claiming
from holdfast.core.envelope import digests_of
from holdfast.core.events import Event
from holdfast.core.payload import Payload
from holdfast.core.status import FINAL, Move, Status, after
from holdfast.errors import LeaseLost
from holdfast.store.budgets.operations import BudgetRefused
from holdfast.store.database import BatchTransaction, Operation, Row, Transaction
from holdfast.store.effects import Commit, RevisionChanged
from holdfast.store.history import append
from holdfast.store.payloads.apply import keep
from holdfast.store.rows import check_lease
from holdfast.store.runs.cancel import PORTION, cancel_children, children_to_stop
from holdfast.store.runs.effects import why_children_stop
from holdfast.store.runs.ending import RunEnd, end_runs
from holdfast.store.runs.operations import Advance, Advanced, Body, EndRun
from holdfast.store.user_code import shielded

_AT_WORK = (Status.RUNNING, Status.WAITING, Status.BLOCKED, Status.PENDING)


def advance(tx: BatchTransaction, op: Advance) -> Advanced | RevisionChanged | BudgetRefused:
    """Record progress of a run as its holder. Raises LeaseLost."""
    data = None
    commit = None
    descendants = _descendants(tx, op) if op.effects else None
    # Before any write, and before the body: this transaction will not end the run.
    if descendants and len(descendants) + len(op.children()) > PORTION:
        return _stop_first(tx, op, descendants)
    if op.body is not None:
        # Before user code runs, not after: a refused commit must leave no trace of it.
        changed = _changed(op, check_lease(tx, op.run_id, op.generation))
        if changed is not None:
            return changed
        data = _call(tx, op, op.body)
    if op.effects:  # after the body, which may add some
        commit = _commit_of(op, descendants)
        refused: RevisionChanged | BudgetRefused | None = commit.refusal(tx)
        if refused is not None:
            return refused
    changed = _write_progress(tx, op)
    if changed is not None:
        return changed
    answer = Advanced(now=tx.now, data=data)
    if commit is not None:
        commit.graph_id = op.graph_id  # the write may have found another one
        commit.apply(tx, answer)
    if op.status in FINAL and not (commit is not None and commit.of(EndRun)):
        end_runs(tx, [plain_end(op)])
    return answer


def _write_progress(tx: Transaction, op: Advance) -> RevisionChanged | None:
    """Write the events, the new status and the payloads. The first write checks the lease."""
    if op.status is None:
        _append_guarded(tx, op)
    else:
        changed = _move(tx, op, op.status)
        if changed is not None:
            return changed
        append(tx, op.run_id, op.events)
    if op.payloads:
        _keep(tx, op)
    return None


def _descendants(tx: Transaction, op: Advance) -> list[str] | None:
    """Return the live descendants of a run that ends; None if it has had no children."""
    if op.status not in FINAL or not any(end.had_children for end in op.of(EndRun)):
        return None
    return children_to_stop(tx, op.run_id)


def _commit_of(op: Advance, descendants: Sequence[str] | None) -> Commit:
    commit = Commit(op.run_id, op.generation, op.effects, calls_body=op.body is not None)
    commit.status = op.status
    commit.graph_id = op.graph_id
    commit.result = op.result
    commit.payloads = op.payloads
    commit.descendants = descendants
    return commit


def _stop_first(tx: Transaction, op: Advance, descendants: Sequence[str]) -> Advanced:
    """Cancel a portion of the children before their parent ends.

    An ended parent would cancel nothing after a crash.
    """
    check_lease(tx, op.run_id, op.generation)
    cancel_children(tx, op.run_id, why_children_stop(op.status), descendants)
    return Advanced(now=tx.now, unasked=True)


def _call(tx: BatchTransaction, op: Advance, body: Body) -> bytes:
    """Call the transactional body. Its result becomes the data of the first event."""
    data = tx.call(shielded(body.call))
    offloaded: list[Payload] = []
    op.events[0].data = data if body.seal is None else body.seal(data, offloaded)
    op.payloads = offloaded
    return data


def _keep(tx: Transaction, op: Advance) -> None:
    """Store the offloaded payloads of the run's own values.

    Payloads of signals are stored with the runs that receive them.
    """
    values = [
        op.result,
        op.error,
        *(value for event in op.events for value in (event.data, event.error)),
    ]
    own = digests_of(*values)
    keep(tx, op.run_id, [payload for payload in op.payloads if payload.digest in own])


def is_one_event(op: Operation) -> TypeGuard[Advance]:
    """Return whether *op* writes one event of a leased run and nothing else.

    That is the commit of a step in sequence, the most frequent one; it has a fast path.
    """
    if type(op) is not Advance or op.effects or op.status is not None:
        return False
    return len(op.events) == 1 and op.body is None and not op.payloads


def append_single_events(tx: Transaction, ops: Sequence[Advance]) -> list[Advanced | LeaseLost]:
    """Write one event per run in one statement. Return LeaseLost for runs whose lease was lost."""
    # Fast path: if all rows were written all leases are valid, which saves a read per run.
    if tx.many("append_guarded", [guarded_row(op, op.events[0], tx.now) for op in ops]) == len(ops):
        return [Advanced(now=tx.now) for _ in ops]
    return [_appended(tx, op) for op in ops]


def _appended(tx: Transaction, op: Advance) -> Advanced | LeaseLost:
    try:
        check_lease(tx, op.run_id, op.generation)
    except LeaseLost as lost:
        return lost
    return Advanced(now=tx.now)


def is_end(op: Operation) -> TypeGuard[Advance]:
    """Return whether *op* ends a leased run and only its graph, if any, must learn of it."""
    if type(op) is not Advance or op.effects or op.status not in FINAL:
        return False
    return op.body is None and not op.payloads


def end_each(tx: Transaction, ops: Sequence[Advance]) -> list[Advanced] | None:
    """End these runs. Return None if a lease was lost, or a run has joined a graph: the caller must
    then roll back, and apply them one by one."""
    if tx.many("finish_run", [end_row(op, tx.now) for op in ops]) < len(ops):
        return None
    tx.many("append", [event_row(op, event, tx.now) for op in ops for event in op.events])
    end_runs(tx, [plain_end(op) for op in ops])
    return [Advanced(now=tx.now) for _ in ops]


def end_row(op: Advance, now: int) -> dict[str, object]:
    """Return the end of a run as parameters of the write that the lease guards."""
    return {
        "run_id": op.run_id,
        "generation": op.generation,
        "status": op.status,
        "result": op.result,
        "error": op.error,
        "now": now,
        "graph_id": op.graph_id or "",
    }


def event_row(op: Advance, event: Event, now: int) -> dict[str, object]:
    """Return an event as parameters of an unguarded insert, for runs whose lease was checked."""
    event.at = event.at or now
    return {
        "run_id": op.run_id,
        "seq": event.seq,
        "kind": event.kind,
        "step": event.step,
        "attempt": event.attempt,
        "data": event.data,
        "error": event.error,
        "started_at": event.started_at,
        "at": event.at,
        "role": event.role,
    }


def plain_end(op: Advance) -> RunEnd:
    """Return the end of a run of which only its graph, if any, must learn."""
    assert op.status is not None
    return RunEnd(op.run_id, op.status, op.result, graph_id=op.graph_id)


def guarded_row(op: Advance, event: Event, now: int) -> dict[str, object]:
    """Return an event as parameters of the insert that the lease guards."""
    event.at = event.at or now
    return {
        "run_id": op.run_id,
        "generation": op.generation,
        "seq": event.seq,
        "kind": event.kind,
        "step": event.step,
        "attempt": event.attempt,
        "data": event.data,
        "error": event.error,
        "started_at": event.started_at,
        "at": event.at,
        "role": event.role,
    }


def _append_guarded(tx: Transaction, op: Advance) -> None:
    first, *rest = op.events
    if not tx.change("append_guarded", **guarded_row(op, first, tx.now)):
        raise LeaseLost(run=op.run_id, generation=op.generation)
    append(tx, op.run_id, rest)


def _changed(op: Advance, lease: Row) -> RevisionChanged | None:
    if op.revision is None or op.revision == lease["revision"]:
        return None
    return RevisionChanged(revision=lease["revision"])


def _move(tx: Transaction, op: Advance, status: Status) -> RevisionChanged | None:
    """Write the new status of the run. The write itself checks the lease."""
    if status in FINAL:
        _finish(tx, op)
        return None
    # The write itself spares a run that was asked to stop: a read before it would cost every park.
    if _place(tx, op, status, unless=Status.CANCELLING if status in _AT_WORK else None):
        return None
    changed = _changed(op, check_lease(tx, op.run_id, op.generation))
    if changed is None:  # a cancellation arrived that the holder has not seen yet
        _place(
            tx,
            op,
            after(
                Status.CANCELLING,
                Move.PARK if status in (Status.WAITING, Status.BLOCKED) else Move.GO_ON,
            ),
            asked=True,
        )
    return changed


def _finish(tx: Transaction, op: Advance) -> None:
    # The guard on the generation is part of the write, which saves a read.
    if tx.change("finish_run", **end_row(op, tx.now)):
        return
    graph_id = check_lease(tx, op.run_id, op.generation)["graph_id"]
    if graph_id == op.graph_id:
        raise LeaseLost(run=op.run_id, generation=op.generation)
    op.graph_id = graph_id  # the run has joined a graph that its holder does not know of yet
    tx.change("finish_run", **end_row(op, tx.now))


def _place(
    tx: Transaction,
    op: Advance,
    status: Status,
    *,
    unless: Status | None = None,
    asked: bool = False,
) -> int:
    place: dict[str, Any] = {
        "run_id": op.run_id,
        "generation": op.generation,
        "revision": -1 if op.revision is None else op.revision,
        "status": status,
        "unless": unless or "",
        "waits": op.waits,
        "wake_at": op.wake_at,
    }
    if not op.release:
        return tx.change("move_run", **place, seen=op.revision)
    if status is Status.RUNNING:  # a run without a holder cannot be running
        status = place["status"] = after(status, Move.RELEASE)
    # Claimable at once: its worker has to compensate, whatever the run has waited for.
    if asked:
        place |= {"waits": None, "wake_at": None}
    sleeps = place["waits"] is not None or place["wake_at"] is not None or status is Status.STUCK
    ready_at = None if sleeps else tx.now
    written = tx.change(
        "release_run",
        **place,
        ready_at=ready_at,
        step=claiming.PRIORITY_STEP,
        error=op.error,
        stuck_cause=op.events[-1].role if status is Status.STUCK and op.events else None,
    )
    if written and not sleeps:
        tx.hints.ready = True
    return written
