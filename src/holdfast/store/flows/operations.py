"""Operations on managed flows."""

from __future__ import annotations

import msgspec

from holdfast.core.flows.model import FlowAction, FlowRecord, FlowStepRecord
from holdfast.store.database import Operation


class CreateFlow(Operation):
    """Create a flow, and with ``start`` also start it.

    Answers:
        FlowRecord  the new flow
    Raises:
        FlowExists  there is a flow of this id
    """

    flow: FlowRecord
    start: bool = False


class MoveFlow(Operation, kw_only=True):
    """Apply an action to a flow, and write its line of the audit trail.

    Answers:
        FlowRecord    the flow after the action
    Raises:
        FlowNotFound  there is no such flow in the namespace
        FlowNotYours  *owner* is given and is not the owner of the flow
        FlowChanged   *revision* is given and is not the revision of the flow
        what ``core.flows.rules.act`` raises
    """

    flow_id: str
    namespace: str
    action: FlowAction
    owner: str | None = None
    revision: int | None = None


class DeliverFlowEvent(Operation, kw_only=True):
    """Resume a flow that waits for this external event; the payload becomes its ``resume_event``.

    Answers:
        FlowRecord  the resumed flow
        None        there is no such flow, or it does not wait for this event
    """

    flow_id: str
    namespace: str
    topic: str
    correlation: str
    payload: bytes | None = None


class DeliverToFlows(Operation, kw_only=True):
    """Resume the flows of a namespace that wait for this external event, as DeliverFlowEvent
    does.

    Answers:
        list[FlowRecord]  the resumed flows; as many as *limit* if more may wait for it
    """

    namespace: str
    topic: str
    correlation: str
    payload: bytes | None = None
    limit: int = 500


class AppendFlowEvent(Operation, kw_only=True):
    """Append a line of a program's own to the audit trail of a flow, also after the flow has ended.
    The flow itself does not change.

    Answers:
        FlowEventRecord  the line as stored
    Raises:
        FlowNotFound     there is no such flow in the namespace
        FlowNotYours     *owner* is given and is not the owner of the flow
    """

    flow_id: str
    namespace: str
    kind: str
    payload: bytes
    owner: str | None = None


class ObserveFlowStep(Operation, kw_only=True):
    """Record the state of a piece of work that a flow has elsewhere, also after the flow has ended.

    Answers:
        FlowStepRecord  the step as stored
    Raises:
        FlowNotFound    there is no such flow in the namespace
        FlowNotYours    *owner* is given and is not the owner of the flow
    """

    step: FlowStepRecord
    namespace: str
    owner: str | None = None


class WakeFlows(Operation):
    """Resume the flows whose timers are due, and cancel waiting flows that were asked to stop; of
    one namespace, or of all.

    Answers:
        FlowsWoken
    """

    limit: int = 500
    namespace: str | None = None


class FlowsWoken(msgspec.Struct):
    """How many flows were resumed and cancelled, and whether more are due."""

    resumed: int
    cancelled: int
    more: bool


class PruneFlows(Operation):
    """Delete flows that have ended and were last changed before ``before``, with their steps and
    audit trails.

    Answers:
        int  how many flows were deleted
    """

    before: int
    namespace: str
    limit: int = 500
