"""Who calls over MCP: the API key of an HTTP request, or the user who started the process."""

from __future__ import annotations

from typing import Any

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from holdfast.connect.async_engine import AsyncEngine
from holdfast.connect.async_run import AsyncRun
from holdfast.connect.faces import AsyncFaces
from holdfast.core.api_keys import Grant, Right
from holdfast.errors import HoldfastError, RightMissing

SCOPE = "holdfast.mcp.caller"
"""Where the scope of an HTTP request has its caller."""


class McpCaller:
    """An authenticated caller, and the engine as this caller sees it."""

    def __init__(self, grant: Grant, rights: frozenset[Right], engine: AsyncEngine) -> None:
        self.grant: Grant = grant
        self.rights: frozenset[Right] = rights
        self.engine: AsyncEngine = engine

    @property
    def name(self) -> str:
        """The name under which its actions are recorded."""
        return self.grant.name

    def run(self, run_id: str) -> AsyncRun[Any]:
        """Return a handle to a run, which need not exist."""
        return AsyncRun(self.engine._calls, run_id)

    def require(self, right: Right) -> None:
        """Raise RightMissing without a right."""
        if right not in self.rights:
            raise RightMissing(right=right.value)


class Callers:
    """Returns the caller of each request."""

    def __init__(self, faces: AsyncFaces, local: Grant | None) -> None:
        self._faces: AsyncFaces = faces
        self._local: Grant | None = local
        """The caller of requests that come by no HTTP request."""

    async def of(self, context: Any) -> McpCaller:
        """Return the caller of the request of a handler."""
        request = context.request
        if request is not None and SCOPE in getattr(request, "scope", {}):
            grant, rights = request.scope[SCOPE]
        elif self._local is not None:
            grant = self._local
            rights = grant.rights
        else:
            raise MCPError(INVALID_PARAMS, "the request has no caller")
        return McpCaller(grant, rights, await self._faces.of(grant.namespace))


def as_protocol_error(error: HoldfastError) -> MCPError:
    """Return an error of Holdfast as an error of the protocol: the request is at fault."""
    return MCPError(INVALID_PARAMS, str(error), {"error": type(error).__name__})
