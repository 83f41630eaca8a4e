"""The transaction that operations are written against, and the statements they share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from holdfast.core.claiming import NO_PROGRESS
from holdfast.core.events import Event
from holdfast.core.runs import RunRecord
from holdfast.core.sessions import Lane, Session
from holdfast.core.status import Status
from holdfast.errors import RowDamaged, RunNotFound
from holdfast.store.database import Row, Transaction

_STATUS = {status.value: status for status in Status}


def load(tx: Transaction, run_id: str) -> Row:
    """Return the state of a run, locked. Raises RunNotFound."""
    states = tx.rows("load_state", run_id=run_id)
    if not states:
        raise RunNotFound(run=run_id)
    return states[0]


def append(tx: Transaction, run_id: str, events: Sequence[Event]) -> None:
    """Append events to the history of a run as its holder; undated ones are dated now."""
    for event in events:
        event.at = event.at or tx.now
        tx.change(
            "append",
            run_id=run_id,
            seq=event.seq,
            kind=event.kind,
            step=event.step,
            attempt=event.attempt,
            data=event.data,
            error=event.error,
            started_at=event.started_at,
            at=event.at,
            role=event.role,
        )


def append_from_outside(tx: Transaction, lines: Sequence[tuple[str, Event]]) -> None:
    """Append events to histories without being the holder; undated ones are dated now."""
    tx.many("append_from_outside", _rows(tx, lines))


def append_each(tx: Transaction, lines: Sequence[tuple[str, Event]]) -> None:
    """Append at most one event to each run without being the holder, with one statement for all."""
    tx.many("append_each", _rows(tx, lines))


def _rows(tx: Transaction, lines: Sequence[tuple[str, Event]]) -> list[dict[str, object]]:
    return [
        {
            "run_id": run_id,
            "seq": event.seq,
            "kind": event.kind,
            "step": event.step,
            "attempt": event.attempt,
            "data": event.data,
            "error": event.error,
            "started_at": event.started_at,
            "at": event.at or tx.now,
            "role": event.role,
        }
        for run_id, event in lines
    ]


def last_seq(tx: Transaction, run_id: str) -> int:
    """Return the number of the last event of a history, 0 if it is empty."""
    seq: int = tx.rows("last_seq", run_id=run_id)[0]["seq"]
    return seq


def last_seqs(tx: Transaction, run_ids: Iterable[str]) -> dict[str, int]:
    """Return the number of the last event of each history.

    The caller must have locked the runs in an earlier statement: a statement that waits for a lock
    does not see rows that were committed while it waited.
    """
    ids = list(run_ids)
    return (
        {row["run_id"]: row["seq"] for row in tx.rows("last_seqs", ids=tx.as_list(ids))}
        if ids
        else {}
    )


def last_progress(tx: Transaction, run_ids: Iterable[str]) -> dict[str, int]:
    """Return the number of the last event of each history that counts as progress, 0 if there is
    none.

    The caller must have locked the runs, as for `last_seqs`.
    """
    values = {"ids": tx.as_list(run_ids), "no_progress": tx.as_list(NO_PROGRESS)}
    return {row["run_id"]: row["seq"] for row in tx.rows("last_progress", **values)}


def as_dict(row: Row) -> dict[str, Any]:
    """Return a row as a dict.

    `dict(row)` would look up each name of a SQLite row by a linear search; `zip` does not.
    """
    return dict(row) if isinstance(row, dict) else dict(zip(row.keys(), row, strict=True))


def run_from(row: Row) -> RunRecord:
    """Return the run of a row."""
    values = as_dict(row)
    values["status"] = _STATUS[values["status"]]
    values["capabilities"] = (
        tuple(values["capabilities"].split(",")) if values["capabilities"] else ()
    )
    values["key"] = values["key"].split("\n", 2)[2] if values["key"] else None
    values["on_parent_end"] = values["on_parent_end"] or "cancel"
    values["budgets"] = tuple(values["budgets"].split("\n")) if values["budgets"] else ()
    for name in ("input", "result", "error", "waits"):
        value = values[name]
        if value is not None and type(value) is not bytes:
            values[name] = bytes(value)
    return RunRecord(**values)


def lane_from(row: Row) -> Lane:
    """Return the lane of a row."""
    return Lane(**{**dict(row), "paused": bool(row["paused"]), "draining": bool(row["draining"])})


def lanes_from(rows: Sequence[Row], damaged: Sequence[RowDamaged]) -> list[Lane]:
    """Return lanes. A damaged lane counts as paused, because its limits are unknown."""
    return [
        *map(lane_from, rows),
        *(Lane(name=str(damage.place["name"]), paused=True) for damage in damaged),
    ]


def session_from(row: Row) -> Session:
    """Return the session of a row; one whose offer cannot be decoded counts as damaged."""
    session = Session(**{**dict(row), "serves": bytes(row["serves"])})
    try:
        msgspec.json.decode(session.serves, type=dict)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return damaged_session(session.id)
    return session


def damaged_session(session_id: Any) -> Session:
    """Return a stand-in for a damaged row. It counts as expired, so that its runs are taken over.

    A live worker finds its session gone and opens a new one.
    """
    return Session(
        id=session_id,
        worker="(damaged)",
        host="",
        pid=0,
        slot=-1,
        started_at=0,
        beat_at=0,
        expires_at=0,
        serves=b"{}",
    )
