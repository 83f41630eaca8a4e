"""A signal all by itself, to a run that is parked on no condition, or on none at all: one statement
that judges, writes, wakes and tells, and commits itself. Whatever it does not write is left the
long way, which finds out why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import psycopg

from holdfast.core import claiming
from holdfast.core.conditions.model import SignalEffect
from holdfast.core.waits import Signal
from holdfast.store.contract import Operation
from holdfast.store.contract.reading import Hints, SignalArrived
from holdfast.store.contract.runs import SignalRun
from holdfast.store.contract.waits import WaitDelivery
from holdfast.store.postgres.claim import WAKE
from holdfast.store.postgres.connection import Connection
from holdfast.store.postgres.dialect import CHANNEL, SQL


class Announcer(NamedTuple):
    """Who tells others of what was written."""

    name: str
    session_id: str
    """The session of this process: whatever reaches its runs is told right here."""
    speaks: bool
    """Whether it tells by itself, a moment later, that there is something to claim."""


class OutgoingSignal(NamedTuple):
    """A signal on its way."""

    op: SignalRun
    at: int


def outgoing_signal(ops: Sequence[Operation], now: int) -> OutgoingSignal | None:
    """Return the signal, if there is nothing else."""
    op = ops[0]
    alone = len(ops) == 1 and isinstance(op, SignalRun) and op.wait_id is None and not op.payloads
    return OutgoingSignal(op, now) if alone and isinstance(op, SignalRun) else None


def leave(
    db: Connection, one: OutgoingSignal, teller: Announcer
) -> tuple[WaitDelivery, Hints] | None:
    """Leave it, in no transaction; None when nothing was written."""
    values = _values(one) | {
        "limit": one.op.limit,
        "step": claiming.PRIORITY_STEP,
        "satisfied": SignalEffect.SATISFIED.value,
        "kept": SignalEffect.KEPT.value,
        "channel": CHANNEL,
        "teller": teller.name,
        "mine": teller.session_id,
        "tells": int(not teller.speaks),
        **WAKE,
    }
    try:
        rows = db.alone("leave_signal", values)
    except psycopg.DataError:  # what it waits for, or is told, cannot be read there
        return None
    return (
        (WaitDelivery(rows[0]["number"], rows[0]["effect"]), _hints(one, rows[0], teller))
        if rows
        else None
    )


def _hints(one: OutgoingSignal, row: Any, teller: Announcer) -> Hints:
    hints, op = Hints(ready=row["wakes"]), one.op
    if row["knocks"] and row["session_id"] != teller.session_id:
        hints.runs.add(op.run_id)
    elif row["knocks"]:
        signal = Signal(
            row["id"], op.name, op.payload, one.at, number=row["number"], source=op.source
        )
        hints.delivered.append(SignalArrived(op.run_id, row["generation"], row["revision"], signal))
    return hints


def left(db: Connection, one: OutgoingSignal) -> tuple[WaitDelivery, Hints] | None:
    """Of a signal whose statement got no answer, say whether it is there. The microsecond in which
    it was sent, and all that it says, tell it from others."""
    rows = db.rows(SQL["left_signal"], _values(one))
    return (
        (
            WaitDelivery(rows[0]["number"], rows[0]["effect"]),
            Hints(ready=True, runs={one.op.run_id}),
        )
        if rows
        else None
    )


def _values(one: OutgoingSignal) -> dict[str, Any]:
    op = one.op
    return {
        "run_id": op.run_id,
        "name": op.name,
        "payload": op.payload,
        "key": op.key,
        "source": op.source,
        "at": one.at,
    }
