"""MCP over HTTP: every request stands for itself, so that any server process can answer it.

The session manager of the protocol library needs a task group. It is started with the first
request, because an app that is mounted is not told when it starts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, MutableMapping
from typing import Any

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from holdfast.connect.faces import AsyncFaces
from holdfast.core.api_keys import Grant, Right
from holdfast.server.mcp.callers import SCOPE
from holdfast.server.mcp.server import McpService


class McpEndpoint:
    """Answers the MCP requests of one app. The app has checked the host and the caller."""

    def __init__(self, service: McpService, *, max_body: int) -> None:
        self._service: McpService = service
        self._max_body: int = max_body
        self._manager: StreamableHTTPSessionManager | None = None
        self._running: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def answer(
        self,
        scope: Scope,
        receive: Receive,
        send: Send,
        *,
        grant: Grant,
        rights: frozenset[Right],
    ) -> None:
        """Answer one request of an authenticated caller."""
        manager = await self._started()
        inner: MutableMapping[str, Any] = dict(scope)
        inner[SCOPE] = (grant, rights)
        await manager.handle_request(inner, receive, send)

    def response(self, grant: Grant, rights: frozenset[Right]) -> Response:
        """Return the response that answers the request of a caller."""
        return _McpResponse(self, grant, rights)

    def stop(self) -> None:
        """End all streams."""
        if self._running is not None:
            self._running.cancel()
            self._running = None

    async def _started(self) -> StreamableHTTPSessionManager:
        loop = asyncio.get_running_loop()
        is_alive = self._running is not None and not self._running.done() and self._loop is loop
        if self._manager is None or not is_alive:
            self._loop = loop
            self._manager = StreamableHTTPSessionManager(
                self._service.server,
                json_response=True,
                stateless=True,
                max_request_body_size=self._max_body,
            )
            is_ready = loop.create_future()
            self._running = loop.create_task(_run(self._manager, is_ready))
            await is_ready
        return self._manager


async def _run(manager: StreamableHTTPSessionManager, is_ready: asyncio.Future[None]) -> None:
    async with manager.run():
        is_ready.set_result(None)
        await asyncio.get_running_loop().create_future()


class _McpResponse(Response):
    """The response that the protocol library writes."""

    def __init__(self, endpoint: McpEndpoint, grant: Grant, rights: frozenset[Right]) -> None:
        super().__init__()
        self._endpoint: McpEndpoint = endpoint
        self._grant: Grant = grant
        self._rights: frozenset[Right] = rights

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._endpoint.answer(scope, receive, send, grant=self._grant, rights=self._rights)


def endpoint_of(
    faces: AsyncFaces, *, version: str, tools: Collection[str], max_body: int
) -> McpEndpoint:
    """Return the endpoint of an engine."""
    return McpEndpoint(McpService(faces, version=version, tools=tools), max_body=max_body)
