"""Deliver signals to waits that were handed out, and release waits on an operator's order."""

from __future__ import annotations

import msgspec

from holdfast.core import tokens
from holdfast.core.conditions.model import SignalEffect
from holdfast.core.events import Event, EventKind
from holdfast.core.tokens import WAIT_TOKEN
from holdfast.core.waits import WaitKind
from holdfast.errors import (
    BadOption,
    RunFinished,
    TokenRefused,
    WaitClosed,
    WaitNotFound,
)
from holdfast.store.database import Row, Transaction
from holdfast.store.history import append_from_outside, last_seq
from holdfast.store.keys.apply import key_from
from holdfast.store.rows import load
from holdfast.store.signals.delivery import (
    StoredSignal,
    check_open,
    close_issued_waits,
    conditional_waits,
    deliver,
    first_answer,
    insert_signal,
    wait_by_id,
)
from holdfast.store.signals.operations import WaitDelivery
from holdfast.store.waits.operations import BEFORE, RELEASABLE, DeliverSignal, ReleaseWait


def deliver_signal(tx: Transaction, op: DeliverSignal) -> WaitDelivery:
    """Store a signal for a wait, on the authority of its token. Raises TokenRefused, WaitClosed.

    Nothing is read before the token has proved that it was issued for this wait.
    """
    keys = [key_from(row) for row in tx.rows("keys")]
    claims = tokens.check(op.token, WAIT_TOKEN, keys, now=tx.now, reveal=op.reveal)
    if claims.get("wait") != op.wait_id:
        raise TokenRefused()
    wait = wait_by_id(tx, op.wait_id)
    if wait is None:
        raise WaitClosed(wait=op.wait_id, why="its run was deleted, or has opened a new wait")
    state = load(tx, wait["run_id"])
    # Prefixed, so that the key of an outside sender cannot collide with another sender's key.
    key = None if op.key is None else f"{op.wait_id} {op.key}"
    # Before the checks: a repetition gets its first answer, although the signal may have closed
    # the wait or ended the run.
    known = first_answer(tx, wait["run_id"], key)
    if known is not None:
        return known
    if state["finished_at"] is not None:
        raise WaitClosed(wait=op.wait_id, why="its run has ended")
    # Again: the wait may have been closed before the run was locked.
    check_open(tx, wait_by_id(tx, op.wait_id))
    signal = StoredSignal(
        op.name or wait["name"], op.payload, op.limit, key, op.source, op.wait_id, None, op.payloads
    )
    return deliver(tx, state, signal)


def release_wait(tx: Transaction, op: ReleaseWait) -> WaitDelivery:
    """Release a wait on an operator's order: store a signal for that step alone. Raises
    WaitNotFound."""
    state = load(tx, op.run_id)
    if state["finished_at"] is not None:
        raise RunFinished(run=op.run_id, status=state["status"])
    if op.step == BEFORE:
        return _begin_now(tx, op, state)
    waits_of_step = tx.rows("wait_of_step", run_id=op.run_id, step=op.step)
    if not _sleeps(tx, state, op.step) and (
        not waits_of_step
        or waits_of_step[0]["id"] is not None
        or waits_of_step[0]["closed_at"] is not None
    ):
        raise WaitNotFound(run=op.run_id, step=op.step)
    waits = [wait for wait in conditional_waits(state) if wait["step"] == op.step]
    if op.delay and not any(wait.get("suspended") for wait in waits):
        why = "only a task that its holder has suspended, or a delayed run, can resume later"
        raise BadOption(option="delay", why=why)
    signal = StoredSignal(
        # The limit on untaken signals does not apply to operators.
        "release",
        op.payload,
        1 << 60,
        source=op.by,
        step=op.step,
        payloads=op.payloads,
        at=tx.now + op.delay,
    )
    # Their signals would come too late: the closed wait refuses them, and the sender learns it.
    for wait in waits:
        close_issued_waits(tx, op.run_id, wait, "a person")
    return insert_signal(tx, state, signal, SignalEffect.SATISFIED, wakes=True)


def _begin_now(tx: Transaction, op: ReleaseWait, state: Row) -> WaitDelivery:
    """Make a delayed run claimable now, or after the delay of *op*. Raises WaitNotFound if it is
    not delayed."""
    # The write itself decides, because a worker may claim the run at this moment.
    if tx.change("begin_at", run_id=op.run_id, now=tx.now, at=tx.now + op.delay) != 1:
        raise WaitNotFound(
            run=op.run_id, why="the run is not delayed, or its start time has passed"
        )
    event = Event(
        EventKind.RUN_RELEASED,
        data=msgspec.json.encode({"by": op.by}),
        seq=last_seq(tx, op.run_id) + 1,
    )
    append_from_outside(tx, [(op.run_id, event)])
    tx.hints.ready = True
    return WaitDelivery(0, SignalEffect.SATISFIED.value)


def _sleeps(tx: Transaction, state: Row, step: str) -> bool:
    """Return whether the run is parked at that step on a wait that has no row of its own and can be
    released."""
    waits = [] if state["waits"] is None else msgspec.json.decode(state["waits"])
    if any(wait.get("kind") in RELEASABLE and wait.get("step") == step for wait in waits):
        return True
    if not any(wait.get("of") == WaitKind.TIMER for wait in waits):
        return False
    # The row lists only the first of very many timers; the history has all.
    kinds = [row["kind"] for row in tx.rows("kinds_of_step", run_id=state["id"], step=step)]
    return kinds[-1:] == [EventKind.TIMER_SET]
