"""Procedures of ``engine.models`` on the runs of models: tasks, tokens, traces, incidents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from holdfast.connect.components import Components
from holdfast.core.gates.model import ANONYMOUS, Gate, GateStatus
from holdfast.core.history import live_events
from holdfast.core.program import OfflineContext
from holdfast.core.resting_tokens import RestingToken
from holdfast.core.runs import RunRecord
from holdfast.core.validation import checked_count, checked_text
from holdfast.core.versions import first_version
from holdfast.errors import (
    BadOption,
    GateClosed,
    GateNotFound,
    NotThere,
    RunChanged,
    RunFinished,
    RunNotFound,
    TaskClosed,
    WaitNotFound,
)
from holdfast.errors.base import safe_repr
from holdfast.service.messages import Incident, id_of, next_part
from holdfast.service.requests import Request, identity
from holdfast.views.model_runs import BroadcastView, IncidentView
from holdfast.views.values import instant


def broadcast(
    parts: Components, name: str, variables: Any, *, id: str | None = None, at: int | None = None
) -> BroadcastView:
    """Deliver a broadcast in parts, so that other writers get their turn. *id* and *at* are those
    of the first attempt, if the broadcast is repeated: it starts no run twice, and reaches only
    receivers that waited at that time and were not reached."""
    reached: list[str] = []
    part = parts.messages.broadcast(name, variables, id, at)
    answer = parts.commit(Request(part, identity))
    started: list[str] = list(answer.started)
    while True:
        reached += answer.reached
        following = next_part(part, answer)
        if following is None:
            return BroadcastView(reached=reached, started=started)
        answer = parts.commit(Request(following, identity))


# Seeing


def inspect(
    parts: Components, run_id: str, at: int | None = None, element: str | None = None
) -> Any:
    """Return the state of a model's run, now or as of an event: its tokens, variables and trace.
    Raises RunNotFound, NotThere, BadOption."""
    seen_from = checked_text("element", element)
    last = None if at is None else checked_count("at", at)
    run = parts.client.get(run_id)
    history = live_events(parts.client.history(run.id))
    definition = definition_of(parts, run, first_version(history))
    if last is not None:
        history = [event for event in history if event.seq <= last]
    opened = parts.sealer.opener.run(run)
    return definition.inspect(opened, history, OfflineContext(parts.codec), seen_from)


def preview(
    parts: Components, run_id: str, moves: Sequence[Mapping[str, Any]], expect: int | None
) -> list[RestingToken]:
    """Return the tokens that a run would have after a modification; nothing is written. Raises
    RunNotFound, RunFinished, RunChanged, NotThere, BadOption."""
    run = parts.client.get(run_id)
    expected = None if expect is None else checked_count("expect", expect)
    if run.finished_at is not None:
        raise RunFinished(run=run.id, status=run.status.value)
    history = parts.client.history(run.id)
    if expected is not None and (not history or history[-1].seq != expected):
        raise RunChanged(run=run.id, expected=expected)
    opened = parts.sealer.opener.run(run)
    context = OfflineContext(parts.codec)
    tokens: list[RestingToken] = definition_of(parts, run).preview(
        opened, live_events(history), context, moves
    )
    return tokens


def checked_moves(moves: Sequence[Any]) -> list[dict[str, Any]]:
    """Return the moves of a modification as dicts. Raises BadOption."""
    for move in moves:
        if not isinstance(move, Mapping) or not all(
            isinstance(text, str) for fact in move.items() for text in fact
        ):
            why = "use bpmn.move, bpmn.add and bpmn.cancel"
            raise BadOption(option="moves", value=safe_repr(move), why=why)
    return [dict(move) for move in moves]


def definition_of(parts: Components, run: RunRecord, version: str | None = None) -> Any:
    """Return the model of a run, of its version or of another one. Raises NotThere."""
    definition = parts.kinds.inspectable(run.namespace, run.workflow, version or run.version)
    if not hasattr(definition, "inspect"):  # a text, or nothing
        raise NotThere(run=run.id, why="this is not the run of a model")
    return definition


# Tasks


def complete(
    parts: Components, task: str, variables: Mapping[str, Any] | None, by: str | None
) -> None:
    """Finish a user task, or a job that no worker has locked. Raises TaskClosed, WrongAnswer,
    BadOption."""
    checked_text("by", by)
    gate = _gate(parts, task)
    if gate is not None:
        complete_gate(parts, gate, variables, by)
        return
    run = _job(parts, task)
    if run.session_id is not None:
        raise TaskClosed(task=task, why="a worker has locked it")
    reason = f"completed by {by}" if by else "completed"
    parts.messages.encoded(variables)  # checks them
    request = parts.tasks.override(run.id, reason, result=dict(variables or {}), failed=False)
    parts.change_finished(request)


def complete_gate(
    parts: Components, gate: Gate, variables: Mapping[str, Any] | None, by: str | None
) -> None:
    """Complete a user task in the name of a person, or of its first assignee."""
    parts.messages.encoded(variables)
    person = by or next(iter(gate.assignees), None)
    if person is None and gate.roles:
        person = ANONYMOUS  # it is completed in the name of a candidate group
    choices = gate.terms.options
    choice = choices[0].value if choices else "approve"
    try:
        parts.commit(
            parts.gates.decide(
                gate.id, choice, by=person, roles=gate.roles, form=dict(variables or {})
            )
        )
    except GateClosed as error:
        raise TaskClosed(task=gate.id, **error.facts) from None


def place_of_task(parts: Components, task: str) -> tuple[str, str]:
    """Return the run and the step of an open task. Raises TaskClosed."""
    gate = _gate(parts, task)
    if gate is not None:
        if gate.status != GateStatus.OPEN:
            raise TaskClosed(task=task, status=gate.status)
        return gate.run_id, gate.step
    run = _job(parts, task)
    return run.parent_id or "", run.parent_step or ""


def _gate(parts: Components, task: str) -> Gate | None:
    try:
        return parts.gates.get(task)
    except GateNotFound:
        return None


def _job(parts: Components, task: str) -> RunRecord:
    try:
        run = parts.client.get(task)
    except RunNotFound:
        raise TaskClosed(task=task, why="there is no such task") from None
    if run.parent_id is None or run.finished_at is not None:
        raise TaskClosed(task=task, status=run.status.value)
    return run


# Incidents


def resolve(
    parts: Components,
    incident: str,
    action: str,
    variables: Mapping[str, Any] | None,
    by: str | None,
) -> None:
    """Resolve an incident. Raises NotThere, RunNotFound, NotEncodable."""
    try:
        parts.commit(parts.messages.resolve(incident, action, variables, by))
    except WaitNotFound:
        raise NotThere(incident=incident, why="the incident is not open") from None


def incident_view(incident: Incident) -> IncidentView:
    """Return the view of an incident."""
    event = incident.event
    return IncidentView(
        id=id_of(incident),
        run_id=incident.wait.run_id,
        element=incident.wait.reason or "",
        error=msgspec.json.decode(event.error) if event.error else None,
        since=instant(incident.wait.opened_at),
        attempts=event.attempt,
    )
