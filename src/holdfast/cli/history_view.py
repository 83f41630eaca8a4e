"""Draw the history of a run as a tree of steps.

Each step is a node. Its place follows from the path in its id; its failed attempts and its child
runs are drawn below it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from holdfast.cli.output import Tree, error_line, payload, short
from holdfast.core.events import Event, EventKind
from holdfast.core.runs import RunRecord
from holdfast.core.status import Status
from holdfast.core.why.model import brief, moment

UNDO = "undo "
CHILDREN = 20
"""The maximum number of children that are shown for one step."""

ChildrenOf = Callable[[str, str | None], list[RunRecord]]
"""Return the children of a run, of one step or (with None) of all, oldest first; at most one more
than is shown."""

_STYLES = {
    "ok": "green",
    "failed": "red",
    "undone": "yellow",
    "running": "cyan",
    "waiting": "blue",
    "left": "dim",
}
_SIGNS = {
    "ok": "✓",
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
        self.step = step
        self.events: list[Event] = []
        self.wait: dict[str, Any] | None = None
        self.below: dict[str, Node] = {}

    @property
    def name(self) -> str:
        return self.step.rsplit("/", 1)[-1]


def trees(run: RunRecord, events: Sequence[Event], now: int, children_of: ChildrenOf) -> list[Tree]:
    """Return the history of a run as trees, in the order in which the steps began."""
    root = Node("")
    for event in events:
        if event.step is None:
            # a line break is in no step name, so that the key cannot collide with a step
            root.below[f"\n{event.seq}"] = _run_node(event)
        else:
            _node(root, _step_of(event)).events.append(event)
    for wait in payload(run.waits) or []:
        if isinstance(wait, dict) and wait.get("step"):
            step = str(wait["step"])
            if wait.get("kind") == "child":
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


def _step_of(event: Event) -> str:
    """Return the step whose node shows *event*: the end of a child is shown at its start."""
    step = event.step or ""
    return _child_step(step) if event.kind == EventKind.CHILD_ENDED else step


def _child_step(step: str) -> str:
    """Return the step that started a child, from the step that records its end."""
    return step.rsplit(" end", 1)[0]


def _run_node(event: Event) -> Node:
    """Return a node for an event of the run as a whole."""
    node = Node(event.kind)
    node.events.append(event)
    return node


# Lines of nodes


def _tree(node: Node, run: RunRecord, now: int, children_of: ChildrenOf) -> Tree:
    if node.events and node.events[0].step is None:
        return _run_event(node.events[0])
    below = [_tree(inner, run, now, children_of) for inner in node.below.values()]
    if not node.events and node.wait is None:
        return Tree(node.name, "bold", below)
    state = _state(node)
    if (
        state in ("running", "waiting")
        and node.wait is None
        and (run.finished_at is not None or run.waits is not None)
    ):
        state = "left"  # the run has ended or waits for other steps
    is_compensation = state == "ok" and node.name.startswith(UNDO)
    sign = _SIGNS["undone" if is_compensation else state]
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


_OPEN_ENDED = (
    EventKind.STEP_RETRIED,
    EventKind.TIMER_SET,
    EventKind.SIGNAL_AWAITED,
    EventKind.WAIT_OPENED,
    EventKind.WAIT_ESCALATED,
    EventKind.MAP_STARTED,
    EventKind.GATE_OPENED,
    EventKind.GATE_REMINDED,
    EventKind.GATE_ESCALATED,
)
"""Kinds of events after which a step is still waiting."""


def _state(node: Node) -> str:
    kinds = [event.kind for event in node.events]
    last = node.events[-1] if node.events else None
    if node.wait is not None:
        return "waiting"
    if last is None or kinds[-1] == EventKind.STEP_STARTED:
        return "running"
    if kinds[-1] in _OPEN_ENDED:
        return "waiting"
    return "failed" if last.error is not None else "ok"


def _duration(node: Node, now: int) -> str:
    if not node.events:
        return ""
    first = node.events[0]
    last = node.events[-1]
    start = first.started_at or first.at
    is_open = _state(node) in ("running", "waiting") and last.kind != EventKind.CHILD_STARTED
    end = now if is_open else last.at
    return brief(end - start) if end > start else ""


def _outcome(node: Node) -> str:
    parts = []
    last = node.events[-1] if node.events else None
    attempts = sum(
        event.kind in (EventKind.STEP_RETRIED, EventKind.STEP_COMPLETED, EventKind.STEP_FAILED)
        for event in node.events
    )
    if attempts > 1:
        parts.append(f"{attempts} attempts")
    if node.wait is not None:
        parts.append(_open_wait(node.wait))
    elif last is not None:
        parts.append(_OUTCOMES.get(last.kind, _no_details)(last))
    return "  ".join(part for part in parts if part)


def _open_wait(wait: dict[str, Any]) -> str:
    until = f" until {moment(wait['until'])}" if wait.get("until") else ""
    return {
        "timer": f"sleeps{until}",
        "signal": f"waits for the signal {wait.get('name')!r}{until}",
        "gate": f"asks {wait.get('name')!r}{until}",
        "wait": f"{'needs an operator' if wait.get('escalated_at') else 'waits'}{until}",
        "retry": f"tries again{until.replace('until', 'at')} (attempt {wait.get('attempt')})",
        "child": f"waits for {wait.get('run')}",
        "children": f"waits for {wait.get('of')} children",
        "children_end": "waits for its children to end",
    }.get(str(wait.get("kind")), f"waits{until}")


def _value(event: Event) -> str:
    return "" if event.data in (None, b"null") else f"→ {short(event.data)}"


def _until(event: Event, word: str = "until") -> str:
    limit = (payload(event.data) or {}).get("until")
    return "" if limit is None else f" {word} {moment(limit)}"


def _decision(event: Event) -> str:
    data = payload(event.data)
    choice = data.get("choice")
    people = ", ".join(
        decision["by"] for decision in data.get("decisions", ()) if decision.get("choice") == choice
    )
    return f"→ {choice or data.get('status')}" + (f" by {people}" if people else "")


def _signal_names(event: Event) -> str:
    return ", ".join(
        str(signal.get("name")) for signal in (payload(event.data) or {}).get("signals", [])
    )


def _error(event: Event) -> str:
    return error_line(event.error)


def _no_details(event: Event) -> str:
    return ""


_OUTCOMES: dict[str, Callable[[Event], str]] = {
    EventKind.STEP_COMPLETED: _value,
    EventKind.STEP_FAILED: _error,
    EventKind.STEP_STARTED: lambda event: (
        "running" + (f" (attempt {event.attempt})" if event.attempt > 1 else "")
    ),
    EventKind.STEP_RETRIED: lambda event: f"tries again{_until(event, 'at')}",
    EventKind.STEP_DROPPED: lambda event: "no longer needed",
    EventKind.TIMER_SET: lambda event: f"sleeps{_until(event)}",
    EventKind.SIGNAL_AWAITED: lambda event: f"waits{_until(event)}",
    EventKind.SIGNAL_RECEIVED: _value,
    EventKind.SIGNAL_TIMED_OUT: lambda event: "timed out",
    EventKind.WAIT_CREATED: lambda event: f"wait {payload(event.data).get('id')}",
    EventKind.WAIT_OPENED: lambda event: (
        f"waits for {payload(event.data).get('for')}{_until(event)}"
    ),
    EventKind.WAIT_SATISFIED: lambda event: (
        f"by {_signal_names(event)}" if isinstance(payload(event.data), dict) else short(event.data)
    ),
    EventKind.WAIT_RELEASED: lambda event: "released by an operator",
    EventKind.WAIT_TIMED_OUT: lambda event: "timed out",
    EventKind.WAIT_ESCALATED: lambda event: "needs an operator",
    EventKind.WAIT_DROPPED: lambda event: "no longer needed",
    EventKind.CHILD_ENDED: lambda event: (
        _error(event) if event.error is not None else _value(event)
    ),
    EventKind.MAP_STARTED: lambda event: f"{payload(event.data).get('count')} children",
    EventKind.MAP_ENDED: lambda event: (
        f"{len(ends)} ended" if isinstance(ends := payload(event.data), list) else short(event.data)
    ),
    EventKind.CHILDREN_ENDED: lambda event: (
        "released by an operator" if payload(event.data).get("released") else "all ended"
    ),
    EventKind.GATE_OPENED: lambda event: (
        f"asks {payload(event.data).get('prompt')!r}{_until(event)}"
    ),
    EventKind.GATE_REMINDED: lambda event: "people were reminded",
    EventKind.GATE_ESCALATED: lambda event: "more people may decide",
    EventKind.GATE_CLOSED: lambda event: (
        _error(event) if event.error is not None else _decision(event)
    ),
    EventKind.GATE_WITHDRAWN: lambda event: "withdrawn",
    EventKind.MARKED: lambda event: f"= {short(event.data)}",
    EventKind.SIGNAL_SENT: lambda event: f"to {payload(event.data).get('run')}",
    EventKind.CANCEL_SENT: lambda event: f"of {payload(event.data).get('run')}",
}


def _attempts(node: Node) -> list[Tree]:
    return [
        Tree(f"attempt {event.attempt} failed: {error_line(event.error)}", "dim")
        for event in node.events
        if event.kind == EventKind.STEP_RETRIED
    ]


def _children(node: Node, run: RunRecord, children_of: ChildrenOf) -> list[Tree]:
    if not any(
        event.kind in (EventKind.CHILD_STARTED, EventKind.MAP_STARTED) for event in node.events
    ):
        return []
    return child_lines(children_of(run.id, node.step), children_of)


def child_lines(
    children: Sequence[RunRecord], children_of: ChildrenOf, depth: int = 5
) -> list[Tree]:
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


def _child_line(child: RunRecord) -> str:
    parts = [f"run {child.id}", child.workflow, child.status.value]
    if child.started_at is not None and child.finished_at is not None:
        parts.append(brief(child.finished_at - child.started_at))
    if child.error is not None:
        parts.append(error_line(child.error))
    return "  ".join(part for part in parts if part)


def _run_event(event: Event) -> Tree:
    """Return the line of an event of the run as a whole, such as a cancellation or a replay."""
    title = event.kind.replace("_", " ")
    data = payload(event.data)
    details = error_line(event.error) if event.error is not None else ""
    if event.kind == EventKind.CANCEL_REQUESTED:
        title = "cancellation requested"
        details = str(data.get("reason", ""))
    elif event.kind == EventKind.RUN_REPLAYED:
        details = f"{len(data.get('void', []))} earlier events no longer count"
        if data.get("children"):
            details += f"; replayed with it: {len(data['children'])} child runs"
    elif event.kind == EventKind.RUN_RELEASED:
        title = "released before its start time"
        details = f"by {data['by']}" if data.get("by") else ""
    elif event.kind == EventKind.HISTORY_DELETED:
        details = f"{data.get('events')} events, by a retention rule"
    elif event.kind == EventKind.RUN_FORKED:
        details = f"from {data.get('run')}" + (f" at {data['step']}" if data.get("step") else "")
    if event.kind in (EventKind.RUN_FAILED, EventKind.RUN_STUCK, EventKind.RUN_EXPIRED):
        state = "failed"
    else:
        state = "note"
    sign = _SIGNS["ok" if event.kind == EventKind.RUN_COMPLETED else state]
    return Tree(f"{sign} {title}{': ' if details else ''}{details}", _STYLES.get(state, ""))
