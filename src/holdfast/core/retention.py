"""Retention rules, as they are stored."""

from __future__ import annotations

import msgspec


class RetentionRule(msgspec.Struct, kw_only=True):
    """A rule for what of finished runs is deleted, and when. Times are microseconds, ``statuses``
    and names as in a filter."""

    name: str
    what: str = "runs"
    workflow: str | None = None
    statuses: tuple[str, ...] = ()
    older_than: int | None = None
    keep_last: int | None = None
    max_bytes: int | None = None
