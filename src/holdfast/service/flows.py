"""Requests about managed flows: create, move and observe them, and read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.codec import JsonCodec
from holdfast.core.duration import Duration
from holdfast.core.flows import model as flow_model
from holdfast.core.flows import rules as core
from holdfast.core.flows.model import FlowStatus, FlowStepStatus
from holdfast.core.stored_json import decoded
from holdfast.core.text import is_one_of, is_storable, plain_text
from holdfast.core.validation import checked_count, checked_flag, checked_text
from holdfast.engine.runtime.ids import new_id
from holdfast.errors import (
    BadFlowPatch,
    BadFlowWait,
    BadOption,
    FlowNotFound,
    FlowNotYours,
    NotEncodable,
)
from holdfast.service.runs import Moment, Request, RunService, instant, moment
from holdfast.store.flows.operations import (
    CreateFlow,
    DeliverFlowEvent,
    FlowsWoken,
    MoveFlow,
    ObserveFlowStep,
    PruneFlows,
    WakeFlows,
)

if TYPE_CHECKING:
    from holdfast.core.why.model import Why

LONGEST = 200
"""Characters of a name by which flows and steps are looked up, at most."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_JSON = JsonCodec()


class Flow(msgspec.Struct, kw_only=True):
    """A managed flow. ``revision`` grows with every change; ``wait`` says what it waits for."""

    id: str
    controller: str
    goal: str
    owner: str
    requester: str
    current_step: str
    status: FlowStatus
    cancel_requested: bool
    state: Any
    wait: dict[str, Any] | None
    revision: int
    created_at: datetime
    updated_at: datetime


class FlowStep(msgspec.Struct, kw_only=True):
    """A piece of a flow's work, in the state in which it was last observed."""

    run_id: str
    task: str
    status: FlowStepStatus
    runtime: str
    child_session: str | None
    result: Any
    created_at: datetime
    updated_at: datetime


class FlowEvent(msgspec.Struct, kw_only=True):
    """One line of a flow's audit trail."""

    seq: int
    kind: str
    payload: dict[str, Any]
    at: datetime


