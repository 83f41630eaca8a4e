"""Which gates a caller sees, over HTTP and over MCP alike.

A caller who may only decide sees the gates that wait for a decision of this person, or that this
person has decided. Other gates do not exist for this caller.
"""

from __future__ import annotations

from collections.abc import Collection

from holdfast.connect.async_engine import AsyncEngine
from holdfast.core.api_keys import Grant, Right
from holdfast.errors import GateNotFound
from holdfast.views.gates import GateView


async def visible_gate(
    engine: AsyncEngine, grant: Grant, rights: Collection[Right], gate_id: str
) -> GateView:
    """Return a gate by its id, or the gate of a run, as a caller sees it. Raises GateNotFound."""
    gate = await engine.gates.get(gate_id)
    if Right.VIEW not in rights and not await _is_in_inbox(engine, grant, gate):
        raise GateNotFound(gate=gate_id)
    return gate


async def _is_in_inbox(engine: AsyncEngine, grant: Grant, gate: GateView) -> bool:
    """Return whether a gate is in the inbox of a person, or was decided by this person."""
    if any(entry.person == grant.name for entry in gate.entries):
        return True
    inbox = await engine.gates.list(
        mine=grant.name, role=list(grant.gate_roles), run=gate.run, limit=500
    )
    return any(waiting.id == gate.id for waiting in inbox)
