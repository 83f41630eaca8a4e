# Generated from connect/flows.py by tools/generate_blocking.py: do not edit.
"""``engine.flows``: managed flows, work that another program drives, with its state stored here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.connect.calls import Calls
from holdfast.core.duration import Duration
from holdfast.core.flows import model as flow_model
from holdfast.service.flows import advancing, failing, patched
from holdfast.service.instants import Moment
from holdfast.store.flows.operations import FlowsWoken
from holdfast.views import flows as views
from holdfast.views import why as why_views
from holdfast.views.flows import FlowEventView, FlowStepView, FlowView
from holdfast.views.why import WhyView


class Flows:
    """The managed flows of an ``Engine``.

    With *owner*, a call raises FlowNotYours if the flow belongs to another owner. With *revision*,
    a change is made only if the flow still has that revision.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls: Calls = calls

    def get(self, flow_id: str, *, owner: str | None = None) -> FlowView:
        """Return a flow. Raises FlowNotFound, and FlowNotYours if it does not belong to *owner*."""
        return views.of(self._calls.call(lambda parts: parts.flows.get(flow_id, owner)))

    def why(self, flow_id: str, *, owner: str | None = None) -> WhyView:
        """Explain what a flow waits for, until when, and the command that ends the wait. Raises
        FlowNotFound, FlowNotYours."""
        return why_views.of(self._calls.call(lambda parts: parts.flows.why(flow_id, owner)))

    def list(
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
        page = self._calls.call(
            lambda parts: parts.flows.find(owner=owner, status=status, before=before, limit=limit)
        )
        return [views.of(flow) for flow in page]

    def steps(self, flow_id: str, *, owner: str | None = None) -> Sequence[FlowStepView]:
        """Return the steps of a flow, in the order in which they were first observed."""
        steps = self._calls.call(lambda parts: parts.flows.steps(flow_id, owner))
        return [views.step_of(step) for step in steps]

    def events(
        self, flow_id: str, *, owner: str | None = None, limit: int = 100
    ) -> Sequence[FlowEventView]:
        """Return the audit trail of a flow, newest first."""
        events = self._calls.call(lambda parts: parts.flows.events(flow_id, owner, limit))
        return [views.event_of(event) for event in events]

    def create(
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
        flow = self._calls.commit(
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

    def start(
        self, flow_id: str, *, owner: str | None = None, revision: int | None = None
    ) -> FlowView:
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
    ) -> FlowView:
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
    ) -> FlowView:
        """Let a flow wait until a time, for an external event (*topic* and *correlation*), or, with
        neither, for a manual resume. Raises BadFlowWait."""
        flow = self._calls.commit(
            lambda parts: parts.flows.move(
                flow_id, parts.flows.wait(until, topic, correlation, horizon), owner, revision
            )
        )
        return views.of(flow)

    def resume(
        self,
        flow_id: str,
        patch: Any = None,
        *,
        owner: str | None = None,
        revision: int | None = None,
    ) -> FlowView:
        """Resume a waiting flow, regardless of what it waits for, and patch its state."""
        return self._move(flow_id, flow_model.ResumeFlow(patched(patch)), owner, revision)

    def deliver(
        self, flow_id: str, topic: str, correlation: str, payload: Any = None
    ) -> FlowView | None:
        """Resume a flow if it waits for exactly this event, and return it; None if it does not. The
        payload becomes ``resume_event`` in its state."""
        flow = self._calls.commit(
            lambda parts: parts.flows.deliver(flow_id, topic, correlation, payload)
        )
        return None if flow is None else views.of(flow)

    def finish(
        self,
        flow_id: str,
        patch: Any = None,
        *,
        owner: str | None = None,
        revision: int | None = None,
    ) -> FlowView:
        """Finish a flow successfully, after a last patch of its state."""
        return self._move(flow_id, flow_model.FinishFlow(patched(patch)), owner, revision)

    def fail(
        self, flow_id: str, reason: str, *, owner: str | None = None, revision: int | None = None
    ) -> FlowView:
        """Fail a flow. The reason is stored in its state, under ``failure``."""
        return self._move(flow_id, failing(reason), owner, revision)

    def request_cancel(
        self, flow_id: str, *, owner: str | None = None, revision: int | None = None
    ) -> FlowView:
        """Request that the driver of a flow cancels it. From then on the flow accepts no other
        change; a worker cancels it if it waits."""
        return self._move(flow_id, flow_model.RequestFlowCancel(), owner, revision)

    def cancel(
        self, flow_id: str, *, owner: str | None = None, revision: int | None = None
    ) -> FlowView:
        """Cancel a flow at once."""
        return self._move(flow_id, flow_model.CancelFlow(), owner, revision)

    def observe(
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
        step = self._calls.commit(
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

    def wake(self) -> FlowsWoken:
        """Resume the flows whose wait is due, and cancel the waiting flows with a cancel request.
        Workers do this periodically."""
        return self._calls.commit(lambda parts: parts.flows.wake())

    def prune(self, older_than: Moment, *, batch: int = 500) -> int:
        """Delete the ended flows that were last changed before *older_than*, and return their
        number."""
        deleted = 0
        while count := self._calls.commit(lambda parts: parts.flows.prune(older_than, batch)):
            deleted += count
        return deleted

    def _move(
        self, flow_id: str, action: flow_model.FlowAction, owner: str | None, revision: int | None
    ) -> FlowView:
        flow = self._calls.commit(lambda parts: parts.flows.move(flow_id, action, owner, revision))
        return views.of(flow)
