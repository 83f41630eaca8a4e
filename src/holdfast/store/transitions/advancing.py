"""Apply `Advance`: the commit of a run's holder, with its events, new status and effects.

The lease is checked by the guarded write itself; only commits that must read before they write
check it by a query of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeGuard

from holdfast.core import claiming
from holdfast.core.budgets import rules as budget_rules
from holdfast.core.budgets.model import Breach
from holdfast.core.envelope import digests_of
from holdfast.core.events import Event
from holdfast.core.graphs.model import MARK
from holdfast.core.payload import Payload
from holdfast.core.runs import NewRun
from holdfast.core.status import FINAL, Move, Status, after
from holdfast.core.waits import WaitRecord
from holdfast.errors import BadGraph, LeaseLost, RunFinished, RunNotFound, TooManySignals
from holdfast.store.budgets.operations import BudgetRefused
from holdfast.store.database import MemberOutcome, Operation, Row, Started, Transaction
from holdfast.store.runs.operations import (
    Advance,
    Advanced,
    RequestCancel,
    RevisionChanged,
    StartRuns,
)
from holdfast.store.signals.operations import SignalRun
from holdfast.store.transitions.budgets import (
    is_blocked,
    record_spend,
    release_reservations,
    release_reservations_of_run,
    try_spend,
)
from holdfast.store.transitions.gates import move_gates
from holdfast.store.transitions.graphs import extend_graph
from holdfast.store.transitions.payloads import keep, sent
from holdfast.store.transitions.signalling import signal_run
from holdfast.store.transitions.starting import start_runs
from holdfast.store.transitions.stopping import (
    DEADLINE,
    PORTION,
    cancel_children,
    children_to_stop,
    request_cancel,
)
from holdfast.store.transitions.streaming import write as append_output
from holdfast.store.transitions.touching import notify_parent, release_schedule
from holdfast.store.transitions.transaction import append

_AT_WORK = (Status.RUNNING, Status.WAITING, Status.BLOCKED, Status.PENDING)


def advance(tx: Transaction, op: Advance) -> Advanced | RevisionChanged | BudgetRefused:
    """Record progress of a run as its holder. Raises LeaseLost."""
    data = None
    descendants = None
    if op.had_children and op.status in FINAL:
        descendants = children_to_stop(tx, op.run_id)
        if descendants and len(descendants) + len(op.children) > PORTION:
            return _stop_first(tx, op, descendants)
    if (op.spends or op.demands) and (refused := _refused(tx, op)) is not None:
        return refused
    if op.body is not None:
        # Before user code runs, not after: a refused commit must leave no trace of it.
        changed = _changed(op, _lease(tx, op))
        if changed is not None:
            return changed
        data = tx.call(op.body)
        op.events[0].data, op.payloads = (data, ()) if op.seal is None else _sealed(op.seal, data)
    if op.status is None:
        _append_guarded(tx, op)
    else:
        changed = _move(tx, op, op.status)
        if changed is not None:
            return changed
        append(tx, op.run_id, op.events)
    _write_beside(tx, op)
    answer = Advanced(now=tx.now, data=data)
    _side_effects(tx, op, answer, descendants)
    if op.grows:
        answer.born = _grow(tx, op)
    if op.spends or op.settles or op.settles_all:
        answer.breach = _account(tx, op)
    return answer


def _stop_first(tx: Transaction, op: Advance, descendants: Sequence[str]) -> Advanced:
    """Cancel a portion of the children before their parent ends.

    An ended parent would cancel nothing after a crash.
    """
    _lease(tx, op)
    cancel_children(tx, op.run_id, _why_children_stop(op), descendants)
    return Advanced(now=tx.now, unasked=True)


def _why_children_stop(op: Advance) -> str:
    return DEADLINE if op.status is Status.EXPIRED else "its parent ended"


def _write_beside(tx: Transaction, op: Advance) -> None:
    """Write output and offloaded payloads, which are stored apart from the history."""
    if op.output is not None or op.closes is not None:
        _show(tx, op)
    if op.payloads:
        _keep(tx, op)


def _grow(tx: Transaction, op: Advance) -> list[tuple[NewRun, int]]:
    """Extend the graph of the run. Return the new members that were started as leased. Raises
    BadGraph."""
    if not tx.rows("member", run_id=op.run_id):
        raise BadGraph(
            run=op.run_id, why="the run is not a member of a graph, so it cannot extend one"
        )
    members = [member for extension in op.grows for member in extend_graph(tx, extension).born]
    return [(member.run, member.started.now) for member in members if member.started.leased]


def _show(tx: Transaction, op: Advance) -> None:
    """Append the output of the run, and close its streams."""
    if op.output is not None:
        # Refusals are ignored: output that is too late for its stream must not stop the run.
        append_output(tx, [(op.run_id, op.output)])
    if op.closes is not None:
        tx.change("close_streams", run_id=op.run_id, now=tx.now, reason=op.closes, least=1)


def _refused(tx: Transaction, op: Advance) -> RevisionChanged | BudgetRefused | None:
    """Spend from budgets, or return why the commit is refused."""
    if op.spends and op.body is None and (breach := try_spend(tx, op)) is not None:
        return BudgetRefused(breach)
    if op.demands:
        lease = _lease(tx, op)
        if not is_blocked(tx, op.budgets, op.demands):
            return RevisionChanged(revision=lease["revision"])
    return None


def _account(tx: Transaction, op: Advance) -> Breach | None:
    """Record facts of spending and release reservations. Return the hard limit that was exceeded.

    The spending of a transactional body is known only now, after it ran: a refusal raises, so that
    the body is rolled back.
    """
    if op.body is not None and (refused := try_spend(tx, op)) is not None:
        raise budget_rules.exceeded(
            refused, budget_rules.added(entry.amounts for entry in op.spends if not entry.fact)
        )
    breach = record_spend(tx, op.run_id, op.budgets, [entry for entry in op.spends if entry.fact])
    release_reservations(tx, op.run_id, op.settles)
    if op.settles_all:
        release_reservations_of_run(tx, op.run_id)
    return breach


def _sealed(
    seal: Callable[[bytes, list[Payload]], bytes], data: bytes
) -> tuple[bytes, list[Payload]]:
    offloaded: list[Payload] = []
    return seal(data, offloaded), offloaded


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
    if type(op) is not Advance or len(op.events) != 1:
        return False
    return op == Advance(
        run_id=op.run_id,
        generation=op.generation,
        events=op.events,
        keep=op.keep,
        revision=op.revision,
    )


def append_each(tx: Transaction, ops: Sequence[Advance]) -> list[Advanced | LeaseLost]:
    """Write one event per run in one statement. Return LeaseLost for runs whose lease was lost."""
    # Fast path: if all rows were written all leases are valid, which saves a read per run.
    if tx.many("append_guarded", [guarded(op, op.events[0], tx.now) for op in ops]) == len(ops):
        return [Advanced(now=tx.now) for _ in ops]
    return [_appended(tx, op) for op in ops]


def _appended(tx: Transaction, op: Advance) -> Advanced | LeaseLost:
    try:
        _lease(tx, op)
    except LeaseLost as lost:
        return lost
    return Advanced(now=tx.now)


def is_end(op: Operation) -> TypeGuard[Advance]:
    """Return whether *op* ends a leased run and only its graph, if any, must learn of it."""
    if type(op) is not Advance or op.status not in FINAL:
        return False
    return op == Advance(
        run_id=op.run_id,
        generation=op.generation,
        events=op.events,
        status=op.status,
        result=op.result,
        error=op.error,
        revision=op.revision,
        keep=op.keep,
        budgets=op.budgets,
    )


def end_each(tx: Transaction, ops: Sequence[Advance]) -> list[Advanced] | None:
    """End these runs. Return None if a lease was lost: the caller must then roll back."""
    if tx.many("finish_run", [ended(op, tx.now) for op in ops]) < len(ops):
        return None
    tx.many("append", [line(op, event, tx.now) for op in ops for event in op.events])
    tx.hints.finished.update(op.run_id for op in ops)
    tx.news += [outcome for op in ops if (outcome := news_of(op)) is not None]
    return [Advanced(now=tx.now) for _ in ops]


def ended(op: Advance, now: int) -> dict[str, object]:
    """Return the end of a run as parameters of the write that the lease guards."""
    return {
        "run_id": op.run_id,
        "generation": op.generation,
        "status": op.status,
        "result": op.result,
        "error": op.error,
        "now": now,
    }


def line(op: Advance, event: Event, now: int) -> dict[str, object]:
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
    }


def news_of(op: Advance) -> MemberOutcome | None:
    """Return the member outcome for the run's graph, or None if the run is not a member."""
    if MARK not in op.run_id or op.status is None:
        return None
    return MemberOutcome(
        op.run_id, op.status.value, op.result if op.status is Status.COMPLETED else None
    )


