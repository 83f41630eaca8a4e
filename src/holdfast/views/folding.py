"""Fold the history of a run: a tree of its steps, with repeated calls as one item.

The place of a step follows from the path in its id; a compensation is below the step that it
undoes. Calls of one name in one branch, from FOLD_FROM on, are one item: a loop of 20,000 steps is
one line. The events are those of the store, or their outlines, so that only the values of the items
that are shown have to be read and opened.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from holdfast.core import typed_json
from holdfast.core.events import Event, EventKind, undone_step
from holdfast.core.history import live_events
from holdfast.core.waits import WaitKind
from holdfast.views.steps import StepState, state_of

FOLD_FROM = 5
"""The number of calls of one name in one branch from which on they are one item."""

EVERY_CALL = "#*"
"""The end of the id of folded calls, in place of the number of a call."""


_NO_STEPS: Mapping[str, StepNode] = MappingProxyType({})
"""The steps below a node without any: one mapping for the thousands of nodes of a long history."""


class StepNode:
    """A step with its events, its open wait and the steps below it; or, without a step, an event of
    the run as a whole."""

    __slots__ = ("below", "events", "step", "wait")

    def __init__(self, step: str) -> None:
        self.step: str = step
        self.events: list[Event] = []
        self.wait: Mapping[str, Any] | None = None
        self.below: Mapping[str, StepNode] = _NO_STEPS

    def add(self, name: str, node: StepNode) -> StepNode:
        """Add a node below this one."""
        if type(self.below) is not dict:
            self.below = {}
        self.below[name] = node
        return node

    @property
    def name(self) -> str:
        """The last part of the step's path."""
        return self.step.rsplit("/", 1)[-1]

    @property
    def id(self) -> str:
        """The identity of the step; for an event of the run, its number."""
        if self.is_run_event:
            return f"event {self.events[0].seq}"
        return self.step

    @property
    def is_run_event(self) -> bool:
        """Whether the node is an event of the run as a whole, such as a cancellation."""
        return bool(self.events) and self.events[0].step is None

    @property
    def is_branch(self) -> bool:
        """Whether the node only contains other steps."""
        return not self.events and self.wait is None

    @property
    def is_plain(self) -> bool:
        """Whether the node is a step that has completed at its first attempt, with nothing below
        it: nearly all nodes of a long history, which need no closer look."""
        if len(self.events) != 1 or self.below or self.wait is not None:
            return False
        event = self.events[0]
        return event.kind == EventKind.STEP_COMPLETED and event.error is None and event.role is None

    @property
    def state(self) -> StepState:
        """The state of the step; the state of a branch follows from the steps in it."""
        if self.wait is not None:
            return StepState.WAITING
        if self.events or not self.below:
            return state_of(self.events)
        states = {node.state for node in self.below.values()}
        return next(state for state in _BY_WEIGHT if state in states)

    @property
    def start(self) -> int | None:
        """The start of the step, in microseconds since 1970; None if it is not recorded."""
        if self.events:
            return start_of(self.events[0])
        starts = [node.start for node in self.below.values()]
        return min((start for start in starts if start is not None), default=None)

    @property
    def end(self) -> int | None:
        """The end of the step, in microseconds since 1970; None if it has not ended."""
        if self.is_plain:
            return self.events[0].at
        if self.state in (StepState.RUNNING, StepState.WAITING):
            return None
        if self.events:
            return self.events[-1].at
        return max((node.end or 0 for node in self.below.values()), default=None)


def start_of(event: Event) -> int:
    """Return the start of the attempt or wait that an event records, in microseconds since 1970."""
    if event.started_at is None:
        return event.at
    return event.started_at


_BY_WEIGHT = (StepState.RUNNING, StepState.WAITING, StepState.FAILED, StepState.COMPLETED)


class FoldedCalls:
    """Calls of one name in one branch, as one item."""

    __slots__ = ("base", "calls")

    def __init__(self, base: str, calls: list[StepNode]) -> None:
        self.base: str = base
        """The identity of the first call."""
        self.calls: list[StepNode] = calls

    @property
    def id(self) -> str:
        """The identity of the item, which unfolds it."""
        return self.base + EVERY_CALL

    @property
    def name(self) -> str:
        """The name that the calls have in common."""
        return self.base.rsplit("/", 1)[-1]


Item = StepNode | FoldedCalls


