"""Failed runs, grouped by their root cause."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import datetime

import msgspec

from holdfast.core.runs import ErrorInfo, RunRecord
from holdfast.errors.base import raised_of, text_of
from holdfast.views.values import error, instant

_VARYING = re.compile(r"0x[0-9a-f]+|[0-9a-f]{8}-[0-9a-f-]{27}|\d+", re.IGNORECASE)
"""The parts of a message that differ from run to run: addresses, UUIDs, numbers."""


class ErrorGroupView(msgspec.Struct, kw_only=True):
    """Runs of one workflow that ended with the same root cause in the same step.

    ``error`` is the cause of the newest of them, whose id is ``example``. Messages that differ only
    in numbers belong to one group. ``first_at`` and ``last_at`` are the times at which the first
    and the last of them ended."""

    error: str
    workflow: str
    step: str | None
    count: int
    first_at: datetime
    last_at: datetime
    example: str


def grouped(runs: Iterable[RunRecord]) -> list[ErrorGroupView]:
    """Return the groups of these runs, newest first, whose errors are opened; the largest group
    first. Runs without an error are left out."""
    groups: dict[tuple[str, str | None, str], ErrorGroupView] = {}
    for run in runs:
        info = error(run.error)
        if info is None:
            continue
        cause = _cause(info)
        step = text_of(info.facts, "step") or None
        at = instant(run.finished_at or run.created_at)
        key = (run.workflow, step, _VARYING.sub("#", cause))
        group = groups.get(key)
        if group is None:
            groups[key] = ErrorGroupView(
                error=cause,
                workflow=run.workflow,
                step=step,
                count=1,
                first_at=at,
                last_at=at,
                example=run.id,
            )
            continue
        group.count += 1
        group.first_at = min(group.first_at, at)
        group.last_at = max(group.last_at, at)
    return sorted(groups.values(), key=lambda group: -group.count)


def _cause(info: ErrorInfo) -> str:
    cause = info.cause or raised_of({"type": info.type, "message": info.message})
    return " ".join(cause.split())
