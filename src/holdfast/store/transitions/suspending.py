"""What becomes of a run that waits, that nobody holds, and whose time is up: what its holder has
said when it suspended it."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.core.conditions import evaluation as conditions
from holdfast.core.conditions.model import Condition
from holdfast.core.events import Event, EventKind
from holdfast.core.status import Status
from holdfast.core.tasks.suspension import ENDS, next_look
from holdfast.store.transitions.signalling import tally_so_far
from holdfast.store.transitions.touching import notify_or_wake
from holdfast.store.transitions.transaction import Row, Transaction, append_from_outside, last_seq


def look_at_the_clock(tx: Transaction, state: Row) -> Status | None:
    """See to a run that waits. Return how it ends, if it does: the caller ends it."""
    wait = _wait_of(state)
    if wait is None:
        return None
    condition: Condition = msgspec.convert(wait["condition"], Condition)
    tally = tally_so_far(tx, state["id"], wait, condition)
    over = wait["gives_up"] is not None and wait["gives_up"] <= tx.now
    if tally is None and not over:
        notify_or_wake(tx, state)  # whoever claims it can read what came
        return None
    if not over and tally is not None and not tally.is_hopeless(tx.now):
        again = next_look(
            wait["gives_up"], condition, tx.now, escalated=wait.get("escalated_at") is not None
        )
        if again is not None:
            _set_alarm(tx, state, again)
        return None
    missing = [] if tally is None else tally.missing()
    return _give_up(tx, state, wait, missing)


def _give_up(
    tx: Transaction, state: Row, wait: dict[str, Any], missing: list[str]
) -> Status | None:
    action, run_id, step = wait["on_timeout"], state["id"], wait["step"]
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
        told = {**wait, "escalated_at": tx.now, "gives_up": None, "until": None}
        tx.change("save_waits", run_id=run_id, waits=msgspec.json.encode([told]))
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
    found = msgspec.json.decode(state["waits"] or b"[]")
    return next((wait for wait in found if wait.get("kind") == "wait"), None)


def _set_alarm(tx: Transaction, state: Row, until: int) -> None:
    tx.change(
        "set_alarm", run_id=state["id"], until=until, generation=state["generation"], policy=b"{}"
    )


def _note(tx: Transaction, run_id: str, event: Event) -> None:
    event.seq = last_seq(tx, run_id) + 1
    append_from_outside(tx, [(run_id, event)])


def error_of(waits: bytes | None) -> bytes:
    """Return the error of a run that has waited in vain."""
    found = msgspec.json.decode(waits or b"[]")
    label = (
        conditions.show(msgspec.convert(found[0]["condition"], Condition))
        if found
        else "what it waited for"
    )
    return msgspec.json.encode(
        {"type": "WaitTimeout", "message": f"what was waited for has not come in time: {label}"}
    )
