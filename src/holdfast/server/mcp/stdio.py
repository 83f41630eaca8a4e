"""MCP over stdin and stdout, for an agent that starts the server as its own process."""

from __future__ import annotations

from collections.abc import Collection

from mcp.server.stdio import stdio_server

from holdfast.connect.blocking.engine import Engine
from holdfast.connect.faces import AsyncFaces
from holdfast.core.api_keys import Grant
from holdfast.server.mcp.server import McpService


async def serve(engine: Engine, grant: Grant, *, tools: Collection[str], version: str) -> None:
    """Serve one agent with the rights of *grant* until stdin ends."""
    service = McpService(AsyncFaces(engine), version=version, tools=tools, local=grant)
    options = service.server.create_initialization_options()
    async with stdio_server() as (read_stream, write_stream):
        await service.server.run(read_stream, write_stream, options)
