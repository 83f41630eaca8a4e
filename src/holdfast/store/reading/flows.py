"""What can be asked about managed flows."""

from __future__ import annotations

from typing import Any

from holdfast.core.flows import Flow, FlowEvent, FlowStep
from holdfast.store.reading.asking import Asking
from holdfast.store.transitions.flows import flow_from, step_from


class RowFlowReader(Asking):
    """What can be asked about managed flows."""

    def flow(self, flow_id: str) -> Flow | None:
        return self._one(flow_from, "flow", flow_id=flow_id)

    def flows(
        self, namespace: str, *, owner: str | None = None, status: str | None = None, before: str | None = None, limit: int = 50
    ) -> list[Flow]:
        page = {"namespace": namespace, "before": before or "", "limit": max(limit, 0)}
        if status is not None:
            return self._listed(flow_from, "flows_of_status", status=status, owner=owner or "", **page)
        if owner is not None:
            return self._listed(flow_from, "flows_of_owner", owner=owner, **page)
        return self._listed(flow_from, "newest_flows", **page)

    def flow_steps(self, flow_id: str) -> list[FlowStep]:
        return self._listed(step_from, "flow_steps", flow_id=flow_id)

    def flow_events(self, flow_id: str, limit: int) -> list[FlowEvent]:
        return self._listed(_event, "flow_events", flow_id=flow_id, limit=max(limit, 0))

    def next_flow(self) -> int | None:
        found: int | None = self._rows("next_flow")[0]["wake_at"]
        return found


def _event(row: Any) -> FlowEvent:
    return FlowEvent(row["flow_id"], row["seq"], row["kind"], bytes(row["payload"]), row["at"])
