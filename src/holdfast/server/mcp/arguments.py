"""Arguments that a call of a tool lacks are asked for, if the client can ask its user.

The client repeats the call with the answers; nothing is started before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

KEY = "arguments"
"""The key of the request for the missing arguments."""

_PRIMITIVES = ("string", "number", "integer", "boolean")


def missing_arguments(
    context: Any, schema: Mapping[str, Any], arguments: Mapping[str, Any]
) -> list[str]:
    """Return the required arguments that a call lacks and that its client can ask for: plain
    values. Empty if the client cannot ask."""
    capabilities = context.session.client_capabilities
    can_ask = getattr(capabilities, "elicitation", None) is not None
    if not can_ask or context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        return []
    missing = [name for name in schema.get("required", ()) if name not in arguments]
    kinds = [schema["properties"][name].get("type") for name in missing]
    if any(kind not in _PRIMITIVES for kind in kinds):
        return []
    return missing


def argument_request(
    tool: str, schema: Mapping[str, Any], missing: Sequence[str]
) -> dict[str, Any]:
    """Return the answer that asks for arguments."""
    form = {
        "type": "object",
        "properties": {name: schema["properties"][name] for name in missing},
        "required": list(missing),
    }
    params = {
        "mode": "form",
        "message": f"{tool} needs {', '.join(missing)}",
        "requestedSchema": form,
    }
    request = {"method": "elicitation/create", "params": params}
    return {"resultType": "input_required", "inputRequests": {KEY: request}}


def answered_arguments(responses: Any) -> dict[str, Any] | None:
    """Return the arguments that a client has asked its user for; None if it has not asked yet.
    Raises MCPError if the user has declined."""
    if not responses or KEY not in responses:
        return None
    response = responses[KEY]
    if not isinstance(response, Mapping):
        response = response.model_dump(by_alias=True)
    if response.get("action") != "accept":
        raise MCPError(INVALID_PARAMS, "the user gave no arguments")
    return dict(response.get("content") or {})
