"""``engine.models``: deployed definitions, and the runs of models."""

from __future__ import annotations

import builtins
import time
from collections.abc import Mapping
from typing import Any

from holdfast.connect import model_runs
from holdfast.connect.async_calls import AsyncCalls
from holdfast.connect.components import Components
from holdfast.connect.migrations import checked_mapping
from holdfast.connect.model_procedures import decide, deploy, set_state
from holdfast.connect.model_tasks import TaskFilter, tasks
from holdfast.core.definitions import DefinitionState, StoredDefinition
from holdfast.core.duration import Duration
from holdfast.core.validation import checked_flag, checked_text
from holdfast.errors import MappingRefused, Unanswered
from holdfast.views import models as views
from holdfast.views.model_runs import (
    BroadcastView,
    DeliveryView,
    IncidentView,
    MigrationView,
    ModelTaskView,
    TokenView,
    TraceView,
    diagram_of,
    token_of,
    trace_of,
)
from holdfast.views.models import DeploymentView, ModelView

PATIENCE = 30.0
"""Seconds for which a caller waits until a worker has applied its instruction."""


class AsyncModels:
    """The deployed definitions of an ``AsyncEngine``, and the runs of models."""

    def __init__(self, calls: AsyncCalls) -> None:
        self._calls: AsyncCalls = calls

    async def deploy(
        self,
        *sources: Any,
        saga: str | None = None,
        element_events: bool = False,
        by: str | None = None,
        reason: str | None = None,
    ) -> DeploymentView:
        """Deploy models, all or none: paths of ``.bpmn``, ``.dmn`` and ``.wf`` files, their bytes,
        open files, processes as dicts, or text workflows of a library.

        The same content is the same version. *saga* (``scope`` or ``instance``) compensates the
        completed activities there when a task has used up its retries. With *element_events* the
        histories of new runs, and so subscribers and webhooks, have an event for each element that
        a run enters, completes or cancels. The audit log has who deploys (*by*) and the *reason*.
        Raises ModelUnreadable, ModelRefused, ModelKindUnknown, BadOption, BadSchedule, and
        WorkflowExists for the name of a workflow of this process.
        """
        options = {"saga": saga, "element_events": element_events}
        return await self._calls.call(lambda parts: deploy(parts, sources, options, by, reason))

    async def list(self) -> list[ModelView]:
        """Return all versions of the deployed models, by name and version."""
        return await self._calls.call(
            lambda parts: [_view(parts, stored) for stored in parts.models.list()]
        )

    async def get(self, process: str, version: int | str | None = None) -> ModelView:
        """Return a deployed model: one version, or the one that new runs use. Raises
        ModelNotFound."""
        return await self._calls.call(
            lambda parts: _view(parts, parts.models.get(process, version))
        )

    async def decide(
        self,
        decision: str,
        variables: Mapping[str, Any] | None = None,
        *,
        version: int | str | None = None,
    ) -> Any:
        """Evaluate a deployed decision, by its name or id, and return its value.

        *variables* are the values of its inputs; without *version*, the version that new runs use.
        Raises ModelNotFound, DecisionNotFound, RulesOverlap, RulesDisagree, BadExpression,
        BadOption.
        """
        return await self._calls.call(lambda parts: decide(parts, decision, variables, version))

    async def activate(
        self,
        process: str,
        version: int | str,
        *,
        by: str | None = None,
        reason: str | None = None,
    ) -> None:
        """Let new runs use this version. The audit log has who asked for it (*by*) and the
        *reason*. Raises ModelNotFound, BadSchedule, BadOption."""
        state = DefinitionState.ACTIVE
        await self._calls.call(lambda parts: set_state(parts, process, version, state, by, reason))

    async def deprecate(
        self,
        process: str,
        version: int | str,
        *,
        by: str | None = None,
        reason: str | None = None,
    ) -> None:
        """Let new runs use another version: of the active ones, the version that was deployed or
        activated last. Runs of this version continue. The audit log has who asked for it (*by*)
        and the *reason*. Raises ModelNotFound, BadSchedule, BadOption."""
        state = DefinitionState.DEPRECATED
        await self._calls.call(lambda parts: set_state(parts, process, version, state, by, reason))

    # Messages

    async def message(
        self,
        name: str,
        variables: Mapping[str, Any] | None = None,
        *,
        key: str | None = None,
        id: str | None = None,
        ttl: Duration | None = None,
        run: str | None = None,
        element: str | None = None,
    ) -> DeliveryView:
        """Send a message to one receiver: a run that waits for this name and *key*, or a start
        event. Without a receiver it is kept for *ttl*. A message whose *id* was used before is a
        duplicate. *run* and *element* restrict the receivers. Raises NoReceiver, NotEncodable,
        BadOption, RunNotFound."""

        def send(parts: Components) -> DeliveryView:
            request = parts.messages.message(
                name, variables, key=key, id=id, ttl=ttl, run=run, element=element
            )
            sent = parts.commit(request)
            return DeliveryView(effect=sent.effect.value, run_id=sent.run_id, element=sent.element)

        return await self._calls.call(send)

    async def broadcast(
        self, name: str, variables: Mapping[str, Any] | None = None
    ) -> BroadcastView:
        """Send a signal to all receivers that wait for this name, and to its start events. Raises
        NotEncodable, BadOption."""
        return await self._calls.call(lambda parts: model_runs.broadcast(parts, name, variables))

    # Work

    async def tasks(
        self,
        *,
        run: str | None = None,
        process: str | None = None,
        element: str | None = None,
        mine: str | None = None,
        role: str | None = None,
        after: str | None = None,
        limit: int = 1000,
    ) -> builtins.list[ModelTaskView]:
        """Return the open user tasks and external tasks, oldest first; with *mine* or *role*, only
        user tasks of that person or role. ``after`` (the id of the last task of the previous page)
        and ``limit`` select a page. Raises RunNotFound, BadOption."""

        def read(parts: Components) -> builtins.list[ModelTaskView]:
            which = TaskFilter(
                parts,
                run=run,
                process=process,
                element=element,
                mine=mine,
                role=role,
                after=after,
                limit=limit,
            )
            return tasks(parts, which)

        return await self._calls.call(read)

    async def complete(
        self, task: str, variables: Mapping[str, Any] | None = None, by: str | None = None
    ) -> None:
        """Finish a user task, or an external task that no worker has locked. Raises TaskClosed,
        WrongAnswer, NotYourGate, NotEncodable."""
        await self._calls.call(lambda parts: model_runs.complete(parts, task, variables, by))

    async def throw(
        self,
        task: str,
        code: str,
        message: str = "",
        variables: Mapping[str, Any] | None = None,
        by: str | None = None,
    ) -> None:
        """Throw a BPMN error from an open task. Raises TaskClosed, NotThere."""
        run_id, step = await self._calls.call(lambda parts: model_runs.place_of_task(parts, task))
        facts = {"step": step, "code": code, "message": message, "variables": variables or {}}
        await self._instruct(run_id, "throw", facts, by)

    async def trigger(self, run: str, element: str, by: str | None = None) -> None:
        """Release a receive task that names no message. Raises NotThere, RunFinished."""
        await self._instruct(run, "trigger", {"element": element}, by)

    async def start_activity(
        self, run: str, scope: str, activity: str, by: str | None = None
    ) -> None:
        """Start an activity of an ad hoc sub-process. Raises NotThere, RunFinished."""
        await self._instruct(run, "start_activity", {"scope": scope, "activity": activity}, by)

    # Seeing

    async def variables(self, run: str, element: str | None = None) -> Mapping[str, Any]:
        """Return the variables of a run, or as seen from an active element. Raises NotThere,
        RunNotFound."""

        def read(parts: Components) -> Mapping[str, Any]:
            state = model_runs.inspect(parts, run, element=element)
            return dict(state.variables)

        return await self._calls.call(read)

    async def set_variables(
        self,
        run: str,
        variables: Mapping[str, Any],
        *,
        element: str | None = None,
        by: str | None = None,
    ) -> None:
        """Set variables of a run, or of an active element. Conditional events are evaluated again.
        Raises NotThere, NotEncodable, BadOption, RunFinished."""
        await self._calls.call(lambda parts: parts.messages.encoded(variables))
        facts = {"variables": dict(variables or {}), "element": element}
        await self._instruct(run, "set_variables", facts, by)

    async def tokens(self, run: str, at: int | None = None) -> builtins.list[TokenView]:
        """Return the tokens of a run, now or as of the event with the number *at*. Raises NotThere,
        RunNotFound."""

        def read(parts: Components) -> builtins.list[TokenView]:
            return [token_of(token) for token in model_runs.inspect(parts, run, at).tokens]

        return await self._calls.call(read)

    async def trace(self, run: str, at: int | None = None) -> TraceView:
        """Return the path of a run through its model, also after its end; with *at*, as of the
        event with that number. Raises NotThere, RunNotFound."""
        return await self._calls.call(
            lambda parts: trace_of(model_runs.inspect(parts, run, at).trace)
        )

    async def diagram(self, run: str, at: int | None = None) -> dict[str, Any]:
        """Return the path of a run (``elements`` and ``flows``, as ``trace``), its ``tokens``, and
        the ``xml`` of its model as JSON, to draw it; with *at*, as of the event with that number.
        Raises NotThere, RunNotFound."""

        def read(parts: Components) -> dict[str, Any]:
            record = parts.client.get(run)
            state = model_runs.inspect(parts, record.id, at)
            return diagram_of(record.id, record.workflow, state)

        return await self._calls.call(read)

    # Operators

    async def incidents(
        self, *, run: str | None = None, after: str | None = None, limit: int = 1000
    ) -> builtins.list[IncidentView]:
        """Return the open incidents, of a run or of all, oldest first. ``after`` (the id of the
        last incident of the previous page) and ``limit`` select a page. Raises RunNotFound,
        NotThere, BadOption."""
        return await self._calls.call(
            lambda parts: [
                model_runs.incident_view(incident)
                for incident in parts.messages.incidents(run, after, limit)
            ]
        )

    async def retry(
        self, incident: str, variables: Mapping[str, Any] | None = None, by: str | None = None
    ) -> None:
        """Try a failed element again. Raises NotThere, RunNotFound, NotEncodable."""
        await self._calls.call(
            lambda parts: model_runs.resolve(parts, incident, "retry", variables, by)
        )

    async def skip(
        self, incident: str, variables: Mapping[str, Any] | None = None, by: str | None = None
    ) -> None:
        """Continue after a failed element, as if it had completed with *variables*. Raises
        NotThere, RunNotFound, NotEncodable."""
        await self._calls.call(
            lambda parts: model_runs.resolve(parts, incident, "skip", variables, by)
        )

    async def modify(
        self,
        run: str,
        *moves: Mapping[str, Any],
        by: str | None = None,
        reason: str | None = None,
        expect: int | None = None,
        dry_run: bool = False,
    ) -> builtins.list[TokenView]:
        """Move, add and cancel tokens of a run: ``bpmn.move``, ``bpmn.add``, ``bpmn.cancel``.
        Return the tokens of the run. With *expect*, only if the last event of the run has that
        number. With *dry_run* nothing is changed: it returns the tokens that the run would have,
        as far as it gets without its handlers. Raises NotThere, RunChanged, RunFinished,
        BadOption."""
        checked_flag("dry_run", dry_run)
        checked = model_runs.checked_moves(moves)
        if dry_run:

            def read(parts: Components) -> builtins.list[TokenView]:
                return [
                    token_of(token) for token in model_runs.preview(parts, run, checked, expect)
                ]

            return await self._calls.call(read)
        await self._instruct(run, "modify", {"moves": checked, "reason": reason}, by, expect)
        return await self.tokens(run)

    async def migrate(
        self,
        run: str,
        to: int | str,
        mapping: Mapping[str, str] | None = None,
        by: str | None = None,
        reason: str | None = None,
        dry_run: bool = False,
    ) -> MigrationView:
        """Move a run to another version of its process, all of its tokens or none.

        *mapping* is from elements and flows of the old version to those of the new one; the others
        keep their ids. If a token cannot move, ``refused`` says why, and nothing is changed. With
        *dry_run* nothing is changed in any case. ``engine.runs(...).migrate`` moves many runs.
        Raises ModelNotFound, MappingRefused, NotThere, RunFinished, RunNotFound, BadOption."""
        checked_flag("dry_run", dry_run)
        names = checked_mapping(mapping)
        checked_text("by", by)
        checked_text("reason", reason)
        planned = await self._calls.call(lambda parts: parts.migrations.preview(run, to, names))
        if planned.problems and not dry_run:
            raise MappingRefused(run=run, problems="; ".join(planned.problems))
        if dry_run or planned.refused:
            return planned
        facts = {"to": planned.version, "mapping": names, "reason": reason}
        answer = await self._instruct(run, "migrate", facts, by)
        return MigrationView(run_id=planned.run_id, version=planned.version, **answer)

    async def suspend(self, run: str, by: str | None = None, reason: str | None = None) -> None:
        """Let the tokens of a run stay where they are. Raises NotThere, RunFinished."""
        await self._instruct(run, "suspend", {"reason": checked_text("reason", reason)}, by)

    async def resume(self, run: str, by: str | None = None, reason: str | None = None) -> None:
        """Let the tokens of a suspended run move again. Raises NotThere, RunFinished."""
        await self._instruct(run, "resume", {"reason": checked_text("reason", reason)}, by)

    async def _instruct(
        self,
        run: str,
        verb: str,
        facts: Mapping[str, Any],
        by: str | None,
        expect: int | None = None,
    ) -> Any:
        """Give an instruction, and wait for its answer: after the commit that applied it. Raises
        the error with which it was refused, and Unanswered."""
        delivery = await self._calls.commit(
            lambda parts: parts.messages.instruct(run, verb, facts, by, expect)
        )
        until = time.monotonic() + PATIENCE
        async with self._calls.listen() as listener:
            while True:
                is_answered, answer = await self._calls.call(
                    lambda parts: parts.messages.answer(run, delivery.number)
                )
                if is_answered:
                    return answer
                left = until - time.monotonic()
                if left <= 0:
                    raise Unanswered(run=run, instruction=verb)
                await listener.wait(min(left, 1.0))


def _view(parts: Components, stored: StoredDefinition) -> ModelView:
    kind = parts.kinds.find(stored.kind)
    facts: Mapping[str, Any] = {} if kind is None else kind.describe(stored)
    return views.of(stored, facts)
