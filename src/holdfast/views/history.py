"""The history of a run for people: a tree of its steps.

Each step is a node; its failed attempts and its child runs are drawn below it. ``TEXTS`` has one
row per kind of event.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from holdfast.core.events import Event, EventKind, EventRole
from holdfast.core.status import Status
from holdfast.views.events import EventView, history_of
from holdfast.views.folding import FoldedCalls, Item, StepNode, items, tree_of
from holdfast.views.runs import RunView
from holdfast.views.steps import StepState, args_of, attempts_of
from holdfast.views.text import TIMES, Tree, brief, error_line, payload, seconds, short

CHILDREN = 20
"""The maximum number of children that are shown for one step."""

FAILED_CALLS = 5
"""The maximum number of failed calls that are shown below folded calls."""

ChildrenOf = Callable[[str, str | None], list[RunView]]
"""Return the children of a run, of one step or (with None) of all, oldest first; at most one more
than is shown."""

_STYLES = {
    "completed": "green",
    "failed": "red",
    "undone": "yellow",
    "running": "cyan",
    "waiting": "blue",
    "left": "dim",
}
_SIGNS = {
    "completed": "✓",
    "failed": "✗",
    "undone": "↩",
    "running": "▸",
    "waiting": "…",
    "left": "-",
    "note": "·",
}
_BY_WEIGHT = ("running", "waiting", "failed", "left", "completed")


Opened = Callable[[Sequence[Event]], list[EventView]]
"""Return events of the store with their values opened, as views."""


def trees(
    run: RunView,
    history: Sequence[Event],
    now: datetime,
    children_of: ChildrenOf,
    opened: Opened = history_of,
) -> list[Tree]:
    """Return the history of a run as trees, in the order in which the steps began; many calls of
    one name are one line. Events that a replay has cancelled are not drawn."""
    drawing = _Drawing(run, now, children_of, opened)
    return [drawing.item(item) for item in items(tree_of(history, run.waits))]


class _Drawing:
    """Draws the items of one history."""

    def __init__(
        self, run: RunView, now: datetime, children_of: ChildrenOf, opened: Opened
    ) -> None:
        self._run: RunView = run
        self._now: datetime = now
        self._children_of: ChildrenOf = children_of
        self._opened: Opened = opened

    def item(self, item: Item) -> Tree:
        if isinstance(item, FoldedCalls):
            return self._folded(item)
        events = self._opened(item.events)
        if item.is_run_event:
            return _run_event(events[0])
        below = [self.item(inner) for inner in items(item)]
        if item.is_branch:
            return Tree(item.name, "bold", below)
        state = shown_state(item, self._run)
        undoes = any(event.role == EventRole.COMPENSATION for event in events)
        sign = _SIGNS["undone" if undoes and state == "completed" else state]
        if state == "left":
            details = ["not finished"]
        elif state == "running" and self._run.session_id is None:
            details = ["was interrupted and will run again"]
        else:
            details = [self._duration(item, events), outcome(events, item.wait)]
        line = "  ".join(part for part in (f"{sign} {item.name}", *details) if part)
        lines = [*_attempts(events), *self._children(item), *below]
        return Tree(line, _STYLES.get(state, ""), lines)

    def _folded(self, item: FoldedCalls) -> Tree:
        """Return one line for many calls of one name, with the last failed ones below it."""
        counts = Counter(shown_state(call, self._run) for call in item.calls)
        state = next(state for state in _BY_WEIGHT if counts[state])
        numbers = ", ".join(f"{count} {word}" for word, count in counts.items())
        failed = [call for call in item.calls if call.state is StepState.FAILED]
        below = [self.item(call) for call in failed[-FAILED_CALLS:]]
        line = f"{_SIGNS[state]} {item.name} {TIMES}{len(item.calls)}  {numbers}"
        return Tree(line, _STYLES.get(state, ""), below)

    def _duration(self, node: StepNode, events: Sequence[EventView]) -> str:
        if not events:
            return ""
        start = events[0].started_at or events[0].at
        last = events[-1]
        is_open = node.state in (StepState.RUNNING, StepState.WAITING)
        end = self._now if is_open and last.kind != EventKind.CHILD_STARTED else last.at
        return brief(end - start) if end - start > timedelta() else ""

    def _children(self, node: StepNode) -> list[Tree]:
        if not any(
            event.kind in (EventKind.CHILD_STARTED, EventKind.MAP_STARTED) for event in node.events
        ):
            return []
        return child_lines(self._children_of(self._run.id, node.step), self._children_of)


def shown_state(node: StepNode, run: RunView) -> str:
    """Return the state of a step; "left" if the run has ended or waits for other steps."""
    state = node.state.value
    is_open = state in ("running", "waiting") and node.wait is None
    return "left" if is_open and (run.finished_at is not None or run.waits) else state


def outcome(
    events: Sequence[EventView], wait: Mapping[str, Any] | None, attempts: int | None = None
) -> str:
    """Return the outcome of a step, or what it waits for, as text. *attempts* is their number if
    *events* are not all events of the step."""
    parts = []
    if attempts is None:
        attempts = attempts_of(events)
    if attempts > 1:
        parts.append(f"{attempts} attempts")
    if wait is not None:
        parts.append(_open_wait(wait))
    elif events and events[-1].kind == EventKind.STEP_CALLED:
        parts.append("running")  # a line below it has the arguments
    elif events:
        parts.append(line_of(events[-1]))
    return "  ".join(part for part in parts if part)


def line_of(event: EventView) -> str:
    """Return the outcome that an event records, as text; empty if its kind says everything."""
    return TEXTS.get(event.kind, _no_details)(event)


def _open_map(wait: Mapping[str, Any]) -> str:
    if "done" not in wait:
        return f"waits for {wait.get('of')} children"
    return f"{wait['done']} of {wait.get('of')} children have ended"


def _open_wait(wait: Mapping[str, Any]) -> str:
    until = f" until {seconds(wait['until'])}" if wait.get("until") else ""
    return {
        "timer": f"sleeps{until}",
        "signal": f"waits for the signal {wait.get('name')!r}{until}",
        "gate": f"asks {wait.get('name')!r}{until}",
        "wait": f"{'needs an operator' if wait.get('escalated_at') else 'waits'}{until}",
        "retry": f"tries again{until.replace('until', 'at')} (attempt {wait.get('attempt')})",
        "child": f"waits for {wait.get('run')}",
        "children": _open_map(wait),
        "children_end": "waits for its children to end",
    }.get(str(wait.get("kind")), f"waits{until}")


# Texts of events


def _fields(event: EventView) -> dict[str, Any]:
    """Return the data of an event; empty if a text stands in its place, as for encrypted data."""
    return event.data if isinstance(event.data, dict) else {}


def _value(event: EventView) -> str:
    return "" if event.data is None else f"→ {payload(event.data)}"


def _until(event: EventView, word: str = "until") -> str:
    limit = _fields(event).get("until")
    return "" if limit is None else f" {word} {seconds(limit)}"


def _decision(event: EventView) -> str:
    if event.error is not None:
        return error_line(event.error)
    data = _fields(event)
    choice = data.get("choice")
    people = ", ".join(
        decision["by"] for decision in data.get("decisions", ()) if decision.get("choice") == choice
    )
    return f"→ {choice or data.get('status')}" + (f" by {people}" if people else "")


def _signals(event: EventView) -> str:
    if not isinstance(event.data, dict):
        return payload(event.data)
    return "by " + ", ".join(str(signal.get("name")) for signal in event.data.get("signals", []))


def _error(event: EventView) -> str:
    return error_line(event.error)


def _error_or_value(event: EventView) -> str:
    return _value(event) if event.error is None else _error(event)


def _element(event: EventView) -> str:
    return str(_fields(event).get("element", ""))


def _no_details(event: EventView) -> str:
    return ""


def _started(event: EventView) -> str:
    return "running" + (f" (attempt {event.attempt})" if event.attempt > 1 else "")


def _map_ended(event: EventView) -> str:
    return f"{len(event.data)} ended" if isinstance(event.data, list) else payload(event.data)


def _children_ended(event: EventView) -> str:
    return "released by an operator" if _fields(event).get("released") else "all ended"


def _amounts(event: EventView) -> str:
    return payload(event.data) if event.data else ""


def _replayed(event: EventView) -> str:
    data = _fields(event)
    details = f"{len(data.get('void', []))} earlier events no longer count"
    if data.get("children"):
        details += f"; replayed with it: {len(data['children'])} child runs"
    return details


def _forked(event: EventView) -> str:
    data = _fields(event)
    return f"from {data.get('run')}" + (f" at {data['step']}" if data.get("step") else "")


def _by(event: EventView) -> str:
    by = _fields(event).get("by")
    return f"by {by}" if by else ""


def _with_person(details: Callable[[EventView], str]) -> Callable[[EventView], str]:
    """Return a text with the person or program that asked for it, if the event names one."""

    def text(event: EventView) -> str:
        return ", ".join(part for part in (details(event), _by(event)) if part)

    return text


def _message(event: EventView) -> str:
    """Return the name of a message or signal, and the key if there is one."""
    fields = _fields(event)
    key = fields.get("key")
    text = f"{fields.get('kind') or 'message'} {fields.get('name')!r}"
    return text if key is None else f"{text} with key {key!r}"


def _reason(event: EventView) -> str:
    return str(_fields(event).get("reason") or "")


TEXTS: dict[str, Callable[[EventView], str]] = {
    EventKind.STEP_CALLED: lambda event: f"called with {arguments(event.data)}",
    EventKind.STEP_STARTED: _started,
    EventKind.STEP_COMPLETED: _value,
    EventKind.STEP_FAILED: _error,
    EventKind.STEP_RETRIED: lambda event: f"tries again{_until(event, 'at')}",
    EventKind.STEP_DROPPED: lambda event: "no longer needed",
    EventKind.STEP_BLOCKED: lambda event: "waits for room in a budget",
    EventKind.TIMER_SET: lambda event: f"sleeps{_until(event)}",
    EventKind.TIMER_FIRED: _no_details,
    EventKind.SIGNAL_AWAITED: lambda event: f"waits{_until(event)}",
    EventKind.SIGNAL_RECEIVED: _value,
    EventKind.SIGNAL_TIMED_OUT: lambda event: "timed out",
    EventKind.MESSAGE_AWAITED: lambda event: f"waits for {_message(event)}",
    EventKind.MESSAGE_RECEIVED: _value,
    EventKind.MESSAGE_DROPPED: lambda event: "no longer needed",
    EventKind.MESSAGE_SENT: _message,
    EventKind.BROADCAST_SENT: _message,
    EventKind.INCIDENT_RAISED: _error,
    EventKind.INCIDENT_RESOLVED: lambda event: f"{_fields(event).get('action')} {_by(event)}",
    EventKind.INCIDENT_DROPPED: lambda event: "no longer needed",
    EventKind.INSTRUCTED: lambda event: f"{_fields(event).get('verb')} {_by(event)}",
    EventKind.VERSION_CHANGED: lambda event: f"to {_fields(event).get('version')}",
    EventKind.ELEMENT_ENTERED: _element,
    EventKind.ELEMENT_COMPLETED: _element,
    EventKind.ELEMENT_CANCELLED: _element,
    EventKind.CHILD_STARTED: _no_details,
    EventKind.CHILD_ENDED: _error_or_value,
    EventKind.MAP_STARTED: lambda event: f"{_fields(event).get('count')} children",
    EventKind.MAP_ENDED: _map_ended,
    EventKind.CHILDREN_ENDED: _children_ended,
    EventKind.GATE_OPENED: lambda event: f"asks {_fields(event).get('prompt')!r}{_until(event)}",
    EventKind.GATE_REMINDED: lambda event: "people were reminded",
    EventKind.GATE_ESCALATED: lambda event: "more people may decide",
    EventKind.GATE_CLOSED: _decision,
    EventKind.GATE_WITHDRAWN: lambda event: "withdrawn",
    EventKind.WAIT_CREATED: lambda event: f"wait {_fields(event).get('id')}",
    EventKind.WAIT_OPENED: lambda event: f"waits for {_fields(event).get('for')}{_until(event)}",
    EventKind.WAIT_SATISFIED: _signals,
    EventKind.WAIT_RELEASED: lambda event: "released by an operator",
    EventKind.WAIT_TIMED_OUT: lambda event: "timed out",
    EventKind.WAIT_ESCALATED: lambda event: "needs an operator",
    EventKind.WAIT_DROPPED: lambda event: "no longer needed",
    EventKind.MARKED: lambda event: f"= {payload(event.data)}",
    EventKind.CHECKPOINT_WRITTEN: _no_details,
    EventKind.BUDGET_SPENT: _amounts,
    EventKind.BUDGET_RESERVED: _amounts,
    EventKind.BUDGET_SETTLED: _amounts,
    EventKind.SIGNAL_SENT: lambda event: f"to {_fields(event).get('run')}",
    EventKind.CANCEL_SENT: lambda event: f"of {_fields(event).get('run')}",
    EventKind.GRAPH_EXTENDED: _amounts,
    EventKind.CANCEL_REQUESTED: _with_person(_reason),
    EventKind.RUN_COMPLETED: _no_details,
    EventKind.RUN_FAILED: _error,
    EventKind.RUN_CANCELLED: _error,
    EventKind.RUN_EXPIRED: _error,
    EventKind.RUN_STUCK: _error,
    EventKind.RUN_RESUMED: _with_person(_no_details),
    EventKind.RUN_REPLAYED: _with_person(_replayed),
    EventKind.RUN_FORKED: _with_person(_forked),
    EventKind.ATTEMPT_FAILED: _error,
    EventKind.RUN_DELAYED: lambda event: _until(event).strip(),
    EventKind.CHILDREN_AWAITED: lambda event: _until(event).strip(),
    EventKind.LEASE_REVOKED: _with_person(_reason),
    EventKind.PRIORITY_CHANGED: _with_person(
        lambda event: f"from {_fields(event).get('old')} to {_fields(event).get('new')}"
    ),
    EventKind.RUN_RELEASED: _by,
    EventKind.RUN_OVERRIDDEN: _with_person(_reason),
    EventKind.LEASE_LOST: _error,
    EventKind.HISTORY_DELETED: lambda event: (
        f"{_fields(event).get('events')} events, by a retention rule"
    ),
}
"""How people read what an event of each kind records."""

_TITLES = {
    EventKind.CANCEL_REQUESTED: "cancellation requested",
    EventKind.RUN_RELEASED: "released before its start time",
}
"""The titles of events of a whole run; the others are titled by their kind."""

_FAILURES = (EventKind.RUN_FAILED, EventKind.RUN_STUCK, EventKind.RUN_EXPIRED)


def _run_event(event: EventView) -> Tree:
    """Return the line of an event of the run as a whole, such as a cancellation or a replay."""
    title = _TITLES.get(event.kind, event.kind.replace("_", " "))
    details = line_of(event) or error_line(event.error)
    state = "failed" if event.kind in _FAILURES else "note"
    sign = _SIGNS["completed" if event.kind == EventKind.RUN_COMPLETED else state]
    return Tree(f"{sign} {title}{': ' if details else ''}{details}", _STYLES.get(state, ""))


def arguments(args: Any, longest: int = 120) -> str:
    """Return the kept arguments of a step as one line, as they stand in a call."""
    if not isinstance(args, dict) or "args" not in args:
        return payload(args, longest)
    values = [payload(value, longest) for value in args["args"]]
    values += [
        f"{name}={payload(value, longest)}" for name, value in args.get("kwargs", {}).items()
    ]
    return short(f"({', '.join(values)})", longest)


def _attempts(events: Sequence[EventView]) -> list[Tree]:
    args = args_of(events)
    called = [] if args is None else [Tree(f"called with {arguments(args)}", "dim")]
    return called + [
        Tree(f"attempt {event.attempt} failed: {error_line(event.error)}", "dim")
        for event in events
        if event.kind == EventKind.STEP_RETRIED
    ]


# Children


def child_lines(children: Sequence[RunView], children_of: ChildrenOf, depth: int = 5) -> list[Tree]:
    """Return one line per child run, with its own children below it, up to *depth* levels."""
    lines = []
    for child in children[:CHILDREN]:
        below = child_lines(children_of(child.id, None), children_of, depth - 1) if depth else []
        style = "red" if child.status in (Status.FAILED, Status.STUCK) else ""
        lines.append(Tree(_child_line(child), style, below))
    if len(children) > CHILDREN:
        parent = children[0].parent_id
        lines.append(Tree(f"... and more: holdfast runs --parent {parent}", "dim"))
    return lines


def _child_line(child: RunView) -> str:
    parts = [f"run {child.id}", child.workflow, child.status.value]
    if child.started_at is not None and child.finished_at is not None:
        parts.append(brief(child.finished_at - child.started_at))
    if child.error is not None:
        parts.append(error_line(child.error))
    return "  ".join(part for part in parts if part)
