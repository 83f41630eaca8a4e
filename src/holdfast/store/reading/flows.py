"""What can be asked about managed flows."""

from __future__ import annotations

from holdfast.core.flows import Flow, FlowEvent, FlowStep
from holdfast.store.reading.asking import Asking
from holdfast.store.transitions.flows import flow_from, step_from


class RowFlowReader(Asking):
    """What can be asked about managed flows."""

    def flow(self, flow_id: str) -> Flow | None:
        found = self._rows("flow", flow_id=flow_id)
        return flow_from(found[0]) if found else None

    def flows(
        self, namespace: str, *, owner: str | None = None, status: str | None = None, before: str | None = None, limit: int = 50
    ) -> list[Flow]:
        page = {"namespace": namespace, "before": before or "", "limit": max(limit, 0)}
        if status is not None:
            rows = self._rows("flows_of_status", status=status, owner=owner or "", **page)
        elif owner is not None:
            rows = self._rows("flows_of_owner", owner=owner, **page)
        else:
            rows = self._rows("newest_flows", **page)
        return [flow_from(row) for row in rows]

    def flow_steps(self, flow_id: str) -> list[FlowStep]:
        return [step_from(row) for row in self._rows("flow_steps", flow_id=flow_id)]

    def flow_events(self, flow_id: str, limit: int) -> list[FlowEvent]:
        rows = self._rows("flow_events", flow_id=flow_id, limit=max(limit, 0))
        return [FlowEvent(row["flow_id"], row["seq"], row["kind"], bytes(row["payload"]), row["at"]) for row in rows]

    def next_flow(self) -> int | None:
        found: int | None = self._rows("next_flow")[0]["wake_at"]
        return found
