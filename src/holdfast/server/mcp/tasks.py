"""The Tasks extension: a run is a task, and an open gate asks for input.

A task is durable before its creation is answered, and its id is the id of the run: any server
process on the same database answers for it, also after a crash.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER
from mcp_types import HEADER_MISMATCH, INVALID_PARAMS, RequestParams
from mcp_types.jsonrpc import MISSING_REQUIRED_CLIENT_CAPABILITY
from pydantic import Field

from holdfast.core.api_keys import Right
from holdfast.core.gates.model import GateStatus
from holdfast.core.retention import deleted_at
from holdfast.core.status import Status
from holdfast.errors import HoldfastError, RunFinished, RunNotFound, UsageError
from holdfast.server.mcp.callers import Callers, McpCaller, as_protocol_error
from holdfast.views.gates import GateView
from holdfast.views.runs import RunView
from holdfast.views.text import error_line
from holdfast.views.values import as_json, micros

TASKS = "io.modelcontextprotocol/tasks"
POLL_INTERVAL = 500
"""Milliseconds that a client should wait between two questions about a task."""

_ENDED = {
    Status.COMPLETED: "completed",
    Status.FAILED: "completed",
    Status.STUCK: "failed",
    Status.CANCELLED: "cancelled",
    Status.EXPIRED: "cancelled",
    Status.SKIPPED: "cancelled",
}
"""The state of a task by the status of its run. A run that failed has a result: the error of the
tool."""


class TaskParams(RequestParams):
    """The parameters of a question about a task."""

    task_id: str = Field(alias="taskId")


class TaskUpdateParams(TaskParams):
    """The answers to the requests for input of a task."""

    input_responses: dict[str, Any] = Field(default_factory=dict, alias="inputResponses")


def accepts_tasks(context: Any) -> bool:
    """Return whether a client has declared that it can wait for tasks."""
    capabilities = context.session.client_capabilities
    return TASKS in (getattr(capabilities, "extensions", None) or {})


def require_tasks(context: Any) -> None:
    """Raise the error of the protocol for a client that cannot wait for tasks."""
    if not accepts_tasks(context):
        raise MCPError(
            MISSING_REQUIRED_CLIENT_CAPABILITY,
            "this needs a client with the Tasks extension",
            {"requiredCapabilities": {"extensions": {TASKS: {}}}},
        )


class TaskMethods:
    """The methods of the Tasks extension."""

    def __init__(self, callers: Callers) -> None:
        self._callers: Callers = callers

    async def get(self, context: Any, params: TaskParams) -> dict[str, Any]:
        """Return a task, with its result or its requests for input."""
        caller = await self._admitted(context, params)
        task = await task_of(caller, params.task_id)
        return {"resultType": "complete", **task}

    async def update(self, context: Any, params: TaskUpdateParams) -> dict[str, Any]:
        """Decide gates, under the name of the caller. An answer to a gate that is no longer open is
        ignored: another person was faster."""
        caller = await self._admitted(context, params)
        run = await _run(caller, params.task_id)
        gates = {gate.id: gate for gate in await _open_gates(caller, run.id)}
        for key, answer in params.input_responses.items():
            if key in gates:
                await _decide(caller, gates[key], answer)
        return {"resultType": "complete"}

    async def cancel(self, context: Any, params: TaskParams) -> dict[str, Any]:
        """Ask the run of a task to stop. A task that has ended stays as it is."""
        caller = await self._admitted(context, params)
        run = await _run(caller, params.task_id)
        caller.require(Right.START)
        try:
            await caller.run(run.id).cancel("cancelled by the client", by=caller.name)
        except RunFinished:
            pass
        except HoldfastError as error:
            raise as_protocol_error(error) from error
        return {"resultType": "complete"}

    async def _admitted(self, context: Any, params: TaskParams) -> McpCaller:
        """Return the caller of a question about a task, which the headers must name as well."""
        require_tasks(context)
        headers = getattr(context.request, "headers", {})
        if headers.get(MCP_NAME_HEADER, params.task_id) != params.task_id:
            raise MCPError(HEADER_MISMATCH, "the header Mcp-Name does not name the task")
        return await self._callers.of(context)


async def task_of(caller: McpCaller, run_id: str) -> dict[str, Any]:
    """Return the task of a run. Raises MCPError for an unknown one."""
    run = await _run(caller, run_id)
    gates: list[GateView] = []
    if run.status not in _ENDED:
        gates = await _open_gates(caller, run.id)
    state = _ENDED.get(run.status, "working")
    task: dict[str, Any] = {
        "taskId": run.id,
        "status": state,
        "createdAt": _instant(run.created_at),
        "lastUpdatedAt": _instant(_changed_at(run, gates)),
        "ttlMs": await _lifetime(caller, run),
        "pollIntervalMs": POLL_INTERVAL,
    }
    if gates:
        task["status"] = "input_required"
        task["inputRequests"] = {gate.id: input_request(gate) for gate in gates}
    elif state == "completed":
        task["result"] = tool_result(run, sees_values=caller.grant.sees_values)
    elif state == "failed":
        task["error"] = {"code": -32603, "message": error_line(run.error, 500)}
    return task


async def _lifetime(caller: McpCaller, run: RunView) -> int | None:
    """Return the milliseconds from the creation of a run until retention deletes it; None if no
    rule says when, or if the run has not ended."""
    if run.finished_at is None:
        return None
    rules = await caller.engine._calls.call(lambda parts: parts.store.retention.rules())
    end = deleted_at(
        rules,
        workflow=run.workflow,
        status=run.status.value,
        finished_at=micros(run.finished_at),
    )
    return None if end is None else (end - micros(run.created_at)) // 1000


def created_task(task: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer to a call that has created a task."""
    shown = {name: value for name, value in task.items() if name not in ("result", "inputRequests")}
    return {"resultType": "task", **shown}