def guarded(op: Advance, event: Event, now: int) -> dict[str, object]:
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
    }


def _append_guarded(tx: Transaction, op: Advance) -> None:
    first, *rest = op.events
    if not tx.change("append_guarded", **guarded(op, first, tx.now)):
        raise LeaseLost(run=op.run_id, generation=op.generation)
    append(tx, op.run_id, rest)


def _lease(tx: Transaction, op: Advance) -> Row:
    leases = tx.rows("lease_of", run_id=op.run_id)
    if not leases or leases[0]["generation"] != op.generation or leases[0]["session_id"] is None:
        raise LeaseLost(run=op.run_id, generation=op.generation)
    return leases[0]


def _changed(op: Advance, lease: Row) -> RevisionChanged | None:
    if op.revision is None or op.revision == lease["revision"]:
        return None
    return RevisionChanged(revision=lease["revision"])


def _move(tx: Transaction, op: Advance, status: Status) -> RevisionChanged | None:
    """Write the new status of the run. The write itself checks the lease."""
    if status in FINAL:
        _finish(tx, op)
        return None
    if _place(tx, op, status, unless=Status.CANCELLING if status in _AT_WORK else None):
        return None
    changed = _changed(op, _lease(tx, op))
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
    if not tx.change("finish_run", **ended(op, tx.now)):
        raise LeaseLost(run=op.run_id, generation=op.generation)
    tx.hints.finished.add(op.run_id)


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
    if op.keep:
        return tx.change("move_run", **place, seen=op.revision)
    if status is Status.RUNNING:  # a run without a holder cannot be running
        status = place["status"] = after(status, Move.RELEASE)
    if asked:
        place |= {"waits": None, "wake_at": None}
    sleeps = place["waits"] is not None or place["wake_at"] is not None or status is Status.STUCK
    ready_at = None if sleeps else tx.now
    written = tx.change(
        "release_run", **place, ready_at=ready_at, step=claiming.PRIORITY_STEP, error=op.error
    )
    if written and not sleeps:
        tx.hints.ready = True
    return written