def tree_of(events: Sequence[Event], waits: Sequence[Mapping[str, Any]]) -> StepNode:
    """Return the steps of a history below one root, in the order in which they began. Events that a
    replay has cancelled do not count. *waits* are the open waits of the run."""
    root = StepNode("")
    undone: dict[str, str] = {}
    for event in live_events(events):
        if event.step is None:
            # a line break is in no step name, so that the key cannot collide with a step
            node = root.add(f"\n{event.seq}", StepNode(event.kind))
        else:
            node = _node(root, _step_of(event))
            if event.role is not None and (step := undone_step(event.role)):
                undone[event.step] = step
        node.events.append(event)
    for wait in waits:
        if wait.get("step"):
            step = str(wait["step"])
            if wait.get("kind") == WaitKind.CHILD:
                step = child_step(step)
            _node(root, step).wait = wait
    for compensation, step in undone.items():
        _place_below(root, compensation, step)
    return root


def _place_below(root: StepNode, compensation: str, step: str) -> None:
    """Move a compensation below the step that it undoes; leave it if the step is not shown."""
    place, _, name = compensation.rpartition("/")
    branch = _existing(root, place)
    target = _existing(root, step)
    if branch is None or name not in branch.below or target is None:
        return
    if not f"{step}/".startswith(f"{compensation}/"):  # a damaged row must not make a circle
        moved = branch.below[name]
        branch.below = {key: node for key, node in branch.below.items() if node is not moved}
        target.add(name, moved)


def _existing(root: StepNode, step: str) -> StepNode | None:
    node: StepNode | None = root
    for part in step.split("/") if step else ():
        node = None if node is None else node.below.get(part)
    return node


def _node(root: StepNode, step: str) -> StepNode:
    """Return the node of a step, below the branches that its id names."""
    if "/" not in step:
        return root.below.get(step) or root.add(step, StepNode(step))
    node = root
    path = ""
    for part in step.split("/"):
        path += part
        node = node.below.get(part) or node.add(part, StepNode(path))
        path += "/"
    return node


def _step_of(event: Event) -> str:
    """Return the step whose node shows *event*: the end of a child is shown at its start."""
    step = event.step or ""
    if event.kind == EventKind.CHILD_ENDED:
        return child_step(step)
    return step


def map_size(event: Event) -> int:
    """Return the number of children of a ``map``, from the event of its start."""
    try:
        return int(typed_json.decode(event.data or b"", dict[str, Any])["count"])
    except (msgspec.MsgspecError, KeyError, TypeError, ValueError):
        return 1  # a damaged row must not hide the rest of the history


def child_step(step: str) -> str:
    """Return the step that started a child, from the step that records its end."""
    return step.rsplit(" end", 1)[0]


def base_name(name: str) -> str:
    """Return the name of a step or branch without the number of the call."""
    base, mark, number = name.rpartition("#")
    if mark and number.isdigit():
        return base
    return name


def items(node: StepNode, fold_from: int = FOLD_FROM) -> Iterator[Item]:
    """Yield the items directly below a node, in the order in which they began. Calls of one name
    are one item from *fold_from* on, at the place of the first of them."""
    calls: dict[str, list[StepNode]] = {}
    shown: list[tuple[str, StepNode]] = []
    for name, below in node.below.items():
        base = base_name(name)
        if below.is_run_event:
            shown.append(("", below))
        elif base in calls:
            calls[base].append(below)
            if len(calls[base]) < fold_from:
                shown.append((base, below))
        else:
            calls[base] = [below]
            shown.append((base, below))
    prefix = f"{node.step}/".removeprefix("/")
    for base, below in shown:
        if not base or len(calls[base]) < fold_from:
            yield below
        elif calls[base][0] is below:
            yield FoldedCalls(prefix + base, calls[base])


def walk(node: StepNode, depth: int = 0) -> Iterator[tuple[Item, int]]:
    """Yield all items below a node with their depth, each before the items below it."""
    for item in items(node):
        yield item, depth
        if isinstance(item, StepNode) and item.below:
            yield from walk(item, depth + 1)


def unfolded(root: StepNode, item_id: str) -> list[StepNode] | None:
    """Return the calls of folded calls, or the steps of a branch, by the id of the item; None if
    there is no such item."""
    path = item_id.removesuffix(EVERY_CALL)
    *parents, name = path.split("/")
    node = root
    for part in parents:
        if part not in node.below:
            return None
        node = node.below[part]
    if path == item_id:
        branch = node.below.get(name)
        return list(branch.below.values()) or None if branch is not None else None
    calls = [
        below
        for key, below in node.below.items()
        if base_name(key) == name and not below.is_run_event
    ]
    return calls or None
