"""Requests of holders that start children of their runs, and wait for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from holdfast.core import history as run_history
from holdfast.core.budgets import rules as budget_rules
from holdfast.core.duration import as_datetime
from holdfast.core.events import Event, EventKind
from holdfast.core.runs import ChildRecord, Fanout, NewRun
from holdfast.core.status import Status
from holdfast.core.tasks import children as task_children
from holdfast.core.tasks.children import STEP, ChildrenWait
from holdfast.core.tasks.suspension import checked_instant
from holdfast.core.text import is_one_of
from holdfast.errors import BadOption, RunExists
from holdfast.service.instants import Moment, instant
from holdfast.service.requests import Request
from holdfast.service.runs import RunService
from holdfast.service.starts import StartService
from holdfast.service.tasks.lease_state import Deferred, LeaseState
from holdfast.service.tasks.writes import write_as_holder
from holdfast.store.runs.operations import StartChildren
from holdfast.store.store import Store

ON_PARENT_END = ("cancel", "leave")


class TaskChildren:
    """Builds the operations by which holders start children and wait for them."""

    def __init__(self, client: RunService, horizon: int) -> None:
        self._client: RunService = client
        self._store: Store = client.store
        self._starts: StartService = StartService(client)
        self._horizon: int = horizon

    def known(self, held: LeaseState, run_id: str | None) -> str | None:
        """Return the id of a child that a holder has started before with this id, else None. Raises
        RunExists if the id belongs to another run."""
        run = None if run_id is None else self._store.runs.get(run_id)
        if run is None:
            return None
        if run.parent_id != held.run.id:
            raise RunExists(run=run_id, why="it is not a child of the leased run")
        return run.id

    def start(
        self,
        held: LeaseState,
        task: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        options: Mapping[str, Any],
    ) -> Request[str]:
        """Start a child of the run. The answer is its id. Raises BadOption, UnknownWorkflow."""
        child = self._new_child(held, task, args, kwargs, options)
        data = {"run": child.id, "workflow": child.route.workflow}
        request = write_as_holder(
            held,
            [Event(EventKind.CHILD_STARTED, f"child {held.seq + 1}", msgspec.json.encode(data))],
            child.id,
            effects=[StartChildren([child], [Fanout(STEP, 1, eager=False)])],
        )

        def decode(answer: Any) -> str:
            held.has_children = True
            run_id: str = request.decode(answer)
            return run_id

        return Request(request.op, decode)

    def _new_child(
        self,
        held: LeaseState,
        task: Any,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        options: Mapping[str, Any],
    ) -> NewRun:
        parent = held.run
        on_parent_end = options.get("on_parent_end", ON_PARENT_END[0])
        if not is_one_of(on_parent_end, ON_PARENT_END):
            raise BadOption(
                option="on_parent_end", value=on_parent_end, known=", ".join(ON_PARENT_END)
            )
        inherited = {"priority": parent.priority, "share": parent.share}
        child = self._starts.new_run(task, args, kwargs, {**inherited, **options})
        budgets, limits = budget_rules.budgets_of_start(
            options.get("budget"), child.id, parent.budgets
        )
        deadlines = [at for at in (parent.deadline, child.deadline) if at is not None]
        return msgspec.structs.replace(
            child,
            deadline=min(deadlines, default=None),
            parent_id=parent.id,
            parent_step=STEP,
            parent_index=held.seq + 1,
            on_parent_end=on_parent_end,
            root_id=parent.root_id or parent.id,
            budgets=budgets,
            limits=limits,
        )

    # Waiting

    def load(self, held: LeaseState, history: Sequence[Event]) -> None:
        """Set in *held* whether the run has children, and its wait for them."""
        events = run_history.live_events(history)
        held.has_children = task_children.has_children(history)
        held.children_wait = task_children.last_children_wait(events)

    def of_run(self, held: LeaseState) -> list[ChildRecord]:
        """Return the children that holders of the run have started, in the order of their start.
        Raises KeyMissing, BadData if a value cannot be read."""
        children = self._store.children.all(held.run.id, [STEP])
        return self._client.sealer.opener.children(children)

    def wait(self, held: LeaseState, timeout: Moment | None) -> Request[Any]:
        """Give back the lease until the children have ended. The answer is Deferred, or
        RevisionChanged if something reached the run meanwhile. Raises BadWait, BadOption."""
        run = self._store.runs.get(held.run.id)
        children = self._store.children.all(held.run.id, [STEP])
        if not children:
            raise BadOption(option="children", why="the run has none: start them before the wait")
        now = self._store.now()
        until = None
        if timeout is not None:
            until = checked_instant("timeout", instant(timeout, now), now, self._horizon)
        wait = ChildrenWait(until, task_children.failed_children(children))
        event = Event(EventKind.CHILDREN_AWAITED, STEP, msgspec.json.encode(wait))
        revision = None if run is None else run.revision
        return self._park(held, wait, children, [event], revision)

    def _park(
        self,
        held: LeaseState,
        wait: ChildrenWait,
        children: Sequence[ChildRecord],
        events: list[Event],
        revision: int | None,
    ) -> Request[Any]:
        """Park the run on its children, or leave it claimable if none of them is open."""
        is_open = bool(task_children.open_children(children))
        until = None if wait.until is None else as_datetime(wait.until)
        status = Status.WAITING if is_open else Status.PENDING
        return write_as_holder(
            held,
            events,
            Deferred(status, until if is_open else None),
            status=status,
            release=True,
            revision=revision,
            waits=msgspec.json.encode([wait.as_wait(children)]) if is_open else None,
            wake_at=wait.until if is_open else None,
        )

    def judge(self, held: LeaseState, children: Sequence[ChildRecord]) -> Request[bool] | None:
        """Return the request that parks a run again whose wait for its children is not over; None
        if its next holder may have it."""
        wait = held.children_wait
        assert wait is not None
        if wait.is_over(children, self._store.now()):
            return None
        request = self._park(held, wait, children, [], None)

        def decode(answer: Any) -> bool:
            request.decode(answer)
            return False

        return Request(request.op, decode)
