"""``@schedule`` and ``scheduled_time``: workflows that start by a rule."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, TypeVar

from holdfast.authoring.python.deterministic import program_here
from holdfast.authoring.python.workflow import Workflow
from holdfast.core.schedules import rules
from holdfast.core.schedules.model import ScheduleDeclaration
from holdfast.core.schedules.time_zones import EPOCH
from holdfast.core.validation import checked_text
from holdfast.errors import BadOption

W = TypeVar("W", bound=Workflow[..., Any])


def schedule(name: str | None = None, /, **options: Any) -> Callable[[W], W]:
    """Start a workflow by a rule: ``@schedule(cron="0 9 * * 1-5", zone="Europe/Berlin")`` above
    ``@workflow``.

    The schedule is named like the workflow unless *name* is given. The options are the same as for
    ``engine.schedules.set``. An engine that knows the workflow writes the schedule to the database
    when it starts to work."""
    checked_text("name", name)
    rules.rule_text(options, options.get("zone", "UTC"))

    def decorate(workflow: W) -> W:
        if not isinstance(workflow, Workflow):
            raise BadOption(option="schedule", value=workflow, why="put @schedule above @workflow")
        workflow.schedules.append(ScheduleDeclaration(name or workflow.name, options))
        return workflow

    return decorate


def scheduled_time() -> datetime | None:
    """Return the time in UTC for which a schedule started this run; None if no schedule did.

    It is the planned time, the same in every replay, even if the run starts late.
    """
    tick_at = program_here("scheduled_time").run.tick_at
    if tick_at is None:
        return None
    return EPOCH + timedelta(microseconds=tick_at)
