"""Revoke the leases of overdue attempts, and resolve suspended runs whose time is up.

A suspended run is ended or woken, as its holder has specified.
"""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.core import typed_json
from holdfast.core.conditions import evaluation as conditions
from holdfast.core.conditions.model import Condition, OnTimeout
from holdfast.core.events import Event, EventKind
from holdfast.core.runs import PAST_DEADLINE
from holdfast.core.status import Status
from holdfast.core.tasks import policy as task_policy
from holdfast.core.tasks.suspension import ENDS, next_look
from holdfast.core.waits import WaitKind
from holdfast.store.database import Row, Transaction
from holdfast.store.history import append_from_outside, last_seq
from holdfast.store.signals.conditions import condition_progress
from holdfast.store.tasks.operate import end_lease, end_run, load_lease
from holdfast.store.tasks.operations import (
    ExpireAttempts,
)
from holdfast.store.wakeup import notify_or_wake


def expire_attempts(tx: Transaction, op: ExpireAttempts) -> int:
    """Revoke the leases of overdue attempts, and resolve suspended runs whose time is up."""
    overdue = tx.rows("overdue_attempts", now=tx.now, limit=op.limit)
    for row in overdue:
        # Also for attempts that have ended since: the next call must not find them again.
        tx.change("clear_attempt_until", run_id=row["run_id"])
    late = [row for row in overdue if row["held"]]
    for row in late:
        _time_out(tx, row, op.dice)
    parked = [row["run_id"] for row in overdue if row["parked"]]
    for run_id in parked:
        _wake_or_end(tx, run_id)
    return len(late) + len(parked)


def _wake_or_end(tx: Transaction, run_id: str) -> None:
    """Process a run that its holder has suspended and whose time is up."""
    state = load_lease(tx, run_id)
    status = _resolve_overdue(tx, state)
    if status is None:
        return
    error = _timeout_error(state["waits"])
    kind = next(kind for ended, kind in ENDS.values() if ended is status)
    append_from_outside(tx, [(run_id, Event(kind, error=error, seq=last_seq(tx, run_id) + 1))])
    end_run(tx, state, status, None, error)


def _time_out(tx: Transaction, row: Row, dice: float) -> None:
    run_id = row["run_id"]
    policy = typed_json.decode(bytes(row["policy"]), task_policy.TaskPolicy)
    state = load_lease(tx, run_id)
    seq = last_seq(tx, run_id)
    if state["deadline"] is not None and state["deadline"] <= tx.now:
        error = msgspec.json.encode({"type": Status.EXPIRED.value, "message": PAST_DEADLINE.reason})
        append_from_outside(tx, [(run_id, Event(EventKind.RUN_EXPIRED, error=error, seq=seq + 1))])
        end_run(tx, state, Status.EXPIRED, None, error)
        return
    history = [
        Event(kind=event_row["kind"], data=event_row["data"])
        for event_row in tx.rows("history", run_id=run_id, after=0)
    ]
    wait = task_policy.decide(
        policy, task_policy.FailureKind.TIMEOUT, task_policy.failures_in(history), dice
    )
    failure = {
        "kind": task_policy.FailureKind.TIMEOUT,
        "until": None if wait is None else tx.now + wait,
    }
    error = msgspec.json.encode({"type": "AttemptTimeout", "message": "the attempt took too long"})
    append_from_outside(
        tx,
        [
            (
                run_id,
                Event(
                    EventKind.ATTEMPT_FAILED,
                    data=msgspec.json.encode(failure),
                    error=error,
                    seq=seq + 1,
                ),
            )
        ],
    )
    if wait is None:
        append_from_outside(tx, [(run_id, Event(EventKind.RUN_FAILED, error=error, seq=seq + 2))])
        end_run(tx, state, Status.FAILED, None, error)
    else:
        end_lease(tx, state, wake_at=tx.now + wait if wait else None)


def _resolve_overdue(tx: Transaction, state: Row) -> Status | None:
    """Check the wait of a suspended run against the clock. Return its final status if it must end.

    The caller ends the run. None means that it was woken, escalated, or waits on.
    """
    wait = _wait_of(state)
    if wait is None:
        return None
    condition: Condition = typed_json.convert(wait["condition"], Condition)
    tally = condition_progress(tx, state["id"], wait, condition)
    over = wait["gives_up"] is not None and wait["gives_up"] <= tx.now
    if tally is None and not over:
        notify_or_wake(tx, state)  # sealed signals: only a worker can evaluate them
        return None
    if not over and tally is not None and not tally.is_hopeless(tx.now):
        again = next_look(
            wait["gives_up"], condition, tx.now, escalated=wait.get("escalated_at") is not None
        )
        if again is not None:
            _set_next_check(tx, state, again)
        return None
    missing = [] if tally is None else tally.missing()
    return _give_up(tx, state, wait, missing)


def _give_up(
    tx: Transaction, state: Row, wait: dict[str, Any], missing: list[str]
) -> Status | None:
    action = wait["on_timeout"]
    run_id = state["id"]
    step = wait["step"]
    if action == OnTimeout.CONTINUE:
        notify_or_wake(tx, state)
        return None
    if action == OnTimeout.ESCALATE:
        tx.change("escalate_wait", run_id=run_id, step=step, now=tx.now)
        _note(
            tx,
            run_id,
            Event(EventKind.WAIT_ESCALATED, step, msgspec.json.encode({"missing": missing})),
        )
        escalated = {**wait, "escalated_at": tx.now, "gives_up": None, "until": None}
        tx.change("save_waits", run_id=run_id, waits=msgspec.json.encode([escalated]))
        return None
    _note(
        tx,
        run_id,
        Event(
            EventKind.WAIT_TIMED_OUT, step, msgspec.json.encode({"signals": [], "missing": missing})
        ),
    )
    tx.change("close_wait", run_id=run_id, step=step, now=tx.now, by="timeout")
    return ENDS[action][0]


def _wait_of(state: Row) -> dict[str, Any] | None:
    waits = msgspec.json.decode(state["waits"] or b"[]")
    return next((wait for wait in waits if wait.get("kind") == WaitKind.CONDITION), None)


def _set_next_check(tx: Transaction, state: Row, until: int) -> None:
    tx.change(
        "set_attempt_until",
        run_id=state["id"],
        until=until,
        generation=state["generation"],
        policy=b"{}",
    )


def _note(tx: Transaction, run_id: str, event: Event) -> None:
    event.seq = last_seq(tx, run_id) + 1
    append_from_outside(tx, [(run_id, event)])


def _timeout_error(waits: bytes | None) -> bytes:
    """Return the error of a run whose wait has timed out, as JSON."""
    waits_of_run = msgspec.json.decode(waits or b"[]")
    label = (
        conditions.show(typed_json.convert(waits_of_run[0]["condition"], Condition))
        if waits_of_run
        else "unknown condition"
    )
    return msgspec.json.encode(
        {"type": "WaitTimeout", "message": f"the awaited signals did not arrive in time: {label}"}
    )
