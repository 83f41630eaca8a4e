"""A signal all by itself, to a run that is parked on no condition, or on none at all: one statement that judges, writes, wakes
and tells, and commits itself. Whatever it does not write is left the long way, which finds out why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import psycopg

from holdfast.core import claims
from holdfast.core.conditions import Effect
from holdfast.core.records import Signal
from holdfast.store import contract as c
from holdfast.store.postgres.claiming import WAKE
from holdfast.store.postgres.connection import Connection
from holdfast.store.postgres.sql import CHANNEL, SQL


class Teller(NamedTuple):
    """Who tells others of what was written."""

    name: str
    session_id: str
    """The session of this process: whatever reaches its runs is told right here."""
    speaks: bool
    """Whether it tells by itself, a moment later, that there is something to claim."""


class Letter(NamedTuple):
    """A signal on its way."""

    op: c.SignalRun
    at: int


def letter(ops: Sequence[c.Transition], now: int) -> Letter | None:
    """Return the signal, if there is nothing else."""
    op = ops[0]
    alone = len(ops) == 1 and isinstance(op, c.SignalRun) and op.wait_id is None and not op.payloads
    return Letter(op, now) if alone and isinstance(op, c.SignalRun) else None


def leave(db: Connection, one: Letter, teller: Teller) -> tuple[c.Delivery, c.Hints] | None:
    """Leave it, in no transaction; None when nothing was written."""
    values = _values(one) | {
        "limit": one.op.limit, "step": claims.PRIORITY_STEP, "satisfied": Effect.SATISFIED.value, "kept": Effect.KEPT.value,
        "channel": CHANNEL, "teller": teller.name, "mine": teller.session_id, "tells": int(not teller.speaks), **WAKE,
    }  # fmt: skip
    try:
        rows = db.alone("leave_signal", values)
    except psycopg.DataError:  # what it waits for, or is told, cannot be read there
        return None
    return (c.Delivery(rows[0]["number"], rows[0]["effect"]), _hints(one, rows[0], teller)) if rows else None


def _hints(one: Letter, row: Any, teller: Teller) -> c.Hints:
    hints, op = c.Hints(ready=row["wakes"]), one.op
    if row["knocks"] and row["session_id"] != teller.session_id:
        hints.runs.add(op.run_id)
    elif row["knocks"]:
        signal = Signal(row["id"], op.name, op.payload, one.at, number=row["number"], source=op.source)
        hints.delivered.append(c.Delivered(op.run_id, row["generation"], row["revision"], signal))
    return hints


def left(db: Connection, one: Letter) -> tuple[c.Delivery, c.Hints] | None:
    """Of a signal whose statement got no answer, say whether it is there. The microsecond in which it was sent, and all that it
    says, tell it from others."""
    rows = db.rows(SQL["left_signal"], _values(one))
    return (c.Delivery(rows[0]["number"], rows[0]["effect"]), c.Hints(ready=True, runs={one.op.run_id})) if rows else None


def _values(one: Letter) -> dict[str, Any]:
    op = one.op
    return {
        "run_id": op.run_id, "name": op.name, "payload": op.payload, "key": op.key, "source": op.source, "at": one.at,
    }  # fmt: skip
