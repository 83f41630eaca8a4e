"""The MCP server of an engine: tools, tasks and resources, for stdio and for HTTP."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any

import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from holdfast.connect.components import Components
from holdfast.connect.faces import AsyncFaces
from holdfast.core.api_keys import Grant, Right
from holdfast.errors import HoldfastError
from holdfast.server.mcp import resources
from holdfast.server.mcp.arguments import (
    answered_arguments,
    argument_request,
    missing_arguments,
)
from holdfast.server.mcp.callers import Callers, McpCaller
from holdfast.server.mcp.tasks import (
    TASKS,
    TaskMethods,
    TaskParams,
    TaskUpdateParams,
    accepts_tasks,
    created_task,
    error_result,
    require_tasks,
    task_of,
    tool_result,
)
from holdfast.server.mcp.tools import ToolBox, WorkflowTool, call_operator_tool

IDEMPOTENCY_KEY = "holdfast/idempotency-key"
"""The field in the metadata of a tool call that makes it safe to repeat."""

INSTRUCTIONS = (
    "Tools are durable workflows: a call that was accepted is finished, whatever crashes. Poll the"
    " task of a call; a task that requires input waits for a decision of a person."
)


class McpService:
    """Answers the requests of MCP clients for one engine."""

    def __init__(
        self,
        faces: AsyncFaces,
        *,
        version: str,
        tools: Collection[str] = (),
        local: Grant | None = None,
        operators: bool = True,
    ) -> None:
        self._callers: Callers = Callers(faces, local)
        self._tools: ToolBox = ToolBox(tools, operators=operators)
        methods = TaskMethods(self._callers)
        self.server: Server[Any] = Server(
            "holdfast",
            version=version,
            title="Holdfast",
            instructions=INSTRUCTIONS,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
        )
        self.server.add_request_handler("tasks/get", TaskParams, methods.get)
        self.server.add_request_handler("tasks/update", TaskUpdateParams, methods.update)
        self.server.add_request_handler("tasks/cancel", TaskParams, methods.cancel)
        self.server.extensions[TASKS] = {}

    # Tools

    async def _list_tools(self, context: Any, params: Any) -> types.ListToolsResult:
        caller = await self._callers.of(context)
        tools = [
            types.Tool(name=tool.name, description=tool.description, input_schema=tool.schema)
            for tool in self._tools.operators(caller).values()
        ]
        if Right.START in caller.rights:
            workflows = await caller.engine._calls.call(self._tools.workflows)
            tools += [
                types.Tool(name=tool.name, description=tool.description, input_schema=tool.schema)
                for tool in workflows.values()
            ]
        return types.ListToolsResult(tools=tools)

    async def _call_tool(self, context: Any, params: types.CallToolRequestParams) -> Any:
        caller = await self._callers.of(context)
        arguments = params.arguments or {}
        operator = self._tools.operators(caller).get(params.name)
        if operator is not None:
            return await call_operator_tool(operator, caller, arguments)
        workflow = None
        if Right.START in caller.rights:
            workflows = await caller.engine._calls.call(self._tools.workflows)
            workflow = workflows.get(params.name)
        if workflow is None:
            raise MCPError(types.INVALID_PARAMS, f"Unknown tool: {params.name}")
        asked = missing_arguments(context, workflow.schema, arguments)
        if asked:
            answer = answered_arguments(params.input_responses)
            if answer is None:
                return argument_request(workflow.name, workflow.schema, asked)
            arguments = {**arguments, **answer}
        key = idempotency_key(context, params.meta, caller)
        return await self._start(context, caller, workflow, arguments, key)

    async def _start(
        self,
        context: Any,
        caller: McpCaller,
        tool: WorkflowTool,
        arguments: dict[str, Any],
        key: str | None,
    ) -> Any:
        """Start the run of a tool. A client with the Tasks extension gets a task as soon as the run
        is committed, any other client the result."""
        if tool.mode == "task":
            require_tasks(context)
        try:
            run_id = await _started(caller, tool.name, arguments, key)
        except HoldfastError as error:
            return error_result(str(error))
        if tool.mode != "call" and accepts_tasks(context):
            return created_task(await task_of(caller, run_id))
        run = caller.run(run_id)
        with suppress(HoldfastError):  # the record has the error
            await run.result()
        return tool_result(await run.record(), sees_values=caller.grant.sees_values)

    # Resources

    async def _list_resources(self, context: Any, params: Any) -> types.ListResourcesResult:
        caller = await self._callers.of(context)
        return types.ListResourcesResult(resources=await resources.newest(caller))

    async def _list_templates(self, context: Any, params: Any) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=resources.templates())

    async def _read_resource(
        self, context: Any, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        return await resources.read(await self._callers.of(context), str(params.uri))


def idempotency_key(context: Any, meta: Mapping[str, Any] | None, caller: McpCaller) -> str | None:
    """Return the key that a client has sent to repeat a call safely, bound to the caller: in the
    metadata of the call, or in the header ``Idempotency-Key``. None if it has sent none. Raises
    MCPError."""
    key = (meta or {}).get(IDEMPOTENCY_KEY)
    if key is None:
        key = getattr(context.request, "headers", {}).get("idempotency-key")
    if key is None:
        return None
    if not isinstance(key, str) or not 1 <= len(key) <= 200 or not key.isprintable():
        raise MCPError(types.INVALID_PARAMS, "the idempotency key must have 1 to 200 characters")
    return f"mcp:{caller.name}:{key}"


async def _started(
    caller: McpCaller, workflow: str, arguments: dict[str, Any], key: str | None
) -> str:
    """Start a run with arguments by name, and return its id once it is committed. With a key that
    was used before, return the run that was started then."""
    calls = caller.engine._calls
    parts: Components = await calls.opened()
    parts.know(workflow)
    runs, request = parts.starts.start(workflow, [], arguments, {"key": key}, parts.lease)
    (started,) = await calls.start(runs, request)
    return str(started.id)
