"""Queries about the audit log."""

from __future__ import annotations

import msgspec

from holdfast.core.audit import AuditEntry, AuditFilter
from holdfast.store.audit.apply import entry_from
from holdfast.store.reader import Reader


class AuditQueries:
    """Queries about the audit log."""

    def __init__(self, reader: Reader) -> None:
        self._reader: Reader = reader

    def find(self, which: AuditFilter) -> list[AuditEntry]:
        """Return entries from new to old."""
        return self._reader.listed(entry_from, "audit_entries", **msgspec.structs.asdict(which))
