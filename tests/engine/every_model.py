"""Models whose runs wait in every way that a model can wait."""

from __future__ import annotations

from tests.bpmn.models import flows, process_of
from tests.dmn.files import decision, definitions, literal


def waiting_model(prefix: str) -> bytes:
    """Return a process whose run waits for a person, a worker, a message, a broadcast and an
    operator; its names start with *prefix*."""
    named = (
        f'<message id="{prefix}-message-id" name="{prefix}-message"/>'
        f'<signal id="{prefix}-signal-id" name="{prefix}-broadcast"/>'
    )
    body = (
        '<startEvent id="s"/>'
        f'<userTask id="{prefix}-person" camunda:assignee="{prefix}-ann"/>'
        f'<serviceTask id="{prefix}-work" camunda:type="external" camunda:topic="{prefix}-topic"/>'
        f'<intermediateCatchEvent id="{prefix}-heard"><messageEventDefinition'
        f' messageRef="{prefix}-message-id"/></intermediateCatchEvent>'
        f'<intermediateCatchEvent id="{prefix}-told"><signalEventDefinition'
        f' signalRef="{prefix}-signal-id"/></intermediateCatchEvent>'
        f'<callActivity id="{prefix}-broken" calledElement="{prefix}-missing"/>'
        + flows(*(f"s {prefix}-{each}" for each in ("person", "work", "heard", "told", "broken")))
    )
    return process_of(body, f"{prefix}-model", named)


def started_model(prefix: str) -> bytes:
    """Return a process that a message starts."""
    message = f'<message id="{prefix}-start-id" name="{prefix}-start"/>'
    body = (
        f'<startEvent id="{prefix}-begin"><messageEventDefinition'
        f' messageRef="{prefix}-start-id"/></startEvent>'
    )
    return process_of(body, f"{prefix}-started", message)


def decision_model(prefix: str) -> bytes:
    """Return a decision whose value is *prefix*."""
    return definitions(decision(f"{prefix}-decision", literal(f'"{prefix}"')))
