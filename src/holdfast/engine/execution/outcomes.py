"""What an attempt at a step comes to, as an event."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import msgspec

from holdfast.core import retry
from holdfast.core.budgets import rules as budget_rules
from holdfast.core.budgets.model import Breach
from holdfast.core.codec import Codec
from holdfast.core.commands import RunStep
from holdfast.core.events import Event, EventKind
from holdfast.core.program import Program
from holdfast.core.status import Status
from holdfast.engine.execution.pending import PendingStep
from holdfast.engine.runtime.error_data import error_data
from holdfast.errors import BudgetExceeded

ENDED = {
    Status.COMPLETED: EventKind.RUN_COMPLETED,
    Status.FAILED: EventKind.RUN_FAILED,
    Status.CANCELLED: EventKind.RUN_CANCELLED,
    Status.EXPIRED: EventKind.RUN_EXPIRED,
}
"""The last event of a run, by how it ended."""


def end_of(status: Status, error: bytes | None, program: Program | None) -> Event:
    """Return the last event of a run. That of a completed one says how many steps its program was
    given."""
    steps = program.steps if program is not None and status is Status.COMPLETED else 0
    return Event(ENDED[status], data=b'{"steps":%d}' % steps if steps else None, error=error)


def completed(want: PendingStep, value: Any, *, codec: Codec, now: int) -> Event | None:
    """Return the event of an attempt that has returned *value* now; None if that cannot be
    stored."""
    try:
        data = encoded(want.command, value, codec)
    except Exception:
        return None
    event = Event(
        EventKind.STEP_COMPLETED, want.command.id, data, None, want.attempt, want.started_at
    )
    event.at = now
    return event


def event_of(
    want: PendingStep,
    value: Any,
    error: Exception | None,
    started_at: int | None,
    *,
    codec: Codec,
    now: Callable[[], int],
) -> Event:
    """Return the event: completed, failed for good, or to be tried again at an instant."""
    command, data = want.command, None
    if error is None:
        try:
            data = encoded(command, value, codec)
        except Exception as refused:
            error = refused
    if error is None:
        return Event(EventKind.STEP_COMPLETED, command.id, data, None, want.attempt, started_at)
    if isinstance(error, BudgetExceeded) and isinstance(error.breach, Breach):
        return without_room(command.id, error, error.breach, want.attempt, started_at)
    wait = retry.decide(command.policy, error, want.attempt, random.random())
    if wait is None:
        return Event(
            EventKind.STEP_FAILED, command.id, None, error_data(error), want.attempt, started_at
        )
    again = msgspec.json.encode({"until": now() + wait})
    return Event(
        EventKind.STEP_RETRIED, command.id, again, error_data(error), want.attempt, started_at
    )


def without_room(
    step: str, error: BudgetExceeded, breach: Breach, attempt: int, started_at: int | None
) -> Event:
    """Return the event of an attempt that found no room in a budget: it waits for some, or has
    failed."""
    kind = (
        EventKind.STEP_FAILED if breach.on_breach == budget_rules.FAIL else EventKind.STEP_BLOCKED
    )
    told = (
        msgspec.json.encode({"breach": breach, "wanted": error.wanted or {}})
        if kind == EventKind.STEP_BLOCKED
        else None
    )
    return Event(kind, step, told, error_data(error), attempt, started_at)


def encoded(command: RunStep, value: Any, codec: Codec) -> bytes:
    """Return the result of a step as it is stored. Raises NotEncodable, WrongType."""
    data = codec.encode(value, what=f"the result of step {command.name!r}")
    if command.fits is not None:
        command.fits(value, data)
    return data
