"""What the transitions need of a database, and the few things that all of them do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import msgspec

from holdfast.core.claiming import NO_PROGRESS
from holdfast.core.events import Event
from holdfast.core.payload import Seal
from holdfast.core.runs import Route, RunRecord
from holdfast.core.sessions import Lane, Session
from holdfast.core.status import Status
from holdfast.errors import RowDamaged, RunNotFound
from holdfast.store.contract import Hints, MemberOutcome

Row = Any
_STATUS = {status.value: status for status in Status}


class Transaction(Protocol):
    """An open transaction in one of the databases."""

    now: int
    hints: Hints
    news: list[MemberOutcome]
    """The ends of members of graphs in this transaction. What nobody has settled by its end is
    written down."""
    told: set[str]
    """The parents that were told in this transaction that a child has ended."""
    graphs: dict[str, Row]
    """Graphs that were read and locked already, and have not changed since."""

    def rows(self, query: str, **values: object) -> list[Row]:
        """Run a named query and return its rows, addressed by column name. Raises RowDamaged."""

    def sifted(self, query: str, **values: object) -> tuple[list[Row], list[RowDamaged]]:
        """Run a named query and return its rows that are sound, and what is wrong with the
        others."""

    def change(self, query: str, **values: object) -> int:
        """Run a named query and return how many rows it changed."""

    def many(self, query: str, values: Sequence[dict[str, object]]) -> int:
        """Run a named query once per set of values and return how many rows changed in all."""

    def together(self, changes: dict[str, list[dict[str, object]]]) -> None:
        """Run several named queries, each once per set of values. No row is changed by two of them
        in the same column."""

    def insert_runs(self, rows: Sequence[dict[str, object]]) -> set[str]:
        """Create the runs whose id and key are new, one after another, and return their ids."""

    def route_id(self, route: Route) -> int:
        """Return the id of a route, creating it when it is new."""

    def as_list(self, items: Iterable[object]) -> object:
        """Return *items* as this database wants a list."""

    def call(self, body: Callable[[Any], bytes]) -> bytes:
        """Let a user's function write in this transaction. It can neither commit nor roll back."""

    def lock_tables(self) -> None:
        """Let no other transaction write before this one has ended. Reading goes on."""

    def seal(self, seal: Seal) -> None:
        """Let the database refuse every write, whichever process makes it, with StoreSealed."""

    def unseal(self) -> None:
        """Let the database accept writes again."""

    def refuse_clear_values(self) -> bool:
        """Let the database refuse values in clear with CodecMismatch, whichever process writes
        them; return whether it does."""


def load(tx: Transaction, run_id: str) -> Row:
    """Return what decides about a run. Raises RunNotFound."""
    found = tx.rows("load_state", run_id=run_id)
    if not found:
        raise RunNotFound(run=run_id)
    return found[0]


def append(tx: Transaction, run_id: str, events: Sequence[Event]) -> None:
    """Add lines to the history of a run, dated now, for the one who holds it."""
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
        )


def append_from_outside(tx: Transaction, lines: Sequence[tuple[str, Event]]) -> None:
    """Add lines to the histories of runs, dated now, for one who does not hold them."""
    tx.many("append_from_outside", _rows(tx, lines))


def append_each(tx: Transaction, lines: Sequence[tuple[str, Event]]) -> None:
    """The same, with at most one line for each run: then they can be written together."""
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
        }
        for run_id, event in lines
    ]


def last_seq(tx: Transaction, run_id: str) -> int:
    """Return the number of the last line of a history, 0 when there is none."""
    found: int = tx.rows("last_seq", run_id=run_id)[0]["seq"]
    return found


def last_seqs(tx: Transaction, run_ids: Iterable[str]) -> dict[str, int]:
    """Return the number of the last line of each history. The caller has locked the runs by an
    earlier statement: a statement that waits for a lock does not see what was committed while it
    waited."""
    ids = list(run_ids)
    return (
        {row["run_id"]: row["seq"] for row in tx.rows("last_seqs", ids=tx.as_list(ids))}
        if ids
        else {}
    )


def last_progress(tx: Transaction, run_ids: Iterable[str]) -> dict[str, int]:
    """Return the number of the last line of each history that shows progress, 0 when there is none;
    locked as for `last_seqs`."""
    values = {"ids": tx.as_list(run_ids), "no_progress": tx.as_list(NO_PROGRESS)}
    return {row["run_id"]: row["seq"] for row in tx.rows("last_progress", **values)}


def as_dict(row: Row) -> dict[str, Any]:
    """Return a row as a dict. SQLite's own rows look for each name from the first column on, which
    `dict` would ask them to."""
    return dict(row) if isinstance(row, dict) else dict(zip(row.keys(), row, strict=True))


def run_from(row: Row) -> RunRecord:
    """Return the run that a row holds."""
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
    """Return the lane that a row holds."""
    return Lane(**{**dict(row), "paused": bool(row["paused"]), "draining": bool(row["draining"])})


def lanes_from(rows: Sequence[Row], damaged: Sequence[RowDamaged]) -> list[Lane]:
    """Return lanes. The limits of a damaged one are unknown, so it lets nothing go, as if it were
    paused."""
    return [
        *map(lane_from, rows),
        *(Lane(name=str(one.place["name"]), paused=True) for one in damaged),
    ]


def session_from(row: Row) -> Session:
    """Return the session that a row holds."""
    session = Session(**{**dict(row), "serves": bytes(row["serves"])})
    try:
        msgspec.json.decode(session.serves, type=dict)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return damaged_session(session.id)
    return session


def damaged_session(session_id: Any) -> Session:
    """Return a session whose row is damaged. It counts as expired: its runs go to others, a live
    worker opens a new one."""
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
