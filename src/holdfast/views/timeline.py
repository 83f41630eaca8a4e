"""The timeline of a run: its history as rows in time.

A row is a step, a wait, a gate, a child, a fan-out, the loss of a worker, or an event of the run as
a whole. A compensation is below the step that it undoes. Calls of one name in one branch are one
row with counts (``views.folding``); ``opens`` says that a row can be unfolded, by page. A page has
at most 500 rows, whatever the size of the history, and only the values of its rows are read: the
rest of the history is needed as an outline, without values.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime

import msgspec

from holdfast.core import commands as c
from holdfast.core.event_table import EVENTS, STEP_ENDS
from holdfast.core.events import Event, EventKind, is_compensation
from holdfast.errors import BadOption, StepNotFound
from holdfast.views.events import EventView, history_of
from holdfast.views.folding import (
    FoldedCalls,
    Item,
    StepNode,
    map_size,
    start_of,
    tree_of,
    unfolded,
    walk,
)
from holdfast.views.history import Opened, outcome, shown_state
from holdfast.views.runs import RunView
from holdfast.views.steps import StepState, attempts_of
from holdfast.views.text import error_line
from holdfast.views.values import instant, optional_instant

MOST_ROWS = 500
"""The maximum number of rows of one page."""

MOST_ATTEMPTS = 50
"""The attempts at a step that a row shows: the last ones. A step may be retried for months."""

_EVENTS_OF_A_ROW = 3 * MOST_ATTEMPTS
"""The events of a step that are opened; an attempt has at most three."""

_KINDS: dict[type | None, str] = {
    c.RunStep: "step",
    c.SetTimer: "sleep",
    c.AwaitSignal: "signal",
    c.CreateWait: "wait",
    c.AwaitCondition: "wait",
    c.Subscribe: "wait",
    c.RaiseIncident: "incident",
    c.OpenGate: "gate",
    c.StartChild: "child",
    c.AwaitChild: "child",
    c.StartMap: "map",
}
"""The kind of a row by the command that its first event belongs to; the others are notes."""

_KIND_OF_EVENT = {row.kind: _KINDS.get(row.command, "note") for row in EVENTS}

_OF_OPERATORS = (EventKind.LEASE_LOST, EventKind.PRIORITY_CHANGED, EventKind.CANCEL_REQUESTED)
"""Kinds of events after the loss of a worker that do not prove that another one is at work."""


class TimelineAttemptView(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An attempt at a step before the last one. ``state`` is "failed", or "lost" if its worker was
    lost."""

    number: int
    state: str
    started_at: datetime | None
    ended_at: datetime | None
    error: str = ""


