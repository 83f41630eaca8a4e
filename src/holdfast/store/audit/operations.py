"""The operation that records an action in the audit log."""

from __future__ import annotations

from typing import ClassVar

from holdfast.core.audit import AuditEntry
from holdfast.store.database import Operation


class Audited(Operation):
    """Apply an operation, and record in the same transaction who asked for it. An operation that
    is refused or that changes nothing leaves no entry. Without an operation, only record: a
    procedure of several transactions follows.

    Answers:
        the answer of the operation, or None
    Raises:
        whatever the operation raises
    """

    may_refuse_late: ClassVar[bool] = True

    op: Operation | None
    entry: AuditEntry
