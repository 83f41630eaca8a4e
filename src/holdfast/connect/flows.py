"""Managed flows, ``engine.flows``: work that another program drives, with its state stored here."""

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
from holdfast.store.flows.operations import FlowsWoken

if TYPE_CHECKING:
    from holdfast.core.why.model import Why

P = ParamSpec("P")
T = TypeVar("T")


class Flows:
    """The calls of ``Engine`` on managed flows.

    With *owner*, a call raises FlowNotYours if the flow belongs to another owner. With *revision*,
    a change is made only if the flow still has that revision.
    """

    def __init__(self, client: RunService, do: Callable[[Request], Any]) -> None:
        self._service = FlowService(client)
        self._do = do

    def get(self, flow_id: str, *, owner: str | None = None) -> Flow:
        """Return a flow. Raises FlowNotFound, and FlowNotYours if it does not belong to *owner*."""
        return self._service.get(flow_id, owner)

    def why(self, flow_id: str, *, owner: str | None = None) -> Why:
        """Explain what a flow waits for, until when, and the command that ends the wait. Raises
        FlowNotFound, FlowNotYours."""
        return self._service.why(flow_id, owner)

    def list(
        self,
        *,
        owner: str | None = None,
        status: str | None = None,
        before: str | None = None,
        limit: int = 50,
    ) -> list[Flow]:
        """Return a page of flows: of an owner, newest first; of a status, ordered by the time of
        their last change; otherwise, last changed first. *before* is the id of the last flow of the
        previous page. Raises BadOption."""
        return self._service.find(owner=owner, status=status, before=before, limit=limit)

    def steps(self, flow_id: str, *, owner: str | None = None) -> Sequence[FlowStep]:
        """Return the steps of a flow, in the order in which they were first observed."""
        return self._service.steps(flow_id, owner)

    def events(
        self, flow_id: str, *, owner: str | None = None, limit: int = 100
    ) -> Sequence[FlowEvent]:
        """Return the audit trail of a flow, newest first."""
        return self._service.events(flow_id, owner, limit)

    def create(self, controller: str, goal: str, *, owner: str, **options: Any) -> Flow:
        """Create a flow. Options: requester, current_step ("init"), state ({}), id, start (False:
        the flow is created and not started). Raises BadOption, BadFlowPatch."""
        flow: Flow = self._do(self._service.create(controller, goal, owner=owner, **options))
        return flow

    def start(self, flow_id: str, *, owner: str | None = None, revision: int | None = None) -> Flow:
        """Start a created flow: its status becomes running."""
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
        """Patch the state of a flow: an object is merged into it at the top level, any other value
        replaces it. With *current_step*, set that too. Raises BadFlowPatch."""
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
        """Let a flow wait until a time, for an external event (*topic* and *correlation*), or, with
        neither, for a manual resume. Raises BadFlowWait."""
        return self._move(
            flow_id, self._service.wait(until, topic, correlation, horizon), owner, revision
        )

    def resume(
        self,
        flow_id: str,
        patch: Any = None,
        *,
        owner: str | None = None,
        revision: int | None = None,
    ) -> Flow:
        """Resume a waiting flow, regardless of what it waits for, and patch its state."""
        return self._move(flow_id, flow_model.ResumeFlow(patched(patch)), owner, revision)

    def deliver(
        self, flow_id: str, topic: str, correlation: str, payload: Any = None
    ) -> Flow | None:
        """Resume a flow if it waits for exactly this event, and return it; None if it does not. The
        payload becomes ``resume_event`` in its state."""
        flow: Flow | None = self._do(self._service.deliver(flow_id, topic, correlation, payload))
        return flow

    def finish(
        self,
        flow_id: str,
        patch: Any = None,
        *,
        owner: str | None = None,
        revision: int | None = None,
    ) -> Flow:
        """Finish a flow successfully, after a last patch of its state."""
        return self._move(flow_id, flow_model.FinishFlow(patched(patch)), owner, revision)

    def fail(
        self, flow_id: str, reason: str, *, owner: str | None = None, revision: int | None = None
    ) -> Flow:
        """Fail a flow. The reason is stored in its state, under ``failure``."""
        return self._move(flow_id, failing(reason), owner, revision)

    def request_cancel(
        self, flow_id: str, *, owner: str | None = None, revision: int | None = None
    ) -> Flow:
        """Request that the driver of a flow cancels it. From then on the flow accepts no other
        change; a worker cancels it if it waits."""
        return self._move(flow_id, flow_model.RequestFlowCancel(), owner, revision)

    def cancel(
        self, flow_id: str, *, owner: str | None = None, revision: int | None = None
    ) -> Flow:
        """Cancel a flow at once."""
        return self._move(flow_id, flow_model.CancelFlow(), owner, revision)

    def observe(
        self, flow_id: str, run_id: str, task: str, status: str, **options: Any
    ) -> FlowStep:
        """Record the observed status of a piece of work that runs elsewhere under the id *run_id*.
        Options: result, child_session, runtime ("mirrored" or "managed"), owner. Raises
        BadOption."""
        step: FlowStep = self._do(self._service.observe(flow_id, run_id, task, status, **options))
        return step

    def wake(self) -> FlowsWoken:
        """Resume the flows whose wait is due, and cancel the waiting flows with a cancel request.
        Workers do this periodically."""
        woken: FlowsWoken = self._do(self._service.wake())
        return woken

    def prune(self, older_than: Moment, *, batch: int = 500) -> int:
        """Delete the ended flows that were last changed before *older_than*, and return their
        number."""
        deleted = 0
        while count := self._do(self._service.prune(older_than, batch)):
            deleted += count
        return deleted

    def _move(
        self, flow_id: str, action: flow_model.FlowAction, owner: str | None, revision: int | None
    ) -> Flow:
        flow: Flow = self._do(self._service.move(flow_id, action, owner, revision))
        return flow


