"""The open tasks of models, in pages: gates for people, and children that remote workers lease.

Both are read from their own rows, in the order of their ids, which is the order in which they were
opened. The variables of an instance are read once per run, from its last checkpoint on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple

from holdfast.connect.components import Components
from holdfast.core import history as run_history
from holdfast.core.gates.model import Gate
from holdfast.core.messages import element_of
from holdfast.core.program import OfflineContext
from holdfast.core.runs import RunRecord
from holdfast.core.validation import checked_count, checked_string, checked_text
from holdfast.engine.worker.claimed_runs import history_to_load
from holdfast.errors import KeyMissing, StoreError
from holdfast.store.messages.queries import ExternalTask
from holdfast.views.model_runs import ModelTaskView
from holdfast.views.values import instant, optional_instant


class TaskFilter:
    """Which open tasks are listed."""

    def __init__(
        self,
        parts: Components,
        *,
        run: str | None,
        process: str | None,
        element: str | None,
        mine: str | None,
        role: str | None,
        after: str | None,
        limit: int,
    ) -> None:
        self.run_id: str | None = None if run is None else parts.client.get(run).id
        self.process: str | None = checked_string("process", process)
        self.element: str | None = checked_text("element", element)
        self.mine: str | None = mine
        self.role: str | None = role
        self.after: str | None = checked_string("after", after)
        self.limit: int = checked_count("limit", limit)

    @property
    def only_people(self) -> bool:
        """Whether only user tasks can match."""
        return self.mine is not None or self.role is not None


def tasks(parts: Components, which: TaskFilter) -> list[ModelTaskView]:
    """Return the open work of models, oldest first. Raises RunNotFound, BadOption."""
    instances = _Instances(parts)
    views = list(islice(_user_tasks(parts, which, instances), which.limit))
    if not which.only_people:
        views += list(_external_tasks(parts, which, instances))
    return sorted(views, key=lambda view: view.id)[: which.limit]


# People


def _user_tasks(
    parts: Components, which: TaskFilter, instances: _Instances
) -> Iterator[ModelTaskView]:
    """Yield the open gates that belong to models."""
    after = which.after
    while True:
        page = parts.gates.find(
            run=which.run_id,
            workflow=which.process,
            mine=which.mine,
            role=() if which.role is None else which.role,
            after=after,
            limit=which.limit,
        )
        for gate in page:
            shown = parts.codec.decode(gate.data) if gate.data else None
            if not isinstance(shown, dict) or "element" not in shown:
                continue  # a gate that is not part of a model
            task = _user_task(gate, shown, instances.of(gate.run_id))
            if which.element in (None, task.element):
                yield task
        if len(page) < which.limit:
            return
        after = page[-1].id


def _user_task(gate: Gate, shown: Mapping[str, Any], instance: InstanceFacts) -> ModelTaskView:
    return ModelTaskView(
        id=gate.id,
        kind="user",
        run_id=gate.run_id,
        process=str(shown.get("process", "")),
        element=instance.places.get(gate.step, str(shown["element"])),  # it may have been renamed
        name=gate.prompt,
        variables={**instance.variables, **(shown.get("local") or {})},
        form=gate.terms.form,
        assignees=gate.assignees,
        roles=gate.roles,
        since=instant(gate.opened_at),
        due=optional_instant(shown.get("due_at")),
    )


class InstanceFacts(NamedTuple):
    """What the tasks of one run share."""

    variables: Mapping[str, Any]
    places: Mapping[str, str]
    """The elements of its waits: a migration may have renamed them."""


class _Instances:
    """The runs that a list shows; each run and each model is read once."""

    def __init__(self, parts: Components) -> None:
        self._parts: Components = parts
        self._of_runs: dict[str, InstanceFacts] = {}
        self._definitions: dict[tuple[str, str, str], Any] = {}

    def of(self, run_id: str) -> InstanceFacts:
        """Return the facts about a run; none if it is not the run of a model, or if its history is
        damaged: its tasks, and those of all other runs, can still be listed and completed."""
        facts = self._of_runs.get(run_id)
        if facts is None:
            try:
                facts = self._read(run_id)
            except (KeyMissing, StoreError):
                raise
            except Exception:  # damaged data may fail anywhere in the replay
                facts = InstanceFacts({}, {})
            self._of_runs[run_id] = facts
        return facts

    def element(self, task: ExternalTask) -> str:
        """Return the element of an external task, which a migration may have renamed."""
        return self.of(task.run_id).places.get(task.step, element_of(task.step))

    def _read(self, run_id: str) -> InstanceFacts:
        parts = self._parts
        with parts.store.snapshot() as view:  # a migration changes the version and the state
            run = view.runs.get(run_id)
            definition = None if run is None else self._definition(run)
            if run is None or definition is None:
                return InstanceFacts({}, {})
            history = history_to_load(view, run.id)
        events = parts.sealer.opener.events(run.id, history)
        loaded = run_history.load(events) if events else run_history.LoadedHistory()
        opened = parts.sealer.opener.run(run)
        context = OfflineContext(parts.codec)
        return InstanceFacts(*definition.overview(opened, loaded.events, loaded.state, context))

    def _definition(self, run: RunRecord) -> Any:
        route = (run.namespace, run.workflow, run.version)
        if route not in self._definitions:
            self._definitions[route] = self._parts.kinds.inspectable(*route)
        return self._definitions[route]


# External workers


def _external_tasks(
    parts: Components, which: TaskFilter, instances: _Instances
) -> Iterator[ModelTaskView]:
    """Yield the open external tasks."""
    after = which.after or ""
    matched = 0
    while True:
        page = parts.store.messages.external_tasks(
            parts.client.only, which.run_id, after, which.limit
        )
        runs = {run.id: run for run in parts.store.runs.by_id([task.id for task in page])}
        for task in page:
            if which.process not in (None, task.process) or task.id not in runs:
                continue
            element = instances.element(task)
            if which.element in (None, element):
                yield _external_task(parts, task, runs[task.id], element)
                matched += 1
        if len(page) < which.limit or matched >= which.limit:
            return
        after = page[-1].id


def _external_task(
    parts: Components, task: ExternalTask, run: RunRecord, element: str
) -> ModelTaskView:
    arguments = parts.codec.decode(parts.sealer.opener.run(run).input)
    variables = arguments[0] if arguments and isinstance(arguments[0], dict) else {}
    return ModelTaskView(
        id=task.id,
        kind="external",
        run_id=task.run_id,
        process=task.process,
        element=element,
        name=element,
        variables=variables,
        topic=task.topic,
        since=instant(task.created_at),
    )
