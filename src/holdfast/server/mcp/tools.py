"""Tools: workflows from their signatures, the requests of operators, and managed flows.

A tool of an operator is listed only for callers that have the right for it. An error of the request
is the result of the tool, for the model to read.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

import msgspec

from holdfast.agents.flow_tool import FlowTool
from holdfast.connect.components import Components
from holdfast.core.api_keys import Right
from holdfast.core.json_schemas import input_schema
from holdfast.core.program import Definition
from holdfast.errors import HoldfastError
from holdfast.server.inbox import visible_gate
from holdfast.server.masking import masked
from holdfast.server.mcp.callers import McpCaller
from holdfast.server.mcp.tasks import error_result, value_result
from holdfast.views.values import as_json

Execute = Callable[[McpCaller, dict[str, Any]], Awaitable[Any]]

_RUN = {"run": {"type": "string", "description": "The id of a run."}}
_TEXT = {"type": "string"}


class OperatorTool(msgspec.Struct, frozen=True):
    """A tool that is not a workflow."""

    name: str
    description: str
    properties: dict[str, Any]
    required: tuple[str, ...]
    right: Right
    execute: Execute

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of its arguments."""
        return {
            "type": "object",
            "properties": self.properties,
            "required": list(self.required),
            "additionalProperties": False,
        }


async def _runs(caller: McpCaller, arguments: dict[str, Any]) -> Any:
    limit = min(int(arguments.pop("limit", 20)), 100)
    page = await caller.engine.runs(**arguments).page(limit=limit)
    return {"runs": list(page)}


async def _show(caller: McpCaller, arguments: dict[str, Any]) -> Any:
    run = caller.run(arguments["run"])
    return {"run": await run.record(), "timeline": await run.timeline(limit=100)}


async def _why(caller: McpCaller, arguments: dict[str, Any]) -> Any:
    return await caller.engine.why(arguments["run"])


async def _signal(caller: McpCaller, arguments: dict[str, Any]) -> Any:
    run = caller.run(arguments["run"])
    is_new = await run.signal(
        arguments["name"],
        arguments.get("payload"),
        key=arguments.get("key"),
        source=caller.name,
    )
    return {"sent": is_new}


async def _cancel(caller: McpCaller, arguments: dict[str, Any]) -> Any:
    reason = arguments.get("reason", "cancelled by request")
    status = await caller.run(arguments["run"]).cancel(reason, by=caller.name)
    return {"status": status}


async def _replay(caller: McpCaller, arguments: dict[str, Any]) -> Any:
    status = await caller.run(arguments["run"]).replay(
        from_step=arguments.get("from_step"), by=caller.name
    )
    return {"status": status}


async def _gates(caller: McpCaller, arguments: dict[str, Any]) -> Any:
    return {"gates": list(await caller.engine.gates.list(run=arguments.get("run"), status="open"))}


async def _decide(caller: McpCaller, arguments: dict[str, Any]) -> Any:
    if Right.VIEW not in caller.rights:
        await visible_gate(caller.engine, caller.grant, caller.rights, arguments["gate"])
    gate = await caller.engine.gates.decide(
        arguments["gate"],
        arguments["choice"],
        by=caller.name,
        roles=caller.grant.gate_roles,
        feedback=arguments.get("feedback"),
        form=arguments.get("form"),
    )
    return {"gate": gate.id, "status": gate.status, "missing": gate.missing}


async def _flow(caller: McpCaller, arguments: dict[str, Any]) -> Any:
    return await FlowTool(caller.engine, agent=caller.name, session="mcp").aio(arguments)


