"""Turn recorded outcomes into answers to the requests of the token machine.

``ANSWERS`` has one function per kind of event. A started child is not here: it answers nothing, and
its request stays open.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.authoring.bpmn.expressions import stored_value, value_of
from holdfast.authoring.bpmn.handlers import THROWN
from holdfast.authoring.bpmn.outcomes import error_of, facts_of
from holdfast.authoring.bpmn.token_machine.machine import TokenMachine, described
from holdfast.authoring.bpmn.token_machine.state import TokenWait
from holdfast.core import typed_json
from holdfast.core.codec import Codec
from holdfast.core.events import Event, EventKind
from holdfast.core.gates.answer import GateOutcome
from holdfast.errors import Fail, HoldfastError


def decoded(codec: Codec, event: Event) -> Any:
    """Return the value of an outcome; None if it has none."""
    return None if event.data is None else codec.decode(event.data)


def _step_completed(machine: TokenMachine, codec: Codec, wait: TokenWait, event: Event) -> None:
    value = decoded(codec, event)
    if isinstance(value, dict) and THROWN in value:
        machine.answer(wait.id, "error", value[THROWN])
    elif value is None or isinstance(value, dict):
        machine.answer(wait.id, "done", value or {})
    else:
        name = type(value).__name__
        machine.answer(wait.id, "failed", described(Fail(f"the result is a {name}")))


def _step_failed(machine: TokenMachine, codec: Codec, wait: TokenWait, event: Event) -> None:
    error = error_of(event.error)
    error["attempts"] = event.attempt
    machine.answer(wait.id, "failed", error)


def _timer_fired(machine: TokenMachine, codec: Codec, wait: TokenWait, event: Event) -> None:
    # At least the instant of the timer itself: the event may carry an earlier one.
    machine.state.now = max(machine.state.now, wait.data.get("at", 0))
    machine.answer(wait.id, "fired")


def _message_received(machine: TokenMachine, codec: Codec, wait: TokenWait, event: Event) -> None:
    value = decoded(codec, event)
    machine.answer(wait.id, "fired", value if isinstance(value, dict) else {})


def _sent(machine: TokenMachine, codec: Codec, wait: TokenWait, event: Event) -> None:
    machine.answer(wait.id, "done")


def _gate_closed(machine: TokenMachine, codec: Codec, wait: TokenWait, event: Event) -> None:
    if event.error is not None:
        _step_failed(machine, codec, wait, event)
        return
    outcome = typed_json.decode(event.data or b"{}", GateOutcome)
    variables: dict[str, Any] = {}
    for decision in outcome.decisions:
        if isinstance(decision.value, dict):
            variables.update(decision.value)
    machine.answer(wait.id, "done", variables)


def _child_ended(machine: TokenMachine, codec: Codec, wait: TokenWait, event: Event) -> None:
    if event.error is not None:
        _child_failed(machine, wait, event)
        return
    value = decoded(codec, event)
    result = value if isinstance(value, dict) else {}
    if wait.kind == "external":
        if THROWN in result:
            machine.answer(wait.id, "error", result[THROWN])
        else:
            machine.answer(wait.id, "done", result)
        return
    work = machine.state.graph.nodes[wait.node].element.work
    values: dict[str, Any] = dict(result) if work.passes_all_out else {}
    if work.result:
        values[work.result] = value
    try:
        for line in work.outputs:
            computed = value_of(line.source, result, machine.state.now)
            values[line.target] = stored_value(computed)
    except HoldfastError as error:
        machine.answer(wait.id, "failed", described(error))
        return
    machine.answer(wait.id, "done", values)


def _child_failed(machine: TokenMachine, wait: TokenWait, event: Event) -> None:
    error = error_of(event.error)
    facts = error.get("facts") or {}
    if error.get("type") == "BpmnError" and "code" in facts:
        machine.answer(wait.id, "error", {**facts, "message": facts.get("message", "")})
    else:
        machine.answer(wait.id, "failed", error)


def _incident_resolved(machine: TokenMachine, codec: Codec, wait: TokenWait, event: Event) -> None:
    facts = facts_of(event)
    machine.answer(wait.id, facts.get("action", "retry"), facts.get("variables") or {})


ANSWERS: dict[str, Callable[[TokenMachine, Codec, TokenWait, Event], None]] = {
    EventKind.STEP_COMPLETED: _step_completed,
    EventKind.STEP_FAILED: _step_failed,
    EventKind.TIMER_FIRED: _timer_fired,
    EventKind.MESSAGE_RECEIVED: _message_received,
    EventKind.MESSAGE_SENT: _sent,
    EventKind.BROADCAST_SENT: _sent,
    EventKind.SIGNAL_SENT: _sent,
    EventKind.GATE_CLOSED: _gate_closed,
    EventKind.CHILD_ENDED: _child_ended,
    EventKind.INCIDENT_RESOLVED: _incident_resolved,
}
"""Answers a request with the outcome of an event, by the kind of the event."""
