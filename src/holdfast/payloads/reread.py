"""Read a row again if ``rekey`` replaced one of its payloads meanwhile.

A row refers to a large value (a payload), which is fetched after the row was read: immediately, or
much later by an execution that keeps received signals in memory. ``rekey`` deletes the payload in
the transaction that replaces the reference. A reader that does not find the payload therefore reads
the row again. If the row still has the same reference, the payload is lost, which is damage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import msgspec

from holdfast.core.envelope import is_sealed
from holdfast.core.events import Event
from holdfast.core.runs import ChildRecord, RunRecord
from holdfast.core.subscriptions import RunEvent
from holdfast.core.waits import Signal
from holdfast.errors import BadData
from holdfast.store.store import View

Stored = TypeVar("Stored")
Opened = TypeVar("Opened")


def open_or_reread(
    stored: Stored, open: Callable[[Stored], Opened], read: Callable[[Stored], Stored]
) -> Opened:
    """Return *stored*, opened by *open*.

    If one of its payloads is missing, *read* returns the value that the store has now, and *open*
    is tried on that. Raises the errors of *open*; a missing payload only if the row is
    unchanged."""
    while True:
        try:
            return open(stored)
        except BadData as error:
            if "payload" not in error.facts:  # damage of another kind: reading again cannot help
                raise
            current = read(stored)
            if current == stored:
                raise
            stored = current


class CurrentValues:
    """Values as they are stored now. A value whose row no longer exists stays as it was read."""

    def __init__(self, store: View) -> None:
        self._store = store

    def run(self, run: RunRecord) -> RunRecord:
        """Return a run with its values as they are stored now."""
        now = self._store.runs.get(run.id)
        if now is None:
            return run
        return msgspec.structs.replace(
            run, input=now.input, result=now.result or run.result, error=now.error or run.error
        )

    def input(self, run_id: str, old: bytes) -> bytes:
        """Return the input of a run as it is stored now."""
        now = self._store.runs.get(run_id)
        if now is None:
            return old
        return now.input

    def result(self, run_id: str, old: bytes) -> bytes:
        """Return the result of a run as it is stored now."""
        now = self._store.runs.get(run_id)
        if now is None:
            return old
        return now.result or old

    def value(self, run: RunRecord, column: str, old: bytes) -> bytes:
        """Return the value of *column* of a run (input, result or error) as it is stored now."""
        current: bytes = getattr(self.run(run), column) or old
        return current

    def value_of_event(self, run_id: str, event: Event, column: str, old: bytes) -> bytes:
        """Return the data or the error of an event as it is stored now."""
        current: bytes = getattr(self.events(run_id, [event])[0], column) or old
        return current

    def children(self, children: Sequence[ChildRecord]) -> list[ChildRecord]:
        """Return children with their results and errors as they are stored now."""
        sealed = [
            child.id for child in children if is_sealed(child.result) or is_sealed(child.error)
        ]
        now = {run.id: run for run in self._store.runs.by_id(sealed)}
        return [_with_end(child, now.get(child.id)) for child in children]

    def signals(self, run_id: str, signals: Iterable[Signal]) -> list[Signal]:
        """Return signals with their payloads as they are stored now."""
        payloads = {signal.id: signal.payload for signal in self._store.signals.of_run(run_id)}
        return [
            msgspec.structs.replace(signal, payload=payloads.get(signal.id, signal.payload))
            for signal in signals
        ]

    def events(self, run_id: str, events: Sequence[Event]) -> list[Event]:
        """Return events with their values as they are stored now."""
        now = {
            (event.seq, event.kind, event.step): event for event in self._store.runs.history(run_id)
        }
        return [
            _with_values(event, now.get((event.seq, event.kind, event.step), event))
            for event in events
        ]

    def event(self, event: RunEvent) -> RunEvent:
        """Return an event, in the form that subscribers receive, with its values as they are stored
        now."""
        history = self._store.runs.history(event.run_id, event.seq - 1)
        if not history:
            return event
        now = history[0]
        if (now.seq, now.kind, now.step) != (event.seq, event.kind, event.step):
            return event
        return msgspec.structs.replace(event, data=now.data, error=now.error)


def _with_end(child: ChildRecord, run: RunRecord | None) -> ChildRecord:
    if run is None:
        return child
    return msgspec.structs.replace(
        child, result=run.result or child.result, error=run.error or child.error
    )


def _with_values(event: Event, now: Event) -> Event:
    return msgspec.structs.replace(event, data=now.data, error=now.error)
