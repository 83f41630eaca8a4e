"""The server that the official conformance suite of MCP calls: its tools have the names and the
behaviour that the scenarios expect."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import uvicorn
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolRequestParams
from mcp_types.jsonrpc import MISSING_REQUIRED_CLIENT_CAPABILITY

import holdfast
from holdfast import Engine, gate, sleep, workflow
from holdfast.server import Caller, app
from holdfast.server.mcp.http import McpEndpoint, endpoint_of
from holdfast.server.serving import bound_socket


@workflow(tool="call")
async def greet(name: str = "you") -> str:
    """Greet somebody by name."""
    return f"Hello, {name}!"


@workflow(tool=True)
async def slow_compute(seconds: float = 1, label: str = "") -> str:
    """Compute for some seconds."""
    await sleep(f"{int(seconds * 1000)}ms")
    return f"computed {label}"


@workflow(tool="task")
async def failing_job(**arguments: Any) -> str:
    """Fail."""
    raise ValueError("it broke")


@workflow(tool=True)
async def confirm_delete(filename: str = "x") -> str:
    """Delete a file if a person agrees."""
    answer = await gate(f"Delete {filename}?", timeout="1h")
    return f"deleted {filename}" if answer else f"kept {filename}"


@workflow(tool=True)
async def multi_input() -> str:
    """Ask two questions at once."""
    first, second = await holdfast.gather(gate("First?"), gate("Second?"))
    return f"{first.choice} {second.choice}"


@workflow(tool=True)
async def protocol_error_job() -> str:
    """Get stuck: a fault that is not the tool's."""
    await asyncio.get_running_loop().create_future()
    return ""


@workflow(tool="task")
async def test_missing_capability() -> str:
    """Needs a capability that the client may not have."""
    return "done"


@workflow(tool="call")
async def test_streaming_elicitation() -> str:
    """Return at once: a run never sends requests of its own on the stream of a call."""
    return "done"


@workflow(tool="call")
async def test_logging_tool() -> str:
    """Log nothing to the client."""
    return "done"


@workflow(tool="task")
async def test_tool_with_task(name: str) -> str:
    """Needs an argument that the client asks its user for."""
    return f"Hello, {name}!"


def require_sampling(endpoint: McpEndpoint) -> None:
    """Let one tool require a capability of clients that no tool of Holdfast uses."""
    server = endpoint._service.server
    entry = server.get_request_handler("tools/call")

    async def call(context: Any, params: CallToolRequestParams) -> Any:
        if params.name == "test_missing_capability":
            needs = {"requiredCapabilities": {"sampling": {}}}
            raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, "no sampling", needs)
        return await entry.handler(context, params)

    server.add_request_handler("tools/call", CallToolRequestParams, call)


def main(database: str) -> None:
    everyone = Caller(name="conformance", roles=("operator",))
    with Engine(database) as engine:
        served = app(engine, who=lambda request: everyone)
        served._mcp_endpoint = endpoint_of(served.faces, version="1", tools=(), max_body=1_000_000)
        require_sampling(served._mcp_endpoint)
        bound = bound_socket("127.0.0.1", 0)
        sys.stdout.write(f"http://localhost:{bound.getsockname()[1]}\n")
        sys.stdout.flush()
        config = uvicorn.Config(served, log_level="warning", lifespan="off")
        uvicorn.Server(config).run(sockets=[bound])


if __name__ == "__main__":
    main(sys.argv[1])
