"""The steps of a run of a text, from its history.

Each event belongs to a step by its identity. The events of a sub-workflow and of a foreach are
several commands; the outcome of the step is derived from all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.authoring.wf.ast import ForeachNode
from holdfast.authoring.wf.identity import (
    ALWAYS,
    CHILD,
    ITEMS,
    iterations_of,
    template_of,
    without_attempt,
)
from holdfast.authoring.wf.interpreter.children import child_end
from holdfast.authoring.wf.interpreter.fanout import item_end, read_map_end
from holdfast.authoring.wf.interpreter.fanout_outcome import (
    ItemEnd,
    find_cycle,
    is_success,
    outcome_of,
    read_items,
    waits_in_circle,
)
from holdfast.authoring.wf.interpreter.plan import Plan, PlannedStep
from holdfast.core import typed_json
from holdfast.core.codec import Codec
from holdfast.core.events import Event, EventKind, EventRole
from holdfast.core.gates.answer import GateOutcome
from holdfast.core.runs import ErrorInfo

RUNNING, WAITING, COMPLETED = "running", "waiting", "completed"
FAILED, TIMED_OUT, SKIPPED, CANCELLED = "failed", "timed_out", "skipped", "cancelled"

_ENDED_CHILDREN = {"completed": COMPLETED, "cancelled": CANCELLED, "skipped": SKIPPED}


_ATTEMPTS = (EventKind.STEP_COMPLETED, EventKind.STEP_FAILED, EventKind.STEP_RETRIED)
_SIGNALS = (
    EventKind.SIGNAL_AWAITED,
    EventKind.SIGNAL_RECEIVED,
    EventKind.SIGNAL_TIMED_OUT,
)


class ChildFacts(msgspec.Struct, frozen=True):
    """A child run, as the view needs it."""

    id: str
    step: str
    index: int | None
    status: str
    result: bytes | None = None


class TextStep(msgspec.Struct, kw_only=True):
    """One step of a text in one run."""

    step: str
    kind: str
    id: str
    iteration: list[int]
    status: str
    attempts: int
    markers: list[str] = []
    context: str = ""
    output: Any = None
    error: str | None = None
    handled: str | None = None
    always: bool = False
    gate: str | None = None
    run: str | None = None
    items: list[dict[str, Any]] | None = None
    metrics: dict[str, float] | None = None
    started_at: int | None = None
    ended_at: int | None = None


class _StepEvents:
    """The events of one step."""

    __slots__ = ("events", "identity", "planned")

    def __init__(self, identity: str, planned: PlannedStep) -> None:
        self.identity: str = identity
        self.planned: PlannedStep = planned
        self.events: list[Event] = []


def steps_of(
    plan: Plan,
    body: str | None,
    history: Sequence[Event],
    codec: Codec,
    children: Sequence[tuple[str, str, int | None, str, bytes | None]],
) -> list[TextStep]:
    """Return the steps of a run in the order in which they started; the steps of one parallel
    block are in the order of the text. None of the events is void."""
    prefix = "" if body is None else f"{body}:"
    groups: dict[str, _StepEvents] = {}
    for event in history:
        if event.step is None or event.role == EventRole.REPEATED:
            continue
        identity = step_identity(event.step)
        planned = plan.steps.get(prefix + template_of(identity))
        if planned is None:
            continue
        group = groups.get(identity)
        if group is None:
            group = groups[identity] = _StepEvents(identity, planned)
        group.events.append(event)
    reader = _StepReader(codec, [ChildFacts(*child) for child in children])
    ordered = _in_order(list(groups.values()))
    return [reader.step(group) for group in ordered]


def step_identity(identity: str) -> str:
    """Return the identity of the step to which the command of an event belongs."""
    step = identity.removesuffix(ITEMS).partition(CHILD)[0]
    return without_attempt(step.removesuffix(" end").removesuffix(" delay"))


def _in_order(groups: list[_StepEvents]) -> list[_StepEvents]:
    """Return the steps by the time at which they started: the block of a step in a parallel block
    starts with its first step."""
    first: dict[str, int] = {}
    for group in groups:
        key = _block_key(group)
        seq = group.events[0].seq
        first[key] = min(first.get(key, seq), seq)

    def place(group: _StepEvents) -> tuple[int, float, int]:
        key = _block_key(group)
        if group.planned.node.block is None:
            return (group.events[0].seq, 0.0, 0)
        return (first[key], group.planned.order, group.events[0].seq)

    return sorted(groups, key=place)


def _block_key(group: _StepEvents) -> str:
    block = group.planned.node.block
    if block is None:
        return group.identity
    # The iterations of the loops around the block; a loop inside a branch belongs to its block.
    loops = block.count("[]/")
    return f"{block} {iterations_of(group.identity)[:loops]}"


class _StepReader:
    """Derives the outcome of a step from its events."""

    def __init__(self, codec: Codec, children: Sequence[ChildFacts]) -> None:
        self._codec: Codec = codec
        self._children: Sequence[ChildFacts] = children

    def step(self, group: _StepEvents) -> TextStep:
        planned = group.planned
        kind = planned.kind if planned.kind != "handler" else "call"
        last = group.events[-1]
        step = TextStep(
            step=planned.key,
            kind=kind,
            id=group.identity,
            iteration=iterations_of(group.identity),
            status=RUNNING,
            attempts=1,
            always=planned.always or group.identity.startswith(ALWAYS),
            started_at=group.events[0].started_at or group.events[0].at,
        )
        if kind == "foreach":
            self._read_foreach(step, group, planned.node.node)
        else:
            for event in group.events:
                self._read(step, event)
        if step.status in (COMPLETED, FAILED, TIMED_OUT, SKIPPED, CANCELLED):
            step.ended_at = last.at
        if step.status in (FAILED, TIMED_OUT):
            step.handled = planned.handled
        return step

    def _read(self, step: TextStep, event: Event) -> None:
        if event.kind in _ATTEMPTS:
            self._read_attempt(step, event)
        elif event.kind in _SIGNALS:
            self._read_signal(step, event)
        elif event.kind == EventKind.STEP_DROPPED:
            step.status = CANCELLED
        elif event.kind == EventKind.MARKED:
            self._read_mark(step, event)
        elif event.kind in (EventKind.TIMER_SET, EventKind.TIMER_FIRED):
            step.status = WAITING if event.kind == EventKind.TIMER_SET else COMPLETED
        elif event.kind in (EventKind.CHILD_STARTED, EventKind.CHILD_ENDED):
            self._read_child(step, event)
        else:
            _read_gate(step, event)

    def _read_attempt(self, step: TextStep, event: Event) -> None:
        step.attempts = event.attempt
        if event.kind == EventKind.STEP_COMPLETED:
            self._take(step, self._decode(event))
            return
        info = _error(event)
        step.error = _message(info)
        if event.kind == EventKind.STEP_RETRIED:
            step.status = WAITING
        else:
            step.status = TIMED_OUT if info.type == "StepTimeout" else FAILED

    def _read_signal(self, step: TextStep, event: Event) -> None:
        if event.kind == EventKind.SIGNAL_AWAITED:
            step.status = WAITING
        elif event.kind == EventKind.SIGNAL_TIMED_OUT:
            step.status = TIMED_OUT
            step.markers = ["timed_out"]
        else:
            step.status = COMPLETED
            step.markers = ["received"]
            step.output = self._decode(event)

    def _take(self, step: TextStep, data: Any) -> None:
        step.status = COMPLETED
        step.error = None
        if isinstance(data, dict):
            step.markers = data.get("markers", [])
            step.context = data.get("context", "")
            step.output = data.get("output")
            step.metrics = data.get("metrics")

    def _read_mark(self, step: TextStep, event: Event) -> None:
        mark = msgspec.json.decode(event.data or b"null")
        if isinstance(mark, dict) and "status" in mark and step.status == RUNNING:
            step.status = mark["status"]
            if step.status == SKIPPED:
                step.attempts = 0
            if step.status == FAILED:
                step.error = mark.get("reason")
            elif mark.get("reason"):
                step.context = mark["reason"]

    def _read_child(self, step: TextStep, event: Event) -> None:
        if event.kind == EventKind.CHILD_STARTED:
            data = msgspec.json.decode(event.data or b"{}")
            step.attempts = step.attempts + 1 if step.run is not None else 1
            step.run = data.get("run")
            step.status = RUNNING
            return
        if event.error is not None:
            info = _error(event)
            step.status = CANCELLED if info.type in ("cancelled", "RunCancelled") else FAILED
            step.error = _message(info)
            _count_attempts(step, info.facts)
            return
        data = self._decode(event)
        if isinstance(data, dict):
            _count_attempts(step, data.get("flow"))
        end = child_end(data).result
        step.status = COMPLETED
        step.error = None
        step.markers, step.context, step.output = end.markers, end.context, end.output

    def _read_foreach(self, step: TextStep, group: _StepEvents, node: ForeachNode) -> None:
        """Derive the outcome of a foreach from its items and the ends of their child runs."""
        step.items = []
        recorded: Any = None
        starts: dict[str, str] = {}
        ends: dict[str, ItemEnd] = {}
        map_ends: list[tuple[str, bytes | None, bytes | None]] | None = None
        for event in group.events:
            identity = event.step or ""
            item_id = identity.partition(CHILD)[2].removesuffix(" end")
            if event.kind == EventKind.STEP_COMPLETED:
                recorded = self._decode(event)
            elif event.kind in (EventKind.STEP_FAILED, EventKind.STEP_RETRIED):
                step.status = FAILED
                step.error = _message(_error(event))
            elif event.kind == EventKind.CHILD_STARTED:
                starts[item_id] = msgspec.json.decode(event.data or b"{}").get("run", "")
            elif event.kind == EventKind.CHILD_ENDED:
                run_id = starts.get(item_id, "")
                ends[item_id] = item_end(self._codec, run_id, event.data, event.error)
            elif event.kind == EventKind.MAP_ENDED:
                map_ends = read_map_end(event.data)
        if recorded is None:
            return
        items = read_items(recorded)
        cycle = find_cycle(items) if node.ordered else []
        if map_ends is not None:
            self._read_map_ends(group.identity, map_ends, items, ends)
        step.items = self._items(group.identity, items, starts, ends)
        self._end_foreach(step, node, items, ends, is_halted=map_ends is not None)
        if cycle and node.on_cycle != "warn":
            step.status = FAILED
            step.error = waits_in_circle(cycle)

    def _read_map_ends(
        self,
        identity: str,
        map_ends: Sequence[tuple[str, bytes | None, bytes | None]],
        items: Sequence[Any],
        ends: dict[str, ItemEnd],
    ) -> None:
        """Read the ends of the items of a map. A map that has halted records only its first
        failure; the runs of the items that completed before it tell their results."""
        if len(map_ends) == len(items):
            for item, end in zip(items, map_ends, strict=True):
                ends[item.id] = item_end(self._codec, *end)
            return
        indexes = {child.id: child.index for child in self._children}
        for child in self._children:
            index = child.index
            if child.step != identity or child.status != COMPLETED or index is None:
                continue
            if index < len(items):
                ends[items[index].id] = item_end(self._codec, child.id, child.result, None)
        for run_id, data, error in map_ends:
            index = indexes.get(run_id)
            if index is not None and index < len(items):
                ends[items[index].id] = item_end(self._codec, run_id, data, error)

    def _end_foreach(
        self,
        step: TextStep,
        node: ForeachNode,
        items: Sequence[Any],
        ends: dict[str, ItemEnd],
        *,
        is_halted: bool,
    ) -> None:
        failed = [item for item, end in ends.items() if end.status == FAILED]
        skipped = _skipped(node, items, failed)
        for item_id in skipped:
            ends.setdefault(item_id, ItemEnd(SKIPPED))
            if step.items is not None and all(entry["item"] != item_id for entry in step.items):
                step.items.append({"item": item_id, "status": SKIPPED, "run": None})
        if node.on_child_fail == "halt" and (failed or (is_halted and len(ends) < len(items))):
            step.status = FAILED
            step.error = next((ends[item].error for item in failed), "an item failed")
        elif len(ends) < len(items):
            step.status = WAITING
            return
        else:
            completes = is_success(node.on_child_fail, items, ends)
            step.status = COMPLETED if completes else FAILED
            step.error = None if completes else ends[failed[0]].error
        result = outcome_of(node.name, node.over.text, items, ends)
        step.context, step.output = result.context, result.output

    def _items(
        self,
        identity: str,
        items: Sequence[Any],
        starts: dict[str, str],
        ends: dict[str, ItemEnd],
    ) -> list[dict[str, Any]]:
        """Return the items in the order in which they started, with their child runs."""
        runs = dict(starts)
        states = {child.id: child.status for child in self._children}
        if not starts:
            by_index = {child.index: child.id for child in self._children if child.step == identity}
            runs = {
                item.id: by_index[index] for index, item in enumerate(items) if index in by_index
            }
        return [
            {
                "item": item_id,
                "status": ends[item_id].status
                if item_id in ends
                else _ENDED_CHILDREN.get(states.get(run_id, ""), states.get(run_id, RUNNING)),
                "run": run_id,
            }
            for item_id, run_id in runs.items()
        ]

    def _decode(self, event: Event) -> Any:
        return self._codec.decode(event.data or b"null")


def _count_attempts(step: TextStep, facts: Any) -> None:
    """Take in the attempts at a call that is a run of its own, which the end of that run tells."""
    attempts = facts.get("attempts") if isinstance(facts, dict) else None
    if step.kind == "call" and isinstance(attempts, int):
        step.attempts = max(step.attempts, attempts)


def _skipped(node: ForeachNode, items: Sequence[Any], failed: Sequence[str]) -> list[str]:
    """Return the items that are skipped because an item before them failed."""
    if node.on_child_fail != "skip_dependents":
        return []
    lost = set(failed)
    skipped: list[str] = []
    changed = True
    while changed:
        changed = False
        for item in items:
            if item.id not in lost and lost.intersection(item.after):
                lost.add(item.id)
                skipped.append(item.id)
                changed = True
    return skipped


def _read_gate(step: TextStep, event: Event) -> None:
    if event.kind == EventKind.GATE_OPENED:
        step.gate = msgspec.json.decode(event.data or b"{}").get("gate")
        step.status = WAITING
    elif event.kind == EventKind.GATE_WITHDRAWN:
        step.status = CANCELLED
    elif event.kind == EventKind.GATE_CLOSED:
        outcome = typed_json.decode(event.data or b"{}", GateOutcome)
        step.gate = outcome.gate
        if event.error is not None:
            step.status = FAILED
            step.error = _message(_error(event))
        elif outcome.rejects:
            step.status = FAILED
            reasons = [decision.feedback for decision in outcome.decisions if decision.feedback]
            step.error = ": ".join(["it was rejected", *reasons[-1:]])
        else:
            step.status = TIMED_OUT if outcome.status == "expired" else COMPLETED


def _error(event: Event) -> ErrorInfo:
    return typed_json.decode(event.error or b'{"type": "", "message": ""}', ErrorInfo)


def _message(info: ErrorInfo) -> str:
    return info.message or info.type
