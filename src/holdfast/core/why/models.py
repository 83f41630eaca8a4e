"""Explain the waits of the runs of models: incidents, messages, signals and external tasks."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from holdfast.core.events import Event, EventKind
from holdfast.core.messages import element_of
from holdfast.core.versions import renamed_places
from holdfast.core.why.model import Blocker, RunFacts, Why, last_at
from holdfast.core.why.stored_errors import error_text


def incident(facts: RunFacts, wait: Mapping[str, Any]) -> Blocker:
    """Return the blocker of a failed element, with the command that tries it again."""
    step = str(wait["step"])
    element = _element(facts, wait)
    raised = _raised(facts, step)
    since = last_at(facts) if raised is None else raised.at
    error = "" if raised is None else f" with {error_text(raised.error)}"
    text = f"element {element!r} failed{error}{_attempts(raised)}"
    return Blocker(
        kind="incident",
        text=f"{text}; it needs an operator, who repairs the cause and tries it again",
        holder="an operator",
        since=since,
        remedy=f"holdfast models retry {shlex.quote(f'{step}@{facts.run.id}')}",
    )


def _raised(facts: RunFacts, step: str) -> Event | None:
    events = [
        event
        for event in facts.history
        if event.kind == EventKind.INCIDENT_RAISED and event.step == step
    ]
    return events[-1] if events else None


def _attempts(raised: Event | None) -> str:
    if raised is None or raised.attempt <= 1:
        return ""
    return f", after {raised.attempt} attempts"


def message_wait(facts: RunFacts, wait: Mapping[str, Any]) -> Blocker:
    """Return the blocker of a run that waits for a message, with the command that sends it."""
    name = str(wait.get("name"))
    key = wait.get("key")
    has_key = "" if key is None else f" with the key {key!r}"
    option = "" if key is None else f" --key {shlex.quote(str(key))}"
    return Blocker(
        kind="message",
        text=f"it waits for the message {name!r}{has_key}, element {_element(facts, wait)!r}",
        holder="the sender of the message",
        since=last_at(facts),
        remedy=f"holdfast models message {shlex.quote(name)}{option}",
    )


def broadcast_wait(facts: RunFacts, wait: Mapping[str, Any]) -> Blocker:
    """Return the blocker of a run that waits for a BPMN signal, with the command that sends it."""
    name = str(wait.get("name"))
    return Blocker(
        kind="broadcast",
        text=f"it waits for the broadcast {name!r}, element {_element(facts, wait)!r}",
        holder="the sender of the broadcast",
        since=last_at(facts),
        remedy=f"holdfast models broadcast {shlex.quote(name)}",
    )


def external_task(facts: RunFacts, wait: Mapping[str, Any], task: Why) -> Blocker:
    """Return the blocker of a task that workers claim by its topic."""
    topic = task.workflow
    text = f"task {_element(facts, wait)!r} waits for a worker of the topic {topic!r}"
    remedy = task.remedy or f"holdfast why {task.run}"
    if any(blocker.kind == "worker" for blocker in task.blockers):
        text = f"{text}, and no live worker offers it"
    else:
        text = f"{text}; {task.run} is {task.status}: {task.reason}"
    return Blocker(kind="task", text=text, holder=task.run, since=last_at(facts), remedy=remedy)


def _element(facts: RunFacts, wait: Mapping[str, Any]) -> str:
    """Return the element of a wait, under the name that it has in the version of the run."""
    step = str(wait.get("step")).removesuffix(" end")  # the wait for a child
    renamed = renamed_places(facts.history).get(step)
    return renamed or str(wait.get("element") or element_of(step))
