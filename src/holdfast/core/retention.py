"""The stored record of a retention rule."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

RUNS = "runs"
"""The target of a rule that deletes whole runs."""


class RetentionRule(msgspec.Struct, kw_only=True):
    """A rule that decides which data of finished runs is deleted, and when. Durations are
    microseconds; ``workflow`` and ``statuses`` select runs as in a filter."""

    name: str
    target: str = RUNS
    workflow: str | None = None
    statuses: tuple[str, ...] = ()
    older_than: int | None = None
    keep_last: int | None = None
    max_bytes: int | None = None


def deleted_at(
    rules: Iterable[RetentionRule], *, workflow: str, status: str, finished_at: int
) -> int | None:
    """Return when the rules delete a run that has ended, at the earliest; None if no rule names a
    time for it. Rules that keep a number of runs or of bytes name none."""
    times = [
        finished_at + rule.older_than
        for rule in rules
        if rule.target == RUNS
        and rule.older_than is not None
        and rule.keep_last is None
        and rule.workflow in (None, workflow)
        and (not rule.statuses or status in rule.statuses)
    ]
    return min(times, default=None)
