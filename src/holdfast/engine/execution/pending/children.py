"""Children: starting them, waiting for one of them, for all of a map, or for all before the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import msgspec

from holdfast.core.budgets import rules as budget_rules
from holdfast.core.commands import AwaitChild, EndChildren, StartChild, StartMap
from holdfast.core.definitions import StoredDefinition, frozen_definition
from holdfast.core.events import Event, EventKind
from holdfast.core.runs import (
    UNAWAITED,
    CancelCause,
    Cancellation,
    ChildRecord,
    Fanout,
    NewRun,
    child_record,
)
from holdfast.core.status import FINAL, Status
from holdfast.core.trace_context import tags_of_child
from holdfast.core.waits import WaitKind
from holdfast.engine.execution.pending.base import Execution, Handler, Pending
from holdfast.engine.runtime.ids import new_id
from holdfast.store.runs.operations import CancelChildren, CancelOtherRun

FEW = 4
"""How many children are looked up one by one."""

PORTION = 2000
"""How many children of a map one commit starts at most: other writers wait meanwhile."""

OpenChildren = Callable[[Iterable[ChildRecord]], list[ChildRecord]]
"""Opens the sealed values of children."""


class PendingChild(Pending):
    """A wait for one child."""

    __slots__ = ()

    is_listed_whole = False

    def __init__(self, command: AwaitChild) -> None:
        self.command: AwaitChild = command

    def as_wait(self) -> dict[str, Any]:
        return {"kind": WaitKind.CHILD, "step": self.command.id, "run": self.command.run_id}

    def on_drop(self, run: Execution) -> None:
        _forget(run, self)
        if self.command.owned:
            run.commit.add(CancelOtherRun(self.command.run_id, *UNAWAITED))

    def found(self, run: Execution, child: ChildRecord) -> None:
        """Report that the child has ended."""
        run.mailbox.add_finding(ended_at(child), partial(self._take, run, child))

    def _take(self, run: Execution, child: ChildRecord, events: list[Event]) -> None:
        if run.pending.take(self):
            _forget(run, self)
            (opened,) = run.context.sealer.opener.children([child])
            events.append(
                Event(
                    EventKind.CHILD_ENDED,
                    self.command.id,
                    data=opened.result,
                    error=_error(opened),
                )
            )


def find_ended_children(run: Execution, revision: int) -> None:
    """Find the awaited children that have ended since the last time; *revision* is that of the run
    now.

    The revision of a run grows with the end of a child, and the child has it: so the children that
    go on cost nothing. A child that the run did not wait for when it ended is read by itself.
    """
    awaited = run.state.children
    unread = awaited.unread
    awaited.unread = []
    if run.state.run.forked_from is not None:
        _find_one_by_one(run, run.pending.of(PendingChild))
        return
    ended = run.context.store.children.ended(run.state.run.id, since=awaited.revision)
    awaited.revision = revision
    for child in ended:
        for wait in awaited.waits.get(child.id, ()):
            wait.found(run, child)
    if unread:
        _find_unread(run, unread)


def _find_unread(run: Execution, waits: Sequence[PendingChild]) -> None:
    """Find the children of these waits that have ended. Many are read together."""
    if len(waits) < FEW:
        _find_one_by_one(run, waits)
        return
    steps = [wait.command.start for wait in waits]
    children = run.context.store.children.ended(run.state.run.id, steps)
    ended = {child.id: child for child in children}
    for wait in waits:
        child = ended.get(wait.command.run_id)
        if child is not None:
            wait.found(run, child)


def _find_one_by_one(run: Execution, waits: Sequence[PendingChild]) -> None:
    for wait in waits:
        child = _child_of(run, wait)
        if child is not None and child.status in FINAL:
            wait.found(run, child)


def _forget(run: Execution, wait: PendingChild) -> None:
    """Forget a wait that is over."""
    waits = run.state.children.waits.get(wait.command.run_id, [])
    if wait in waits:
        waits.remove(wait)
    if not waits:
        run.state.children.waits.pop(wait.command.run_id, None)


def _child_of(run: Execution, wait: PendingChild) -> ChildRecord | None:
    """Return the child; a fork may wait for a child of the run that was forked."""
    store = run.context.store
    children = store.children.all(run.state.run.id, [wait.command.start])
    own = next((child for child in children if child.id == wait.command.run_id), None)
    if own is not None or run.state.run.forked_from is None:
        return own
    other = store.runs.get(wait.command.run_id)
    if other is None:
        return None
    return child_record(other)


class PendingMap(Pending):
    """A wait for all children of a map."""

    __slots__ = ("ended", "started")

    def __init__(self, command: StartMap, started: int) -> None:
        self.command: StartMap = command
        self.started: int = started
        self.ended: int = 0

    def as_wait(self) -> dict[str, Any]:
        total = len(self.command.inputs)
        return {
            "kind": WaitKind.CHILDREN,
            "step": self.command.id,
            "open": total - self.ended,
            "of": total,
        }

    def on_change(self, run: Execution) -> None:
        children = run.context.store.children.all(run.state.run.id, [self.command.id])
        instant = self.decided_at(children)
        if instant is None:
            start_more(run, self, self.room(children))
        else:
            run.mailbox.add_finding(instant, partial(self._take, run, children))

    def on_drop(self, run: Execution) -> None:
        self._cancel_rest(run, UNAWAITED)

    def room(self, children: list[ChildRecord]) -> int:
        """Return how many more children the next commit may start."""
        self.ended = sum(child.status in FINAL for child in children)
        return self.startable()

    @property
    def is_limited(self) -> bool:
        """Whether children wait for the end of others. If not, the run needs to know only when the
        last one has ended: to read all children at each end costs a sixth of a large map."""
        limit = self.command.max_parallel
        return limit is not None and limit < len(self.command.inputs)

    def startable(self) -> int:
        """Return how many more children the next commit may start, by the ends that are known."""
        left = min(len(self.command.inputs) - self.started, PORTION)
        limit = self.command.max_parallel
        if limit is None:
            return left
        return max(min(left, limit - (self.started - self.ended)), 0)

    def decided_at(self, children: list[ChildRecord]) -> int | None:
        """Return when the outcome of the map was certain; None while it is not."""
        failed = _failed(children)
        if failed and self.command.fail_fast:
            return min(map(ended_at, failed))
        ended = [child for child in children if child.status in FINAL]
        if len(ended) < len(self.command.inputs):
            return None
        return max(map(ended_at, ended))

    def outcome(self, children: list[ChildRecord], opened: OpenChildren) -> Event:
        """Return the event of the map's end, now that its outcome is certain."""
        self.ended = sum(child.status in FINAL for child in children)
        failed = _failed(children)
        if failed and self.command.fail_fast:
            children = [min(failed, key=ended_at)]
        else:
            children = sorted(children, key=lambda child: child.parent_index or 0)
        ends = [_end(child) for child in opened(children)]
        error = next((bytes(failure) for _, _, failure in ends if failure is not None), None)
        data = msgspec.json.encode(ends)
        return Event(EventKind.MAP_ENDED, self.command.id, data=data, error=error)

    def _take(self, run: Execution, children: list[ChildRecord], events: list[Event]) -> None:
        if run.pending.take(self):
            events.append(self.outcome(children, run.context.sealer.opener.children))
            if self.ended < len(self.command.inputs):
                sibling_failed = Cancellation("one of its siblings failed", CancelCause.PARENT)
                self._cancel_rest(run, sibling_failed)

    def _cancel_rest(self, run: Execution, cancellation: Cancellation) -> None:
        """Cancel the open children of the map with the next commit."""
        for child in run.context.store.children.all(run.state.run.id, [self.command.id]):
            if child.status not in FINAL:
                run.commit.add(CancelOtherRun(child.id, *cancellation))