class FlowService:
    """Builds the operations on flows, and reads flows."""

    def __init__(self, client: RunService) -> None:
        self._client = client
        self._store = client.store

    @property
    def namespace(self) -> str:
        """The namespace of all flows that can be read or changed here."""
        return self._client.namespace

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
    ) -> Request[Flow]:
        """Create a flow, and start it with *start*. The answer is the flow. Raises BadOption,
        BadFlowPatch."""
        flow = flow_model.FlowRecord(
            id=checked_text("id", id) or new_id(),
            namespace=self.namespace,
            controller=_filled("controller", controller),
            goal=_filled("goal", goal),
            owner=_name("owner", owner),
            requester=_text("requester", requester),
            current_step=_filled("current_step", current_step),
            state=encoded({} if state is None else state),
            status=FlowStatus.CREATED,
            created_at=0,
            updated_at=0,
        )
        return Request(CreateFlow(flow, checked_flag("start", start)), view)

    def move(
        self, flow_id: str, action: flow_model.FlowAction, owner: str | None, revision: int | None
    ) -> Request[Flow]:
        """Apply *action* to a flow. With *revision*, only if the flow still has that revision. The
        answer is the flow."""
        if revision is not None:
            revision = checked_count("revision", revision)
        op = MoveFlow(
            flow_id=_flow_id(flow_id),
            namespace=self.namespace,
            action=action,
            owner=_owner(owner),
            revision=revision,
        )
        return Request(op, view)

    def wait(
        self,
        until: Moment | None,
        topic: str | None,
        correlation: str | None,
        horizon: Duration | None,
    ) -> flow_model.WaitFlow:
        """Return the action that lets a flow wait: for the time *until*, for an external event, or
        else for a manual resume. Raises BadFlowWait."""
        now = self._store.now()
        if until is not None and (topic is not None or correlation is not None):
            raise BadFlowWait(
                field="until", why="a flow waits for a time or for an event, not for both"
            )
        if until is not None:
            wait: flow_model.FlowWait = flow_model.TimerWait(instant(until, now))
        elif topic is not None or correlation is not None:
            wait = flow_model.EventWait(
                topic="" if topic is None else topic,
                correlation="" if correlation is None else correlation,
            )
        else:
            wait = flow_model.ManualWait()
        return flow_model.WaitFlow(
            core.checked_wait(wait, now, None if horizon is None else instant(horizon, 0))
        )

    def deliver(
        self, flow_id: str, topic: str, correlation: str, payload: Any
    ) -> Request[Flow | None]:
        """Resume a flow that waits for this event. The answer is the flow, or None if it does not
        wait for it."""
        data = None if payload is None else encoded(payload)
        op = DeliverFlowEvent(
            flow_id=_flow_id(flow_id),
            namespace=self.namespace,
            topic=_text("topic", topic),
            correlation=_text("correlation", correlation),
            payload=data,
        )
        return Request(op, lambda flow: None if flow is None else view(flow))

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
    ) -> Request[FlowStep]:
        """Record the observed state of a piece of work. The answer is the step. Raises
        BadOption."""
        if not is_one_of(status, list(FlowStepStatus)):
            raise BadOption(option="status", value=status, known=", ".join(FlowStepStatus))
        if not is_one_of(runtime, ("managed", "mirrored")):
            raise BadOption(option="runtime", value=runtime, known="managed, mirrored")
        step = flow_model.FlowStepRecord(
            flow_id=_flow_id(flow_id),
            run_id=_name("run_id", run_id),
            task=_filled("task", task),
            status=FlowStepStatus(status),
            runtime=runtime,
            child_session=(
                None if child_session is None else _filled("child_session", child_session)
            ),
            result=None if result is None else encoded(result),
        )
        return Request(
            ObserveFlowStep(step=step, namespace=self.namespace, owner=_owner(owner)), step_view
        )

    def wake(self) -> Request[FlowsWoken]:
        """Wake the flows whose timers are due or whose waits have expired. The answer is
        FlowsWoken."""
        return Request(WakeFlows(namespace=self._client.only), lambda answer: answer)

    def prune(self, older_than: Moment, batch: int = 500) -> Request[int]:
        """Delete up to *batch* flows that ended before *older_than*. The answer is their number."""
        before = moment(older_than, self._store.now(), sign=-1)
        return Request(
            PruneFlows(before, self.namespace, checked_count("batch", batch, least=1)), int
        )

    # Reading

    def get(self, flow_id: str, owner: str | None = None) -> Flow:
        """Return a flow. Raises FlowNotFound, FlowNotYours."""
        return view(self._record(flow_id, owner))

    def why(self, flow_id: str, owner: str | None = None) -> Why:
        """Return what a flow waits for, and what ends the wait. Raises FlowNotFound,
        FlowNotYours."""
        from holdfast.core.why.flows import explain_flow  # here: saves the import at start-up

        return explain_flow(self._record(flow_id, owner), self._store.now())

    def _record(self, flow_id: str, owner: str | None) -> flow_model.FlowRecord:
        flow = self._store.flows.get(_flow_id(flow_id))
        if flow is None or flow.namespace != self.namespace:
            raise FlowNotFound(flow=flow_id)
        if owner is not None and flow.owner != _owner(owner):
            raise FlowNotYours(flow=flow_id)
        return flow

    def find(
        self, *, owner: str | None, status: str | None, before: str | None, limit: int
    ) -> list[Flow]:
        """Return the flows that match. *before* is the id of the last flow of the previous page.
        Raises BadOption."""
        if status is not None and not is_one_of(status, list(FlowStatus)):
            raise BadOption(option="status", value=status, known=", ".join(FlowStatus))
        last = None if before is None else self.get(before)
        if last is not None and status is not None and last.status != status:
            why = (
                f"this flow is no longer {status}, so it has no place in the list: list from the"
                " start again"
            )
            raise BadOption(option="before", value=before, why=why)
        limit = checked_count("limit", limit)
        owner = _owner(owner)
        return [
            view(flow)
            for flow in self._store.flows.find(
                self.namespace, owner=owner, status=status, before=before, limit=limit
            )
        ]

    def steps(self, flow_id: str, owner: str | None = None) -> list[FlowStep]:
        """Return the steps of a flow, in the order in which they were first observed."""
        return [step_view(step) for step in self._store.flows.steps(self.get(flow_id, owner).id)]

    def events(self, flow_id: str, owner: str | None, limit: int) -> list[FlowEvent]:
        """Return the audit trail of a flow, newest first."""
        most = checked_count("limit", max(limit, 0) if isinstance(limit, int) else limit)
        events = self._store.flows.events(self.get(flow_id, owner).id, most)
        return [_event_view(event) for event in events]


