"""Managed flows as one tool for agents: a JSON Schema with eight actions, and the function that
executes them.

- The tool belongs to one session of one agent and cannot access the flows of another session.
- A mistake of the model is returned as data for the model to read, and nothing is written.
- An error that the model did not cause, such as a lost database, is raised.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from copy import copy
from datetime import UTC, datetime
from typing import Any

import msgspec

from holdfast.connect.async_engine import AsyncEngine
from holdfast.connect.blocking.engine import Engine
from holdfast.connect.blocking.flows import Flows
from holdfast.connect.calls import Calls
from holdfast.connect.components import Components
from holdfast.core import duration
from holdfast.core.duration import Duration
from holdfast.core.step_info import current_step as step_here
from holdfast.core.validation import checked_text
from holdfast.errors import (
    BadFlowWait,
    BadOption,
    EngineClosed,
    FlowExists,
    FlowFinished,
    FlowNotFound,
    FlowNotYours,
    IllegalMove,
    NotInWorkflow,
    UsageError,
)
from holdfast.views.flows import FlowView

ACTIONS = ("start", "status", "advance", "wait", "finish", "fail", "cancel", "list_mine")

_TEXT = {"type": "string", "minLength": 1}
_WAITS = {
    "oneOf": [
        {
            "type": "object",
            "properties": {
                "kind": {"const": "timer"},
                "at": {"type": "string", "format": "date-time"},
            },
            "required": ["kind", "at"],
            "additionalProperties": False,
        },
        {
            "type": "object",
            "properties": {
                "kind": {"const": "external_event"},
                "topic": _TEXT,
                "correlation": _TEXT,
            },
            "required": ["kind", "topic", "correlation"],
            "additionalProperties": False,
        },
        {
            "type": "object",
            "properties": {"kind": {"const": "manual"}},
            "required": ["kind"],
            "additionalProperties": False,
        },
    ]
}

PARAMETERS: dict[str, Any] = {
    "type": "object",
    "properties": {
        "action": {"type": "string", "enum": list(ACTIONS)},
        "flow_id": {**_TEXT, "description": "Which flow; for all actions but start and list_mine."},
        "controller": {
            **_TEXT,
            "description": "start: what kind of work this is, in a word or two.",
        },
        "goal": {**_TEXT, "description": "start: what is to be reached."},
        "current_step": {**_TEXT, "description": "start, advance: what is being done now."},
        "state": {"description": "start: what is known at first; an object."},
        "patch": {
            "description": (
                "advance, finish: what changes; its top-level keys replace those of the state."
            )
        },
        "wait": {**_WAITS, "description": "wait: what for."},
        "reason": {**_TEXT, "description": "fail: why."},
    },
    "required": ["action"],
    "additionalProperties": False,
}

DESCRIPTION = (
    "Keep work of many turns alive: a flow remembers its goal, its current step and its state,"
    " waits for a time, an event or a person, and survives restarts. Do not use it for work that"
    " ends in this turn, and do not advance in a tight loop: each call is a durable write."
)


_SESSION_MARK = ":session:"


class FlowTool:
    """Managed flows for one session of one agent.

    ``definition`` is the description of the tool that a framework passes to the model. Calling the
    tool executes the action in the model's arguments: ``tool(arguments)``, or ``await
    tool.aio(arguments)`` on an event loop. The tool of an ``AsyncEngine`` has only the latter."""

    name = "flow"
    description = DESCRIPTION
    parameters = PARAMETERS

    def __init__(
        self,
        engine: Engine | AsyncEngine,
        *,
        agent: str,
        session: str,
        horizon: Duration | None = "30d",
    ) -> None:
        if not agent or not session:
            raise BadOption(
                option="session", why="a flow belongs to a session of an agent: name both"
            )
        if horizon is not None:
            duration.parse(horizon)
        self._engine: Engine | AsyncEngine = engine
        self._flows: Any = engine.flows
        self._session: str | None = checked_text("session", session)
        self._horizon: Duration | None = horizon
        self.owner: str = f"agent:{checked_text('agent', agent)}{_SESSION_MARK}{session}"
        if self.owner.index(_SESSION_MARK) != len(f"agent:{agent}"):
            raise BadOption(
                option="agent",
                value=agent,
                why=f"a name with {_SESSION_MARK!r} in it could be taken for another agent",
            )
        checked_text("agent and session", self.owner)

    @property
    def definition(self) -> dict[str, Any]:
        """The tool as a JSON Schema function, in the form that most frameworks expect."""
        return {"name": self.name, "description": self.description, "parameters": self.parameters}

    def __call__(self, arguments: dict[str, Any] | str) -> dict[str, Any]:
        """Execute one action and return its result: ``ok`` and the flow, or ``ok: false`` and the
        error."""
        if isinstance(self._engine, AsyncEngine):
            raise NotInWorkflow(
                call="FlowTool",
                why="the tool of an AsyncEngine must be awaited: await tool.aio(arguments)",
            )
        return self._reply(arguments)

    def _reply(self, arguments: dict[str, Any] | str) -> dict[str, Any]:
        """Execute one action in the calling thread and return its result."""
        try:
            return _success(self._dispatch(arguments))
        except (UsageError, IllegalMove, TypeError, ValueError, RecursionError) as error:
            return self._error_reply(error, arguments)

    async def aio(self, arguments: dict[str, Any] | str) -> dict[str, Any]:
        """Execute one action without blocking the event loop."""
        if not isinstance(self._engine, AsyncEngine):
            return await asyncio.to_thread(self, arguments)
        return await self._engine._calls.call(lambda parts: self._blocking(parts)._reply(arguments))

    def _blocking(self, parts: Components) -> FlowTool:
        """Return a copy of this tool that blocks its thread instead of awaiting the database."""
        tool = copy(self)
        tool._flows = Flows(Calls(parts))
        return tool

    def _error_reply(self, error: Exception, arguments: Any) -> dict[str, Any]:
        """Return the reply that describes a mistake to the model. Raises EngineClosed."""
        match error:
            case FlowFinished() | IllegalMove() if (
                flow := self._already_applied(_read_arguments(arguments), str(error.facts["flow"]))
            ) is not None:
                return _success(flow)
            case EngineClosed():
                raise error
            case FlowExists():  # an earlier attempt of this step started it
                return _success(self._flows.get(error.facts["flow"], owner=self.owner))
            case FlowNotFound():
                return {"ok": False, "error": "not_found", "flow_id": error.facts.get("flow")}
            case FlowNotYours():
                return {
                    "ok": False,
                    "error": "belongs to a different session",
                    "flow_id": error.facts.get("flow"),
                }
            case UsageError() | IllegalMove():
                return {"ok": False, "error": str(error)}
        # the remaining errors are those of reading arguments that are not JSON
        return {"ok": False, "error": f"the arguments cannot be read: {error}"}

    def _already_applied(self, arguments: dict[str, Any], flow_id: str) -> FlowView | None:
        """Return the flow if the action of a step equals the last change of the flow; else None.

        An earlier attempt of the step has then made the change, and its process died before the
        result of the step was recorded."""
        if step_here.get() is None:
            return None
        flow: FlowView = self._flows.get(flow_id, owner=self.owner)
        if arguments["action"] == "wait":
            if flow.wait == _wait_view(arguments["wait"]):
                return flow
            return None
        last = next(
            event
            for event in self._flows.events(flow_id, limit=1000)
            if event.kind != "step_observed"
        )
        end_events = {
            "finish": ("finished", {"patch": arguments.get("patch")}),
            "cancel": ("cancelled", {}),
            "fail": ("failed", {"reason": str(arguments.get("reason")).strip()}),
        }
        if end_events.get(arguments["action"]) == (last.kind, last.payload):
            return flow
        return None

    def _dispatch(self, arguments: Any) -> Any:
        """Execute the action in the arguments; return a flow or a list of flows. Raises
        BadOption."""
        fields = _read_arguments(arguments)
        action = fields.pop("action", None)
        if action not in ACTIONS:
            raise BadOption(option="action", value=action, known=", ".join(ACTIONS))
        unknown = set(fields) - _FIELDS[action]
        if unknown:
            raise BadOption(
                option=sorted(unknown)[0],
                why=f"{action} does not take it",
                known=", ".join(sorted(_FIELDS[action])),
            )
        missing = _NEEDED[action] - set(fields)
        if missing:
            raise BadOption(option=sorted(missing)[0], why=f"{action} needs it")
        execute: Callable[..., Any] = getattr(self, f"_{action}")
        return execute(**fields)

    def _list_mine(self) -> Any:
        return self._flows.list(owner=self.owner, limit=1000)

    def _start(
        self, controller: str, goal: str, current_step: str = "init", state: Any = None
    ) -> Any:
        options = {
            "current_step": current_step,
            "state": state,
            "requester": self._session,
            "start": True,
        }
        flow_id = _id_in_step(controller, goal, current_step, state)
        return self._flows.create(controller, goal, owner=self.owner, id=flow_id, **options)

    def _status(self, flow_id: str) -> Any:
        return self._flows.get(flow_id, owner=self.owner)

    def _advance(self, flow_id: str, patch: Any = None, current_step: str | None = None) -> Any:
        return self._flows.advance(
            flow_id, {} if patch is None else patch, current_step=current_step, owner=self.owner
        )

    def _wait(self, flow_id: str, wait: Any) -> Any:
        return self._flows.wait(
            flow_id, **_read_wait(wait), horizon=self._horizon, owner=self.owner
        )

    def _finish(self, flow_id: str, patch: Any = None) -> Any:
        return self._flows.finish(flow_id, patch, owner=self.owner)

    def _fail(self, flow_id: str, reason: str) -> Any:
        return self._flows.fail(flow_id, reason, owner=self.owner)

    def _cancel(self, flow_id: str) -> Any:
        return self._flows.cancel(flow_id, owner=self.owner)


_NEEDED: dict[str, set[str]] = {
    "start": {"controller", "goal"},
    "status": {"flow_id"},
    "advance": {"flow_id"},
    "wait": {"flow_id", "wait"},
    "finish": {"flow_id"},
    "fail": {"flow_id", "reason"},
    "cancel": {"flow_id"},
    "list_mine": set(),
}
_FIELDS: dict[str, set[str]] = {
    **_NEEDED,
    "start": {"controller", "goal", "current_step", "state"},
    "advance": {"flow_id", "patch", "current_step"},
    "finish": {"flow_id", "patch"},
}


def _id_in_step(*arguments: Any) -> str | None:
    """Return the id of a flow that a step starts, which is the same in every attempt; None outside
    a step, where the flow gets a new id."""
    info = step_here.get()
    if info is None:
        return None
    seed = msgspec.json.encode([info.idempotency_key, *arguments])
    return hashlib.sha256(seed).hexdigest()[:26]


def _read_arguments(arguments: Any) -> dict[str, Any]:
    """Return the arguments of a model as a dictionary, without null values. Raises
    BadOption."""
    decoded = msgspec.json.decode(arguments) if isinstance(arguments, str) else arguments
    if not isinstance(decoded, dict):
        raise BadOption(option="arguments", value=decoded, why="they must be an object")
    return {name: value for name, value in decoded.items() if value is not None}


def _wait_view(wait: dict[str, Any]) -> dict[str, Any]:
    """Return a wait in the form of ``FlowView.wait``."""
    if wait["kind"] != "timer":
        return wait
    return {**wait, "at": _read_time(wait["at"])}


def _read_wait(wait: Any) -> dict[str, Any]:
    """Return a wait, as a model writes it, as keyword arguments of ``flows.wait``. Raises
    BadFlowWait."""
    fields = dict(wait) if isinstance(wait, dict) else {}
    kind = fields.pop("kind", None)
    required = {"timer": {"at"}, "external_event": {"topic", "correlation"}, "manual": set[str]()}
    if not isinstance(kind, str) or kind not in required:
        raise BadFlowWait(field="kind", value=kind, known=", ".join(required))
    if set(fields) != required[kind]:
        raise BadFlowWait(
            field=sorted(set(fields) ^ required[kind])[0],
            why=f"a {kind} wait has {sorted(required[kind]) or 'no fields'}",
        )
    if kind != "timer":
        return fields
    return {"until": _read_time(fields["at"])}


def _read_time(text: Any) -> datetime:
    try:
        time = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        raise BadFlowWait(
            field="at", value=text, why="it must be a time such as 2026-12-24T18:00:00Z"
        ) from None
    if time.tzinfo is not None:
        return time
    return time.replace(tzinfo=UTC)


def _success(result: FlowView | list[FlowView]) -> dict[str, Any]:
    if isinstance(result, list):
        return {"ok": True, "count": len(result), "flows": [_flow_data(flow) for flow in result]}
    return {"ok": True, "flow": _flow_data(result)}


def _flow_data(flow: FlowView) -> dict[str, Any]:
    """Return a flow as plain JSON data, without its owner and requester."""
    fields: dict[str, Any] = msgspec.to_builtins(flow)
    return {name: value for name, value in fields.items() if name not in ("owner", "requester")}
