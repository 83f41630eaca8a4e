"""Managed flows: ``engine.flows``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from holdfast.connect.calls import AsyncCalls
from holdfast.core.duration import Duration
from holdfast.core.flows import model as flow_model
from holdfast.service.flows import (
    Flow,
    FlowEvent,
    FlowService,
    FlowStep,
    advancing,
    failing,
    patched,
)
from holdfast.service.runs import Moment, Request, RunService
from holdfast.store.contract import FlowsWoken

if TYPE_CHECKING:
    from holdfast.core.why.model import Why

P = ParamSpec("P")
T = TypeVar("T")


class Flows:
    """Managed flows of an ``Engine``: work that somebody outside drives, while its state is kept
    here."""

    def __init__(self, client: RunService, do: Callable[[Request], Any]) -> None:
        self._desk = FlowService(client)
        self._do = do

    def get(self, flow_id: str, *, owner: str | None = None) -> Flow:
        """Return a flow. With *owner* only if it belongs to them. Raises FlowNotFound,
        FlowNotYours."""
        return self._desk.get(flow_id, owner)

    def why(self, flow_id: str, *, owner: str | None = None) -> Why:
        """Say what a flow waits for, until when, and the command that ends the wait."""
        return self._desk.why(flow_id, owner)

    def list(
        self,
        *,
        owner: str | None = None,
        status: str | None = None,
        before: str | None = None,
        limit: int = 50,
    ) -> list[Flow]:
        """Return flows: of an owner from new to old; of a status by when they were changed; else
        those changed last first. The next page begins after *before*, the last one of this page."""
        return self._desk.find(owner=owner, status=status, before=before, limit=limit)

    def steps(self, flow_id: str, *, owner: str | None = None) -> Sequence[FlowStep]:
        """Return the steps of a flow, in the order in which they were first seen."""
        return self._desk.steps(flow_id, owner)

    def events(
        self, flow_id: str, *, owner: str | None = None, limit: int = 100
    ) -> Sequence[FlowEvent]:
        """Return the audit trail of a flow, newest first."""
        return self._desk.events(flow_id, owner, limit)

    def create(self, controller: str, goal: str, *, owner: str, **options: Any) -> Flow:
        """Create a flow. Options: requester, current_step ("init"), state ({}), id, start (False:
        it is only created)."""
        flow: Flow = self._do(self._desk.create(controller, goal, owner=owner, **options))
        return flow

    def start(self, flow_id: str, *, owner: str | None = None, revision: int | None = None) -> Flow:
        """Begin: created becomes running."""
        return self._move(flow_id, flow_model.StartFlow(), owner, revision)

    def advance(
        self,
        flow_id: str,
        patch: Any,
        *,
        current_step: str | None = None,
        owner: str | None = None,
        revision: int | None = None,
    ) -> Flow:
        """Change the state: an object is merged into it at the top level, anything else takes its
        place."""
        return self._move(flow_id, advancing(patch, current_step), owner, revision)

    def wait(
        self,
        flow_id: str,
        *,
        until: Moment | None = None,
        topic: str | None = None,
        correlation: str | None = None,
        horizon: Duration | None = None,
        owner: str | None = None,
        revision: int | None = None,
    ) -> Flow:
        """Wait until a time, for an event from outside, or, with neither, for somebody's resume."""
        return self._move(
            flow_id, self._desk.wait(until, topic, correlation, horizon), owner, revision
        )

    def resume(
        self,
        flow_id: str,
        patch: Any = None,
        *,
        owner: str | None = None,
        revision: int | None = None,
    ) -> Flow:
        """Go on after a wait, whatever it was for."""
        return self._move(flow_id, flow_model.ResumeFlow(patched(patch)), owner, revision)

    def deliver(
        self, flow_id: str, topic: str, correlation: str, payload: Any = None
    ) -> Flow | None:
        """Resume the flow if it waits for exactly this event; the payload becomes ``resume_event``
        in its state."""
        flow: Flow | None = self._do(self._desk.deliver(flow_id, topic, correlation, payload))
        return flow

    def finish(
        self,
        flow_id: str,
        patch: Any = None,
        *,
        owner: str | None = None,
        revision: int | None = None,
    ) -> Flow:
        """End well, with a last change of the state."""
        return self._move(flow_id, flow_model.FinishFlow(patched(patch)), owner, revision)

    def fail(
        self, flow_id: str, reason: str, *, owner: str | None = None, revision: int | None = None
    ) -> Flow:
        """End badly; the reason is kept in the state, under ``failure``."""
        return self._move(flow_id, failing(reason), owner, revision)

    def request_cancel(
        self, flow_id: str, *, owner: str | None = None, revision: int | None = None
    ) -> Flow:
        """Ask its driver to cancel it. From now on nothing else can happen to it; a waiting flow is
        cancelled by a worker."""
        return self._move(flow_id, flow_model.RequestFlowCancel(), owner, revision)

    def cancel(
        self, flow_id: str, *, owner: str | None = None, revision: int | None = None
    ) -> Flow:
        """End it at once."""
        return self._move(flow_id, flow_model.CancelFlow(), owner, revision)

    def observe(
        self, flow_id: str, run_id: str, task: str, status: str, **options: Any
    ) -> FlowStep:
        """Note how a piece of the work stands elsewhere; *run_id* is its name there. Options:
        result, child_session, runtime ("mirrored" or "managed"), owner."""
        step: FlowStep = self._do(self._desk.observe(flow_id, run_id, task, status, **options))
        return step

    def wake(self) -> FlowsWoken:
        """Resume what is due, and cancel what waits and was asked to stop. Workers do it by
        themselves."""
        woken: FlowsWoken = self._do(self._desk.wake())
        return woken

    def prune(self, older_than: Moment, *, batch: int = 500) -> int:
        """Delete flows that ended and were last changed longer ago than *older_than*; return how
        many went."""
        gone = 0
        while done := self._do(self._desk.prune(older_than, batch)):
            gone += done
        return gone

    def _move(
        self, flow_id: str, action: flow_model.FlowAction, owner: str | None, revision: int | None
    ) -> Flow:
        flow: Flow = self._do(self._desk.move(flow_id, action, owner, revision))
        return flow


