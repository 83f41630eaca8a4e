"""Views of the audit log."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from holdfast.core.audit import AuditEntry
from holdfast.views.values import instant


class AuditEntryView(msgspec.Struct, kw_only=True):
    """An action of an operator: when, by which person or program, which method, applied to what.
    ``namespace`` is None if it concerns the whole installation."""

    id: str
    at: datetime
    by: str
    action: str
    subject: str
    namespace: str | None
    details: dict[str, Any]


def of(entry: AuditEntry) -> AuditEntryView:
    """Return the view of an entry."""
    return AuditEntryView(
        id=entry.id,
        at=instant(entry.at),
        by=entry.by,
        action=entry.action,
        subject=entry.subject,
        namespace=entry.namespace,
        details=entry.details,
    )
