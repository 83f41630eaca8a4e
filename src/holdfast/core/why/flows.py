"""Explain why a managed flow does not progress, with the command that continues it."""

from __future__ import annotations

import shlex

from holdfast.core.flows.model import ENDED, EventWait, FlowRecord, FlowStatus, TimerWait
from holdfast.core.flows.rules import wait_of
from holdfast.core.why.model import Blocker, Why, until
from holdfast.core.why.workers import command_in


def explain_flow(flow: FlowRecord, now: int) -> Why:
    """Return where the flow stands and what it waits for."""
    blocker = _blocker(flow, now)
    return Why(
        run=flow.id,
        workflow=flow.controller,
        status=flow.status.value,
        reason=blocker.text,
        since=flow.updated_at,
        blockers=[] if flow.status in ENDED else [blocker],
        remedy=blocker.remedy,
    )


def _blocker(flow: FlowRecord, now: int) -> Blocker:
    def command(verb: str) -> str:
        return command_in(flow.namespace, "flows", verb, shlex.quote(flow.id))

    if flow.status in ENDED:
        return Blocker(kind=flow.status.value, text=f"it has ended: it is {flow.status.value}")
    if flow.cancel_requested:
        if flow.status is FlowStatus.WAITING:
            text = "it was asked to stop: a worker cancels it"
        else:
            text = "it was asked to stop: the program that drives it must cancel it"
        return Blocker(kind="cancel_requested", text=text, remedy=command("cancel"))
    if flow.status is FlowStatus.CREATED:
        return Blocker(kind="created", text="it was not started yet", remedy=command("start"))
    if flow.status is FlowStatus.RUNNING:
        return Blocker(
            kind="driver",
            text=f"the program that drives it is at {flow.current_step!r} and sets the next step",
        )
    wait = wait_of(flow)
    if isinstance(wait, TimerWait):
        text = (
            f"it waits until {until(wait.at, now)}"
            if wait.at > now
            else "its time has come: a worker resumes it"
        )
        return Blocker(kind="timer", text=text, until=wait.at, remedy=command("resume"))
    if isinstance(wait, EventWait):
        remedy = f"{command('deliver')} {shlex.quote(wait.topic)} {shlex.quote(wait.correlation)}"
        return Blocker(
            kind="event",
            text=f"it waits for {wait.topic!r} about {wait.correlation!r}",
            remedy=remedy,
        )
    return Blocker(
        kind="manual", text="it waits for an operator to resume it", remedy=command("resume")
    )
