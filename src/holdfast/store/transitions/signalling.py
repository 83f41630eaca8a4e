"""Deliver signals: to a run by name, to a wait that was handed out, or as an operator's release.

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

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from holdfast.core import tokens
from holdfast.core.conditions import evaluation as conditions
from holdfast.core.conditions.model import Condition, SignalEffect
from holdfast.core.envelope import is_sealed
from holdfast.core.events import Event, EventKind
from holdfast.core.payload import Payload
from holdfast.core.tokens import WAIT_TOKEN
from holdfast.errors import (
    RunFinished,
    RunNotFound,
    TokenRefused,
    TooManySignals,
    WaitClosed,
    WaitExpired,
    WaitNotFound,
)
from holdfast.store.database import Row, Transaction
from holdfast.store.effects import Commit, applies
from holdfast.store.signals.operations import SignalOtherRun, SignalRun, TakeSignals
from holdfast.store.transitions.keys import key_from
from holdfast.store.transitions.payloads import keep, sent
from holdfast.store.transitions.touching import notify_or_wake
from holdfast.store.transitions.transaction import append_from_outside, last_seq, load
from holdfast.store.waits.operations import (
    BEFORE,
    RELEASABLE,
    DeliverSignal,
    ReleaseWait,
    WaitDelivery,
)


class _SignalView(msgspec.Struct):
    """A signal that no wait has taken, with the fields that conditions evaluate."""

    name: str
    wait_id: str | None
    source: str | None
    payload: bytes = b"null"


class _StoredSignal(msgspec.Struct):
    """A signal to be inserted."""

    name: str
    payload: bytes
    limit: int
    key: str | None = None
    source: str | None = None
    wait_id: str | None = None
    step: str | None = None
    payloads: Sequence[Payload] = ()


def signal_run(tx: Transaction, op: SignalRun) -> WaitDelivery:
    """Store a signal, and wake the run if it completes a wait. Raises RunFinished, WaitNotFound."""
    state = load(tx, op.run_id)
    if state["finished_at"] is not None or op.wait_id is not None:
        # First of all: a repeated key gets its first answer, even if the run has ended since.
        known = _repeated(tx, op.run_id, op.key)
        if known is not None:
            return known
    if state["finished_at"] is not None:
        raise RunFinished(run=op.run_id, status=state["status"])
    if op.wait_id is not None:
        wait = _wait(tx, op.wait_id)
        if wait is None or wait["run_id"] != op.run_id:
            raise WaitNotFound(run=op.run_id, wait=op.wait_id)
        _check_open(tx, wait)
    return _leave(
        tx,
        state,
        _StoredSignal(
            op.name, op.payload, op.limit, op.key, op.source, op.wait_id, None, op.payloads
        ),
    )


def deliver_signal(tx: Transaction, op: DeliverSignal) -> WaitDelivery:
    """Store a signal for a wait, on the authority of its token. Raises TokenRefused, WaitClosed.

    Nothing is read before the token has proved that it was issued for this wait.
    """
    keys = [key_from(row) for row in tx.rows("keys")]
    claims = tokens.check(op.token, WAIT_TOKEN, keys, now=tx.now, reveal=op.reveal)
    if claims.get("wait") != op.wait_id:
        raise TokenRefused()
    wait = _wait(tx, op.wait_id)
    if wait is None:
        raise WaitClosed(wait=op.wait_id, why="its run was deleted, or has opened a new wait")
    state = load(tx, wait["run_id"])
    # Prefixed, so that the key of an outside sender cannot collide with another sender's key.
    key = None if op.key is None else f"{op.wait_id} {op.key}"
    known = _repeated(tx, wait["run_id"], key)
    if known is not None:
        return known
    if state["finished_at"] is not None:
        raise WaitClosed(wait=op.wait_id, why="its run has ended")
    # Again: the wait may have been closed before the run was locked.
    _check_open(tx, _wait(tx, op.wait_id))
    signal = _StoredSignal(
        op.name or wait["name"], op.payload, op.limit, key, op.source, op.wait_id, None, op.payloads
    )
    return _leave(tx, state, signal)


def release_wait(tx: Transaction, op: ReleaseWait) -> WaitDelivery:
    """Release a wait on an operator's order: store a signal for that step alone. Raises
    WaitNotFound."""
    state = load(tx, op.run_id)
    if state["finished_at"] is not None:
        raise RunFinished(run=op.run_id, status=state["status"])
    if op.step == BEFORE:
        return _begin_now(tx, op, state)
    waits_of_step = tx.rows("wait_of_step", run_id=op.run_id, step=op.step)
    if not _sleeps(state, op.step) and (
        not waits_of_step
        or waits_of_step[0]["id"] is not None
        or waits_of_step[0]["closed_at"] is not None
    ):
        raise WaitNotFound(run=op.run_id, step=op.step)
    signal = _StoredSignal(
        # The limit on untaken signals does not apply to operators.
        "release",
        op.payload,
        1 << 60,
        source=op.by,
        step=op.step,
        payloads=op.payloads,
    )
    for wait in _conditional_waits(state):
        if wait["step"] == op.step:
            _close_handed_out(tx, op.run_id, wait, "a person")
    return _insert(tx, state, signal, SignalEffect.SATISFIED, wakes=True)


def _begin_now(tx: Transaction, op: ReleaseWait, state: Row) -> WaitDelivery:
    """Make a delayed run claimable now. Raises WaitNotFound if it is not delayed."""
    if tx.change("begin_now", run_id=op.run_id, now=tx.now) != 1:
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


def _sleeps(state: Row, step: str) -> bool:
    """Return whether the run is parked at that step on a wait that has no row of its own and can be
    released."""
    waits = [] if state["waits"] is None else msgspec.json.decode(state["waits"])
    return any(wait.get("kind") in RELEASABLE and wait.get("step") == step for wait in waits)


def _wait(tx: Transaction, wait_id: str) -> Row | None:
    waits = tx.rows("wait_by_id", wait_id=wait_id)
    return waits[0] if waits else None


def _check_open(tx: Transaction, wait: Row | None) -> None:
    if wait is None or wait["closed_at"] is not None:
        raise WaitClosed(
            wait=None if wait is None else wait["id"],
            why=f"by {wait['closed_by'] if wait else 'its run'}",
        )
    if wait["until"] is not None and wait["until"] <= tx.now:
        raise WaitExpired(wait=wait["id"])


def _repeated(tx: Transaction, run_id: str, key: str | None) -> WaitDelivery | None:
    """Return the answer to the first signal with this key, or None."""
    signals = [] if key is None else tx.rows("signal_by_key", run_id=run_id, key=key)
    return (
        WaitDelivery(
            signals[0]["number"], signals[0]["effect"] or SignalEffect.KEPT.value, new=False
        )
        if signals
        else None
    )


def _leave(tx: Transaction, state: Row, signal: _StoredSignal) -> WaitDelivery:
    effect, wakes = _judge(tx, state, signal)
    return _insert(tx, state, signal, effect, wakes=wakes)


def _insert(
    tx: Transaction, state: Row, signal: _StoredSignal, effect: SignalEffect, *, wakes: bool
) -> WaitDelivery:
    run_id = state["id"]
    written = tx.rows(
        "insert_signal",
        run_id=run_id,
        name=signal.name,
        payload=signal.payload,
        key=signal.key,
        at=tx.now,
        wait_id=signal.wait_id,
        source=signal.source,
        step=signal.step,
        effect=effect.value,
        limit=signal.limit,
    )
    if not written:
        known = _repeated(tx, run_id, signal.key)
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


def _judge(tx: Transaction, state: Row, signal: _StoredSignal) -> tuple[SignalEffect, bool]:
    """Return the effect of a signal on the waits of a run, and whether to wake it. Raises
    WaitClosed."""
    if state["waits"] is None:
        return SignalEffect.KEPT, False
    waits = msgspec.json.decode(state["waits"])
    effects = [_effect(tx, state["id"], wait, signal) for wait in waits]
    for wait, (effect, _) in zip(waits, effects, strict=True):
        if effect is SignalEffect.SATISFIED and wait["kind"] == "wait":
            _close_handed_out(tx, state["id"], wait, "its signals")
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


def _has_timed_out(wait: Mapping[str, Any], signal: _StoredSignal, now: int) -> bool:
    """Return whether the wait of the signal has timed out.

    Its row is still open then: the run closes it when a worker continues the run.
    """
    if signal.wait_id is None or wait.get("kind") != "wait" or wait.get("on_timeout") == "escalate":
        return False
    gives_up = wait.get("gives_up")
    is_over = gives_up is not None and gives_up < now
    return is_over and signal.wait_id in conditions.issued_waits(
        msgspec.convert(wait["condition"], Condition)
    )


def _conditional_waits(state: Row) -> list[dict[str, Any]]:
    waits = [] if state["waits"] is None else msgspec.json.decode(state["waits"])
    return [wait for wait in waits if wait.get("kind") == "wait"]


def _close_handed_out(tx: Transaction, run_id: str, wait: Mapping[str, Any], by: str) -> None:
    """Close the waits that were handed out for a condition that has ended."""
    condition: Condition = msgspec.convert(wait["condition"], Condition)
    for issued_wait in conditions.issued_waits(condition).values():
        tx.change("close_wait", run_id=run_id, step=issued_wait.step, now=tx.now, by=by)


def _effect(
    tx: Transaction, run_id: str, wait: Mapping[str, Any], signal: _StoredSignal
) -> tuple[SignalEffect | None, bool]:
    """Return the effect of a signal on one wait (None: no effect), and whether to wake the run."""
    gives_up = wait.get("until") if wait.get("kind") == "signal" else wait.get("gives_up")
    if gives_up is not None and gives_up < tx.now:
        return None, False  # timed out already, though no worker has recorded it yet
    if wait.get("kind") == "signal":
        mine = signal.wait_id is None and wait.get("name") == signal.name
        return (SignalEffect.SATISFIED, True) if mine else (None, False)
    if wait.get("kind") != "wait":
        return None, False
    condition: Condition = msgspec.convert(wait["condition"], Condition)
    new = _SignalView(signal.name, signal.wait_id, signal.source, signal.payload)
    if not conditions.concerns(condition, new):
        return None, False
    tally = condition_progress(tx, run_id, wait, condition, new)
    if tally is None:
        return SignalEffect.KEPT, True  # sealed: only a worker has the codec and the keys
    if tally.met:
        return SignalEffect.KEPT, True
    effect = tally.offer(new)
    return effect, effect is SignalEffect.SATISFIED


def condition_progress(
    tx: Transaction,
    run_id: str,
    wait: Mapping[str, Any],
    condition: Condition,
    new: _SignalView | None = None,
) -> conditions.ConditionProgress | None:
    """Return the progress of a condition by the signals so far.

    None if the condition reads payloads, and they or the *new* one are sealed.
    """
    before = list(_untaken_signals(tx, run_id, condition))
    if conditions.reads_payloads(condition):
        known = [signal for signal, _ in before] + ([] if new is None else [new])
        if wait.get("sealed") or _any_sealed(known):
            return None
    tally = conditions.ConditionProgress(condition, _read)
    for signal, times in before:
        tally.offer(signal, times)
    return tally


def _untaken_signals(
    tx: Transaction, run_id: str, condition: Condition
) -> Iterator[tuple[_SignalView, int]]:
    """Yield the untaken signals with their number.

    If the condition reads no payloads they are counted by kind, which saves reading each of them.
    """
    if conditions.reads_payloads(condition):
        for row in tx.rows("signals_to_judge", run_id=run_id):
            yield _SignalView(row["name"], row["wait_id"], row["source"], bytes(row["payload"])), 1
    else:
        for row in tx.rows("signals_by_kind", run_id=run_id):
            yield _SignalView(row["name"], row["wait_id"], row["source"]), row["times"]


def _any_sealed(signals: Sequence[_SignalView]) -> bool:
    return any(is_sealed(signal.payload) for signal in signals)


def _read(signal: _SignalView) -> Any:
    return msgspec.json.decode(signal.payload)


# Effects of runs


@applies(TakeSignals)
def take_signals(tx: Transaction, commit: Commit, effects: Sequence[TakeSignals]) -> None:
    """Mark signals as consumed."""
    tx.many("take_signal", [{"id": signal} for effect in effects for signal in effect.ids])


@applies(SignalOtherRun)
def signal_other_runs(tx: Transaction, commit: Commit, effects: Sequence[SignalOtherRun]) -> None:
    """Send signals to other runs. A receiver that has ended or is full does not stop the sender."""
    for effect in effects:
        op = SignalRun(
            effect.run_id,
            effect.name,
            effect.payload,
            effect.key,
            source=commit.run_id,
            payloads=sent(commit.payloads, effect.payload),
        )
        try:
            signal_run(tx, op)
        except (RunNotFound, RunFinished, TooManySignals):
            continue
