"""Incidents: failed elements of a model that wait for an operator, while the run stays alive."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec

from holdfast.core.commands import RaiseIncident
from holdfast.core.events import BY_CODE, BY_RELEASE, Event, EventKind
from holdfast.core.waits import INCIDENT, Signal, WaitKind, WaitRecord
from holdfast.engine.execution.pending.base import Execution, Handler, Pending
from holdfast.store.waits.operations import CloseWait, EscalateWait, OpenWait


class PendingIncident(Pending):
    """A wait for an operator, with a row among the waits that is escalated from the start."""

    __slots__ = ()

    is_listed_whole = False
    ends_by_release = True

    def __init__(self, command: RaiseIncident) -> None:
        self.command: RaiseIncident = command

    def as_wait(self) -> dict[str, Any]:
        return {
            "kind": WaitKind.INCIDENT,
            "step": self.command.id,
            "element": self.command.element,
        }

    def on_change(self, run: Execution) -> None:
        release = run.signals.release_of(self.command.id)
        if release is not None:
            run.mailbox.add_finding(release.at, partial(self._take, run, release))

    def _take(self, run: Execution, release: Signal, events: list[Event]) -> None:
        if not run.pending.take(self):
            return
        run.commit.take(run.signals.take_releases(self.command.id))
        self._close(run, BY_RELEASE)
        payload = run.context.sealer.opener.signal_payload(run.state.run.id, release)
        resolution = {"action": "retry", "by": release.source, **_fields(payload)}
        data = msgspec.json.encode(resolution)
        events.append(Event(EventKind.INCIDENT_RESOLVED, self.command.id, data))

    def on_drop(self, run: Execution) -> None:
        self._close(run, BY_CODE)
        run.commit.events.append(Event(EventKind.INCIDENT_DROPPED, self.command.id))

    def _close(self, run: Execution, by: str) -> None:
        run.state.waited.discard(self.command.id)
        run.commit.add(CloseWait(self.command.id, by))


def _fields(payload: bytes) -> dict[str, Any]:
    """Return the resolution of an operator; a plain release of the wait has no fields."""
    fields = msgspec.json.decode(payload)
    return fields if isinstance(fields, dict) else {}


def _raise_incident(run: Execution, command: RaiseIncident) -> None:
    pending = PendingIncident(command)
    run.pending.add(pending)
    is_known = command.id in run.state.progress.waited
    if not is_known:
        data = msgspec.json.encode({"element": command.element})
        event = Event(
            EventKind.INCIDENT_RAISED,
            command.id,
            data,
            error=command.error,
            attempt=command.attempts,
        )
        run.commit.events.append(event)
    if not is_known or run.state.run.forked_from is not None:
        wait = WaitRecord(
            run_id=run.state.run.id,
            step=command.id,
            id=None,
            name=INCIDENT,
            opened_at=run.state.now(),
            reason=command.element,
        )
        run.commit.add(OpenWait(wait))
        run.commit.add(EscalateWait(command.id))
    run.state.waited.add(command.id)
    pending.on_change(run)


HANDLERS: dict[type, Handler] = {RaiseIncident: _raise_incident}
