"""Start, carry out and stop bulk operations.

A portion locks its runs in the order of their ids, then the row of the bulk operation. Two
processes that carry out the same operation therefore wait for each other; the second one finds that
the operation has moved on, and writes nothing.
"""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.core.operations import TAKEOVER, OperationPart, OperationRecord, OperationStatus
from holdfast.errors import OperationNotFound
from holdfast.store.database import Row, Transaction
from holdfast.store.operations.operations import (
    CarriedOut,
    CarryOut,
    ResealOperation,
    StartOperation,
    StopOperation,
)
from holdfast.store.operations.queries import operation_from, part_from
from holdfast.store.operations.verbs import Portion, apply_verb
from holdfast.store.rows import as_dict
from holdfast.store.soundness import damaged
from holdfast.store.stored_json import wrong_json

KEPT = 30 * 86_400_000_000
"""Microseconds for which an operation that has ended is kept."""

OLD = 5
"""How many old operations the start of another one deletes at most."""


def start_operation(tx: Transaction, op: StartOperation) -> OperationRecord:
    """Store a bulk operation and its parts, unless it is stored already, and delete some that ended
    long ago."""
    record = msgspec.structs.replace(
        op.record, created_at=tx.now, updated_at=tx.now, due_at=tx.now + op.take_over
    )
    _complete_if_done(record, tx.now)
    if not tx.change("insert_operation", **_operation_row(record)):
        return _load(tx, record.id)  # two requests with the same key at the same time
    tx.many("insert_operation_part", [_part_row(part) for part in op.parts])
    for row in tx.rows("old_operations", before=tx.now - KEPT, limit=OLD):
        tx.change("delete_operation_parts", operation_id=row["id"])
        tx.change("delete_operation", operation_id=row["id"])
    return record


def carry_out(tx: Transaction, op: CarryOut) -> CarriedOut:
    """Apply the verb to the runs of a portion, and record their outcomes. Raises OperationNotFound,
    RowDamaged."""
    run_ids = sorted(action.run_id for action in op.actions if action.op is not None)
    states, damages = tx.sound_rows("states_by_id", ids=tx.as_list(run_ids))
    record = _load(tx, op.operation_id)
    # Under the lock: another process may have carried out this portion meanwhile.
    if record.status is not OperationStatus.RUNNING or record.revision != op.revision:
        return CarriedOut(record, written=False)
    part = _load_part(tx, record)
    portion = Portion({state["id"]: state for state in states}, damages, set(part.begun))
    apply_verb(tx, op.actions, portion)
    _record_outcomes(tx, record, part, portion)
    return CarriedOut(record, written=True, open=portion.open)


def _record_outcomes(
    tx: Transaction, record: OperationRecord, part: OperationPart, portion: Portion
) -> None:
    """Add the outcomes of a portion to its part, and move the operation on."""
    part.done = [*part.done, *portion.done]
    part.refused = {**part.refused, **portion.refused}
    # A run that needs several transactions is begun by each of them.
    part.begun = [*dict.fromkeys([*part.begun, *portion.begun])]
    tx.change("save_operation_part", **_outcome_row(part))
    record.done += len(portion.done)
    record.refused += len(portion.refused)
    record.revision += 1
    record.updated_at = tx.now
    record.due_at = tx.now + TAKEOVER
    if not part.left():
        record.part += 1
    _complete_if_done(record, tx.now)
    _save(tx, record)


def stop_operation(tx: Transaction, op: StopOperation) -> OperationRecord:
    """Stop a bulk operation; a portion that was prepared for it writes nothing any more."""
    record = _load(tx, op.operation_id)
    if op.namespace not in (None, record.namespace):
        raise OperationNotFound(operation=op.operation_id)
    if record.status is OperationStatus.RUNNING:
        record.revision += 1
        record.updated_at = tx.now
        _end(record, OperationStatus.STOPPED, tx.now)
        _save(tx, record)
    return record


def reseal_operation(tx: Transaction, op: ResealOperation) -> bool:
    """Replace the payload of a bulk operation by the same payload under another seal."""
    changed = tx.change("reseal_operation", operation_id=op.operation_id, old=op.old, new=op.new)
    return bool(changed)


def _load(tx: Transaction, operation_id: str) -> OperationRecord:
    rows = tx.rows("operation_to_change", operation_id=operation_id)
    if not rows:
        raise OperationNotFound(operation=operation_id)
    _check_json("operation", {"id": operation_id}, rows[0])
    return operation_from(rows[0])


def _load_part(tx: Transaction, record: OperationRecord) -> OperationPart:
    rows = tx.rows("operation_part", operation_id=record.id, number=record.part)
    if not rows:
        raise OperationNotFound(operation=record.id, part=record.part)
    place = {"operation_id": record.id, "number": record.part}
    _check_json("operation_part", place, rows[0])
    return part_from(rows[0])


def _check_json(table: str, place: dict[str, Any], row: Row) -> None:
    """Raise RowDamaged if the JSON of a row cannot be read."""
    for column, why in wrong_json(table, as_dict(row)):
        raise damaged(table, place, column, why)


def _complete_if_done(record: OperationRecord, now: int) -> None:
    if record.done + record.refused >= record.total:
        _end(record, OperationStatus.COMPLETED, now)


def _end(record: OperationRecord, status: OperationStatus, now: int) -> None:
    record.status = status
    record.finished_at = now
    record.due_at = None
    record.payload = None


def _save(tx: Transaction, record: OperationRecord) -> None:
    tx.change(
        "save_operation",
        id=record.id,
        status=record.status,
        payload=record.payload,
        done=record.done,
        refused=record.refused,
        part=record.part,
        revision=record.revision,
        updated_at=record.updated_at,
        due_at=record.due_at,
        finished_at=record.finished_at,
    )


def _operation_row(record: OperationRecord) -> dict[str, object]:
    row: dict[str, object] = msgspec.structs.asdict(record)
    row["arguments"] = msgspec.json.encode(record.arguments)
    row["filters"] = msgspec.json.encode(record.filters)
    return row


def _part_row(part: OperationPart) -> dict[str, object]:
    return {**_outcome_row(part), "chosen": msgspec.json.encode(part.chosen)}


def _outcome_row(part: OperationPart) -> dict[str, object]:
    return {
        "operation_id": part.operation_id,
        "number": part.number,
        "done": msgspec.json.encode(part.done),
        "begun": msgspec.json.encode(part.begun),
        "refused": msgspec.json.encode(part.refused),
    }