OPERATOR_TOOLS = (
    OperatorTool(
        "runs",
        "List runs, newest first.",
        {
            "status": {"type": "string", "description": "Such as waiting, failed or stuck."},
            "workflow": _TEXT,
            "limit": {"type": "integer", "minimum": 1, "maximum": 100},
        },
        (),
        Right.VIEW,
        _runs,
    ),
    OperatorTool("show", "Show a run and its timeline.", _RUN, ("run",), Right.VIEW, _show),
    OperatorTool(
        "why",
        "Explain what a run waits for, what blocks it, and what would let it continue.",
        _RUN,
        ("run",),
        Right.VIEW,
        _why,
    ),
    OperatorTool(
        "signal",
        "Send a signal to a run.",
        {**_RUN, "name": _TEXT, "payload": {}, "key": _TEXT},
        ("run", "name"),
        Right.START,
        _signal,
    ),
    OperatorTool(
        "cancel",
        "Ask a run to stop; its completed steps are compensated.",
        {**_RUN, "reason": _TEXT},
        ("run",),
        Right.OPERATE,
        _cancel,
    ),
    OperatorTool(
        "replay",
        "Put a run that has ended back to work; what has completed is not repeated.",
        {**_RUN, "from_step": _TEXT},
        ("run",),
        Right.OPERATE,
        _replay,
    ),
    OperatorTool(
        "gates",
        "List the decisions that people are asked for.",
        _RUN,
        (),
        Right.VIEW,
        _gates,
    ),
    OperatorTool(
        "decide",
        "Decide a gate, under the name of the caller.",
        {"gate": _TEXT, "choice": _TEXT, "feedback": _TEXT, "form": {}},
        ("gate", "choice"),
        Right.DECIDE,
        _decide,
    ),
    OperatorTool(
        FlowTool.name,
        FlowTool.description,
        FlowTool.parameters["properties"],
        ("action",),
        Right.START,
        _flow,
    ),
)


class WorkflowTool(msgspec.Struct, frozen=True):
    """A workflow that agents may call."""

    name: str
    description: str
    schema: dict[str, Any]
    mode: bool | str
    """True: a task if the client can wait for one; "task" only then; "call" never a task."""


class ToolBox:
    """The tools of a server."""

    def __init__(self, named: Collection[str], *, operators: bool = True) -> None:
        self._named: Collection[str] = named
        """Workflows that are tools although their definition does not say so."""
        self._operators: tuple[OperatorTool, ...] = OPERATOR_TOOLS * operators

    def workflows(self, parts: Components) -> dict[str, WorkflowTool]:
        """Return the workflows that are tools, by name: those whose definitions say so, and the
        named ones, whose arguments may not be known here."""
        tools = {
            name: _workflow_tool(name, definition)
            for name, definition in parts.definitions().items()
            if getattr(definition, "tool", False) or name in self._named
        }
        for name in self._named:
            if name not in tools:
                tools[name] = WorkflowTool(name, "", input_schema(None), mode=True)
        return tools

    def operators(self, caller: McpCaller) -> dict[str, OperatorTool]:
        """Return the tools of operators for which a caller has the right, by name."""
        return {tool.name: tool for tool in self._operators if tool.right in caller.rights}


def _workflow_tool(name: str, definition: Definition) -> WorkflowTool:
    return WorkflowTool(
        name=name,
        description=inspect.getdoc(getattr(definition, "fn", None)) or "",
        schema=input_schema(definition.signature),
        mode=getattr(definition, "tool", False) or True,
    )


async def call_operator_tool(
    tool: OperatorTool, caller: McpCaller, arguments: Mapping[str, Any]
) -> dict[str, Any]:
    """Execute a tool, and return its result or its error for the model."""
    unknown = set(arguments) - set(tool.properties)
    missing = [name for name in tool.required if name not in arguments]
    if unknown or missing:
        return error_result(f"unknown: {sorted(unknown)}, missing: {missing}")
    try:
        answer = await tool.execute(caller, dict(arguments))
    except (HoldfastError, TypeError, ValueError) as error:
        return error_result(str(error))
    if not caller.grant.sees_values:
        answer = masked(answer)
    return value_result(msgspec.json.decode(as_json(answer)))
