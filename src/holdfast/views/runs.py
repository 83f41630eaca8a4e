"""Views of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import msgspec

from holdfast.core.runs import CancelCause, ChildRecord, ErrorInfo, RunRecord, StuckCause
from holdfast.core.status import Status
from holdfast.views.attempts import AttemptView
from holdfast.views.events import EventView
from holdfast.views.steps import StepView
from holdfast.views.streams import ProgressView
from holdfast.views.values import Decode, error, instant, optional_instant, value, with_times


class RunView(msgspec.Struct, kw_only=True):
    """A run.

    ``input`` is the list of its arguments, or an object with ``args`` and ``kwargs``. ``waits`` are
    the things that it waits for; each has a ``kind`` and a ``step``. ``worker`` is the name of the
    worker that holds it. ``graph_id`` is the graph that it is a member of; ``schedule`` is the
    schedule that started it, for the tick at ``tick_at``.

    A value that cannot be opened here is a text that says why. In a list of runs, so is a value
    that is kept apart."""

    id: str
    workflow: str
    version: str
    status: Status
    input: Any
    result: Any
    error: ErrorInfo | None
    namespace: str
    lane: str
    capabilities: list[str]
    priority: int
    key: str | None
    tags: dict[str, str]
    worker: str | None
    session_id: str | None
    generation: int
    revision: int
    crashes: int
    waits: list[dict[str, Any]]
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None
    wake_at: datetime | None
    deadline: datetime | None
    parent_id: str | None
    parent_step: str | None
    parent_index: int | None
    on_parent_end: str
    root_id: str | None
    forked_from: str | None
    cancel_reason: str | None
    cancelled_at: datetime | None
    cancelled_by: str | None
    budgets: list[str]
    share: str | None
    graph_id: str | None
    schedule: str | None
    tick_at: datetime | None
    cancel_cause: CancelCause | None
    stuck_cause: StuckCause | None

    def elapsed(self, now: datetime) -> timedelta | None:
        """Return for how long the run has been working, or worked; None before its start."""
        if self.started_at is None:
            return None
        return (self.finished_at or now) - self.started_at


class ChildView(msgspec.Struct, kw_only=True):
    """A child of a run, and the step that started it."""

    id: str
    step: str
    status: Status


class RunDetailView(RunView, kw_only=True):
    """A run with its attempts, progress, children, steps and history. The last attempt is the
    current one."""

    attempts: list[AttemptView]
    progress: ProgressView | None
    children: list[ChildView]
    steps: list[StepView]
    history: list[EventView]
    dry_run: bool = False
    """Whether it is a dry run of a text workflow."""


def of(
    run: RunRecord,
    *,
    worker: str | None = None,
    tags: Mapping[str, str] | None = None,
    decode: Decode = value,
) -> RunView:
    """Return the view of a run whose values are opened. *worker* is the name of its holder;
    *decode* decodes the values of the program."""
    return RunView(
        id=run.id,
        workflow=run.workflow,
        version=run.version,
        status=run.status,
        input=decode(run.input),
        result=decode(run.result),
        error=error(run.error),
        namespace=run.namespace,
        lane=run.lane,
        capabilities=list(run.capabilities),
        priority=run.priority,
        key=run.key,
        tags=dict(tags or {}),
        worker=worker,
        session_id=run.session_id,
        generation=run.generation,
        revision=run.revision,
        crashes=run.crashes,
        waits=_waits(run.waits),
        created_at=instant(run.created_at),
        started_at=optional_instant(run.started_at),
        finished_at=optional_instant(run.finished_at),
        wake_at=optional_instant(run.wake_at),
        deadline=optional_instant(run.deadline),
        parent_id=run.parent_id,
        parent_step=run.parent_step,
        parent_index=run.parent_index,
        on_parent_end=run.on_parent_end,
        root_id=run.root_id,
        forked_from=run.forked_from,
        cancel_reason=run.cancel_reason,
        cancelled_at=optional_instant(run.cancelled_at),
        cancelled_by=run.cancelled_by,
        budgets=list(run.budgets),
        share=run.share,
        graph_id=run.graph_id,
        schedule=run.schedule,
        tick_at=optional_instant(run.tick_at),
        cancel_cause=None if run.cancel_cause is None else CancelCause(run.cancel_cause),
        stuck_cause=None if run.stuck_cause is None else StuckCause(run.stuck_cause),
    )


def _waits(data: bytes | None) -> list[dict[str, Any]]:
    waits = with_times(value(data))
    if not isinstance(waits, list):
        return []
    return [wait for wait in waits if isinstance(wait, dict)]


def child_of(child: ChildRecord) -> ChildView:
    """Return the view of a child."""
    return ChildView(id=child.id, step=child.parent_step, status=child.status)


def details(
    run: RunView,
    *,
    attempts: Sequence[AttemptView],
    progress: ProgressView | None,
    children: Sequence[ChildView],
    steps: Sequence[StepView],
    history: Sequence[EventView],
    dry_run: bool = False,
) -> RunDetailView:
    """Return a run together with everything that belongs to it."""
    fields = {name: getattr(run, name) for name in RunView.__struct_fields__}
    return RunDetailView(
        **fields,
        attempts=list(attempts),
        progress=progress,
        children=list(children),
        steps=list(steps),
        history=list(history),
        dry_run=dry_run,
    )
