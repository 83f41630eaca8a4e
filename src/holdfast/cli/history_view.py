"""A history as a tree: one node per step, branches by the path in its id, attempts below it,
children by their runs."""

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
"""How many children of one step are shown."""

ChildrenOf = Callable[[str, str | None], list[RunRecord]]
"""The children of a run, of one of its steps or of all, oldest first; at most one more than is
shown."""

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
    """What the history says about one step."""

    def __init__(self, step: str) -> None:
        self.step = step
        self.events: list[Event] = []
        self.wait: dict[str, Any] | None = None
        self.below: dict[str, Node] = {}

    @property
    def name(self) -> str:
        return self.step.rsplit("/", 1)[-1]


def trees(run: RunRecord, events: Sequence[Event], now: int, children_of: ChildrenOf) -> list[Tree]:
    """Return the history of a run as trees, in the order in which things began."""
    root = Node("")
    for event in events:
        if event.step is None:
            root.below[f"\n{event.seq}"] = _whole_run(event)
        else:
            _node(root, _begun_by(event)).events.append(event)
    for wait in payload(run.waits) or []:
        if isinstance(wait, dict) and wait.get("step"):
            _node(root, _without_end(str(wait["step"]), wait.get("kind") == "child")).wait = wait
    return [_tree(node, run, now, children_of) for node in root.below.values()]


def _node(root: Node, step: str) -> Node:
    """Return the node of a step, below the branches that its id names."""
    node, path = root, ""
    for part in step.split("/"):
        path = f"{path}/{part}" if path else part
        node = node.below.setdefault(part, Node(path))
    return node


def _begun_by(event: Event) -> str:
    """The end of a child belongs to the node of its start."""
    step = event.step or ""
    return _without_end(step, True) if event.kind == EventKind.CHILD_ENDED else step


def _without_end(step: str, of_child: bool) -> str:
    return step.rsplit(" end", 1)[0] if of_child and " end" in step else step


def _whole_run(event: Event) -> Node:
    node = Node(event.kind)
    node.events.append(event)
    return node


# A node as a line


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
        state = "left"  # nobody waited for it any more
    sign = _SIGNS["undone" if state == "ok" and node.name.startswith(UNDO) else state]
    ended = ("", "not finished") if state == "left" else (_took(node, now), _outcome(node))
    if state == "running" and run.session_id is None:
        ended = ("", "was cut off and will run again")
    line = "  ".join(part for part in (f"{sign} {node.name}", *ended) if part)
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
"""What says that a step goes on."""


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


def _took(node: Node, now: int) -> str:
    if not node.events:
        return ""
    first, last = node.events[0], node.events[-1]
    begun = first.started_at or first.at
    open_still = _state(node) in ("running", "waiting") and last.kind != EventKind.CHILD_STARTED
    end = now if open_still else last.at
    return brief(end - begun) if end > begun else ""


def _outcome(node: Node) -> str:
    parts = []
    last = node.events[-1] if node.events else None
    tries = sum(
        event.kind in (EventKind.STEP_RETRIED, EventKind.STEP_COMPLETED, EventKind.STEP_FAILED)
        for event in node.events
    )
    if tries > 1:
        parts.append(f"{tries} attempts")
    if node.wait is not None:
        parts.append(_waiting(node.wait))
    elif last is not None:
        parts.append(_OUTCOMES.get(last.kind, _nothing)(last))
    return "  ".join(part for part in parts if part)


def _waiting(wait: dict[str, Any]) -> str:
    until = f" until {moment(wait['until'])}" if wait.get("until") else ""
    return {
        "timer": f"sleeps{until}",
        "signal": f"waits for the signal {wait.get('name')!r}{until}",
        "gate": f"asks {wait.get('name')!r}{until}",
        "wait": f"{'needs a person' if wait.get('escalated_at') else 'waits'}{until}",
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


def _decided(event: Event) -> str:
    told = payload(event.data)
    by = ", ".join(
        one["by"] for one in told.get("decisions", ()) if one.get("choice") == told.get("choice")
    )
    return f"→ {told.get('choice') or told.get('status')}" + (f" by {by}" if by else "")


def _names(event: Event) -> str:
    return ", ".join(
        str(signal.get("name")) for signal in (payload(event.data) or {}).get("signals", [])
    )


def _failed(event: Event) -> str:
    return error_line(event.error)


def _nothing(event: Event) -> str:
    return ""


_OUTCOMES: dict[str, Callable[[Event], str]] = {
    EventKind.STEP_COMPLETED: _value,
    EventKind.STEP_FAILED: _failed,
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
        f"by {_names(event)}" if isinstance(payload(event.data), dict) else short(event.data)
    ),
    EventKind.WAIT_RELEASED: lambda event: "let go by a person",
    EventKind.WAIT_TIMED_OUT: lambda event: "timed out",
    EventKind.WAIT_ESCALATED: lambda event: "needs a person",
    EventKind.WAIT_DROPPED: lambda event: "no longer needed",
    EventKind.CHILD_ENDED: lambda event: (
        _failed(event) if event.error is not None else _value(event)
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
    EventKind.GATE_ESCALATED: lambda event: "others may decide, too",
    EventKind.GATE_CLOSED: lambda event: (
        _failed(event) if event.error is not None else _decided(event)
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


def child_lines(found: Sequence[RunRecord], children_of: ChildrenOf, depth: int = 5) -> list[Tree]:
    """Return one line per child, those below it below it."""
    lines = []
    for child in found[:CHILDREN]:
        below = child_lines(children_of(child.id, None), children_of, depth - 1) if depth else []
        lines.append(
            Tree(
                _child(child), "red" if child.status in (Status.FAILED, Status.STUCK) else "", below
            )
        )
    if len(found) > CHILDREN:
        lines.append(Tree("... and more: holdfast runs --parent " + str(found[0].parent_id), "dim"))
    return lines


def _child(child: RunRecord) -> str:
    took = (
        ""
        if child.started_at is None or child.finished_at is None
        else brief(child.finished_at - child.started_at)
    )
    error = error_line(child.error) if child.error is not None else ""
    return "  ".join(
        part
        for part in (f"run {child.id}", child.workflow, child.status.value, took, error)
        if part
    )


def _run_event(event: Event) -> Tree:
    """A line about the run as a whole: asked to stop, replayed, stuck, ended."""
    words = event.kind.replace("_", " ")
    data = payload(event.data)
    told = error_line(event.error) if event.error is not None else ""
    if event.kind == EventKind.CANCEL_REQUESTED:
        words, told = "asked to stop", str(data.get("reason", ""))
    elif event.kind == EventKind.RUN_REPLAYED:
        told = f"{len(data.get('void', []))} earlier events no longer count"
        if data.get("children"):
            told += f"; replayed with it: {len(data['children'])} child runs"
    elif event.kind == EventKind.RUN_RELEASED:
        words, told = "let begin before its time", f"by {data['by']}" if data.get("by") else ""
    elif event.kind == EventKind.HISTORY_DELETED:
        told = f"{data.get('events')} events, by a retention rule"
    elif event.kind == EventKind.RUN_FORKED:
        told = f"from {data.get('run')}" + (f" at {data.get('step')}" if data.get("step") else "")
    state = (
        "failed"
        if event.kind in (EventKind.RUN_FAILED, EventKind.RUN_STUCK, EventKind.RUN_EXPIRED)
        else "note"
    )
    sign = _SIGNS["ok" if event.kind == EventKind.RUN_COMPLETED else state]
    return Tree(f"{sign} {words}{': ' if told else ''}{told}", _STYLES.get(state, ""))