def unstarted_maps(run: Execution) -> list[PendingMap]:
    """Return the maps that have more children to start with the next commit."""
    return [pending for pending in run.pending.of(PendingMap) if pending.startable() > 0]


class PendingChildren(Pending):
    """A wait for the ends of all children that were cancelled because the run stops."""

    __slots__ = ()

    def __init__(self, command: EndChildren) -> None:
        self.command: EndChildren = command

    def as_wait(self) -> dict[str, Any]:
        return {"kind": WaitKind.CHILDREN_END, "step": self.command.id}

    def on_change(self, run: Execution) -> None:
        if run.commit.of(CancelChildren):
            return  # the store does not know all children before the commit that cancels them
        is_released = run.signals.release_of(self.command.id) is not None
        if is_released or not run.context.store.children.open(run.state.run.id, limit=1):
            take = partial(self._take, run, is_released)
            run.mailbox.add_finding(run.state.now(), take)

    def outcome(self, *, is_released: bool) -> Event:
        """Return the event of the end of the wait; *is_released* says that an operator ended it."""
        data = msgspec.json.encode({"released": is_released})
        return Event(EventKind.CHILDREN_ENDED, self.command.id, data)

    def _take(self, run: Execution, is_released: bool, events: list[Event]) -> None:
        if run.pending.take(self):
            releases = run.signals.take_releases(self.command.id)
            if releases:
                run.commit.take(releases)
            events.append(self.outcome(is_released=is_released))


def ended_at(child: ChildRecord) -> int:
    """Return when a child ended."""
    return child.finished_at or 0


def _failed(children: list[ChildRecord]) -> list[ChildRecord]:
    return [
        child
        for child in children
        if child.status in FINAL and child.status is not Status.COMPLETED
    ]


