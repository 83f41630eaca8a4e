"""The inbox: gates, as the caller may see them."""

from __future__ import annotations

from typing import Any

from holdfast.core.api_keys import Right
from holdfast.server.calls import HttpCall
from holdfast.server.inbox import visible_gate
from holdfast.server.operation import operation
from holdfast.views.gates import GateView


async def list_gates(call: HttpCall) -> Any:
    """Return a page of the gates that match, oldest first; without *status*, only open gates.
    Raises BadOption."""
    arguments = dict(call.arguments)
    if Right.VIEW not in call.rights:
        arguments["mine"] = call.identity.grant.name
        arguments["role"] = list(call.identity.grant.gate_roles)
    return await call.engine.gates.list(**arguments)


async def get_gate(call: HttpCall) -> GateView:
    """Return a gate by its id, or the gate of a run. Raises GateNotFound."""
    return await visible_gate(call.engine, call.identity.grant, call.rights, call.path["gate"])


async def decide(call: HttpCall) -> Any:
    """Record the decision of the caller on a gate, and return the gate after it. Raises
    GateNotFound, GateClosed, NotYourGate, AlreadyDecided, GateChanged, UnknownChoice,
    WrongAnswer."""
    if Right.VIEW not in call.rights:
        await get_gate(call)  # a gate outside the inbox does not exist for this caller
    return await call.call_method()


OPERATIONS = (
    operation("gates.list", "GET /gates", Right.VIEW, handler=list_gates, other_right=Right.DECIDE),
    operation(
        "gates.get", "GET /gates/{gate}", Right.VIEW, handler=get_gate, other_right=Right.DECIDE
    ),
    operation("gates.decide", "POST /gates/{gate}/decisions", Right.DECIDE, handler=decide),
    operation("gates.approve", "POST /gates/{gate}/approve", Right.DECIDE, handler=decide),
    operation("gates.reject", "POST /gates/{gate}/reject", Right.DECIDE, handler=decide),
    operation("gates.delegate", "POST /gates/{gate}/delegate", Right.DECIDE, handler=decide),
)
