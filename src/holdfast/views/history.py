"""The history of a run for people: a tree of its steps.

Each step is a node. Its place follows from the path in its id; its failed attempts and its child
runs are drawn below it. ``TEXTS`` has one row per kind of event.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from holdfast.core.events import EventKind, EventRole
from holdfast.core.status import Status
from holdfast.core.waits import WaitKind
from holdfast.views.events import EventView
from holdfast.views.runs import RunView
from holdfast.views.steps import StepState, args_of, attempts_of, state_of
from holdfast.views.text import Tree, brief, error_line, payload, seconds, short

CHILDREN = 20
"""The maximum number of children that are shown for one step."""

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


class Node:
    """A step with its events, its open wait and the steps below it."""

    def __init__(self, step: str) -> None:
        self.step: str = step
        self.events: list[EventView] = []
        self.wait: dict[str, Any] | None = None
        self.below: dict[str, Node] = {}

    @property
    def name(self) -> str:
        """The last part of the step's path."""
        return self.step.rsplit("/", 1)[-1]

    @property
    def state(self) -> StepState:
        """The state of the step."""
        return state_of(self.events) if self.wait is None else StepState.WAITING


def trees(
    run: RunView, history: Sequence[EventView], now: datetime, children_of: ChildrenOf
) -> list[Tree]:
    """Return the history of a run as trees, in the order in which the steps began. Events that a
    replay has cancelled are not drawn."""
    root = Node("")
    for event in history:
        if event.void:
            continue
        if event.step is None:
            # a line break is in no step name, so that the key cannot collide with a step
            root.below[f"\n{event.seq}"] = _run_node(event)
        else:
            _node(root, _step_of(event)).events.append(event)
    for wait in run.waits:
        if wait.get("step"):
            step = str(wait["step"])
            if wait.get("kind") == WaitKind.CHILD:
                step = _child_step(step)
            _node(root, step).wait = wait
    return [_tree(node, run, now, children_of) for node in root.below.values()]


def _node(root: Node, step: str) -> Node:
    """Return the node of a step, below the branches that its id names."""
    node = root
    path = ""
    for part in step.split("/"):
        path = f"{path}/{part}" if path else part
        node = node.below.setdefault(part, Node(path))
    return node


def _step_of(event: EventView) -> str:
    """Return the step whose node shows *event*: the end of a child is shown at its start."""
    step = event.step or ""
    return _child_step(step) if event.kind == EventKind.CHILD_ENDED else step


def _child_step(step: str) -> str:
    """Return the step that started a child, from the step that records its end."""
    return step.rsplit(" end", 1)[0]


def _run_node(event: EventView) -> Node:
    """Return a node for an event of the run as a whole."""
    node = Node(event.kind)
    node.events.append(event)
    return node


# Lines of nodes


def _tree(node: Node, run: RunView, now: datetime, children_of: ChildrenOf) -> Tree:
    if node.events and node.events[0].step is None:
        return _run_event(node.events[0])
    below = [_tree(inner, run, now, children_of) for inner in node.below.values()]
    if not node.events and node.wait is None:
        return Tree(node.name, "bold", below)
    state = _shown_state(node, run)
    undoes = any(event.role == EventRole.COMPENSATION for event in node.events)
    sign = _SIGNS["undone" if undoes and state == "completed" else state]
    if state == "left":
        details = ["not finished"]
    elif state == "running" and run.session_id is None:
        details = ["was interrupted and will run again"]
    else:
        details = [_duration(node, now), _outcome(node)]
    line = "  ".join(part for part in (f"{sign} {node.name}", *details) if part)
    return Tree(
        line, _STYLES.get(state, ""), [*_attempts(node), *_children(node, run, children_of), *below]
    )


def _shown_state(node: Node, run: RunView) -> str:
    """Return the state of a step; "left" if the run has ended or waits for other steps."""
    state = node.state.value
    is_open = state in ("running", "waiting") and node.wait is None
    return "left" if is_open and (run.finished_at is not None or run.waits) else state


def _duration(node: Node, now: datetime) -> str:
    if not node.events:
        return ""
    first = node.events[0]
    last = node.events[-1]
    start = first.started_at or first.at
    is_open = node.state in (StepState.RUNNING, StepState.WAITING)
    end = now if is_open and last.kind != EventKind.CHILD_STARTED else last.at
    return brief(end - start) if end - start > timedelta() else ""


def _outcome(node: Node) -> str:
    parts = []
    attempts = attempts_of(node.events)
    if attempts > 1:
        parts.append(f"{attempts} attempts")
    if node.wait is not None:
        parts.append(_open_wait(node.wait))
    elif node.events and node.events[-1].kind == EventKind.STEP_CALLED:
        parts.append("running")  # a line below it has the arguments
    elif node.events:
        parts.append(line_of(node.events[-1]))
    return "  ".join(part for part in parts if part)


def line_of(event: EventView) -> str:
    """Return the outcome that an event records, as text; empty if its kind says everything."""
    return TEXTS.get(event.kind, _no_details)(event)


def _open_map(wait: dict[str, Any]) -> str:
    if "done" not in wait:
        return f"waits for {wait.get('of')} children"
    return f"{wait['done']} of {wait.get('of')} children have ended"


def _open_wait(wait: dict[str, Any]) -> str:
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
    EventKind.CANCEL_REQUESTED: _reason,
    EventKind.RUN_COMPLETED: _no_details,
    EventKind.RUN_FAILED: _error,
    EventKind.RUN_CANCELLED: _error,
    EventKind.RUN_EXPIRED: _error,
    EventKind.RUN_STUCK: _error,
    EventKind.RUN_RESUMED: _no_details,
    EventKind.RUN_REPLAYED: _replayed,
    EventKind.RUN_FORKED: _forked,
    EventKind.ATTEMPT_FAILED: _error,
    EventKind.RUN_DELAYED: lambda event: _until(event).strip(),
    EventKind.CHILDREN_AWAITED: lambda event: _until(event).strip(),
    EventKind.LEASE_REVOKED: _reason,
    EventKind.PRIORITY_CHANGED: lambda event: (
        f"from {_fields(event).get('old')} to {_fields(event).get('new')}"
    ),
    EventKind.RUN_RELEASED: _by,
    EventKind.RUN_OVERRIDDEN: _reason,
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


def _attempts(node: Node) -> list[Tree]:
    args = args_of(node.events)
    called = [] if args is None else [Tree(f"called with {arguments(args)}", "dim")]
    return called + [
        Tree(f"attempt {event.attempt} failed: {error_line(event.error)}", "dim")
        for event in node.events
        if event.kind == EventKind.STEP_RETRIED
    ]


# Children


def _children(node: Node, run: RunView, children_of: ChildrenOf) -> list[Tree]:
    if not any(
        event.kind in (EventKind.CHILD_STARTED, EventKind.MAP_STARTED) for event in node.events
    ):
        return []
    return child_lines(children_of(run.id, node.step), children_of)


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
