"""The outcome of an attempt at a step, as an event."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import msgspec

from holdfast.core import retry
from holdfast.core.budgets.model import Breach, OnBreach
from holdfast.core.codec import Codec
from holdfast.core.commands import RunStep
from holdfast.core.events import Event, EventKind
from holdfast.engine.execution.pending.steps import PendingStep
from holdfast.engine.runtime.error_data import error_data
from holdfast.errors import BudgetExceeded


def completed(step: PendingStep, value: Any, *, codec: Codec, now: int) -> Event | None:
    """Return the event of an attempt that has returned *value* now; None if the value cannot be
    stored."""
    try:
        data = encode_result(step.command, value, codec)
    except Exception:
        return None
    event = Event(
        EventKind.STEP_COMPLETED, step.command.id, data, None, step.attempt, step.started_at
    )
    event.at = now
    event.role = step.command.role
    return event


def event_of(
    step: PendingStep,
    value: Any,
    error: Exception | None,
    started_at: int | None,
    *,
    codec: Codec,
    now: Callable[[], int],
) -> Event:
    """Return the event of an attempt: completed, failed, or to be retried at an instant."""
    command = step.command
    event = Event(EventKind.STEP_COMPLETED, command.id, None, None, step.attempt, started_at)
    event.role = command.role
    if error is None:
        try:
            event.data = encode_result(command, value, codec)
        except Exception as refused:
            error = refused
    if error is None:
        return event
    event.error = error_data(error)
    if isinstance(error, BudgetExceeded) and isinstance(error.breach, Breach):
        outcome = without_room(command.id, error, error.breach, step.attempt, started_at)
        outcome.role = command.role
        return outcome
    wait = retry.decide(command.policy, error, step.attempt, random.random())
    if wait is None:
        event.kind = EventKind.STEP_FAILED
    else:
        event.kind = EventKind.STEP_RETRIED
        event.data = msgspec.json.encode({"until": now() + wait})
    return event


def without_room(
    step: str, error: BudgetExceeded, breach: Breach, attempt: int, started_at: int | None
) -> Event:
    """Return the event of an attempt that found no room in a budget: it waits, or has failed."""
    if breach.on_breach == OnBreach.FAIL:
        return Event(EventKind.STEP_FAILED, step, None, error_data(error), attempt, started_at)
    data = msgspec.json.encode({"breach": breach, "wanted": error.wanted or {}})
    return Event(EventKind.STEP_BLOCKED, step, data, error_data(error), attempt, started_at)


def encode_result(command: RunStep, value: Any, codec: Codec) -> bytes:
    """Return the result of a step as it is stored. Raises NotEncodable, WrongType."""
    data = codec.encode(value, label=f"the result of step {command.name!r}")
    if command.fits is not None:
        command.fits(value, data)
    return data