class TimelineRowView(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One row of a timeline.

    ``kind`` is step, sleep, signal, wait, incident, gate, child, map, branch, crash or note.
    ``state`` is running, waiting, completed, failed, left (not finished when the run ended),
    compensated (a compensation that has completed), lost (a worker) or recorded (an event of the
    run). A row without ``ended_at`` lasts. ``attempts`` are attempts before the last one, at most
    50. ``count`` is the number of calls or children that the row stands for, ``counts`` their
    number by state. The row of a compensation is below the step that it undoes, if that is
    recorded."""

    id: str
    kind: str
    name: str
    state: str
    depth: int
    started_at: datetime | None
    ended_at: datetime | None
    attempt: int = 1
    attempts: list[TimelineAttemptView] = []
    note: str = ""
    error: str = ""
    count: int = 1
    counts: dict[str, int] = {}
    opens: bool = False
    run: str | None = None
    worker: str | None = None
    is_compensation: bool = False


class TimelineView(msgspec.Struct, kw_only=True):
    """A page of the rows of a run. ``next`` is the id of the row to continue after, None at the
    end; ``events`` is the number of events in the history. ``now`` is the time of the database."""

    run: str
    now: datetime
    started_at: datetime | None
    ended_at: datetime | None
    events: int
    rows: list[TimelineRowView]
    next: str | None


ChildRows = Callable[[str, int, int], Sequence[RunView]]
"""Return the children of a ``map``, by its step, from an index on, at most a number of them."""


def of(
    run: RunView,
    history: Sequence[Event],
    now: datetime,
    *,
    opened: Opened = history_of,
    open: str | None = None,
    after: str | None = None,
    limit: int = MOST_ROWS,
    children: ChildRows = lambda step, first, limit: [],
) -> TimelineView:
    """Return a page of the timeline of a run. *open* is the id of a row to unfold: the page then
    has the rows below it. Raises StepNotFound, BadOption."""
    if not 1 <= limit <= MOST_ROWS:
        raise BadOption(option="limit", value=limit, why=f"give a number from 1 to {MOST_ROWS}")
    rows = _Rows(run, history, opened)
    if open is not None and rows.is_map(open):
        page = rows.children_of_map(open, after, limit, children)
    else:
        page = rows.page(open, after, limit)
    last = None
    if len(page) > limit:
        last = page[limit - 1].id
    return TimelineView(
        run=run.id,
        now=now,
        started_at=run.started_at,
        ended_at=run.finished_at,
        events=len(history),
        rows=page[:limit],
        next=last,
    )


class _Rows:
    """Makes the rows of one run."""

    def __init__(self, run: RunView, history: Sequence[Event], opened: Opened) -> None:
        self._run: RunView = run
        self._history: Sequence[Event] = history
        self._opened: Opened = opened
        self._root: StepNode = tree_of(history, run.waits)
        self._losses: list[int] = [
            event.at for event in history if event.kind == EventKind.LEASE_LOST
        ]
        self._views: dict[int, EventView] = {}
        """The opened events of the page, by their numbers."""

    # Pages

    def page(self, open: str | None, after: str | None, limit: int) -> list[TimelineRowView]:
        """Return the rows after the row *after*, one more than *limit* if there are more. Raises
        StepNotFound."""
        page: list[tuple[Item, int]] = []
        skips = after is not None
        for item, depth in self._items(open):
            if skips:
                skips = item.id != after
            elif len(page) <= limit:
                page.append((item, depth))
            else:
                break
        if skips:
            raise StepNotFound(run=self._run.id, step=after)
        self._open_values(page)
        return [self._row(item, depth) for item, depth in page]

    def _open_values(self, page: Sequence[tuple[Item, int]]) -> None:
        """Open the values of the events of a page, all with one call: they may have to be read."""
        events = [
            event for item, _ in page if isinstance(item, StepNode) for event in _shown_events(item)
        ]
        self._views = {view.seq: view for view in self._opened(events)}

    def _events(self, node: StepNode) -> list[EventView]:
        views = [self._views.get(event.seq) for event in _shown_events(node)]
        return [view for view in views if view is not None]

    def _items(self, open: str | None) -> Iterator[tuple[Item, int]]:
        if open is None:
            yield from walk(self._root)
            return
        calls = unfolded(self._root, open)
        if calls is None:
            raise StepNotFound(run=self._run.id, step=open)
        for call in calls:
            yield call, 0
            yield from walk(call, 1)

    def is_map(self, step: str) -> bool:
        """Return whether a step is a ``map``, whose children are runs."""
        calls = self._root.below.get(step)
        if calls is None:
            parent = unfolded(self._root, step.rpartition("/")[0]) or []
            calls = next((node for node in parent if node.step == step), None)
        return calls is not None and _is_map(calls)

    def children_of_map(
        self, step: str, after: str | None, limit: int, children: ChildRows
    ) -> list[TimelineRowView]:
        """Return the rows of the children of a ``map``, one more than *limit* if there are more.
        Raises StepNotFound."""
        first = 0
        if after is not None:
            number = after.removeprefix(f"{step}[").removesuffix("]")
            if not number.isdecimal():
                raise StepNotFound(run=self._run.id, step=after)
            first = int(number) + 1
        return [_child_row(step, child) for child in children(step, first, limit + 1)]

    # Rows

    def _row(self, item: Item, depth: int) -> TimelineRowView:
        if isinstance(item, FoldedCalls):
            return self._folded(item, depth)
        if item.is_run_event:
            return self._run_event(item, depth)
        events = self._events(item)
        state = shown_state(item, self._run)
        undoes = bool(item.events) and is_compensation(item.events[0].role)
        if undoes and state == "completed":
            state = "compensated"
        row = TimelineRowView(
            id=item.id,
            kind=_kind(item),
            name=item.name,
            state=state,
            depth=depth,
            started_at=optional_instant(item.start),
            ended_at=optional_instant(item.end),
            attempts=self._attempts(events)[-MOST_ATTEMPTS:],
            count=_children_count(item),
            opens=_is_map(item),
            run=_child_run(events),
            is_compensation=undoes,
        )
        if state == "left":
            row.ended_at = self._run.finished_at
        if not item.is_branch:
            row.note = outcome(events, item.wait, attempts_of(item.events))
        if events:
            row.attempt = events[-1].attempt
            row.error = error_line(events[-1].error)
        return row

    def _folded(self, item: FoldedCalls, depth: int) -> TimelineRowView:
        plain = [call.events[0] for call in item.calls if call.is_plain]
        others = [call for call in item.calls if not call.is_plain]
        counts = Counter(shown_state(call, self._run) for call in others)
        if plain:
            counts["completed"] += len(plain)
        state = next(state for state in _BY_WEIGHT if counts[state])
        undone = sum(any(map(_has_undone, call.below.values())) for call in others)
        if undone:
            counts["compensated"] = undone
        starts = [start_of(event) for event in plain]
        starts += [call.start for call in others if call.start is not None]
        ends = [event.at for event in plain]
        ends += [call.end for call in others if call.end is not None]
        if counts["running"] or counts["waiting"]:
            ends = []
        return TimelineRowView(
            id=item.id,
            kind=_kind(item.calls[0]),
            name=item.name,
            state=state,
            depth=depth,
            started_at=optional_instant(min(starts, default=None)),
            ended_at=optional_instant(max(ends, default=None)),
            count=len(item.calls),
            counts={name: number for name, number in counts.items() if number},
            opens=True,
        )

    def _run_event(self, node: StepNode, depth: int) -> TimelineRowView:
        events = self._events(node)
        if not events:  # the history was deleted while it was read
            events = history_of([msgspec.structs.replace(node.events[0], data=None, error=None)])
        (event,) = events
        row = TimelineRowView(
            id=node.id,
            kind="note",
            name=event.kind.replace("_", " "),
            state="recorded",
            depth=depth,
            started_at=event.at,
            ended_at=event.at,
            note=outcome([event], None),
            error=error_line(event.error),
        )
        if event.kind in (EventKind.RUN_FAILED, EventKind.RUN_STUCK, EventKind.RUN_EXPIRED):
            row.state = "failed"
        elif event.kind == EventKind.LEASE_LOST:
            row.kind = "crash"
            row.name = "worker lost"
            row.state = "lost"
            row.ended_at = self._takeover(event)
            if isinstance(event.data, dict):
                row.worker = event.data.get("worker")
        return row

    def _takeover(self, loss: EventView) -> datetime | None:
        """Return the time at which another worker continued the run; None if none has yet."""
        for event in self._history:
            if event.seq > loss.seq and event.kind not in _OF_OPERATORS:
                return max(instant(start_of(event)), loss.at)
        return None

    def _attempts(self, events: Sequence[EventView]) -> list[TimelineAttemptView]:
        """Return the attempts at a step before the last one, in order."""
        attempts: list[TimelineAttemptView] = []
        noted: EventView | None = None
        for event in events:
            is_end = event.kind in STEP_ENDS or event.kind == EventKind.STEP_RETRIED
            if event.kind != EventKind.STEP_STARTED and not is_end:
                continue
            if noted is not None and noted.started_at != event.started_at:
                attempts.append(self._lost_attempt(noted))
            noted = None
            if event.kind == EventKind.STEP_STARTED:
                noted = event
            elif event.kind == EventKind.STEP_RETRIED:
                attempts.append(_failed_attempt(event))
        return attempts

    def _lost_attempt(self, noted: EventView) -> TimelineAttemptView:
        """Return an attempt whose worker was lost before the attempt ended."""
        lost_at = next((instant(at) for at in self._losses if instant(at) >= noted.at), None)
        return TimelineAttemptView(
            number=noted.attempt, state="lost", started_at=noted.started_at, ended_at=lost_at
        )


_BY_WEIGHT = ("running", "waiting", "failed", "left", "completed")


def _shown_events(node: StepNode) -> list[Event]:
    """Return the events whose values a row needs: the first one, which began it, and the last."""
    if len(node.events) <= _EVENTS_OF_A_ROW:
        return node.events
    return [node.events[0], *node.events[1 - _EVENTS_OF_A_ROW :]]


def _has_undone(node: StepNode) -> bool:
    is_undo = bool(node.events) and is_compensation(node.events[0].role)
    return is_undo and node.state is StepState.COMPLETED


def _failed_attempt(event: EventView) -> TimelineAttemptView:
    return TimelineAttemptView(
        number=event.attempt,
        state="failed",
        started_at=event.started_at,
        ended_at=event.at,
        error=error_line(event.error),
    )


def _kind(node: StepNode) -> str:
    if node.events:
        return _KIND_OF_EVENT.get(node.events[0].kind, "note")
    if node.wait is None:
        return "branch"
    return _WAITS.get(str(node.wait.get("kind")), "wait")


_WAITS = {
    "timer": "sleep",
    "signal": "signal",
    "gate": "gate",
    "incident": "incident",
    "retry": "step",
    "budget": "step",
    "child": "child",
    "children": "map",
}


def _is_map(node: StepNode) -> bool:
    return any(event.kind == EventKind.MAP_STARTED for event in node.events)


def _children_count(node: StepNode) -> int:
    for event in node.events:
        if event.kind == EventKind.MAP_STARTED:
            return map_size(event)
    return 1


def _child_run(events: Sequence[EventView]) -> str | None:
    for event in events:
        if event.kind == EventKind.CHILD_STARTED and isinstance(event.data, Mapping):
            return str(event.data.get("run"))
    return None


def _child_row(step: str, child: RunView) -> TimelineRowView:
    """Return the row of one child of a ``map``."""
    return TimelineRowView(
        id=f"{step}[{child.parent_index}]",
        kind="child",
        name=child.workflow,
        state=child.status.value,
        depth=0,
        started_at=child.started_at,
        ended_at=child.finished_at,
        error=error_line(child.error),
        run=child.id,
    )
