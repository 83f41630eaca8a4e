# Generated from connect/flows.py by tools/generate_blocking.py: do not edit.
"""``engine.flows``: managed flows, work that another program drives, with its state stored here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.connect.calls import Calls
from holdfast.connect.components import Components
from holdfast.core.duration import Duration
from holdfast.core.flows import model as flow_model
from holdfast.service.flows import DELIVERED, advancing, failing, patched, setting
from holdfast.service.instants import Moment
from holdfast.service.requests import Request
from holdfast.store.flows.operations import FlowsWoken
from holdfast.views import flows as views
from holdfast.views import why as why_views
from holdfast.views.flows import FlowEventView, FlowStepView, FlowView
from holdfast.views.why import WhyView


class Flows:
    """The managed flows of an ``Engine``.

    With *owner*, a call raises FlowNotYours if the flow belongs to another owner. With *revision*,
    a change is made only if the flow still has that revision. With *connection*, a change is made
    in the transaction that the program has open on that connection to the same database, and takes
    effect when that transaction commits.
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

    def steps(
        self, flow_id: str | None = None, *, run_id: str | None = None, owner: str | None = None
    ) -> Sequence[FlowStepView]:
        """Return the steps of a flow, in the order in which they were first observed. With *run_id*
        alone, return the steps of that id in all flows; with both, the one step or none."""
        steps = self._calls.call(lambda parts: parts.flows.steps(flow_id, run_id, owner))
        return [views.step_of(step) for step in steps]

    def step(self, flow_id: str, run_id: str, *, owner: str | None = None) -> FlowStepView | None:
        """Return the step of a flow with this run id; None if no such step was observed. Raises
        FlowNotFound, FlowNotYours."""
        steps = self._calls.call(lambda parts: parts.flows.steps(flow_id, run_id, owner))
        return views.step_of(steps[0]) if steps else None

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
        connection: Any = None,
    ) -> FlowView:
        """Create a flow. *state* is its first state, {} if None. Without *start*, the flow is
        created and not started. Raises BadOption, BadFlowPatch."""
        flow = self._calls.commit_within(
            connection,
            lambda parts: parts.flows.create(
                controller,
                goal,
                owner=owner,
                requester=requester,
                current_step=current_step,
                state=state,
                id=id,
                start=start,
            ),
        )
        return views.of(flow)

    def start(
        self,
        flow_id: str,
        *,
        owner: str | None = None,
        revision: int | None = None,
        connection: Any = None,
    ) -> FlowView:
        """Start a created flow: its status becomes running."""
        return self._move(flow_id, flow_model.StartFlow(), owner, revision, connection)

    def advance(
        self,
        flow_id: str,
        patch: Any,
        *,
        current_step: str | None = None,
        owner: str | None = None,
        revision: int | None = None,
        connection: Any = None,
    ) -> FlowView:
        """Patch the state of a flow: an object is merged into it at the top level, any other value
        replaces it. With *current_step*, set that too. Raises BadFlowPatch."""
        return self._move(flow_id, advancing(patch, current_step), owner, revision, connection)

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
        connection: Any = None,
    ) -> FlowView:
        """Let a flow wait until a time, for an external event (*topic* and *correlation*), or, with
        neither, for a manual resume. Raises BadFlowWait."""
        flow = self._calls.commit_within(
            connection,
            lambda parts: parts.flows.move(
                flow_id, parts.flows.wait(until, topic, correlation, horizon), owner, revision
            ),
        )
        return views.of(flow)

    def resume(
        self,
        flow_id: str,
        patch: Any = None,
        *,
        owner: str | None = None,
        revision: int | None = None,
        connection: Any = None,
    ) -> FlowView:
        """Resume a waiting flow, regardless of what it waits for, and patch its state."""
        return self._move(
            flow_id, flow_model.ResumeFlow(patched(patch)), owner, revision, connection
        )

    def deliver(
        self,
        flow_id: str,
        topic: str,
        correlation: str,
        payload: Any = None,
        *,
        connection: Any = None,
    ) -> FlowView | None:
        """Resume a flow if it waits for exactly this event, and return it; None if it does not. The
        payload becomes ``resume_event`` in its state."""
        flow = self._calls.commit_within(
            connection, lambda parts: parts.flows.deliver(flow_id, topic, correlation, payload)
        )
        return None if flow is None else views.of(flow)

    def deliver_all(self, topic: str, correlation: str, payload: Any = None) -> Sequence[FlowView]:
        """Resume all flows that wait for exactly this event, and return them. The payload becomes
        ``resume_event`` in their states. Very many flows are resumed in several transactions; a
        repeated call resumes the flows that a crash has left out."""
        resumed: list[FlowView] = []
        more = True
        while more:
            flows = self._calls.commit(
                lambda parts: parts.flows.deliver_all(topic, correlation, payload)
            )
            resumed += [views.of(flow) for flow in flows]
            more = len(flows) == DELIVERED
        return resumed

    def finish(
        self,
        flow_id: str,
        patch: Any = None,
        *,
        owner: str | None = None,
        revision: int | None = None,
        connection: Any = None,
    ) -> FlowView:
        """Finish a flow successfully, after a last patch of its state."""
        return self._move(
            flow_id, flow_model.FinishFlow(patched(patch)), owner, revision, connection
        )

    def fail(
        self,
        flow_id: str,
        reason: str,
        *,
        owner: str | None = None,
        revision: int | None = None,
        connection: Any = None,
    ) -> FlowView:
        """Fail a flow. The reason is stored in its state, under ``failure``."""
        return self._move(flow_id, failing(reason), owner, revision, connection)

    def set(
        self,
        flow_id: str,
        *,
        goal: str | None = None,
        new_owner: str | None = None,
        requester: str | None = None,
        controller: str | None = None,
        owner: str | None = None,
        revision: int | None = None,
        connection: Any = None,
    ) -> FlowView:
        """Change the goal, owner, requester or controller of a flow that has not ended. Values that
        are None stay; if nothing differs, nothing is written. Raises BadOption."""
        action = setting(goal, new_owner, requester, controller)
        return self._move(flow_id, action, owner, revision, connection)

    def request_cancel(
        self,
        flow_id: str,
        *,
        owner: str | None = None,
        revision: int | None = None,
        connection: Any = None,
        by: str | None = None,
    ) -> FlowView:
        """Request that the driver of a flow cancels it. From then on the flow accepts no other
        change; a worker cancels it if it waits."""
        return self._move(flow_id, flow_model.RequestFlowCancel(), owner, revision, connection, by)

    def cancel(
        self,
        flow_id: str,
        *,
        owner: str | None = None,
        revision: int | None = None,
        connection: Any = None,
        by: str | None = None,
    ) -> FlowView:
        """Cancel a flow at once."""
        return self._move(flow_id, flow_model.CancelFlow(), owner, revision, connection, by)

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
        connection: Any = None,
    ) -> FlowStepView:
        """Record the observed status of a piece of work that runs elsewhere under the id *run_id*.
        *runtime* is "mirrored" or "managed". Raises BadOption."""
        step = self._calls.commit_within(
            connection,
            lambda parts: parts.flows.observe(
                flow_id,
                run_id,
                task,
                status,
                result=result,
                child_session=child_session,
                runtime=runtime,
                owner=owner,
            ),
        )
        return views.step_of(step)

    def append_event(
        self,
        flow_id: str,
        kind: str,
        data: Any = None,
        *,
        owner: str | None = None,
        connection: Any = None,
    ) -> FlowEventView:
        """Append a line to the audit trail of a flow, also after its end. The flow does not change.
        *kind* is any word that changes of flows do not use. Raises BadOption, BadFlowPatch."""
        event = self._calls.commit_within(
            connection, lambda parts: parts.flows.append_event(flow_id, kind, data, owner)
        )
        return views.event_of(event)

    def wake(self) -> FlowsWoken:
        """Resume the flows whose wait is due, and cancel the waiting flows with a cancel request.
        Workers do this periodically."""
        return self._calls.commit(lambda parts: parts.flows.wake())

    def prune(self, older_than: Moment, *, batch: int = 500, by: str | None = None) -> int:
        """Delete the ended flows that were last changed before *older_than*, and return their
        number. With *by*, the person or program that asks, it is recorded in ``engine.audit``."""

        def prune(parts: Components) -> int:
            deleted = 0
            request = parts.flows.prune(older_than, batch)
            parts.note_action(by, "flows.prune", "ended flows")
            while count := parts.commit(request):
                deleted += count
                request = parts.flows.prune(older_than, batch)
            return deleted

        return self._calls.call(prune)

    def _move(
        self,
        flow_id: str,
        action: flow_model.FlowAction,
        owner: str | None,
        revision: int | None,
        connection: Any,
        by: str | None = None,
    ) -> FlowView:
        def make_request(parts: Components) -> Request[Any]:
            request = parts.flows.move(flow_id, action, owner, revision)
            return parts.audit.record(request, by, "flows.cancel", flow_id)

        return views.of(self._calls.commit_within(connection, make_request))
