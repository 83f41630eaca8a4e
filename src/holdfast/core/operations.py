"""Bulk operations: one verb that is applied to many runs, in portions.

A bulk operation is stored with the ids of its runs, in parts. A portion is one transaction: it
applies the verb to some runs of the current part and records the outcome of each of them. So after
a crash any process continues it, and no run is changed twice or left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import msgspec

from holdfast.core.runs import RunRecord
from holdfast.core.status import FINAL, Move, Status, after
from holdfast.errors import (
    HoldfastError,
    IllegalMove,
    RunFinished,
    RunHasParent,
    RunNotFinished,
    StatusChanged,
)

PART = 200
"""How many runs one part of a bulk operation has: the largest portion."""

TAKEOVER = 10_000_000
"""Microseconds after the last portion from which on any worker continues a bulk operation: the
process that carries it out is dead, or too slow."""


class BulkVerb(StrEnum):
    """A verb that can be applied to many runs."""

    CANCEL = "cancel"
    REPLAY = "replay"
    RESUME = "resume"
    SIGNAL = "signal"
    RELEASE = "release"
    PRIORITISE = "prioritise"
    DELETE = "delete"
    MIGRATE = "migrate"


class OperationStatus(StrEnum):
    """The state of a bulk operation. A stopped one leaves the rest of its runs as they are."""

    RUNNING = "running"
    COMPLETED = "completed"
    STOPPED = "stopped"


class BulkArguments(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The arguments of a verb, except the payload of a signal, which is a value of the user.

    ``statuses`` are the statuses by which the runs were selected: a run that has another one by the
    time of its portion is refused."""

    reason: str | None = None
    force: bool = False
    from_step: str | None = None
    name: str | None = None
    key: str | None = None
    source: str | None = None
    by: str | None = None
    priority: int | None = None
    limit: int | None = None
    version: str | None = None
    """The version to which runs of models move."""
    mapping: dict[str, str] | None = None
    statuses: Sequence[str] = ()


class OperationRecord(msgspec.Struct, kw_only=True):
    """A bulk operation, as stored.

    ``filters`` are the filters by which the caller selected the runs, for people. ``part`` is the
    number of the part that is carried out next, ``revision`` grows with every portion, and at
    ``due_at`` any worker may continue the operation."""

    id: str
    namespace: str | None
    verb: BulkVerb
    status: OperationStatus
    arguments: BulkArguments
    filters: dict[str, Any]
    payload: bytes | None
    asked_by: str | None
    total: int
    done: int
    refused: int
    part: int
    revision: int
    created_at: int
    updated_at: int
    due_at: int | None
    finished_at: int | None


class OperationPart(msgspec.Struct, kw_only=True):
    """Some runs of a bulk operation: the ids of the chosen runs, of the changed ones, of those
    whose change has begun and takes several transactions, and the reasons of refusals by id."""

    operation_id: str
    number: int
    chosen: list[str]
    done: list[str] = []
    begun: list[str] = []
    refused: dict[str, str] = {}

    def left(self) -> list[str]:
        """Return the runs without an outcome, in order."""
        settled = {*self.done, *self.refused}
        return [run_id for run_id in self.chosen if run_id not in settled]


def refusal(verb: BulkVerb, run: RunRecord, statuses: Sequence[str] = ()) -> HoldfastError | None:
    """Return the error that refuses *verb* for a run as it is now; None if its status allows it.

    *statuses* are the ones by which the run was selected, if any.
    """
    if statuses and run.status not in statuses:
        return StatusChanged(run=run.id, status=run.status.value, selected=", ".join(statuses))
    if verb in (BulkVerb.REPLAY, BulkVerb.DELETE):
        if run.status not in FINAL:
            return RunNotFinished(run=run.id, status=run.status.value)
        if verb is BulkVerb.DELETE and run.parent_id is not None:
            return RunHasParent(run=run.id, parent=run.parent_id)
        return None
    if run.status in FINAL:
        return RunFinished(run=run.id, status=run.status.value)
    if verb is BulkVerb.RESUME and not _can_resume(run.status):
        return IllegalMove(run=run.id, status=run.status.value, move="resume")
    return None


def _can_resume(status: Status) -> bool:
    try:
        after(status, Move.RESUME)
    except IllegalMove:
        return False
    return True
