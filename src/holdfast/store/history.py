"""Append events to histories, and ask for their last numbers.

An event without a time gets the time of its transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from holdfast.core.claiming import NO_PROGRESS
from holdfast.core.events import Event
from holdfast.store.database import Transaction


def append(tx: Transaction, run_id: str, events: Sequence[Event]) -> None:
    """Append events to the history of a run as its holder; undated ones are dated now."""
    # One by one: a PlannedWrite collects these calls, and sends the events of a batch together.
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
