"""Resolve a suspended run whose time is up: end it or wake it, as its holder has specified."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.core.conditions import evaluation as conditions
from holdfast.core.conditions.model import Condition
from holdfast.core.events import Event, EventKind
from holdfast.core.status import Status
from holdfast.core.tasks.suspension import ENDS, next_look
from holdfast.store.database import Row, Transaction
from holdfast.store.history import append_from_outside, last_seq
from holdfast.store.signals.conditions import condition_progress
from holdfast.store.wakeup import notify_or_wake


def resolve_overdue(tx: Transaction, state: Row) -> Status | None:
    """Check the wait of a suspended run against the clock. Return its final status if it must end.

    The caller ends the run. None means that it was woken, escalated, or waits on.
    """
    wait = _wait_of(state)
    if wait is None:
        return None
    condition: Condition = msgspec.convert(wait["condition"], Condition)
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
    if action == "continue":
        notify_or_wake(tx, state)
        return None
    if action == "escalate":
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
    return next((wait for wait in waits if wait.get("kind") == "wait"), None)


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


def error_of(waits: bytes | None) -> bytes:
    """Return the error of a run whose wait has timed out, as JSON."""
    waits_of_run = msgspec.json.decode(waits or b"[]")
    label = (
        conditions.show(msgspec.convert(waits_of_run[0]["condition"], Condition))
        if waits_of_run
        else "unknown condition"
    )
    return msgspec.json.encode(
        {"type": "WaitTimeout", "message": f"the awaited signals did not arrive in time: {label}"}
    )
