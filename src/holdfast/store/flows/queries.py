"""Queries about managed flows."""

from __future__ import annotations

from holdfast.core.flows.model import FlowEventRecord, FlowRecord, FlowStepRecord
from holdfast.store.flows.apply import event_from, flow_from, step_from
from holdfast.store.reader import Reader


class FlowQueries:
    """Queries about managed flows."""

    def __init__(self, reader: Reader) -> None:
        self._reader: Reader = reader

    def get(self, flow_id: str) -> FlowRecord | None:
        """Return the flow, or None."""
        return self._reader.first(flow_from, "flow", flow_id=flow_id)

    def find(
        self,
        namespace: str,
        *,
        owner: str | None = None,
        status: str | None = None,
        before: str | None = None,
        limit: int = 50,
    ) -> list[FlowRecord]:
        """Return flows: of an owner from new to old, of a status by the time of their last change,
        otherwise the last changed first. The page begins after ``before``, the id of the last flow
        of the previous page."""
        page = {"namespace": namespace, "before": before or "", "limit": max(limit, 0)}
        if status is not None:
            return self._reader.listed(
                flow_from, "flows_of_status", status=status, owner=owner or "", **page
            )
        if owner is not None:
            return self._reader.listed(flow_from, "flows_of_owner", owner=owner, **page)
        return self._reader.listed(flow_from, "newest_flows", **page)

    def steps(self, flow_id: str) -> list[FlowStepRecord]:
        """Return the steps of a flow in the order in which they were first observed."""
        return self._reader.listed(step_from, "flow_steps", flow_id=flow_id)

    def step(self, flow_id: str, run_id: str) -> FlowStepRecord | None:
        """Return the step of a flow with this run id, or None."""
        return self._reader.first(step_from, "flow_step", flow_id=flow_id, run_id=run_id)

    def steps_of_run(
        self, run_id: str, namespace: str, owner: str | None = None
    ) -> list[FlowStepRecord]:
        """Return the steps with this run id of all flows of a namespace, or of one owner in it."""
        return self._reader.listed(
            step_from,
            "flow_steps_of_run",
            run_id=run_id,
            namespace=namespace,
            owner=owner or "",
        )

    def events(self, flow_id: str, limit: int) -> list[FlowEventRecord]:
        """Return the audit trail of a flow, newest first."""
        return self._reader.listed(event_from, "flow_events", flow_id=flow_id, limit=max(limit, 0))

    def next_due(self) -> int | None:
        """Return when the next timer of a flow is due; None if there is none."""
        wake_at: int | None = self._reader.rows("next_flow")[0]["wake_at"]
        return wake_at
