"""``@schedule``: a workflow that starts by itself, and what it knows about that."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Any, TypeVar

from holdfast.authoring.python.deterministic import program_here
from holdfast.authoring.python.workflow import Workflow
from holdfast.core.schedules import rules
from holdfast.core.schedules.model import tick_of
from holdfast.core.validation import checked_text
from holdfast.errors import BadOption

W = TypeVar("W", bound=Workflow[..., Any])


def schedule(name: str | None = None, /, **options: Any) -> Callable[[W], W]:
    """Start a workflow by a rule: ``@schedule(cron="0 9 * * 1-5", zone="Europe/Berlin")`` above
    ``@workflow``.

    The schedule is called like the workflow unless it has a name of its own. The options are those
    of ``Engine.schedule``. It is written to the database when an engine that knows the workflow
    begins to work."""
    checked_text("name", name)
    rules.written(options, options.get("zone", "UTC"))

    def decorate(workflow: W) -> W:
        if not isinstance(workflow, Workflow):
            raise BadOption(option="schedule", value=workflow, why="it stands above @workflow")
        workflow.schedules.append((name or workflow.name, options))
        return workflow

    return decorate


def scheduled_time() -> datetime | None:
    """Return the instant for which a schedule started this run, in UTC: the same in every replay,
    however late the run is. None when no schedule started it."""
    found = tick_of(program_here("scheduled_time").run.key)
    return None if found is None else found[1]