def _end(child: ChildRecord) -> tuple[str, msgspec.Raw | None, msgspec.Raw | None]:
    result = child.result
    error = _error(child)
    return (
        child.id,
        None if result is None else msgspec.Raw(result),
        None if error is None else msgspec.Raw(error),
    )


def _error(child: ChildRecord) -> bytes | None:
    if child.status is Status.COMPLETED:
        return None
    status = child.status.value
    return child.error or msgspec.json.encode({"type": status, "message": f"the run is {status}"})


# Starting


def _start_child(run: Execution, command: StartChild) -> Event:
    child = new_child(run, command, command.input, None)
    run.commit.start([child])
    run.state.had_children = True
    data: dict[str, object] = {"run": child.id, "workflow": command.route.workflow}
    if command.options.get("id"):
        data["chosen"] = True  # if a replay voids this start, the next one finds the same run
    return Event(EventKind.CHILD_STARTED, command.id, msgspec.json.encode(data))


def new_child(
    run: Execution, command: StartChild | StartMap, data: bytes, index: int | None
) -> NewRun:
    """Return a child of the run, to be created with the next commit."""
    options = command.options
    parent = run.state.run
    now = run.state.now()
    if command.target.definition is not None:
        run.context.learn(command.target.definition)
    policy = _policy_of(command)
    delay = options.get("delay")
    deadline = options.get("deadline")
    run_id = options.get("id") or new_id()
    budgets, limits = budget_rules.budgets_of_start(options.get("budget"), run_id, parent.budgets)
    deadlines = [parent.deadline, None if deadline is None else now + deadline]
    return NewRun(
        id=run_id,
        route=command.route,
        input=data,
        priority=options.get("priority", parent.priority),
        tags=tags_of_child(
            options.get("tags") or {}, parent.id, run.context.writer.metrics.tracing
        ),
        available_at=None if delay is None else now + delay,
        deadline=min((instant for instant in deadlines if instant is not None), default=None),
        session_id=None if policy is not None else run.context.lease_for(command.route),
        parent_id=parent.id,
        parent_step=command.id,
        parent_index=index,
        on_parent_end=options.get("on_parent_end", "cancel"),
        root_id=parent.root_id or parent.id,
        budgets=budgets,
        limits=limits,
        share=options.get("share", parent.share),
        policy=policy,
        same=run.context.sealer.has_same_input,
        definition=_unstored(run, command.target.definition, command.route.namespace),
    )


def _unstored(run: Execution, definition: Any, namespace: str) -> StoredDefinition | None:
    """Return the definition that the child keeps, unless it is known to be stored."""
    frozen = frozen_definition(definition, namespace)
    if frozen is None or run.context.stored_definitions.kept.has(frozen):
        return None
    return frozen


def _policy_of(command: StartChild | StartMap) -> bytes | None:
    """Return the policy of a child that is a task."""
    if isinstance(command, StartMap) or command.policy is None:
        return None
    return msgspec.json.encode(command.policy)


def _await_child(run: Execution, command: AwaitChild) -> None:
    pending = PendingChild(command)
    run.pending.add(pending)
    run.state.children.waits.setdefault(command.run_id, []).append(pending)
    if not any(child.id == command.run_id for child in run.commit.children):
        run.state.children.unread.append(pending)
        run.mailbox.notify()  # it may have ended before the code waited for it


def _start_map(run: Execution, command: StartMap) -> Event | None:
    if not command.inputs:
        return Event(EventKind.MAP_ENDED, command.id, b"[]")
    run.state.had_children = True
    pending = PendingMap(command, 0)
    run.pending.add(pending)
    if command.id in run.state.progress.maps:
        started = run.context.store.children.all(run.state.run.id, [command.id])
        pending.started = len(started)
        run.mailbox.notify()
        return None
    data = msgspec.json.encode({"count": len(command.inputs), "workflow": command.route.workflow})
    run.commit.events.append(Event(EventKind.MAP_STARTED, command.id, data))
    start_more(run, pending, pending.room([]))
    return None


def start_more(run: Execution, pending: PendingMap, count: int) -> None:
    """Start the next *count* children of a map."""
    if count == 0:
        return
    command = pending.command
    places = range(pending.started, pending.started + count)
    run.commit.start(
        (new_child(run, command, command.inputs[place], place) for place in places),
        Fanout(command.id, count, eager=pending.is_limited),
    )
    pending.started += count


def _end_children(run: Execution, command: EndChildren) -> Event | None:
    pending = PendingChildren(command)
    has_open = run.context.store.children.open(run.state.run.id, limit=1)
    if not run.commit.children and not has_open:
        return pending.outcome(is_released=False)
    run.commit.add(CancelChildren(run.state.cancellation_of_children()))
    run.pending.add(pending)
    return None


HANDLERS: dict[type, Handler] = {
    StartChild: _start_child,
    AwaitChild: _await_child,
    StartMap: _start_map,
    EndChildren: _end_children,
}
