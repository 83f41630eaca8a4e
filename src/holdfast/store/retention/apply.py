"""Apply retention: rules, maintenance locks, and the deletion of parts of histories."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.core.retention import RetentionRule
from holdfast.core.status import Status
from holdfast.errors import BadOption, RetentionNotFound
from holdfast.store.database import Row, SettingsChanged, Transaction
from holdfast.store.payloads.apply import forget_history
from holdfast.store.retention.operations import (
    EndMaintenance,
    Forget,
    RemoveRetention,
    SaveRetention,
    TakeMaintenanceLock,
)
from holdfast.store.runs import trees
from holdfast.store.runs.operations import Pruned
from holdfast.store.runs.trees import cut, sizes_of
from holdfast.store.tables import FORGETTABLE


def forget(tx: Transaction, op: Forget) -> Pruned:
    """Delete a part of the history of finished trees. A tree with a live run is kept as it is."""
    if op.target not in FORGETTABLE:
        raise BadOption(option="target", value=op.target, known=", ".join(FORGETTABLE))
    rows = tx.rows(
        f"prunable_{op.target}",
        before=op.before,
        statuses=tx.as_list(op.statuses),
        namespace=op.namespace,
        workflow=op.workflow,
        after=op.after,
        limit=op.limit,
    )
    roots = [row["id"] for row in rows]
    sizes = sizes_of(tx, f"tree_sizes_{op.target}", roots, op.before)
    chosen = cut(roots, sizes, after=op.after, limit=op.limit)
    runs = [run_id for root in chosen.whole for run_id in (*_below(tx, op.target, root), root)]
    if chosen.part is not None:
        runs = _below(tx, op.target, chosen.part)
    done = sum(_forget(tx, op.target, run_id) for run_id in runs)
    # A large tree is found again until a portion finds nothing left in it.
    return Pruned(
        runs=done, last=chosen.part if chosen.part is not None and not done else chosen.last
    )


def _below(tx: Transaction, kind: str, root: str) -> list[str]:
    """Return descendants that still have this part of their history, at most one portion."""
    return [row["id"] for row in tx.rows(f"descendants_{kind}", run_id=root, limit=trees.RUNS)]


def _forget(tx: Transaction, kind: str, run_id: str) -> bool:
    """Delete a part of the history of one run, if it has ended."""
    state = tx.rows("load_state", run_id=run_id)
    # The run may have been replayed since it was found.
    if not state or state[0]["finished_at"] is None:
        return False
    if kind != "events":
        # All are executed: the first one deletes, and tells whether there was anything to delete.
        return any([tx.change(query, run_id=run_id) for query in FORGETTABLE[kind].deletes][:1])
    return forget_history(tx, run_id)


def retention_from(row: Row) -> RetentionRule:
    """Return the retention rule of a row. Raises ValueError if it names an unknown status."""
    statuses = tuple(row["statuses"].split(",")) if row["statuses"] else ()
    for status in statuses:
        Status(status)
    return RetentionRule(**{**dict(row), "statuses": statuses})


def _readable(rows: list[Row]) -> RetentionRule | None:
    try:
        return retention_from(rows[0]) if rows else None
    except ValueError:
        return None  # a damaged rule is replaced


def save_retention(tx: Transaction, op: SaveRetention) -> SettingsChanged | None:
    """Create or replace a retention rule."""
    replaces = True
    if op.merges:
        rows, damaged = tx.sound_rows("retention_to_change", name=op.rule.name)
        stored = _readable(rows)
        if stored != op.expected:
            return SettingsChanged()
        replaces = bool(rows or damaged)
    values: dict[str, Any] = msgspec.structs.asdict(op.rule)
    values["statuses"] = ",".join(op.rule.statuses)
    saved = tx.change("save_retention", **values, replaces=int(replaces))
    return None if saved else SettingsChanged()


def remove_retention(tx: Transaction, op: RemoveRetention) -> None:
    """Remove a retention rule. Raises RetentionNotFound."""
    if not tx.change("delete_retention", name=op.name):
        raise RetentionNotFound(name=op.name)


def take_maintenance(tx: Transaction, op: TakeMaintenanceLock) -> bool:
    """Take a maintenance lock, if it is due and free. Return whether it was taken."""
    # Inserts the row if it is missing; the update below decides which session gets the lock.
    tx.change("begin_maintenance", name=op.name)
    return bool(
        tx.change(
            "take_maintenance",
            name=op.name,
            session_id=op.session_id,
            now=tx.now,
            until=tx.now + op.lease,
        )
    )


def end_maintenance(tx: Transaction, op: EndMaintenance) -> None:
    """Release a maintenance lock until it is due again."""
    tx.change(
        "end_maintenance",
        name=op.name,
        session_id=op.session_id,
        now=tx.now,
        until=tx.now + op.pause,
    )
