"""Managed flows as one tool that an agent framework can call: a JSON Schema of eight actions, and a
function that does them.

The tool belongs to one session of one agent and can touch no other's flows. What the model gets
wrong comes back as data, for it to read, and nothing is written. What is not the model's fault,
such as a database that is gone, is raised.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable
from copy import copy
from datetime import UTC, datetime
from typing import Any

import msgspec

from holdfast.authoring.python.step import current_step as step_here
from holdfast.connect.async_engine import AsyncEngine
from holdfast.connect.engine import Engine
from holdfast.core import duration
from holdfast.core.duration import Duration
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
from holdfast.service.flows import Flow

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


_BETWEEN = ":session:"


class FlowTool:
    """Managed flows for one session of one agent. ``definition`` is what a framework shows to the
    model, and calling the tool with the model's arguments does what they say: ``tool(arguments)``,
    or ``await tool.aio(arguments)`` on a loop, which is how the tool of an ``AsyncEngine`` is
    called."""

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
        self._engine = engine
        self._flows: Any = engine.flows
        self._session, self._horizon = checked_text("session", session), horizon
        self.owner = f"agent:{checked_text('agent', agent)}{_BETWEEN}{session}"
        if self.owner.index(_BETWEEN) != len(f"agent:{agent}"):
            raise BadOption(
                option="agent",
                value=agent,
                why=f"with {_BETWEEN!r} in it, it could be taken for another one",
            )
        checked_text("agent and session", self.owner)

    @property
    def definition(self) -> dict[str, Any]:
        """The tool as a JSON Schema function, as most frameworks want it."""
        return {"name": self.name, "description": self.description, "parameters": self.parameters}

    def __call__(self, arguments: dict[str, Any] | str) -> dict[str, Any]:
        """Do one action and return what came of it: ``ok`` and the flow, or ``ok: false`` and what
        was wrong."""
        if isinstance(self._engine, AsyncEngine):
            raise NotInWorkflow(
                call="FlowTool",
                why="the tool of an AsyncEngine is awaited: await tool.aio(arguments)",
            )
        try:
            return _answer(self._asked(arguments))
        except (UsageError, IllegalMove, TypeError, ValueError, RecursionError) as error:
            return self._refusal(error, arguments)

    async def aio(self, arguments: dict[str, Any] | str) -> dict[str, Any]:
        """Do the same on a loop, without holding it up."""
        if not isinstance(self._engine, AsyncEngine):
            return await asyncio.to_thread(self, arguments)
        tool = copy(self)
        tool._engine = await self._engine._opened()
        tool._flows = tool._engine.flows
        return await self._engine._aside(tool, arguments)

    def _refusal(self, error: Exception, arguments: Any) -> dict[str, Any]:
        """Return what a model is told about its mistake."""
        match error:
            case FlowFinished() | IllegalMove() if (
                done := self._done_before(_read(arguments), str(error.facts["flow"]))
            ) is not None:
                return _answer(done)
            case EngineClosed():
                raise error
            case FlowExists():  # an attempt of this step before this one started it
                return _answer(self._flows.get(error.facts["flow"], owner=self.owner))
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
        return {"ok": False, "error": f"the arguments cannot be read: {error}"}  # no JSON at all

    def _done_before(self, given: dict[str, Any], flow_id: str) -> Flow | None:
        """Return the flow if what a step asks for is what was done to it last: the process died
        before that was recorded."""
        if step_here.get() is None:
            return None
        flow: Flow = self._flows.get(flow_id, owner=self.owner)
        if given["action"] == "wait":
            return flow if flow.wait == _wait_view(given["wait"]) else None
        last = next(
            event
            for event in self._flows.events(flow_id, limit=1000)
            if event.kind != "step_observed"
        )
        ends = {"finish": ("finished", {"patch": given.get("patch")}), "cancel": ("cancelled", {})}
        ends["fail"] = ("failed", {"reason": str(given.get("reason")).strip()})
        return flow if ends.get(given["action"]) == (last.kind, last.payload) else None

    def _asked(self, arguments: Any) -> Any:
        """Do what is asked for; the answer is a flow, or several."""
        given = _read(arguments)
        action = given.pop("action", None)
        if action not in ACTIONS:
            raise BadOption(option="action", value=action, known=", ".join(ACTIONS))
        unknown = set(given) - _FIELDS[action]
        if unknown:
            raise BadOption(
                option=sorted(unknown)[0],
                why=f"{action} does not take it",
                known=", ".join(sorted(_FIELDS[action])),
            )
        missing = _NEEDED[action] - set(given)
        if missing:
            raise BadOption(option=sorted(missing)[0], why=f"{action} needs it")
        do: Callable[..., Any] = getattr(self, f"_{action}")
        return do(**given)

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
        known = _id_in_step(controller, goal, current_step, state)
        return self._flows.create(controller, goal, owner=self.owner, id=known, **options)

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


def _id_in_step(*asked: Any) -> str | None:
    """Return the id of a flow that a step starts: the same in every attempt. Elsewhere a flow gets
    one of its own."""
    info = step_here.get()
    if info is None:
        return None
    return hashlib.sha256(msgspec.json.encode([info.idempotency_key, *asked])).hexdigest()[:26]


def _read(arguments: Any) -> dict[str, Any]:
    """Return what a model has given; what it left null was not given."""
    given = msgspec.json.decode(arguments) if isinstance(arguments, str) else arguments
    if not isinstance(given, dict):
        raise BadOption(option="arguments", value=given, why="they are an object")
    return {name: value for name, value in given.items() if value is not None}


def _wait_view(wait: dict[str, Any]) -> dict[str, Any]:
    """Return a wait as flows tell it."""
    return {**wait, "at": _read_time(wait["at"])} if wait["kind"] == "timer" else wait


def _read_wait(wait: Any) -> dict[str, Any]:
    """Return a wait, as a model writes it, as the words of ``flows.wait``."""
    kind = wait.get("kind") if isinstance(wait, dict) else None
    rest = (
        {name: value for name, value in wait.items() if name != "kind"}
        if isinstance(wait, dict)
        else {}
    )
    wanted = {"timer": {"at"}, "external_event": {"topic", "correlation"}, "manual": set[str]()}
    if not isinstance(kind, str) or kind not in wanted:
        raise BadFlowWait(field="kind", value=kind, known=", ".join(wanted))
    if set(rest) != wanted[kind]:
        raise BadFlowWait(
            field=sorted(set(rest) ^ wanted[kind])[0],
            why=f"a {kind} wait has {sorted(wanted[kind]) or 'no fields'}",
        )
    return {"until": _read_time(rest["at"])} if kind == "timer" else rest


def _read_time(text: Any) -> datetime:
    try:
        time = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        raise BadFlowWait(
            field="at", value=text, why="it is no time such as 2026-12-24T18:00:00Z"
        ) from None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def _answer(found: Flow | list[Flow]) -> dict[str, Any]:
    if isinstance(found, list):
        return {"ok": True, "count": len(found), "flows": [_told(flow) for flow in found]}
    return {"ok": True, "flow": _told(found)}


def _told(flow: Flow) -> dict[str, Any]:
    """Return a flow as plain JSON data, without whose it is."""
    told: dict[str, Any] = msgspec.to_builtins(flow)
    return {name: value for name, value in told.items() if name not in ("owner", "requester")}
