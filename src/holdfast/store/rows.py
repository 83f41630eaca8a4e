"""Turn rows of either driver into values and records; shared by the features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from holdfast.core import typed_json
from holdfast.core.events import Event
from holdfast.core.runs import Cell, RunRecord
from holdfast.core.sessions import Lane, Session
from holdfast.core.status import Status
from holdfast.errors import LeaseLost, RowDamaged, RunNotFound
from holdfast.store.database import Row, Transaction
from holdfast.store.tables import StoredTable

_STATUS = {status.value: status for status in Status}


def load(tx: Transaction, run_id: str) -> Row:
    """Return the state of a run, locked. Raises RunNotFound."""
    states = tx.rows("load_state", run_id=run_id)
    if not states:
        raise RunNotFound(run=run_id)
    return states[0]


def check_lease(tx: Transaction, run_id: str, generation: int) -> Row:
    """Return the lease of a run, locked. Raises LeaseLost if it is another one, or has no
    holder."""
    leases = tx.rows("lease_of", run_id=run_id)
    # A released run keeps its generation until the next claim, so a holder is asked for as well.
    if not leases or leases[0]["generation"] != generation or leases[0]["session_id"] is None:
        raise LeaseLost(run=run_id, generation=generation)
    return leases[0]


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
    # Stored with namespace and workflow before it, so that one index makes keys unique.
    values["key"] = values["key"].split("\n", 2)[2] if values["key"] else None
    values["on_parent_end"] = values["on_parent_end"] or "cancel"
    values["budgets"] = tuple(values["budgets"].split("\n")) if values["budgets"] else ()
    for name in ("input", "result", "error", "waits"):
        value = values[name]
        # psycopg returns memoryviews for some formats; records hold bytes.
        if value is not None and type(value) is not bytes:
            values[name] = bytes(value)
    return RunRecord(**values)


def bytes_or_none(value: Any) -> bytes | None:
    """Return a value of a driver as bytes; None stays None."""
    return None if value is None else bytes(value)


def event_from(row: Row) -> Event:
    """Return the event of a row."""
    return Event(
        kind=row["kind"],
        step=row["step"],
        data=bytes_or_none(row["data"]),
        error=bytes_or_none(row["error"]),
        attempt=row["attempt"],
        started_at=row["started_at"],
        at=row["at"],
        seq=row["seq"],
        role=row["role"],
    )


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
        typed_json.decode(session.serves, dict)
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


def values_of(row: Any) -> list[Any]:
    """Return the values of a row of either driver."""
    return list(row.values()) if isinstance(row, dict) else list(row)


def cells_by_table(rows: Mapping[StoredTable, Sequence[Any]]) -> dict[str, list[list[Cell]]]:
    """Return the values of the rows by the name of their table; empty tables are left out."""
    return {
        table.name: [cells(table, row) for row in table_rows]
        for table, table_rows in rows.items()
        if table_rows
    }


def cells(table: StoredTable, row: Any) -> list[Cell]:
    """Return the values of a row; memoryviews of the driver become bytes."""
    return [
        bytes(row[name]) if isinstance(row[name], memoryview) else row[name]
        for name in table.columns
    ]
