"""Deliver a single signal with one autocommitted statement that checks, inserts, wakes and
notifies.

Applies to a run that is not parked on a condition. It saves the transaction and its round trips. A
signal that the statement does not write is delivered the general way, which finds out the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import psycopg

from holdfast.core import claiming
from holdfast.core.conditions.model import SignalEffect
from holdfast.core.waits import Signal
from holdfast.store.database import Hints, Operation, SignalArrived
from holdfast.store.postgres.claim import WAKE
from holdfast.store.postgres.connection import Connection
from holdfast.store.postgres.dialect import CHANNEL, SQL
from holdfast.store.signals.operations import SignalRun, WaitDelivery


class Announcer(NamedTuple):
    """The process that announces the signal."""

    name: str
    session_id: str
    """The session of this process: a signal to one of its runs is delivered in memory."""
    speaks: bool
    """Whether the notifier of this process announces claimable runs by itself, a moment later."""


class OutgoingSignal(NamedTuple):
    """A signal together with the instant of its delivery."""

    op: SignalRun
    at: int


def outgoing_signal(ops: Sequence[Operation], now: int) -> OutgoingSignal | None:
    """Return the signal if it is the only operation, and simple; else None."""
    op = ops[0]
    # A signal to a wait or with payloads must read and write other tables, too.
    alone = len(ops) == 1 and isinstance(op, SignalRun) and op.wait_id is None and not op.payloads
    return OutgoingSignal(op, now) if alone and isinstance(op, SignalRun) else None


def insert_signal(
    db: Connection, signal: OutgoingSignal, announcer: Announcer
) -> tuple[WaitDelivery, Hints] | None:
    """Deliver a signal outside a transaction. Return None if nothing was written."""
    values = _values(signal) | {
        "limit": signal.op.limit,
        "step": claiming.PRIORITY_STEP,
        "satisfied": SignalEffect.SATISFIED.value,
        "kept": SignalEffect.KEPT.value,
        "channel": CHANNEL,
        "teller": announcer.name,
        "mine": announcer.session_id,
        "tells": int(not announcer.speaks),
        **WAKE,
    }
    try:
        rows = db.rows_autocommit("store_signal", values)
    except psycopg.DataError:  # the server cannot decode the waits of the run, or the payload
        return None
    return (
        (WaitDelivery(rows[0]["number"], rows[0]["effect"]), _hints(signal, rows[0], announcer))
        if rows
        else None
    )


def _hints(outgoing: OutgoingSignal, row: Any, announcer: Announcer) -> Hints:
    hints = Hints(ready=row["wakes"])
    op = outgoing.op
    # A holder in this process gets the signal itself, which saves it reading the run.
    if row["notifies"] and row["session_id"] != announcer.session_id:
        hints.runs.add(op.run_id)
    elif row["notifies"]:
        signal = Signal(
            row["id"], op.name, op.payload, outgoing.at, number=row["number"], source=op.source
        )
        hints.delivered.append(SignalArrived(op.run_id, row["generation"], row["revision"], signal))
    return hints


def find_signal(db: Connection, signal: OutgoingSignal) -> tuple[WaitDelivery, Hints] | None:
    """Return whether a signal was written whose statement got no answer.

    It is recognised by the microsecond of its delivery and all of its values.
    """
    rows = db.rows(SQL["stored_signal"], _values(signal))
    return (
        (
            WaitDelivery(rows[0]["number"], rows[0]["effect"]),
            Hints(ready=True, runs={signal.op.run_id}),
        )
        if rows
        else None
    )


def _values(outgoing: OutgoingSignal) -> dict[str, Any]:
    op = outgoing.op
    return {
        "run_id": op.run_id,
        "name": op.name,
        "payload": op.payload,
        "key": op.key,
        "source": op.source,
        "at": outgoing.at,
    }
