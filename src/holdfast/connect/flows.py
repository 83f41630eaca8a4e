"""``engine.flows``: managed flows, work that another program drives, with its state stored here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.connect.async_calls import AsyncCalls
from holdfast.core.duration import Duration
from holdfast.core.flows import model as flow_model
from holdfast.service.flows import advancing, failing, patched
from holdfast.service.instants import Moment
from holdfast.store.flows.operations import FlowsWoken
from holdfast.views import flows as views
from holdfast.views import why as why_views
from holdfast.views.flows import FlowEventView, FlowStepView, FlowView
from holdfast.views.why import WhyView


class AsyncFlows:
    """The managed flows of an ``AsyncEngine``.

    With *owner*, a call raises FlowNotYours if the flow belongs to another owner. With *revision*,
    a change is made only if the flow still has that revision.
    """

    def __init__(self, calls: AsyncCalls) -> None:
        self._calls: AsyncCalls = calls

    async def get(self, flow_id: str, *, owner: str | None = None) -> FlowView:
        """Return a flow. Raises FlowNotFound, and FlowNotYours if it does not belong to *owner*."""
        return views.of(await self._calls.call(lambda parts: parts.flows.get(flow_id, owner)))

    async def why(self, flow_id: str, *, owner: str | None = None) -> WhyView:
        """Explain what a flow waits for, until when, and the command that ends the wait. Raises
        FlowNotFound, FlowNotYours."""
        return why_views.of(await self._calls.call(lambda parts: parts.flows.why(flow_id, owner)))

    async def list(
        self,
        *,
        owner: str | None = None,
        status: str | None = None,
        before: str | None = None,
        limit: int = 50,
    ) -> list[FlowView]:
        """Return a page of flows: of an owner, newest first; of a status, ordered by the time of
        their last change; otherwise, last changed first. *before* is the id of the last flow of the
        previous page. Raises BadOption."""
        page = await self._calls.call(
            lambda parts: parts.flows.find(owner=owner, status=status, before=before, limit=limit)
        )
        return [views.of(flow) for flow in page]

    async def steps(self, flow_id: str, *, owner: str | None = None) -> Sequence[FlowStepView]:
        """Return the steps of a flow, in the order in which they were first observed."""
        steps = await self._calls.call(lambda parts: parts.flows.steps(flow_id, owner))
        return [views.step_of(step) for step in steps]

    async def events(
        self, flow_id: str, *, owner: str | None = None, limit: int = 100
    ) -> Sequence[FlowEventView]:
        """Return the audit trail of a flow, newest first."""
        events = await self._calls.call(lambda parts: parts.flows.events(flow_id, owner, limit))
        return [views.event_of(event) for event in events]

    async def create(
        self,
        controller: str,
        goal: str,
        *,
        owner: str,
        requester: str = "",
        current_step: str = "init",
        state: Any = None,
        id: str | None = None,
        start: bool = False,
    ) -> FlowView:
        """Create a flow. *state* is its first state, {} if None. Without *start*, the flow is
        created and not started. Raises BadOption, BadFlowPatch."""
        flow = await self._calls.commit(
            lambda parts: parts.flows.create(
                controller,
                goal,
                owner=owner,
                requester=requester,
                current_step=current_step,
                state=state,
                id=id,
                start=start,
            )
        )
        return views.of(flow)

    async def start(
        self, flow_id: str, *, owner: str | None = None, revision: int | None = None
    ) -> FlowView:
        """Start a created flow: its status becomes running."""
        return await self._move(flow_id, flow_model.StartFlow(), owner, revision)

    async def advance(
        self,
        flow_id: str,
        patch: Any,
        *,
        current_step: str | None = None,
        owner: str | None = None,
        revision: int | None = None,
    ) -> FlowView:
        """Patch the state of a flow: an object is merged into it at the top level, any other value
        replaces it. With *current_step*, set that too. Raises BadFlowPatch."""
        return await self._move(flow_id, advancing(patch, current_step), owner, revision)

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
    ) -> FlowView:
        """Let a flow wait until a time, for an external event (*topic* and *correlation*), or, with
        neither, for a manual resume. Raises BadFlowWait."""
        flow = await self._calls.commit(
            lambda parts: parts.flows.move(
                flow_id, parts.flows.wait(until, topic, correlation, horizon), owner, revision
            )
        )
        return views.of(flow)

    async def resume(
        self,
        flow_id: str,
        patch: Any = None,
        *,
        owner: str | None = None,
        revision: int | None = None,
    ) -> FlowView:
        """Resume a waiting flow, regardless of what it waits for, and patch its state."""
        return await self._move(flow_id, flow_model.ResumeFlow(patched(patch)), owner, revision)

    async def deliver(
        self, flow_id: str, topic: str, correlation: str, payload: Any = None
    ) -> FlowView | None:
        """Resume a flow if it waits for exactly this event, and return it; None if it does not. The
        payload becomes ``resume_event`` in its state."""
        flow = await self._calls.commit(
            lambda parts: parts.flows.deliver(flow_id, topic, correlation, payload)
        )
        return None if flow is None else views.of(flow)

    async def finish(
        self,
        flow_id: str,
        patch: Any = None,
        *,
        owner: str | None = None,
        revision: int | None = None,
    ) -> FlowView:
        """Finish a flow successfully, after a last patch of its state."""
        return await self._move(flow_id, flow_model.FinishFlow(patched(patch)), owner, revision)

    async def fail(
        self, flow_id: str, reason: str, *, owner: str | None = None, revision: int | None = None
    ) -> FlowView:
        """Fail a flow. The reason is stored in its state, under ``failure``."""
        return await self._move(flow_id, failing(reason), owner, revision)

    async def request_cancel(
        self, flow_id: str, *, owner: str | None = None, revision: int | None = None
    ) -> FlowView:
        """Request that the driver of a flow cancels it. From then on the flow accepts no other
        change; a worker cancels it if it waits."""
        return await self._move(flow_id, flow_model.RequestFlowCancel(), owner, revision)

    async def cancel(
        self, flow_id: str, *, owner: str | None = None, revision: int | None = None
    ) -> FlowView:
        """Cancel a flow at once."""
        return await self._move(flow_id, flow_model.CancelFlow(), owner, revision)

    async def observe(
        self,
        flow_id: str,
        run_id: str,
        task: str,
        status: str,
        *,
        result: Any = None,
        child_session: str | None = None,
        runtime: str = "mirrored",
        owner: str | None = None,
    ) -> FlowStepView:
        """Record the observed status of a piece of work that runs elsewhere under the id *run_id*.
        *runtime* is "mirrored" or "managed". Raises BadOption."""
        step = await self._calls.commit(
            lambda parts: parts.flows.observe(
                flow_id,
                run_id,
                task,
                status,
                result=result,
                child_session=child_session,
                runtime=runtime,
                owner=owner,
            )
        )
        return views.step_of(step)

    async def wake(self) -> FlowsWoken:
        """Resume the flows whose wait is due, and cancel the waiting flows with a cancel request.
        Workers do this periodically."""
        return await self._calls.commit(lambda parts: parts.flows.wake())

    async def prune(self, older_than: Moment, *, batch: int = 500) -> int:
        """Delete the ended flows that were last changed before *older_than*, and return their
        number."""
        deleted = 0
        while count := await self._calls.commit(lambda parts: parts.flows.prune(older_than, batch)):
            deleted += count
        return deleted

    async def _move(
        self, flow_id: str, action: flow_model.FlowAction, owner: str | None, revision: int | None
    ) -> FlowView:
        flow = await self._calls.commit(
            lambda parts: parts.flows.move(flow_id, action, owner, revision)
        )
        return views.of(flow)
