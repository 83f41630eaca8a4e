"""The stored record of a retention rule."""

from __future__ import annotations

import msgspec


class RetentionRule(msgspec.Struct, kw_only=True):
    """A rule that decides which data of finished runs is deleted, and when. Durations are
    microseconds; ``workflow`` and ``statuses`` select runs as in a filter."""

    name: str
    target: str = "runs"
    workflow: str | None = None
    statuses: tuple[str, ...] = ()
    older_than: int | None = None
    keep_last: int | None = None
    max_bytes: int | None = None
