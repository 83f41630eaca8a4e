"""Views of events: the lines of one run's history, and the events of all runs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from holdfast.core.event_table import TIMED
from holdfast.core.events import Event, EventRole, is_compensation, undone_step
from holdfast.core.history import live_events
from holdfast.core.runs import ErrorInfo
from holdfast.core.subscriptions import RunEvent
from holdfast.views.values import Decode, error, instant, optional_instant, value, with_times


class EventView(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One line of a run's history. ``void`` says that a replay has cancelled it; its JSON has the
    field only then."""

    seq: int
    kind: str
    step: str | None
    at: datetime
    started_at: datetime | None
    attempt: int
    data: Any
    error: ErrorInfo | None
    role: str | None = None
    undoes: str | None = None
    """The step that a compensation undoes, if that is recorded."""
    void: bool = False


class RunEventView(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An event as subscribers read it. ``cursor`` is the position to continue from. ``result`` is
    the result of a completed run, if the reader asked for it. With the ``source`` graphs or flows,
    ``run_id`` is the id of the graph or flow, ``workflow`` the name of the graph or the controller
    of the flow, and ``step`` the member of the graph."""

    run_id: str
    namespace: str
    workflow: str
    seq: int
    kind: str
    step: str | None
    attempt: int
    data: Any
    error: ErrorInfo | None
    started_at: datetime | None
    at: datetime
    cursor: str
    role: str | None = None
    undoes: str | None = None
    result: Any = None
    source: str = "runs"


def of(event: Event, *, void: bool = False, decode: Decode = value) -> EventView:
    """Return the view of an event whose values are opened; *decode* decodes the values of the
    program."""
    return EventView(
        seq=event.seq,
        kind=event.kind,
        step=event.step,
        at=instant(event.at),
        started_at=optional_instant(event.started_at),
        attempt=event.attempt,
        data=_data(event, decode),
        error=error(event.error),
        role=_role(event.role),
        undoes=undone_step(event.role),
        void=void,
    )


def history_of(
    events: Sequence[Event], decode: Decode = value, later: Sequence[Event] = ()
) -> list[EventView]:
    """Return the views of a history, in which replays have cancelled events; *decode* decodes the
    values of the program. If *events* are a part of it, *later* are the replays after them."""
    live = {event.seq for event in live_events([*events, *later])}
    return [of(event, void=event.seq not in live, decode=decode) for event in events]


def of_run(event: RunEvent) -> RunEventView:
    """Return the view of an event of the stream of all runs, whose values are opened."""
    return RunEventView(
        run_id=event.run_id,
        namespace=event.namespace,
        workflow=event.workflow,
        seq=event.seq,
        kind=event.kind,
        step=event.step,
        attempt=event.attempt,
        data=_data(event),
        error=error(event.error),
        started_at=optional_instant(event.started_at),
        at=instant(event.at),
        cursor=event.cursor,
        role=_role(event.role),
        undoes=undone_step(event.role),
        result=value(event.result),
        source=event.source,
    )


def _role(role: str | None) -> str | None:
    return EventRole.COMPENSATION if is_compensation(role) else role


def _data(event: Event | RunEvent, decode: Decode = value) -> Any:
    return with_times(value(event.data)) if event.kind in TIMED else decode(event.data)
