"""Views of the steps of a run, derived from its history."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

import msgspec

from holdfast.core.event_table import WAITING
from holdfast.core.events import Event, EventKind
from holdfast.core.runs import ErrorInfo
from holdfast.views.events import EventView
from holdfast.views.values import instant, optional_instant


class StepState(StrEnum):
    """The state of a step."""

    RUNNING = "running"
    WAITING = "waiting"
    COMPLETED = "completed"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"


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


class TextStepView(StepView, kw_only=True):
    """One step of a run of a text workflow. It can also be read like a mapping.

    ``step`` is the key that conditions use, ``kind`` the kind of the node, ``error`` the last
    message. ``items`` are the items of a foreach, each with its child run."""

    step: str
    iteration: list[int]
    markers: list[str]
    context: str
    output: Any
    error: str | None = None  # type: ignore[assignment]
    handled: str | None
    always: bool
    gate: str | None
    run: str | None
    items: list[dict[str, Any]] | None
    metrics: dict[str, float] | None

    def __getitem__(self, name: str) -> Any:
        if name not in self.__struct_fields__:
            raise KeyError(name)
        return getattr(self, name)

    def get(self, name: str, default: Any = None) -> Any:
        """Return a field, else *default*."""
        return getattr(self, name) if name in self.__struct_fields__ else default

    def keys(self) -> tuple[str, ...]:
        """Return the names of the fields."""
        return self.__struct_fields__


class DescribedStep(Protocol):
    """A step as its front end describes it, with times in microseconds."""

    @property
    def started_at(self) -> int | None: ...

    @property
    def ended_at(self) -> int | None: ...


_DESCRIBED = [
    *("step", "kind", "id", "iteration", "attempts", "markers", "context", "output"),
    *("error", "handled", "always", "gate", "run", "items", "metrics"),
]


def described(step: DescribedStep) -> TextStepView:
    """Return the view of a step of a text."""
    fields = {name: getattr(step, name) for name in _DESCRIBED}
    return TextStepView(
        **fields,
        name=fields["step"],
        status=StepState(getattr(step, "status")),  # noqa: B009
        started_at=instant(step.started_at or 0),
        finished_at=optional_instant(step.ended_at),
        result=fields["output"],
    )


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


def state_of(events: Sequence[EventView] | Sequence[Event]) -> StepState:
    """Return the state of a step by its events."""
    if not events or events[-1].kind in (EventKind.STEP_CALLED, EventKind.STEP_STARTED):
        return StepState.RUNNING
    if events[-1].kind in WAITING:
        return StepState.WAITING
    return StepState.COMPLETED if events[-1].error is None else StepState.FAILED


def attempts_of(events: Sequence[EventView] | Sequence[Event]) -> int:
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
