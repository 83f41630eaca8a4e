"""Apply operations that are recorded in the audit log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from holdfast.core import typed_json
from holdfast.core.audit import KEPT, AuditEntry
from holdfast.store.audit.operations import Audited
from holdfast.store.database import Row, SettingsChanged, Transaction

Appliers = Mapping[type, Callable[[Any, Any], Any]]


def audited(appliers: Appliers) -> Callable[[Transaction, Audited], Any]:
    """Return the function that applies audited operations with the given functions."""

    def apply(tx: Transaction, op: Audited) -> Any:
        answer = None if op.op is None else appliers[type(op.op)](tx, op.op)
        if answer is not False and not isinstance(answer, SettingsChanged):
            _record(tx, op.entry)
        return answer

    return apply


def _record(tx: Transaction, entry: AuditEntry) -> None:
    tx.change("forget_old_audit_entries", before=tx.now - KEPT)
    tx.change(
        "insert_audit_entry",
        id=entry.id,
        at=tx.now,
        asked_by=entry.by,
        action=entry.action,
        subject=entry.subject,
        namespace=entry.namespace,
        details=msgspec.json.encode(entry.details, enc_hook=str),
    )


def entry_from(row: Row) -> AuditEntry:
    """Return the entry of a row."""
    return AuditEntry(
        id=row["id"],
        at=row["at"],
        by=row["asked_by"],
        action=row["action"],
        subject=row["subject"],
        namespace=row["namespace"],
        details=typed_json.decode(bytes(row["details"]), dict[str, Any]),
    )
