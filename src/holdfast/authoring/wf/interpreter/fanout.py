"""``foreach``: one child run per item of a provider.

The items are recorded once, by a step. Items without an order are one ``StartMap``; ordered items
are started one by one, each when the items before it have ended.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.authoring.wf.ast import ForeachNode
from holdfast.authoring.wf.identity import CHILD, ITEMS
from holdfast.authoring.wf.interpreter.children import ChildStart, ChildStarts, run_child
from holdfast.authoring.wf.interpreter.failures import StepFault, fail, step_fault
from holdfast.authoring.wf.interpreter.fanout_outcome import (
    ItemEnd,
    ItemRecord,
    find_cycle,
    is_success,
    item_data,
    outcome_of,
    read_items,
    waits_in_circle,
    without_cycles,
)
from holdfast.authoring.wf.interpreter.machine import Machine, error_of
from holdfast.authoring.wf.interpreter.plan import PlanNode
from holdfast.authoring.wf.interpreter.state import FAILED, FlowState, Place
from holdfast.authoring.wf.registrations import Ask, ItemProvider
from holdfast.authoring.wf.variables import VariableMap, substitute, substitute_known
from holdfast.core import typed_json
from holdfast.core.commands import RunStep, StartMap
from holdfast.core.events import EventKind
from holdfast.core.runs import ErrorInfo
from holdfast.core.step_info import StepInfo, current_step
from holdfast.core.trace_context import span_of
from holdfast.errors.wf_runs import BadItem, FanoutFailed


class ForeachRun:
    """One foreach node in one iteration: where it is, and the variables at that point."""

    def __init__(self, machine: Machine, plan: PlanNode, state: FlowState, place: Place) -> None:
        self.machine: Machine = machine
        self.plan: PlanNode = plan
        self.node: ForeachNode = plan.node
        self.identity: str = place.path + plan.local
        self.variables: VariableMap = state.variables(place.extra)
        self.ends: dict[str, ItemEnd] = {}
        self._starts: ChildStarts | None = None
        self._outer: dict[str, Any] = {}
        """The variables that every item inherits."""

    async def collect(self) -> list[ItemRecord]:
        """Return the items, which a step records. Raises StepFault."""
        command = RunStep(
            f"{self.identity}{ITEMS}", self.node.name, self._ask(), True, self.plan.policy
        )
        event = await self.machine.call(command)
        if event.kind == EventKind.STEP_FAILED:
            raise step_fault(event)
        return read_items(self.machine.read(event))

    def _ask(self) -> Any:
        machine = self.machine
        node = self.node
        ask = Ask(
            {name: substitute(text, self.variables) for name, text in node.scope},
            {name: substitute(text, self.variables) for name, text in node.filter},
            machine.run_id,
            machine.document.name,
            machine.cwd,
            machine.host.query_runs(),
        )

        async def call(info: StepInfo, connection: Any) -> Any:
            provider = machine.host.find_provider(node.over.text)
            if provider is None:
                raise BadItem(provider=node.over.text, why="this worker has no such provider")
            outer = current_step.set(info)
            try:
                with span_of(info):
                    answer = await _answer_of(provider, ask)
                return item_data(node.over.text, answer)
            finally:
                current_step.reset(outer)

        return call

    def start_of(self, item: ItemRecord) -> ChildStart:
        """Return the start of the child run of an item. Raises StepFault."""
        if self._starts is None:
            self._starts = self._prepare()
        own = item.variables()
        inputs = dict(self._outer)
        if self.node.inputs:
            variables = self.variables.with_values(own)
            for name, text in self.node.inputs:
                inputs[name] = substitute_known(text, variables)
        inputs.update(own)
        return self._starts.start(inputs)

    def _prepare(self) -> ChildStarts:
        """Return the starts of all items: of a workflow, or of the body in the text, which sees the
        variables of the run. Raises StepFault."""
        machine = self.machine
        actor = machine.arguments.identity
        if self.node.do is None:
            assert self.node.workflow is not None
            return ChildStarts(
                machine, self.node.workflow.text, lane=self.node.lane, identity=actor, items=True
            )
        self._outer = {**machine.owner.visible_variables(self.variables), **machine.typed}
        return ChildStarts(
            machine,
            machine.owner.name,
            lane=self.node.lane,
            identity=actor,
            body=machine.owner.template(machine.arguments, self.identity),
            items=True,
        )


async def _answer_of(provider: ItemProvider, ask: Ask) -> Any:
    """Call a provider; a ``def`` function runs in a thread."""
    if inspect.iscoroutinefunction(provider.run):
        return await provider.run(ask)
    answer = await asyncio.to_thread(provider.run, ask)
    if inspect.isawaitable(answer):
        answer = await answer
    return answer


async def run_foreach(machine: Machine, plan: PlanNode, state: FlowState, place: Place) -> None:
    """Execute a foreach node. Raises Stopped."""
    fanout = ForeachRun(machine, plan, state, place)
    node = fanout.node
    try:
        items = await fanout.collect()
        is_stalled = False
        if node.ordered:
            items, is_stalled = _ordered(machine, plan, items)
            await _run_ordered(fanout, items)
        elif items:
            await _run_unordered(fanout, items)
        if not is_success(node.on_child_fail, items, fanout.ends):
            raise _failure(machine, fanout, items)
    except StepFault as fault:
        state.results[plan.key] = FAILED
        fail(machine, state, fault.error)
        return
    result = outcome_of(node.name, node.over.text, items, fanout.ends)
    if is_stalled:
        result = msgspec.structs.replace(result, markers=[*result.markers, "foreach_stalled"])
    state.complete(plan.key, result, place.iterations, machine.fixed)


def _failure(machine: Machine, fanout: ForeachRun, items: Sequence[ItemRecord]) -> StepFault:
    failed = [item for item, end in fanout.ends.items() if end.status == "failed"]
    error = FanoutFailed(
        foreach=fanout.node.name,
        where=machine.where(fanout.plan.line),
        items=len(items),
        failed=", ".join(failed[:20]),
        first=next((fanout.ends[item].error for item in failed), ""),
    )
    return StepFault(ErrorInfo("FanoutFailed", str(error)), error, 1)


def _ordered(
    machine: Machine, plan: PlanNode, items: list[ItemRecord]
) -> tuple[list[ItemRecord], bool]:
    """Return the items without circles of dependencies, or refuse them. Raises StepFault."""
    cycle = find_cycle(items)
    if not cycle:
        return items, False
    if plan.node.on_cycle == "warn":
        return without_cycles(items)
    error = FanoutFailed(
        foreach=plan.node.name,
        where=machine.where(plan.line),
        why=waits_in_circle(cycle),
    )
    raise StepFault(ErrorInfo("FanoutFailed", str(error)), error, 1)


async def _run_unordered(fanout: ForeachRun, items: Sequence[ItemRecord]) -> None:
    """Run one child per item, all in one command."""
    starts = [fanout.start_of(item) for item in items]
    node = fanout.node
    command = StartMap(
        fanout.identity,
        starts[0].target,
        starts[0].route,
        [start.input for start in starts],
        {},
        max(node.max_parallel, 1),
        node.on_child_fail == "halt",
    )
    program = fanout.machine.program
    program.open_children.add(command.id)
    event = await fanout.machine.call(command)
    ends = read_map_end(event.data)
    if len(ends) == len(items):
        program.open_children.discard(command.id)
        for item, (run_id, data, error) in zip(items, ends, strict=True):
            fanout.ends[item.id] = item_end(fanout.machine.program.codec, run_id, data, error)
        return
    for run_id, data, error in ends:  # only the first failure is reported
        end = item_end(fanout.machine.program.codec, run_id, data, error)
        fanout.ends[f"run {run_id}"] = end


def read_map_end(data: bytes | None) -> list[tuple[str, bytes | None, bytes | None]]:
    """Return the ends of the children of a map: run, result, error."""
    ends = typed_json.decode(data or b"[]", list[tuple[str, msgspec.Raw, msgspec.Raw]])
    return [(run_id, _raw(result), _raw(error)) for run_id, result, error in ends]


def _raw(value: Any) -> bytes | None:
    data = None if value is None else bytes(value)
    if data == b"null":
        return None
    return data


def item_end(codec: Any, run_id: str, data: bytes | None, error: bytes | None) -> ItemEnd:
    """Return how the child run of an item ended."""
    if error is not None:
        info = typed_json.decode(error, ErrorInfo)
        return ItemEnd("failed", None, run_id, info.message)
    return ItemEnd("completed", output_of_child(codec.decode(data or b"null")), run_id)


def output_of_child(value: Any) -> Any:
    """Return the structured output in the result of a child, of whatever kind."""
    if isinstance(value, dict) and value.keys() <= {"markers", "context", "output", "flow"}:
        return value.get("output")
    return value


class _Order:
    """Which items are ready: those whose blockers have all ended. Ready items wait in line."""

    def __init__(self, items: Sequence[ItemRecord]) -> None:
        self.items: dict[str, ItemRecord] = {item.id: item for item in items}
        self.open: dict[str, set[str]] = {item.id: set(item.after) for item in items}
        self.dependents: dict[str, list[str]] = {}
        for item in items:
            for name in item.after:
                self.dependents.setdefault(name, []).append(item.id)
        self.ready: deque[str] = deque(item.id for item in items if not item.after)

    def end(self, item_id: str) -> None:
        """Note that an item has ended: items that waited for it alone are ready."""
        for name in self.dependents.get(item_id, ()):
            blockers = self.open[name]
            if item_id in blockers:
                blockers.discard(item_id)
                if not blockers:
                    self.ready.append(name)

    def all_dependents(self, item_id: str) -> list[str]:
        """Return the items that depend on an item, directly or not, in order."""
        queue = deque(self.dependents.get(item_id, ()))
        dependents: dict[str, None] = {}
        while queue:
            name = queue.popleft()
            if name not in dependents:
                dependents[name] = None
                queue.extend(self.dependents.get(name, ()))
        return list(dependents)


async def _run_ordered(fanout: ForeachRun, items: Sequence[ItemRecord]) -> None:
    """Run one child per item, each after the items that it depends on."""
    order = _Order(items)
    limit = max(fanout.node.max_parallel, 1)
    running: dict[asyncio.Task[ItemEnd], str] = {}
    # Not asyncio.wait, whose cost grows with the number of items that are running.
    ended: asyncio.Queue[asyncio.Task[ItemEnd]] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    try:
        while True:
            while order.ready and len(running) < limit:
                item_id = order.ready.popleft()
                if item_id not in fanout.ends:
                    task = loop.create_task(_run_item(fanout, order.items[item_id]))
                    task.add_done_callback(ended.put_nowait)
                    running[task] = item_id
            if not running:
                return
            task = await ended.get()
            if _note_item(fanout, order, running.pop(task), task.result()):
                return
    finally:
        for task in running:
            task.cancel()
        if running and not fanout.machine.program.closing:
            await asyncio.wait(running)


def _note_item(fanout: ForeachRun, order: _Order, item_id: str, end: ItemEnd) -> bool:
    """Take in the end of an item; return whether the foreach halts."""
    fanout.ends[item_id] = end
    if end.status == "failed":
        policy = fanout.node.on_child_fail
        if policy == "halt":
            return True
        if policy == "skip_dependents":
            for name in order.all_dependents(item_id):
                if name not in fanout.ends:
                    fanout.ends[name] = ItemEnd("skipped")
                    order.end(name)
    order.end(item_id)
    return False


async def _run_item(fanout: ForeachRun, item: ItemRecord) -> ItemEnd:
    command_id = f"{fanout.identity}{CHILD}{item.id}"
    run_id, event = await run_child(fanout.machine, command_id, fanout.start_of(item))
    if event.error is not None:
        return ItemEnd("failed", None, run_id, error_of(event).message)
    value = fanout.machine.read(event)
    return ItemEnd("completed", output_of_child(value), run_id)
