"""Store a signal, and decide whether it wakes the run that it was sent to.

The conditions that a run is parked on are evaluated here, with the new signal, so that the run is
woken only when a condition is met. The holder evaluates them again, from the same signals, and
records which signals met them.

Invariants:
- The commit that satisfies a condition closes the waits that were handed out for it. A later signal
  to one of them would never be delivered, so its sender gets WaitClosed; so does the sender of a
  signal that arrives after the condition's timeout.
- Lock order: the run first. A wait that was read before is checked again after the lock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from holdfast.core import typed_json
from holdfast.core.conditions import evaluation as conditions
from holdfast.core.conditions.model import Condition, OnTimeout, SignalEffect
from holdfast.core.payload import Payload
from holdfast.core.waits import WaitKind
from holdfast.errors import (
    TooManySignals,
    WaitClosed,
    WaitExpired,
)
from holdfast.store.database import Row, Transaction
from holdfast.store.payloads.apply import keep
from holdfast.store.signals.conditions import UntakenSignal, condition_progress
from holdfast.store.signals.operations import WaitDelivery
from holdfast.store.wakeup import notify_or_wake


class StoredSignal(msgspec.Struct):
    """A signal to be inserted."""

    name: str
    payload: bytes
    limit: int
    key: str | None = None
    source: str | None = None
    wait_id: str | None = None
    step: str | None = None
    payloads: Sequence[Payload] = ()
    at: int | None = None
    """The time of a release that takes effect later; None is now."""


def wait_by_id(tx: Transaction, wait_id: str) -> Row | None:
    """Return the issued wait of this id, or None."""
    waits = tx.rows("wait_by_id", wait_id=wait_id)
    return waits[0] if waits else None


def check_open(tx: Transaction, wait: Row | None) -> None:
    """Raise WaitClosed, or WaitExpired if the wait is past its time."""
    if wait is None or wait["closed_at"] is not None:
        raise WaitClosed(
            wait=None if wait is None else wait["id"],
            why=f"by {wait['closed_by'] if wait else 'its run'}",
        )
    if wait["until"] is not None and wait["until"] <= tx.now:
        raise WaitExpired(wait=wait["id"])


def first_answer(tx: Transaction, run_id: str, key: str | None) -> WaitDelivery | None:
    """Return the answer to the first signal with this key, or None."""
    signals = [] if key is None else tx.rows("signal_by_key", run_id=run_id, key=key)
    return (
        WaitDelivery(
            signals[0]["number"], signals[0]["effect"] or SignalEffect.KEPT.value, new=False
        )
        if signals
        else None
    )


def deliver(tx: Transaction, state: Row, signal: StoredSignal) -> WaitDelivery:
    """Store a signal for a run that was locked, with its effect on the waits of the run. Raises
    WaitClosed, TooManySignals."""
    effect, wakes = _judge(tx, state, signal)
    return insert_signal(tx, state, signal, effect, wakes=wakes)


def insert_signal(
    tx: Transaction, state: Row, signal: StoredSignal, effect: SignalEffect, *, wakes: bool
) -> WaitDelivery:
    """Store a signal whose effect is known, and notify or wake the run. Raises TooManySignals."""
    run_id = state["id"]
    written = tx.rows(
        "insert_signal",
        run_id=run_id,
        name=signal.name,
        payload=signal.payload,
        key=signal.key,
        at=tx.now if signal.at is None else signal.at,
        wait_id=signal.wait_id,
        source=signal.source,
        step=signal.step,
        effect=effect.value,
        limit=signal.limit,
    )
    if not written:
        known = first_answer(tx, run_id, signal.key)
        if known is None:
            raise TooManySignals(run=run_id, limit=signal.limit)
        return known
    if signal.payloads:
        keep(tx, run_id, signal.payloads)
    if state["session_id"] is not None and state["waits"] is not None and not wakes:
        # Parked in its holder's memory, and still unsatisfied: saves the holder a wake-up.
        tx.change("bump_revision", run_id=run_id)
    else:
        notify_or_wake(tx, state, wakes=wakes)
    return WaitDelivery(written[0]["number"], effect.value)


def _judge(tx: Transaction, state: Row, signal: StoredSignal) -> tuple[SignalEffect, bool]:
    """Return the effect of a signal on the waits of a run, and whether to wake it. Raises
    WaitClosed."""
    # Not parked: a program that is at work asks for its signals itself.
    if state["waits"] is None:
        return SignalEffect.KEPT, False
    waits = msgspec.json.decode(state["waits"])
    effects = [_effect(tx, state["id"], wait, signal) for wait in waits]
    for wait, (effect, _) in zip(waits, effects, strict=True):
        if effect is SignalEffect.SATISFIED and wait["kind"] == WaitKind.CONDITION:
            close_issued_waits(tx, state["id"], wait, "its signals")
    # One signal may concern several waits; its sender gets the strongest effect.
    for strongest in (
        SignalEffect.SATISFIED,
        SignalEffect.KEPT,
        SignalEffect.DUPLICATE,
        SignalEffect.IGNORED,
    ):
        if any(effect_of_wait == strongest for effect_of_wait, _ in effects):
            return strongest, any(wakes for _, wakes in effects)
    if any(_has_timed_out(wait, signal, tx.now) for wait in waits):
        raise WaitClosed(wait=signal.wait_id, why="by timeout")
    return SignalEffect.KEPT, False


def _has_timed_out(wait: Mapping[str, Any], signal: StoredSignal, now: int) -> bool:
    """Return whether the wait of the signal has timed out.

    Its row is still open then: the run closes it when a worker continues the run.
    """
    if (
        signal.wait_id is None
        or wait.get("kind") != WaitKind.CONDITION
        or wait.get("on_timeout") == OnTimeout.ESCALATE
    ):
        return False
    gives_up = wait.get("gives_up")
    is_over = gives_up is not None and gives_up < now
    return is_over and signal.wait_id in conditions.issued_waits(
        typed_json.convert(wait["condition"], Condition)
    )


def conditional_waits(state: Row) -> list[dict[str, Any]]:
    """Return the waits for conditions that a run is parked on."""
    waits = [] if state["waits"] is None else msgspec.json.decode(state["waits"])
    return [wait for wait in waits if wait.get("kind") == WaitKind.CONDITION]


def close_issued_waits(tx: Transaction, run_id: str, wait: Mapping[str, Any], by: str) -> None:
    """Close the waits that were handed out for a condition that has ended."""
    condition: Condition = typed_json.convert(wait["condition"], Condition)
    for issued_wait in conditions.issued_waits(condition).values():
        tx.change("close_wait", run_id=run_id, step=issued_wait.step, now=tx.now, by=by)


def _effect(
    tx: Transaction, run_id: str, wait: Mapping[str, Any], signal: StoredSignal
) -> tuple[SignalEffect | None, bool]:
    """Return the effect of a signal on one wait (None: no effect), and whether to wake the run."""
    gives_up = wait.get("until") if wait.get("kind") == "signal" else wait.get("gives_up")
    if gives_up is not None and gives_up < tx.now:
        return None, False  # timed out already, though no worker has recorded it yet
    if wait.get("kind") == "signal":
        mine = signal.wait_id is None and wait.get("name") == signal.name
        return (SignalEffect.SATISFIED, True) if mine else (None, False)
    if wait.get("kind") != WaitKind.CONDITION:
        return None, False
    condition: Condition = typed_json.convert(wait["condition"], Condition)
    new = UntakenSignal(signal.name, signal.wait_id, signal.source, signal.payload)
    if not conditions.concerns(condition, new):
        return None, False
    tally = condition_progress(tx, run_id, wait, condition, new)
    if tally is None:
        return SignalEffect.KEPT, True  # sealed: only a worker has the codec and the keys
    if tally.met:
        return SignalEffect.KEPT, True
    effect = tally.offer(new)
    return effect, effect is SignalEffect.SATISFIED
