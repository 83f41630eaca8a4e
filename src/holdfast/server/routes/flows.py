"""The creation of managed flows, which may be repeated."""

from __future__ import annotations

from holdfast.core.api_keys import Right
from holdfast.errors import FlowExists
from holdfast.server.calls import HttpCall
from holdfast.server.operation import operation
from holdfast.views.flows import FlowView


async def create(call: HttpCall) -> FlowView:
    """Create a flow. With an Idempotency-Key, a repeated call returns the same flow. Raises
    BadOption, BadFlowPatch, FlowExists."""
    wanted = dict(call.arguments)
    try:
        return await call.engine.flows.create(**wanted)
    except FlowExists:
        if wanted.get("id") != call.derived_id():
            raise
        flow = await call.engine.flows.get(wanted["id"])
        asked = (wanted["controller"], wanted["goal"], wanted["owner"])
        if (flow.controller, flow.goal, flow.owner) != asked:
            raise
        return flow


OPERATIONS = (
    operation(
        "flows.create", "POST /flows", Right.START, handler=create, status=201, derived_id="id"
    ),
)