async def _run(caller: McpCaller, run_id: str) -> RunView:
    if not caller.rights & {Right.VIEW, Right.START}:
        caller.require(Right.VIEW)
    try:
        return await caller.run(run_id).record()
    except RunNotFound:
        raise MCPError(INVALID_PARAMS, "Task not found") from None
    except UsageError as error:
        raise as_protocol_error(error) from error


async def _open_gates(caller: McpCaller, run_id: str) -> list[GateView]:
    return list(await caller.engine.gates.list(run=run_id, status=GateStatus.OPEN.value))


def _instant(time: datetime) -> str:
    return time.isoformat().replace("+00:00", "Z")


def _changed_at(run: RunView, gates: list[GateView]) -> datetime:
    times = [run.created_at, *(gate.opened_at for gate in gates)]
    times += [time for time in (run.started_at, run.finished_at) if time is not None]
    return max(times)


# Results


def tool_result(run: RunView, *, sees_values: bool = True) -> dict[str, Any]:
    """Return the result of a tool: that of its run, or the error of the run."""
    if run.status is not Status.COMPLETED:
        text = error_line(run.error, 2000) or run.status.value
        return _content(text, is_error=True)
    if not sees_values:
        return _content("completed; this API key does not see values", is_error=False)
    return value_result(run.result)


def value_result(value: Any) -> dict[str, Any]:
    """Return a value as the result of a tool: as text, and an object as structured content too."""
    if isinstance(value, str):
        return _content(value, is_error=False)
    result = _content(as_json(value).decode(), is_error=False)
    if isinstance(value, dict):
        result["structuredContent"] = value
    return result


def error_result(text: str) -> dict[str, Any]:
    """Return an error as the result of a tool, for the model to read."""
    return _content(text, is_error=True)


def _content(text: str, *, is_error: bool) -> dict[str, Any]:
    return {
        "resultType": "complete",
        "content": [{"type": "text", "text": text}],
        "isError": is_error,
    }


# Input


CHOICE = "choice"
CONFIRM = "confirm"
_PRIMITIVES = ("string", "number", "integer", "boolean")


def input_request(gate: GateView) -> dict[str, Any]:
    """Return a gate as a request for input: its prompt, and a flat form."""
    properties: dict[str, Any] = {}
    required: list[str] = []
    if _is_yes_or_no(gate):
        if gate.form is None:
            properties[CONFIRM] = {"type": "boolean", "title": gate.prompt}
            required.append(CONFIRM)
    else:
        properties[CHOICE] = {"type": "string", "enum": gate.choices}
        required.append(CHOICE)
    if gate.form is not None:
        properties.update(_flat(gate.form))
        required += [name for name in _object(gate.form).get("required", ()) if name in properties]
    schema = {"type": "object", "properties": properties, "required": required}
    params = {"mode": "form", "message": gate.prompt, "requestedSchema": schema}
    return {"method": "elicitation/create", "params": params}


def _is_yes_or_no(gate: GateView) -> bool:
    return {option.means for option in gate.options} <= {"approve", "reject"}


def _object(form: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema of the object of a form, which may be a reference."""
    name = str(form.get("$ref", "")).rpartition("/")[2]
    target = form.get("$defs", {}).get(name, form)
    return target if isinstance(target, Mapping) else {}


def _flat(form: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a form that a client can ask for: plain values. It asks for other fields
    as JSON."""
    fields = _object(form).get("properties", {})
    flat: dict[str, Any] = {}
    for name, rule in dict(fields).items():
        flat[name] = rule
        if not isinstance(rule, Mapping) or rule.get("type") not in _PRIMITIVES:
            flat[name] = {"type": "string", "description": "JSON"}
    return flat


async def _decide(caller: McpCaller, gate: GateView, answer: Any) -> None:
    """Decide a gate by the answer of a client; a cancelled question leaves it open."""
    caller.require(Right.DECIDE)
    if not isinstance(answer, Mapping):
        raise MCPError(INVALID_PARAMS, f"the answer to {gate.id} is not an object")
    action = answer.get("action", "accept")
    if action == "cancel":
        return
    content = dict(answer.get("content") or {})
    gates = caller.engine.gates
    who: dict[str, Any] = {"by": caller.name, "roles": caller.grant.gate_roles}
    confirmed = content.pop(CONFIRM, True)
    choice = content.pop(CHOICE, None)
    form = None
    if gate.form is not None:
        form = content
    try:
        if action == "decline" or confirmed is False:
            await gates.reject(gate.id, **who)
        elif choice is not None:
            await gates.decide(gate.id, str(choice), form=form, **who)
        else:
            await gates.approve(gate.id, form=form, **who)
    except UsageError as error:
        raise as_protocol_error(error) from error
