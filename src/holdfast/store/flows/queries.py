"""Queries about managed flows."""

from __future__ import annotations

from typing import Any

from holdfast.core.flows.model import FlowEventRecord, FlowRecord, FlowStepRecord
from holdfast.store.reader import Queries
from holdfast.store.transitions.flows import flow_from, step_from


class FlowQueries(Queries):
    """Queries about managed flows."""

    def flow(self, flow_id: str) -> FlowRecord | None:
        return self._one(flow_from, "flow", flow_id=flow_id)

    def flows(
        self,
        namespace: str,
        *,
        owner: str | None = None,
        status: str | None = None,
        before: str | None = None,
        limit: int = 50,
    ) -> list[FlowRecord]:
        page = {"namespace": namespace, "before": before or "", "limit": max(limit, 0)}
        if status is not None:
            return self._listed(
                flow_from, "flows_of_status", status=status, owner=owner or "", **page
            )
        if owner is not None:
            return self._listed(flow_from, "flows_of_owner", owner=owner, **page)
        return self._listed(flow_from, "newest_flows", **page)

    def flow_steps(self, flow_id: str) -> list[FlowStepRecord]:
        return self._listed(step_from, "flow_steps", flow_id=flow_id)

    def flow_events(self, flow_id: str, limit: int) -> list[FlowEventRecord]:
        return self._listed(_event, "flow_events", flow_id=flow_id, limit=max(limit, 0))

    def next_flow(self) -> int | None:
        wake_at: int | None = self._rows("next_flow")[0]["wake_at"]
        return wake_at


def _event(row: Any) -> FlowEventRecord:
    return FlowEventRecord(
        row["flow_id"], row["seq"], row["kind"], bytes(row["payload"]), row["at"]
    )
