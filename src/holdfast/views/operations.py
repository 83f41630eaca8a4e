"""Views of bulk operations."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from holdfast.core.operations import BulkArguments, BulkVerb, OperationRecord, OperationStatus
from holdfast.service.operations import BulkOutcome
from holdfast.views.values import instant, optional_instant


class OperationView(msgspec.Struct, kw_only=True):
    """A bulk operation: how its runs were selected (``filters``), how many they are (``total``),
    how many were changed and how many were refused. ``by`` is the person or program that asked."""

    id: str
    verb: BulkVerb
    status: OperationStatus
    namespace: str | None
    filters: dict[str, Any]
    arguments: dict[str, Any]
    by: str | None
    total: int
    changed: int
    refusals: int
    created_at: datetime
    updated_at: datetime
    finished_at: datetime | None

    @property
    def left(self) -> int:
        """The number of runs without an outcome."""
        return self.total - self.changed - self.refusals


class OperationReportView(msgspec.Struct, kw_only=True):
    """The outcome of a bulk verb: how many runs it was applied to, how many it changed and how many
    were refused; ``done`` has the ids of changed runs, ``refused`` the reasons of refusals by id.
    With more than 10,000 of either, these two have only the first ones.

    After a dry run, which writes nothing, they tell which runs would be changed and refused;
    ``id``, ``status`` and ``operation`` are None then."""

    id: str | None
    verb: BulkVerb
    status: OperationStatus | None
    dry_run: bool
    total: int
    changed: int
    refusals: int
    done: list[str]
    refused: dict[str, str]
    operation: OperationView | None = None


def of(record: OperationRecord) -> OperationView:
    """Return the view of a bulk operation."""
    return OperationView(
        id=record.id,
        verb=record.verb,
        status=record.status,
        namespace=record.namespace,
        filters=record.filters,
        arguments=_shown(record.arguments),
        by=record.asked_by,
        total=record.total,
        changed=record.done,
        refusals=record.refused,
        created_at=instant(record.created_at),
        updated_at=instant(record.updated_at),
        finished_at=optional_instant(record.finished_at),
    )


def report_of(record: OperationRecord, outcome: BulkOutcome) -> OperationReportView:
    """Return the report of an operation with the outcomes of its runs so far."""
    return OperationReportView(
        id=record.id,
        verb=record.verb,
        status=record.status,
        dry_run=False,
        total=record.total,
        changed=record.done,
        refusals=record.refused,
        done=outcome.done,
        refused=outcome.refused,
        operation=of(record),
    )


def preview(verb: BulkVerb, outcome: BulkOutcome) -> OperationReportView:
    """Return the report of a dry run."""
    return OperationReportView(
        id=None,
        verb=verb,
        status=None,
        dry_run=True,
        total=len(outcome.done) + len(outcome.refused),
        changed=len(outcome.done),
        refusals=len(outcome.refused),
        done=outcome.done,
        refused=outcome.refused,
    )


def _shown(arguments: BulkArguments) -> dict[str, Any]:
    """Return the given arguments of a verb."""
    shown: dict[str, Any] = msgspec.to_builtins(arguments)
    return {name: value for name, value in shown.items() if name not in ("limit", "statuses")}
