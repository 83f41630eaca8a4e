"""Views of schedules and of their ticks."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import msgspec

from holdfast.core.schedules import rules
from holdfast.core.schedules.model import Schedule, Tick
from holdfast.views.values import instant, optional_instant, optional_span, span, value


class ScheduleView(msgspec.Struct, kw_only=True):
    """A rule that starts runs at given times.

    ``paused`` is the reason for a pause; None if the schedule is not paused. ``waiting`` are the
    queued ticks. ``note`` says why the last tick that started no run did not."""

    name: str
    namespace: str
    workflow: str
    version: str
    lane: str
    capabilities: list[str]
    arguments: Any
    priority: int
    tags: dict[str, str]
    deadline: timedelta | None
    rule: dict[str, Any]
    zone: str
    overlap: str
    queue_limit: int
    misfire: str
    catch_up: int
    grace: timedelta
    jitter: timedelta
    origin: str
    paused: str | None
    next_at: datetime | None
    last_at: datetime | None
    waiting: list[datetime]
    started: int
    skipped: int
    note: str | None
    created_at: datetime
    text: str
    """The rule in words."""


class TickView(msgspec.Struct, kw_only=True):
    """One instant of a schedule, its run, if any, and whether this call has started that run."""

    at: datetime
    run: str | None
    created: bool


def of(schedule: Schedule) -> ScheduleView:
    """Return the view of a schedule."""
    return ScheduleView(
        name=schedule.name,
        namespace=schedule.namespace,
        workflow=schedule.workflow,
        version=schedule.version,
        lane=schedule.lane,
        capabilities=list(schedule.capabilities),
        arguments=value(schedule.input),
        priority=schedule.priority,
        tags=schedule.tags,
        deadline=optional_span(schedule.deadline),
        rule=value(schedule.rule.encode()),
        zone=schedule.zone,
        overlap=schedule.overlap,
        queue_limit=schedule.queue_limit,
        misfire=schedule.misfire,
        catch_up=schedule.catch_up,
        grace=span(schedule.grace),
        jitter=span(schedule.jitter),
        origin=schedule.origin,
        paused=schedule.paused,
        next_at=optional_instant(schedule.next_at),
        last_at=optional_instant(schedule.last_at),
        waiting=[instant(tick) for tick in schedule.queued],
        started=schedule.started,
        skipped=schedule.skipped,
        note=schedule.note,
        created_at=instant(schedule.created_at),
        text=rules.describe_rule(schedule.rule),
    )


def tick_of(tick: Tick) -> TickView:
    """Return the view of a tick."""
    return TickView(at=instant(tick.at), run=tick.run, created=tick.created)