class AsyncFlows:
    """The calls of ``AsyncEngine`` on managed flows. *owner* and *revision* mean the same as in
    ``Flows``."""

    def __init__(self, calls: AsyncCalls) -> None:
        self._calls = calls

    async def _call(
        self, method: Callable[Concatenate[Flows, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        engine = await self._calls._opened()
        return await self._calls._aside(method, engine.flows, *args, **kwargs)

    async def get(self, flow_id: str, *, owner: str | None = None) -> Flow:
        """Return a flow. Raises FlowNotFound, and FlowNotYours if it does not belong to *owner*."""
        return await self._call(Flows.get, flow_id, owner=owner)

    async def why(self, flow_id: str, *, owner: str | None = None) -> Why:
        """Explain what a flow waits for, until when, and the command that ends the wait. Raises
        FlowNotFound, FlowNotYours."""
        return await self._call(Flows.why, flow_id, owner=owner)

    async def list(
        self,
        *,
        owner: str | None = None,
        status: str | None = None,
        before: str | None = None,
        limit: int = 50,
    ) -> list[Flow]:
        """Return a page of flows: of an owner, newest first; of a status, ordered by the time of
        their last change; otherwise, last changed first. *before* is the id of the last flow of the
        previous page. Raises BadOption."""
        return await self._call(Flows.list, owner=owner, status=status, before=before, limit=limit)

    async def steps(self, flow_id: str, *, owner: str | None = None) -> Sequence[FlowStep]:
        """Return the steps of a flow, in the order in which they were first observed."""
        return await self._call(Flows.steps, flow_id, owner=owner)

    async def events(
        self, flow_id: str, *, owner: str | None = None, limit: int = 100
    ) -> Sequence[FlowEvent]:
        """Return the audit trail of a flow, newest first."""
        return await self._call(Flows.events, flow_id, owner=owner, limit=limit)

    async def create(self, controller: str, goal: str, *, owner: str, **options: Any) -> Flow:
        """Create a flow. Options: requester, current_step ("init"), state ({}), id, start (False:
        the flow is created and not started). Raises BadOption, BadFlowPatch."""
        engine = await self._calls._opened()
        return await self._calls._aside(
            engine.flows.create, controller, goal, owner=owner, **options
        )

    async def start(
        self, flow_id: str, *, owner: str | None = None, revision: int | None = None
    ) -> Flow:
        """Start a created flow: its status becomes running."""
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
        """Patch the state of a flow: an object is merged into it at the top level, any other value
        replaces it. With *current_step*, set that too. Raises BadFlowPatch."""
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
        """Let a flow wait until a time, for an external event (*topic* and *correlation*), or, with
        neither, for a manual resume. Raises BadFlowWait."""
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
        """Resume a waiting flow, regardless of what it waits for, and patch its state."""
        return await self._call(Flows.resume, flow_id, patch, owner=owner, revision=revision)

    async def deliver(
        self, flow_id: str, topic: str, correlation: str, payload: Any = None
    ) -> Flow | None:
        """Resume a flow if it waits for exactly this event, and return it; None if it does not. The
        payload becomes ``resume_event`` in its state."""
        return await self._call(Flows.deliver, flow_id, topic, correlation, payload)

    async def finish(
        self,
        flow_id: str,
        patch: Any = None,
        *,
        owner: str | None = None,
        revision: int | None = None,
    ) -> Flow:
        """Finish a flow successfully, after a last patch of its state."""
        return await self._call(Flows.finish, flow_id, patch, owner=owner, revision=revision)

    async def fail(
        self, flow_id: str, reason: str, *, owner: str | None = None, revision: int | None = None
    ) -> Flow:
        """Fail a flow. The reason is stored in its state, under ``failure``."""
        return await self._call(Flows.fail, flow_id, reason, owner=owner, revision=revision)

    async def request_cancel(
        self, flow_id: str, *, owner: str | None = None, revision: int | None = None
    ) -> Flow:
        """Request that the driver of a flow cancels it. From then on the flow accepts no other
        change; a worker cancels it if it waits."""
        return await self._call(Flows.request_cancel, flow_id, owner=owner, revision=revision)

    async def cancel(
        self, flow_id: str, *, owner: str | None = None, revision: int | None = None
    ) -> Flow:
        """Cancel a flow at once."""
        return await self._call(Flows.cancel, flow_id, owner=owner, revision=revision)

    async def observe(
        self, flow_id: str, run_id: str, task: str, status: str, **options: Any
    ) -> FlowStep:
        """Record the observed status of a piece of work that runs elsewhere under the id *run_id*.
        Options: result, child_session, runtime ("mirrored" or "managed"), owner. Raises
        BadOption."""
        engine = await self._calls._opened()
        return await self._calls._aside(
            engine.flows.observe, flow_id, run_id, task, status, **options
        )

    async def wake(self) -> FlowsWoken:
        """Resume the flows whose wait is due, and cancel the waiting flows with a cancel request.
        Workers do this periodically."""
        return await self._call(Flows.wake)

    async def prune(self, older_than: Moment, *, batch: int = 500) -> int:
        """Delete the ended flows that were last changed before *older_than*, and return their
        number."""
        return await self._call(Flows.prune, older_than, batch=batch)
