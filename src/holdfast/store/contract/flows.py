"""What can be done to managed flows, and asked about them."""

from __future__ import annotations

from typing import Protocol

import msgspec

from holdfast.core.flows.model import FlowAction, FlowEventRecord, FlowRecord, FlowStepRecord


class CreateFlow(msgspec.Struct):
    """Create a flow, and start it at once if asked to. Answers it. Raises FlowExists."""

    flow: FlowRecord
    start: bool = False


class MoveFlow(msgspec.Struct, kw_only=True):
    """Do something to a flow, and write the line of its audit trail that tells of it. Answers the
    flow. With ``owner`` only that owner may; with ``revision`` only if nobody changed it since.
    Raises FlowNotFound, FlowNotYours, FlowChanged, and what ``core.flows.act`` raises."""

    flow_id: str
    namespace: str
    action: FlowAction
    owner: str | None = None
    revision: int | None = None


class DeliverFlowEvent(msgspec.Struct, kw_only=True):
    """Resume a flow that waits for this event from outside; the payload becomes its
    ``resume_event``. Answers the flow, or None when it does not wait for it."""

    flow_id: str
    namespace: str
    topic: str
    correlation: str
    payload: bytes | None = None


class ObserveFlowStep(msgspec.Struct, kw_only=True):
    """Note how a piece of a flow's work stands elsewhere; new or changed, also when the flow has
    ended. Answers the step."""

    step: FlowStepRecord
    namespace: str
    owner: str | None = None


class WakeFlows(msgspec.Struct):
    """Resume the flows whose timers are due, and cancel the waiting ones that were asked to stop:
    of a namespace, or of all. Answers FlowsWoken."""

    limit: int = 500
    namespace: str | None = None


class FlowsWoken(msgspec.Struct):
    """How many flows time has moved, and whether there are more."""

    resumed: int
    cancelled: int
    more: bool


class PruneFlows(msgspec.Struct):
    """Delete flows that ended, and were last changed before ``before``, with their steps and audit
    trails. Answers how many."""

    before: int
    namespace: str
    limit: int = 500


FlowTransition = CreateFlow | MoveFlow | DeliverFlowEvent | ObserveFlowStep | WakeFlows | PruneFlows


class FlowReader(Protocol):
    """What can be asked about flows."""

    def flow(self, flow_id: str) -> FlowRecord | None:
        """The flow, or None."""

    def flows(
        self,
        namespace: str,
        *,
        owner: str | None = None,
        status: str | None = None,
        before: str | None = None,
        limit: int = 50,
    ) -> list[FlowRecord]:
        """Flows: of an owner from new to old; of a status by when they were changed; else those
        changed last first. The page begins after ``before``, the last flow of the page before."""

    def flow_steps(self, flow_id: str) -> list[FlowStepRecord]:
        """The steps of a flow in the order in which they were first seen."""

    def flow_events(self, flow_id: str, limit: int) -> list[FlowEventRecord]:
        """The audit trail of a flow, newest first."""

    def next_flow(self) -> int | None:
        """When time next does something to a flow."""