def _event_view(event: flow_model.FlowEventRecord) -> FlowEvent:
    payload = decoded(event.payload, f"event {event.seq} of flow {event.flow_id}")
    return FlowEvent(seq=event.seq, kind=event.kind, payload=payload, at=_time(event.at))


def view(flow: flow_model.FlowRecord) -> Flow:
    """Return the public view of a flow."""
    wait = core.wait_of(flow)
    return Flow(
        id=flow.id,
        controller=flow.controller,
        goal=flow.goal,
        owner=flow.owner,
        requester=flow.requester,
        current_step=flow.current_step,
        status=flow.status,
        cancel_requested=flow.cancel_requested,
        state=decoded(flow.state, f"the state of flow {flow.id}"),
        wait=None if wait is None else _wait_view(wait),
        revision=flow.revision,
        created_at=_time(flow.created_at),
        updated_at=_time(flow.updated_at),
    )


def _wait_view(wait: flow_model.FlowWait) -> dict[str, Any]:
    if isinstance(wait, flow_model.TimerWait):
        return {"kind": "timer", "at": _time(wait.at)}
    if isinstance(wait, flow_model.EventWait):
        return {"kind": "external_event", "topic": wait.topic, "correlation": wait.correlation}
    return {"kind": "manual"}


def step_view(step: flow_model.FlowStepRecord) -> FlowStep:
    """Return the public view of a step."""
    return FlowStep(
        run_id=step.run_id,
        task=step.task,
        status=step.status,
        runtime=step.runtime,
        child_session=step.child_session,
        result=(
            None
            if step.result is None
            else decoded(step.result, f"the result of step {step.run_id}")
        ),
        created_at=_time(step.created_at),
        updated_at=_time(step.updated_at),
    )


def encoded(value: Any) -> bytes:
    """Return a state, or a part of it, as JSON. Raises BadFlowPatch, also for NaN and infinity,
    which JSON lacks."""
    try:
        return _JSON.encode(value, what="it")
    except NotEncodable as error:
        raise BadFlowPatch(why=str(error.facts["value"])) from None


def patched(patch: Any) -> bytes | None:
    """Return a patch as JSON; None stays None."""
    return None if patch is None else encoded(patch)


def failing(reason: str) -> flow_model.FailFlow:
    """Return the action that fails a flow. Raises BadOption."""
    return flow_model.FailFlow(_filled("reason", reason))


def advancing(patch: Any, current_step: str | None) -> flow_model.AdvanceFlow:
    """Return the action that patches the state of a flow and sets its current step. Raises
    BadFlowPatch, BadOption."""
    step = None if current_step is None else _filled("current_step", current_step)
    return flow_model.AdvanceFlow(patched(patch) or b"null", step)


def _filled(name: str, value: Any) -> str:
    text = _text(name, value).strip()
    if not text:
        raise BadOption(option=name, value=value, why="the text must not be blank")
    return text


def _name(name: str, value: Any) -> str:
    """Return a name by which flows or steps are looked up. Raises BadOption."""
    text = _filled(name, value)
    if len(text) > LONGEST:
        raise BadOption(
            option=name,
            value=f"{text[:40]}...",
            why=f"a name has at most {LONGEST} characters",
        )
    return text


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise BadOption(option=name, value=value, why="the value must be a text")
    if not is_storable(value):
        raise BadOption(
            option=name, value=value, why="the text must be Unicode without NUL characters"
        )
    return plain_text(value)


def _owner(owner: str | None) -> str | None:
    return None if owner is None else _text("owner", owner).strip()


def _flow_id(flow_id: str) -> str:
    if not isinstance(flow_id, str) or not is_storable(flow_id):
        raise FlowNotFound(flow=flow_id)
    return plain_text(flow_id)


def _time(instant: int) -> datetime:
    return _EPOCH + timedelta(microseconds=instant)
