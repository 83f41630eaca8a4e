"""The audit log: which person or program did what to the installation."""

from __future__ import annotations

from typing import Any

import msgspec

KEPT = 400 * 86_400_000_000
"""Microseconds for which entries are kept: more than a year."""


class AuditEntry(msgspec.Struct, kw_only=True):
    """One action of an operator. ``action`` is the method, ``subject`` what it was applied to;
    ``namespace`` is None if it concerns the whole installation."""

    id: str
    at: int
    by: str
    action: str
    subject: str
    namespace: str | None
    details: dict[str, Any]


class AuditFilter(msgspec.Struct, kw_only=True):
    """Which entries a query selects. ``before`` is the id of the last entry of the previous
    page."""

    by: str | None = None
    action: str | None = None
    subject: str | None = None
    namespace: str | None = None
    before: str | None = None
    limit: int = 50