class AsyncFlows:
    """Managed flows of an ``AsyncEngine``."""

    def __init__(self, calls: AsyncCalls) -> None:
        self._calls = calls

    async def _call(
        self, method: Callable[Concatenate[Flows, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        engine = await self._calls._opened()
        return await self._calls._aside(method, engine.flows, *args, **kwargs)

    async def get(self, flow_id: str, *, owner: str | None = None) -> Flow:
        """Return a flow. With *owner* only if it belongs to them. Raises FlowNotFound,
        FlowNotYours."""
        return await self._call(Flows.get, flow_id, owner=owner)

    async def why(self, flow_id: str, *, owner: str | None = None) -> Why:
        """Say what a flow waits for, until when, and the command that ends the wait."""
        return await self._call(Flows.why, flow_id, owner=owner)

    async def list(
        self,
        *,
        owner: str | None = None,
        status: str | None = None,
        before: str | None = None,
        limit: int = 50,
    ) -> list[Flow]:
        """Return flows: of an owner from new to old; of a status by when they were changed; else
        those changed last first. The next page begins after *before*, the last one of this page."""
        return await self._call(Flows.list, owner=owner, status=status, before=before, limit=limit)

    async def steps(self, flow_id: str, *, owner: str | None = None) -> Sequence[FlowStep]:
        """Return the steps of a flow, in the order in which they were first seen."""
        return await self._call(Flows.steps, flow_id, owner=owner)

    async def events(
        self, flow_id: str, *, owner: str | None = None, limit: int = 100
    ) -> Sequence[FlowEvent]:
        """Return the audit trail of a flow, newest first."""
        return await self._call(Flows.events, flow_id, owner=owner, limit=limit)

    async def create(self, controller: str, goal: str, *, owner: str, **options: Any) -> Flow:
        """Create a flow. Options: requester, current_step ("init"), state ({}), id, start (False:
        it is only created)."""
        engine = await self._calls._opened()
        return await self._calls._aside(
            engine.flows.create, controller, goal, owner=owner, **options
        )

    async def start(
        self, flow_id: str, *, owner: str | None = None, revision: int | None = None
    ) -> Flow:
        """Begin: created becomes running."""
        return await self._call(Flows.start, flow_id, owner=owner, revision=revision)

    async def advance(
        self,
        flow_id: str,
        patch: Any,
        *,
        current_step: str | None = None,
        owner: str | None = None,
        revision: int | None = None,
    ) -> Flow:
        """Change the state: an object is merged into it at the top level, anything else takes its
        place."""
        return await self._call(
            Flows.advance, flow_id, patch, current_step=current_step, owner=owner, revision=revision
        )

    async def wait(
        self,
        flow_id: str,
        *,
        until: Moment | None = None,
        topic: str | None = None,
        correlation: str | None = None,
        horizon: Duration | None = None,
        owner: str | None = None,
        revision: int | None = None,
    ) -> Flow:
        """Wait until a time, for an event from outside, or, with neither, for somebody's resume."""
        return await self._call(
            Flows.wait,
            flow_id,
            until=until,
            topic=topic,
            correlation=correlation,
            horizon=horizon,
            owner=owner,
            revision=revision,
        )

    async def resume(
        self,
        flow_id: str,
        patch: Any = None,
        *,
        owner: str | None = None,
        revision: int | None = None,
    ) -> Flow:
        """Go on after a wait, whatever it was for."""
        return await self._call(Flows.resume, flow_id, patch, owner=owner, revision=revision)

    async def deliver(
        self, flow_id: str, topic: str, correlation: str, payload: Any = None
    ) -> Flow | None:
        """Resume the flow if it waits for exactly this event; the payload becomes ``resume_event``
        in its state."""
        return await self._call(Flows.deliver, flow_id, topic, correlation, payload)

    async def finish(
        self,
        flow_id: str,
        patch: Any = None,
        *,
        owner: str | None = None,
        revision: int | None = None,
    ) -> Flow:
        """End well, with a last change of the state."""
        return await self._call(Flows.finish, flow_id, patch, owner=owner, revision=revision)

    async def fail(
        self, flow_id: str, reason: str, *, owner: str | None = None, revision: int | None = None
    ) -> Flow:
        """End badly; the reason is kept in the state, under ``failure``."""
        return await self._call(Flows.fail, flow_id, reason, owner=owner, revision=revision)

    async def request_cancel(
        self, flow_id: str, *, owner: str | None = None, revision: int | None = None
    ) -> Flow:
        """Ask its driver to cancel it. From now on nothing else can happen to it; a waiting flow is
        cancelled by a worker."""
        return await self._call(Flows.request_cancel, flow_id, owner=owner, revision=revision)

    async def cancel(
        self, flow_id: str, *, owner: str | None = None, revision: int | None = None
    ) -> Flow:
        """End it at once."""
        return await self._call(Flows.cancel, flow_id, owner=owner, revision=revision)

    async def observe(
        self, flow_id: str, run_id: str, task: str, status: str, **options: Any
    ) -> FlowStep:
        """Note how a piece of the work stands elsewhere; *run_id* is its name there. Options:
        result, child_session, runtime ("mirrored" or "managed"), owner."""
        engine = await self._calls._opened()
        return await self._calls._aside(
            engine.flows.observe, flow_id, run_id, task, status, **options
        )

    async def wake(self) -> FlowsWoken:
        """Resume what is due, and cancel what waits and was asked to stop. Workers do it by
        themselves."""
        return await self._call(Flows.wake)

    async def prune(self, older_than: Moment, *, batch: int = 500) -> int:
        """Delete flows that ended and were last changed longer ago than *older_than*; return how
        many went."""
        return await self._call(Flows.prune, older_than, batch=batch)
