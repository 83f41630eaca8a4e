"""Why a managed flow does not move, and the command that moves it."""

from __future__ import annotations

import shlex

from holdfast.core.flows.model import ENDED, EventWait, FlowRecord, FlowStatus, TimerWait
from holdfast.core.flows.rules import wait_of
from holdfast.core.why.model import Blocker, Why, until
from holdfast.core.why.workers import command_in


def explain_flow(flow: FlowRecord, now: int) -> Why:
    """Say what a flow waits for."""
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
        who = (
            "a worker cancels it"
            if flow.status is FlowStatus.WAITING
            else "whoever drives it has to cancel it"
        )
        return Blocker(
            kind="cancel_requested", text=f"it was asked to stop: {who}", remedy=command("cancel")
        )
    if flow.status is FlowStatus.CREATED:
        return Blocker(kind="created", text="nobody has started it yet", remedy=command("start"))
    if flow.status is FlowStatus.RUNNING:
        return Blocker(
            kind="driver",
            text=f"whoever drives it is at {flow.current_step!r} and says what comes next",
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
        kind="manual", text="it waits for somebody to resume it", remedy=command("resume")
    )
