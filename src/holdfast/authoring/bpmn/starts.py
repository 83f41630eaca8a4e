"""Start events with a trigger: the messages, signals and times that start a process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.authoring.bpmn.dialects.texts import LITERAL
from holdfast.authoring.bpmn.model import Element, EventDefinition, Model
from holdfast.authoring.bpmn.timers import plain_cron
from holdfast.core.definitions import StartTrigger
from holdfast.core.schedules.model import ScheduleDeclaration


def start_triggers(model: Model, process: str) -> list[StartTrigger]:
    """Return the messages and signals that start a process."""
    triggers = []
    for element in starting_elements(model, process):
        if element.message:
            triggers.append(StartTrigger("message", element.message, element.id))
        triggers += [
            StartTrigger(event.event, event.name or "", element.id)
            for event in element.events
            if event.event in ("message", "signal") and event.name
        ]
    return triggers


def start_schedules(model: Model, process: str) -> list[ScheduleDeclaration]:
    """Return the schedules of the timer start events of a process."""
    declarations = []
    for element in starting_elements(model, process):
        if element.tag != "startEvent":
            continue
        rules = [rule for event in element.events if (rule := _rule(event)) is not None]
        for number, rule in enumerate(rules, 1):
            # Each time starts an instance, whether or not earlier ones have ended.
            how = {"overlap": "allow", "misfire": "all"}
            options = {**rule, **how, "args": ({}, {"start": element.id})}
            name = f"{process}.{element.id}"
            declarations.append(
                ScheduleDeclaration(name if number == 1 else f"{name}.{number}", options)
            )
    return declarations


def _rule(event: EventDefinition) -> dict[str, Any] | None:
    """Return the rule of a timer whose time is no expression; None for other events."""
    time = event.expression
    if event.event != "timer" or time is None or time.language != LITERAL:
        return None
    if event.timer == "timeDate":
        return {"dates": [time.text]}
    if event.timer == "timeDuration":
        return {"repeat": f"R1/{time.text}"}
    if time.text.startswith("R"):
        return {"repeat": time.text}
    return {"cron": plain_cron(time.text)}


def starting_elements(model: Model, process: str) -> Iterator[Element]:
    """Return the elements at which a process may begin with a trigger: start events, receive tasks
    that start it, and the events after an event-based gateway that starts it."""
    for element in model.elements.values():
        if element.parent != process:
            continue
        is_task = element.instantiates and element.tag == "receiveTask"
        if is_task or (element.tag == "startEvent" and element.events):
            yield element
        elif element.instantiates and element.tag == "eventBasedGateway":
            targets = [model.elements[flow].target or "" for flow in element.outgoing]
            yield from (model.elements[target] for target in targets if target in model.elements)