def _side_effects(
    tx: Transaction, op: Advance, answer: Advanced, descendants: Sequence[str] | None
) -> None:
    if op.children or op.fanouts:
        answer.started = _start_children(tx, op)
    if op.taken:
        tx.many("take_signal", [{"id": signal} for signal in op.taken])
    if op.opened or op.closed or op.escalated or op.reopened or op.alarm is not None:
        _write_waits(tx, op)
    for run_id, name, payload, key in op.signals:
        _send(
            tx,
            SignalRun(
                run_id, name, payload, key, source=op.run_id, payloads=sent(op.payloads, payload)
            ),
        )
    for run_id, reason in op.cancels:
        _cancel_if_live(tx, run_id, reason)
    for reason in op.child_cancels:
        answer.unasked = not cancel_children(tx, op.run_id, reason)
    if op.gates:
        move_gates(tx, op.gates)
    if op.status is not None and op.status in FINAL:
        _report_end(tx, op, op.status, descendants)


def _report_end(
    tx: Transaction, op: Advance, status: Status, descendants: Sequence[str] | None
) -> None:
    """Report the end of the run to its children, parent, schedule and graph.

    *descendants* are the live ones, if they were read before.
    """
    if op.had_children:
        # Children started by this very commit are not in *descendants*: they must be read again.
        started = len(op.children)
        room = PORTION + started
        cancel_children(
            tx, op.run_id, _why_children_stop(op), None if started else descendants, room=room
        )
    if op.parent is not None:
        notify_parent(tx, op.parent, completed=status == Status.COMPLETED)
    if op.scheduled:
        release_schedule(tx, op.run_id)
    if (outcome := news_of(op)) is not None:
        tx.news.append(outcome)


def _start_children(tx: Transaction, op: Advance) -> list[Started]:
    """Start children and count them. A child that exists already (a replay) is not counted
    again."""
    started = start_runs(tx, StartRuns(op.children))
    old = [
        child.parent_step
        for child, answer in zip(op.children, started, strict=True)
        if not answer.created
    ]
    for fanout in op.fanouts:
        remaining = fanout.remaining - old.count(fanout.step)
        tx.change(
            "insert_fanout",
            run_id=op.run_id,
            step=fanout.step,
            remaining=remaining,
            eager=int(fanout.eager),
        )
    return started


def _write_waits(tx: Transaction, op: Advance) -> None:
    own = {"run_id": op.run_id}
    steps: dict[str, list[dict[str, object]]] = {
        "open_wait": [_new_wait(wait) for wait in op.opened],
        "reopen_wait": [{**own, "step": step} for step in op.reopened],
        "escalate_wait": [{**own, "step": step, "now": tx.now} for step in op.escalated],
        "close_wait": [{**own, "step": step, "now": tx.now, "by": by} for step, by in op.closed],
        "set_alarm": []
        if op.alarm is None
        else [{**own, "until": op.alarm, "generation": op.generation, "policy": b"{}"}],
    }
    for query, values in steps.items():
        if values:
            tx.many(query, values)


def _new_wait(wait: WaitRecord) -> dict[str, object]:
    return {
        name: getattr(wait, name)
        for name in ("run_id", "step", "id", "name", "kid", "opened_at", "until")
    }


def _send(tx: Transaction, op: SignalRun) -> None:
    try:
        signal_run(tx, op)
    except (RunNotFound, RunFinished, TooManySignals):
        return  # the receiver has ended or is full: that must not stop the sender


def _cancel_if_live(tx: Transaction, run_id: str, reason: str) -> None:
    try:
        request_cancel(tx, RequestCancel(run_id, reason))
    except (RunNotFound, RunFinished):
        return
