"""Signals: to a run, to a wait that was handed out, or a person's, which lets a wait go.

What the run is parked on is judged here, together with the new signal, so that a run is not woken
for nothing: only when a condition is whole. Whoever holds the run judges again, from the same
signals, and records which of them it was.

Invariant: the commit that satisfies a condition closes the waits that were handed out for it. A
later signal to one of them would never be delivered, so its sender gets WaitClosed; so does the
sender of a signal that comes after the condition's timeout.
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
    TokenRefused,
    TooManySignals,
    WaitClosed,
    WaitExpired,
    WaitNotFound,
)
from holdfast.store.contract.runs import SignalRun
from holdfast.store.contract.waits import (
    BEFORE,
    RELEASABLE,
    DeliverSignal,
    ReleaseWait,
    WaitDelivery,
)
from holdfast.store.transitions.keys import key_from
from holdfast.store.transitions.payloads import keep
from holdfast.store.transitions.touching import notify_or_wake
from holdfast.store.transitions.transaction import (
    Row,
    Transaction,
    append_from_outside,
    last_seq,
    load,
)


class _SignalView(msgspec.Struct):
    """A signal that no wait has taken, as far as conditions care."""

    name: str
    wait_id: str | None
    source: str | None
    payload: bytes = b"null"


class _StoredSignal(msgspec.Struct):
    """A signal to be left."""

    name: str
    payload: bytes
    limit: int
    key: str | None = None
    source: str | None = None
    wait_id: str | None = None
    step: str | None = None
    payloads: Sequence[Payload] = ()


def signal_run(tx: Transaction, op: SignalRun) -> WaitDelivery:
    """Leave a signal and wake the run if it waits for it."""
    state = load(tx, op.run_id)
    if state["finished_at"] is not None or op.wait_id is not None:
        known = _repeated(
            tx, op.run_id, op.key
        )  # what was answered once is answered again, whatever has come since
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
    """Leave a signal for a wait. Nothing is looked up before the token has proved that it was made
    for this very wait."""
    keys = [key_from(row) for row in tx.rows("keys")]
    claims = tokens.check(op.token, WAIT_TOKEN, keys, now=tx.now, reveal=op.reveal)
    if claims.get("wait") != op.wait_id:
        raise TokenRefused()
    wait = _wait(tx, op.wait_id)
    if wait is None:
        raise WaitClosed(wait=op.wait_id, why="its run is gone, or has asked anew")
    state = load(tx, wait["run_id"])
    key = (
        None if op.key is None else f"{op.wait_id} {op.key}"
    )  # the keys of outsiders are nobody else's
    known = _repeated(tx, wait["run_id"], key)
    if known is not None:
        return known
    if state["finished_at"] is not None:
        raise WaitClosed(wait=op.wait_id, why="its run has ended")
    _check_open(tx, _wait(tx, op.wait_id))  # again, now that the run is locked
    letter = _StoredSignal(
        op.name or wait["name"], op.payload, op.limit, key, op.source, op.wait_id, None, op.payloads
    )
    return _leave(tx, state, letter)


def release_wait(tx: Transaction, op: ReleaseWait) -> WaitDelivery:
    """Let a wait go: a signal to nothing but that step, which whoever holds the run finds."""
    state = load(tx, op.run_id)
    if state["finished_at"] is not None:
        raise RunFinished(run=op.run_id, status=state["status"])
    if op.step == BEFORE:
        return _begin_now(tx, op, state)
    found = tx.rows("wait_of_step", run_id=op.run_id, step=op.step)
    if not _sleeps(state, op.step) and (
        not found or found[0]["id"] is not None or found[0]["closed_at"] is not None
    ):
        raise WaitNotFound(run=op.run_id, step=op.step)
    letter = _StoredSignal(
        "release", op.payload, 1 << 60, source=op.by, step=op.step, payloads=op.payloads
    )  # a person is heard
    for wait in _conditional_waits(state):
        if wait["step"] == op.step:
            _close_handed_out(tx, op.run_id, wait, "a person")
    return _insert(tx, state, letter, SignalEffect.SATISFIED, wakes=True)


def _begin_now(tx: Transaction, op: ReleaseWait, state: Row) -> WaitDelivery:
    """Let a run begin that was to begin later: its time has come."""
    if tx.change("begin_now", run_id=op.run_id, now=tx.now) != 1:
        raise WaitNotFound(run=op.run_id, why="it was not put off, or its time has come")
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
    found = tx.rows("wait_by_id", wait_id=wait_id)
    return found[0] if found else None


def _check_open(tx: Transaction, wait: Row | None) -> None:
    if wait is None or wait["closed_at"] is not None:
        raise WaitClosed(
            wait=None if wait is None else wait["id"],
            why=f"by {wait['closed_by'] if wait else 'its run'}",
        )
    if wait["until"] is not None and wait["until"] <= tx.now:
        raise WaitExpired(wait=wait["id"])


def _repeated(tx: Transaction, run_id: str, key: str | None) -> WaitDelivery | None:
    """Return what was answered when this key came first."""
    found = [] if key is None else tx.rows("signal_by_key", run_id=run_id, key=key)
    return (
        WaitDelivery(found[0]["number"], found[0]["effect"] or SignalEffect.KEPT.value, new=False)
        if found
        else None
    )


def _leave(tx: Transaction, state: Row, letter: _StoredSignal) -> WaitDelivery:
    effect, wakes = _judge(tx, state, letter)
    return _insert(tx, state, letter, effect, wakes=wakes)


def _insert(
    tx: Transaction, state: Row, letter: _StoredSignal, effect: SignalEffect, *, wakes: bool
) -> WaitDelivery:
    run_id = state["id"]
    written = tx.rows(
        "insert_signal",
        run_id=run_id,
        name=letter.name,
        payload=letter.payload,
        key=letter.key,
        at=tx.now,
        wait_id=letter.wait_id,
        source=letter.source,
        step=letter.step,
        effect=effect.value,
        limit=letter.limit,
    )
    if not written:
        known = _repeated(tx, run_id, letter.key)
        if known is None:
            raise TooManySignals(run=run_id, limit=letter.limit)
        return known
    if letter.payloads:
        keep(tx, run_id, letter.payloads)
    if state["session_id"] is not None and state["waits"] is not None and not wakes:
        tx.change(
            "bump_revision", run_id=run_id
        )  # it is parked, and this changes nothing: its holder need not look
    else:
        notify_or_wake(tx, state, wakes=wakes)
    return WaitDelivery(written[0]["number"], effect.value)


def _judge(tx: Transaction, state: Row, letter: _StoredSignal) -> tuple[SignalEffect, bool]:
    """Say what a signal comes to, and whether the run must look because of it. Raises
    WaitClosed."""
    if state["waits"] is None:
        return SignalEffect.KEPT, False
    waits = msgspec.json.decode(state["waits"])
    found = [_effect(tx, state["id"], wait, letter) for wait in waits]
    for wait, (effect, _) in zip(waits, found, strict=True):
        if effect is SignalEffect.SATISFIED and wait["kind"] == "wait":
            _close_handed_out(tx, state["id"], wait, "its signals")
    for strongest in (
        SignalEffect.SATISFIED,
        SignalEffect.KEPT,
        SignalEffect.DUPLICATE,
        SignalEffect.IGNORED,
    ):
        if any(one == strongest for one, _ in found):
            return strongest, any(wakes for _, wakes in found)
    if any(_has_timed_out(wait, letter, tx.now) for wait in waits):
        raise WaitClosed(wait=letter.wait_id, why="by timeout")
    return SignalEffect.KEPT, False


def _has_timed_out(wait: Mapping[str, Any], letter: _StoredSignal, now: int) -> bool:
    """Return whether a signal comes after the time of the wait, which its run closes as soon as a
    worker continues it."""
    if letter.wait_id is None or wait.get("kind") != "wait" or wait.get("on_timeout") == "escalate":
        return False
    gives_up = wait.get("gives_up")
    is_over = gives_up is not None and gives_up < now
    return is_over and letter.wait_id in conditions.issued_waits(
        msgspec.convert(wait["condition"], Condition)
    )


def _conditional_waits(state: Row) -> list[dict[str, Any]]:
    waits = [] if state["waits"] is None else msgspec.json.decode(state["waits"])
    return [wait for wait in waits if wait.get("kind") == "wait"]


def _close_handed_out(tx: Transaction, run_id: str, wait: Mapping[str, Any], by: str) -> None:
    """Close the waits that were handed out for a condition that is over."""
    condition: Condition = msgspec.convert(wait["condition"], Condition)
    for handed in conditions.issued_waits(condition).values():
        tx.change("close_wait", run_id=run_id, step=handed.step, now=tx.now, by=by)


def _effect(
    tx: Transaction, run_id: str, wait: Mapping[str, Any], letter: _StoredSignal
) -> tuple[SignalEffect | None, bool]:
    """Say what a signal is to one wait; None when it is nothing to it."""
    gives_up = wait.get("until") if wait.get("kind") == "signal" else wait.get("gives_up")
    if gives_up is not None and gives_up < tx.now:
        return None, False  # its time was up before, though no worker has seen to it yet
    if wait.get("kind") == "signal":
        mine = letter.wait_id is None and wait.get("name") == letter.name
        return (SignalEffect.SATISFIED, True) if mine else (None, False)
    if wait.get("kind") != "wait":
        return None, False
    condition: Condition = msgspec.convert(wait["condition"], Condition)
    new = _SignalView(letter.name, letter.wait_id, letter.source, letter.payload)
    if not conditions.concerns(condition, new):
        return None, False
    tally = tally_so_far(tx, run_id, wait, condition, new)
    if tally is None:
        return SignalEffect.KEPT, True  # only whoever has the codec and the keys can read it
    if tally.met:
        return SignalEffect.KEPT, True
    effect = tally.offer(new)
    return effect, effect is SignalEffect.SATISFIED


def tally_so_far(
    tx: Transaction,
    run_id: str,
    wait: Mapping[str, Any],
    condition: Condition,
    new: _SignalView | None = None,
) -> conditions.ConditionProgress | None:
    """Say what of a condition is met by the signals that have come; None when they, or a *new* one,
    cannot be read here."""
    before = list(_heard(tx, run_id, condition))
    if conditions.reads_payloads(condition):
        known = [heard for heard, _ in before] + ([] if new is None else [new])
        if wait.get("sealed") or _any_sealed(known):
            return None
    tally = conditions.ConditionProgress(condition, _read)
    for heard, times in before:
        tally.offer(heard, times)
    return tally


def _heard(tx: Transaction, run_id: str, condition: Condition) -> Iterator[tuple[_SignalView, int]]:
    """The signals that no wait has taken; whoever cares for no payload is told how many there are
    of each kind."""
    if conditions.reads_payloads(condition):
        for row in tx.rows("signals_to_judge", run_id=run_id):
            yield _SignalView(row["name"], row["wait_id"], row["source"], bytes(row["payload"])), 1
    else:
        for row in tx.rows("signals_by_kind", run_id=run_id):
            yield _SignalView(row["name"], row["wait_id"], row["source"]), row["times"]


def _any_sealed(heard: Sequence[_SignalView]) -> bool:
    return any(is_sealed(signal.payload) for signal in heard)


def _read(signal: _SignalView) -> Any:
    return msgspec.json.decode(signal.payload)
