"""Read the data of recorded outcomes, and the facts of a process that its program needs."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.authoring.bpmn.compile import ProcessGraph
from holdfast.authoring.bpmn.token_machine.state import Ending
from holdfast.core.events import Event
from holdfast.errors import BpmnError, Fail


def first_argument(args: Any) -> dict[str, Any]:
    """Return the variables among the arguments of a start."""
    if isinstance(args, list) and args and isinstance(args[0], dict):
        return dict(args[0])
    return {}


def facts_of(event: Event) -> dict[str, Any]:
    """Return the data of an event that the engine has written."""
    decoded = msgspec.json.decode(event.data or b"{}")
    return decoded if isinstance(decoded, dict) else {}


def error_of(data: bytes | None) -> dict[str, Any]:
    """Return the description of a failure."""
    decoded = msgspec.json.decode(data or b"{}")
    return decoded if isinstance(decoded, dict) else {"type": "Error", "message": str(decoded)}


def exception_of(ending: Ending) -> Exception:
    """Return the error with which an instance ends."""
    error = ending.error or {}
    if error.get("type") == "BpmnError":
        variables = error.get("variables") or {}
        return BpmnError(error.get("code", ""), error.get("message", ""), **variables)
    return Fail(f"{error.get('type', 'Error')}: {error.get('message', '')}")


def catches_escalations(graph: ProcessGraph) -> bool:
    """Return whether an event of the process catches escalations."""
    return any(
        event.event == "escalation"
        for node in graph.nodes.values()
        if node.tag in ("boundaryEvent", "startEvent")
        for event in node.events
    )
