"""Requests about managed flows: create, move and observe them, and read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from holdfast.core.codec import JsonCodec
from holdfast.core.duration import Duration
from holdfast.core.flows import model as flow_model
from holdfast.core.flows import rules as core
from holdfast.core.flows.model import FlowEventKind, FlowStatus, FlowStepStatus
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
from holdfast.service.instants import Moment, instant, moment
from holdfast.service.requests import Request, identity
from holdfast.service.runs import RunService
from holdfast.store.flows.operations import (
    AppendFlowEvent,
    CreateFlow,
    DeliverFlowEvent,
    DeliverToFlows,
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

DELIVERED = 500
"""Flows that one transaction resumes with an event, at most."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_JSON = JsonCodec()


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
    ) -> Request[flow_model.FlowRecord]:
        """Create a flow, and start it with *start*. The answer is the flow. Raises BadOption,
        BadFlowPatch."""
        flow = flow_model.FlowRecord(
            id=checked_text("id", id) or new_id(),
            namespace=self.namespace,
            controller=_required_text("controller", controller),
            goal=_required_text("goal", goal),
            owner=_name("owner", owner),
            requester=_text("requester", requester),
            current_step=_required_text("current_step", current_step),
            state=encode_state({} if state is None else state),
            status=FlowStatus.CREATED,
            created_at=0,
            updated_at=0,
        )
        return Request(CreateFlow(flow, checked_flag("start", start)), identity)

    def move(
        self, flow_id: str, action: flow_model.FlowAction, owner: str | None, revision: int | None
    ) -> Request[flow_model.FlowRecord]:
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
        return Request(op, identity)

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
    ) -> Request[flow_model.FlowRecord | None]:
        """Resume a flow that waits for this event. The answer is the flow, or None if it does not
        wait for it."""
        data = None if payload is None else encode_state(payload)
        op = DeliverFlowEvent(
            flow_id=_flow_id(flow_id),
            namespace=self.namespace,
            topic=_text("topic", topic),
            correlation=_text("correlation", correlation),
            payload=data,
        )
        return Request(op, identity)

    def deliver_all(
        self, topic: str, correlation: str, payload: Any
    ) -> Request[list[flow_model.FlowRecord]]:
        """Resume flows that wait for this event, at most DELIVERED of them. The answer is the
        resumed flows."""
        op = DeliverToFlows(
            namespace=self.namespace,
            topic=_text("topic", topic),
            correlation=_text("correlation", correlation),
            payload=patched(payload),
            limit=DELIVERED,
        )
        return Request(op, identity)

    def append_event(
        self, flow_id: str, kind: str, data: Any, owner: str | None
    ) -> Request[flow_model.FlowEventRecord]:
        """Append a line of a program's own to the audit trail of a flow. The answer is the line.
        Raises BadOption for a kind that changes of flows use."""
        kind = _name("kind", kind)
        if kind in list(FlowEventKind):
            raise BadOption(
                option="kind",
                value=kind,
                why="changes of the flow write lines of this kind: choose a kind of your own",
            )
        op = AppendFlowEvent(
            flow_id=_flow_id(flow_id),
            namespace=self.namespace,
            kind=kind,
            payload=encode_state({} if data is None else data),
            owner=_owner(owner),
        )
        return Request(op, identity)

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
    ) -> Request[flow_model.FlowStepRecord]:
        """Record the observed state of a piece of work. The answer is the step. Raises
        BadOption."""
        if not is_one_of(status, list(FlowStepStatus)):
            raise BadOption(option="status", value=status, known=", ".join(FlowStepStatus))
        if not is_one_of(runtime, ("managed", "mirrored")):
            raise BadOption(option="runtime", value=runtime, known="managed, mirrored")
        step = flow_model.FlowStepRecord(
            flow_id=_flow_id(flow_id),
            run_id=_name("run_id", run_id),
            task=_required_text("task", task),
            status=FlowStepStatus(status),
            runtime=runtime,
            child_session=(
                None if child_session is None else _required_text("child_session", child_session)
            ),
            result=None if result is None else encode_state(result),
        )
        return Request(
            ObserveFlowStep(step=step, namespace=self.namespace, owner=_owner(owner)), identity
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

    def get(self, flow_id: str, owner: str | None = None) -> flow_model.FlowRecord:
        """Return a flow. Raises FlowNotFound, FlowNotYours."""
        flow = self._store.flows.get(_flow_id(flow_id))
        if flow is None or flow.namespace != self.namespace:
            raise FlowNotFound(flow=flow_id)
        if owner is not None and flow.owner != _owner(owner):
            raise FlowNotYours(flow=flow_id)
        return flow

    def why(self, flow_id: str, owner: str | None = None) -> Why:
        """Return what a flow waits for, and what ends the wait. Raises FlowNotFound,
        FlowNotYours."""
        from holdfast.core.why.flows import explain_flow  # here: saves the import at start-up

        return explain_flow(self.get(flow_id, owner), self._store.now())

    def find(
        self, *, owner: str | None, status: str | None, before: str | None, limit: int
    ) -> list[flow_model.FlowRecord]:
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
        return self._store.flows.find(
            self.namespace, owner=owner, status=status, before=before, limit=limit
        )

    def steps(
        self, flow_id: str | None, run_id: str | None, owner: str | None
    ) -> list[flow_model.FlowStepRecord]:
        """Return steps in the order in which they were first observed: of a flow, with a run id, or
        both. Raises BadOption."""
        if run_id is not None:
            run_id = _name("run_id", run_id)
        if flow_id is None:
            if run_id is None:
                raise BadOption(option="flow_id", why="name a flow, a run_id, or both")
            return self._store.flows.steps_of_run(run_id, self.namespace, _owner(owner))
        flow = self.get(flow_id, owner)
        if run_id is None:
            return self._store.flows.steps(flow.id)
        step = self._store.flows.step(flow.id, run_id)
        return [] if step is None else [step]

    def events(
        self, flow_id: str, owner: str | None, limit: int
    ) -> list[flow_model.FlowEventRecord]:
        """Return the audit trail of a flow, newest first."""
        most = checked_count("limit", max(limit, 0) if isinstance(limit, int) else limit)
        return self._store.flows.events(self.get(flow_id, owner).id, most)


def encode_state(value: Any) -> bytes:
    """Return a state, or a part of it, as JSON. Raises BadFlowPatch, also for NaN and infinity,
    which JSON lacks."""
    try:
        return _JSON.encode(value, label="it")
    except NotEncodable as error:
        raise BadFlowPatch(why=str(error.facts["value"])) from None


def patched(patch: Any) -> bytes | None:
    """Return a patch as JSON; None stays None."""
    if patch is None:
        return None
    return encode_state(patch)


def failing(reason: str) -> flow_model.FailFlow:
    """Return the action that fails a flow. Raises BadOption."""
    return flow_model.FailFlow(_required_text("reason", reason))


def advancing(patch: Any, current_step: str | None) -> flow_model.AdvanceFlow:
    """Return the action that patches the state of a flow and sets its current step. Raises
    BadFlowPatch, BadOption."""
    step = None if current_step is None else _required_text("current_step", current_step)
    return flow_model.AdvanceFlow(patched(patch) or b"null", step)


def setting(
    goal: str | None, owner: str | None, requester: str | None, controller: str | None
) -> flow_model.SetFlow:
    """Return the action that changes the description of a flow. Raises BadOption."""
    if goal is None and owner is None and requester is None and controller is None:
        raise BadOption(
            option="goal", why="name what to change: the goal, owner, requester or controller"
        )
    return flow_model.SetFlow(
        goal=None if goal is None else _required_text("goal", goal),
        owner=None if owner is None else _name("new_owner", owner),
        requester=None if requester is None else _text("requester", requester),
        controller=None if controller is None else _required_text("controller", controller),
    )


def _required_text(name: str, value: Any) -> str:
    text = _text(name, value).strip()
    if not text:
        raise BadOption(option=name, value=value, why="the text must not be blank")
    return text


def _name(name: str, value: Any) -> str:
    """Return a name by which flows or steps are looked up. Raises BadOption."""
    text = _required_text(name, value)
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
    if owner is None:
        return None
    return _text("owner", owner).strip()


def _flow_id(flow_id: str) -> str:
    if not isinstance(flow_id, str) or not is_storable(flow_id):
        raise FlowNotFound(flow=flow_id)
    return plain_text(flow_id)


def _time(instant: int) -> datetime:
    return _EPOCH + timedelta(microseconds=instant)
