"""Send signals to runs, by name or to one of their waits, and mark signals as consumed."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.errors import (
    RunFinished,
    RunNotFound,
    TooManySignals,
    WaitNotFound,
)
from holdfast.store.database import Transaction
from holdfast.store.effects import Commit, applies
from holdfast.store.payloads.apply import sent
from holdfast.store.rows import load
from holdfast.store.signals.delivery import (
    StoredSignal,
    check_open,
    deliver,
    first_answer,
    wait_by_id,
)
from holdfast.store.signals.operations import SignalOtherRun, SignalRun, TakeSignals, WaitDelivery


def signal_run(tx: Transaction, op: SignalRun) -> WaitDelivery:
    """Store a signal, and wake the run if it completes a wait. Raises RunFinished, WaitNotFound."""
    state = load(tx, op.run_id)
    if state["finished_at"] is not None or op.wait_id is not None:
        # First of all: a repeated key gets its first answer, even if the run has ended since.
        known = first_answer(tx, op.run_id, op.key)
        if known is not None:
            return known
    if state["finished_at"] is not None:
        raise RunFinished(run=op.run_id, status=state["status"])
    if op.wait_id is not None:
        wait = wait_by_id(tx, op.wait_id)
        if wait is None or wait["run_id"] != op.run_id:
            raise WaitNotFound(run=op.run_id, wait=op.wait_id)
        check_open(tx, wait)
    # A repeated key of a live run is found by the insert itself, which saves a read.
    return deliver(
        tx,
        state,
        StoredSignal(
            op.name, op.payload, op.limit, op.key, op.source, op.wait_id, None, op.payloads
        ),
    )


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
