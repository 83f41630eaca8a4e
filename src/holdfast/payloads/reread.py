"""Reading again what ``rekey`` replaces while it is read.

A row refers to a large value, which is fetched after the row was read: at once, or much later by a
run that keeps the signals it has heard in memory. ``rekey`` deletes the value in the transaction
that replaces the reference. So a reader that does not find the value reads the row again. If the
row still holds the same reference, the value is lost, and that is damage.
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
from holdfast.store.contract import RunReads

Stored = TypeVar("Stored")
Opened = TypeVar("Opened")


def opened_again(
    stored: Stored, open: Callable[[Stored], Opened], read: Callable[[Stored], Stored]
) -> Opened:
    """Return *stored*, opened; *read* returns what is stored now if a payload of it is gone. Raises
    what *open* raises."""
    while True:
        try:
            return open(stored)
        except BadData as error:
            if "payload" not in error.facts:
                raise
            current = read(stored)
            if current == stored:
                raise
            stored = current


class Rereading:
    """Reads rows again. What is no longer there stays as it was read before."""

    def __init__(self, store: RunReads) -> None:
        self._store = store

    def run(self, run: RunRecord) -> RunRecord:
        """Return a run with its values as they are stored now."""
        now = self._store.run(run.id)
        if now is None:
            return run
        result, error = now.result or run.result, now.error or run.error
        return msgspec.structs.replace(run, input=now.input, result=result, error=error)

    def input(self, run_id: str, old: bytes) -> bytes:
        """Return the input of a run as it is stored now."""
        now = self._store.run(run_id)
        return old if now is None else now.input

    def result(self, run_id: str, old: bytes) -> bytes:
        """Return the result of a run as it is stored now."""
        now = self._store.run(run_id)
        return old if now is None else now.result or old

    def value(self, run: RunRecord, column: str, old: bytes) -> bytes:
        """Return one of the values of a run, its input, its result or its error, as it is stored
        now."""
        found: bytes = getattr(self.run(run), column) or old
        return found

    def value_of_event(self, run_id: str, event: Event, column: str, old: bytes) -> bytes:
        """Return the data or the error of an event as it is stored now."""
        found: bytes = getattr(self.events(run_id, [event])[0], column) or old
        return found

    def children(self, children: Sequence[ChildRecord]) -> list[ChildRecord]:
        """Return children with their ends as they are stored now."""
        sealed = [
            child.id for child in children if is_sealed(child.result) or is_sealed(child.error)
        ]
        now = {run.id: run for run in self._store.runs_by_id(sealed)}
        return [_with_end(child, now.get(child.id)) for child in children]

    def signals(self, run_id: str, signals: Iterable[Signal]) -> list[Signal]:
        """Return signals with their payloads as they are stored now."""
        now = {signal.id: signal.payload for signal in self._store.signals(run_id)}
        return [
            msgspec.structs.replace(one, payload=now.get(one.id, one.payload)) for one in signals
        ]

    def events(self, run_id: str, events: Sequence[Event]) -> list[Event]:
        """Return events with their values as they are stored now."""
        now = {(event.seq, event.kind, event.step): event for event in self._store.history(run_id)}
        return [
            _with_values(event, now.get((event.seq, event.kind, event.step), event))
            for event in events
        ]

    def event(self, event: RunEvent) -> RunEvent:
        """The same for an event as subscribers hear it."""
        now = self._store.history(event.run_id, event.seq - 1)
        same = now and (now[0].seq, now[0].kind, now[0].step) == (event.seq, event.kind, event.step)
        return (
            msgspec.structs.replace(event, data=now[0].data, error=now[0].error) if same else event
        )


def _with_end(child: ChildRecord, run: RunRecord | None) -> ChildRecord:
    if run is None:
        return child
    return msgspec.structs.replace(
        child, result=run.result or child.result, error=run.error or child.error
    )


def _with_values(event: Event, now: Event) -> Event:
    return msgspec.structs.replace(event, data=now.data, error=now.error)
