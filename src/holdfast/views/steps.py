"""Views of the steps of a run, derived from its history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any

import msgspec

from holdfast.core.event_table import WAITING
from holdfast.core.events import EventKind
from holdfast.core.runs import ErrorInfo
from holdfast.views.events import EventView


class StepState(StrEnum):
    """The state of a step."""

    RUNNING = "running"
    WAITING = "waiting"
    COMPLETED = "completed"
    FAILED = "failed"


_ATTEMPTS = (EventKind.STEP_RETRIED, EventKind.STEP_COMPLETED, EventKind.STEP_FAILED)


class MapProgressView(msgspec.Struct, frozen=True):
    """How many children of a ``map`` have ended, and how many there will be."""

    done: int
    total: int


class StepView(msgspec.Struct, kw_only=True):
    """One step of a run: a call of a step function, a timer, a wait, a gate, a child.

    ``id`` is its identity in the history: its path of branches and its name. ``kind`` is the kind
    of its last event. ``attempts`` counts the attempts that have ended."""

    id: str
    name: str
    kind: str
    status: StepState
    attempts: int
    started_at: datetime
    finished_at: datetime | None
    result: Any
    error: ErrorInfo | None
    args: Any = None
    """The arguments of a step that keeps them (``keep_args``): ``args`` and ``kwargs``."""
    progress: MapProgressView | None = None
    """The progress of a ``map`` that has not ended."""


def of(
    history: Sequence[EventView],
    names: Mapping[str, str] | None = None,
    ended: Mapping[str, int] | None = None,
) -> list[StepView]:
    """Return the steps of a history, in the order in which they began. Events that a replay has
    cancelled do not count. *names* are names for people, by the id of the step; a step without one
    is named by the last part of its id. *ended* are the ended children of each ``map``."""
    names = names or {}
    ended = ended or {}
    by_step: dict[str, list[EventView]] = {}
    for event in history:
        if event.step is not None and not event.void:
            by_step.setdefault(event.step, []).append(event)
    return [
        _step(step, names.get(step) or step.rsplit("/", 1)[-1], events, ended.get(step, 0))
        for step, events in by_step.items()
    ]


def state_of(events: Sequence[EventView]) -> StepState:
    """Return the state of a step by its events."""
    if not events or events[-1].kind in (EventKind.STEP_CALLED, EventKind.STEP_STARTED):
        return StepState.RUNNING
    if events[-1].kind in WAITING:
        return StepState.WAITING
    return StepState.COMPLETED if events[-1].error is None else StepState.FAILED


def attempts_of(events: Sequence[EventView]) -> int:
    """Return the number of attempts that have ended."""
    return sum(event.kind in _ATTEMPTS for event in events)


def args_of(events: Sequence[EventView]) -> Any:
    """Return the arguments of a step, as they were recorded last; None if they were not."""
    calls = [event.data for event in events if event.kind == EventKind.STEP_CALLED]
    return calls[-1] if calls else None


def _map_progress(last: EventView, ended: int) -> MapProgressView | None:
    if last.kind != EventKind.MAP_STARTED or not isinstance(last.data, dict):
        return None
    total = last.data.get("count")
    if not isinstance(total, int):
        return None
    return MapProgressView(min(ended, total), total)


def _step(step: str, name: str, events: Sequence[EventView], ended: int) -> StepView:
    status = state_of(events)
    first = events[0]
    last = events[-1]
    has_ended = status in (StepState.COMPLETED, StepState.FAILED)
    return StepView(
        id=step,
        name=name,
        kind=last.kind,
        status=status,
        attempts=attempts_of(events),
        started_at=first.started_at or first.at,
        finished_at=last.at if has_ended else None,
        result=last.data if status is StepState.COMPLETED else None,
        error=last.error if has_ended else None,
        args=args_of(events),
        progress=_map_progress(last, ended),
    )
