"""Open the stored values of runs, events, signals and children after reading."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

import msgspec

from holdfast.core import associated_data
from holdfast.core.envelope import is_sealed
from holdfast.core.events import Event
from holdfast.core.payload import Fetch
from holdfast.core.runs import ChildRecord, NewRun, RunRecord
from holdfast.core.subscriptions import RunEvent
from holdfast.core.waits import Signal
from holdfast.payloads.placeholders import (
    open_error_or_placeholder,
    open_or_placeholder,
)
from holdfast.payloads.reread import CurrentValues, open_or_reread
from holdfast.payloads.value_format import ValueFormat


class PayloadOpener:
    """Opens stored values for one engine.

    A method raises KeyMissing or BadData if a value cannot be opened, unless it says otherwise."""

    def __init__(self, values: ValueFormat, stored: CurrentValues) -> None:
        self._values: ValueFormat = values
        self._stored: CurrentValues = stored

    # Runs

    def run(self, run: RunRecord) -> RunRecord:
        """Return a run with its values opened."""
        if not has_sealed_values(run):
            return run
        return open_or_reread(run, self._open_run, self._stored.run)

    def _open_run(self, run: RunRecord) -> RunRecord:
        return msgspec.structs.replace(
            run,
            input=self._values.open(
                run.input, f"the input of run {run.id}", associated_data.run_input(run.id)
            ),
            result=self._values.open_optional(
                run.result, f"the result of run {run.id}", associated_data.run_result(run.id)
            ),
            error=self._values.open_optional(
                run.error, f"the error of run {run.id}", associated_data.error(run.id)
            ),
        )

    def new_run(self, run: NewRun) -> NewRun:
        """Return a run that was just started with its input opened, as its holder needs it."""
        if not is_sealed(run.input):
            return run
        plain = self._values.open(
            run.input, f"the input of run {run.id}", associated_data.run_input(run.id)
        )
        return msgspec.structs.replace(run, input=plain)

    def input(self, run: RunRecord) -> bytes:
        """Return the input of a run, opened."""
        return open_or_reread(
            run.input,
            lambda data: self._values.open(
                data, f"the input of run {run.id}", associated_data.run_input(run.id)
            ),
            partial(self._stored.input, run.id),
        )

    def result(self, run_id: str, data: bytes, fetch: Fetch, label: str) -> bytes:
        """Return the plain form of a run's result that was read in a transaction; *fetch* reads
        payloads in the same transaction."""
        return open_or_reread(
            data,
            lambda stored: self._values.open_with(
                stored, label, fetch, associated_data.run_result(run_id)
            ),
            partial(self._stored.result, run_id),
        )

    def children(self, children: Iterable[ChildRecord]) -> list[ChildRecord]:
        """Return children with their results and errors opened."""
        return open_or_reread(list(children), self._open_children, self._stored.children)

    def _open_children(self, children: Iterable[ChildRecord]) -> list[ChildRecord]:
        return [self._open_child(child) for child in children]

    def _open_child(self, child: ChildRecord) -> ChildRecord:
        if not (is_sealed(child.result) or is_sealed(child.error)):
            return child
        return msgspec.structs.replace(
            child,
            result=self._values.open_optional(
                child.result, f"the result of run {child.id}", associated_data.run_result(child.id)
            ),
            error=self._values.open_optional(
                child.error, f"the error of run {child.id}", associated_data.error(child.id)
            ),
        )

    # Events

    def events(self, run_id: str, events: Sequence[Event]) -> list[Event]:
        """Return events with their values opened."""
        return open_or_reread(
            list(events), partial(self._open_events, run_id), partial(self._stored.events, run_id)
        )

    def _open_events(self, run_id: str, events: Sequence[Event]) -> list[Event]:
        return [self._open_event(run_id, event) for event in events]

    def _open_event(self, run_id: str, event: Event) -> Event:
        if not (is_sealed(event.data) or is_sealed(event.error)):
            return event
        label = _label(event, run_id)
        data = self._values.open_optional(
            event.data, label, associated_data.event(run_id, event.kind, event.step)
        )
        error = self._values.open_optional(
            event.error, label, associated_data.error(run_id, event.step)
        )
        return msgspec.structs.replace(event, data=data, error=error)

    def subscriber_event(self, event: RunEvent, fetch: Fetch | None = None) -> RunEvent:
        """Return an event as subscribers receive it, with its values opened. If the engine has no
        key at all, a text stands in place of each value."""
        if not (is_sealed(event.data) or is_sealed(event.error)):
            return event
        if self._values.locked:
            return self._with_placeholders(event)
        return open_or_reread(
            event,
            partial(self._open_subscriber_event, fetch=fetch or self._values.fetch),
            self._stored.event,
        )

    def _open_subscriber_event(self, event: RunEvent, fetch: Fetch) -> RunEvent:
        label = _label(event, event.run_id)
        data = event.data
        error = event.error
        if data is not None:
            place = associated_data.event(event.run_id, event.kind, event.step)
            data = self._values.open_with(data, label, fetch, place)
        if error is not None:
            place = associated_data.error(event.run_id, event.step)
            error = self._values.open_with(error, label, fetch, place)
        return msgspec.structs.replace(event, data=data, error=error)

    def _with_placeholders(self, event: RunEvent) -> RunEvent:
        data = event.data
        error = event.error
        if data is not None:
            data = open_or_placeholder(
                self._values,
                data,
                associated_data.event(event.run_id, event.kind, event.step),
                lambda old: self._stored.event(event).data or old,
                large=True,
            )
        if error is not None:
            error = open_error_or_placeholder(
                self._values,
                error,
                associated_data.error(event.run_id, event.step),
                lambda old: self._stored.event(event).error or old,
            )
        return msgspec.structs.replace(event, data=data, error=error)

    # Signals

    def signals(self, run_id: str, signals: Iterable[Signal]) -> list[Signal]:
        """Return signals with their payloads opened."""
        return open_or_reread(
            list(signals),
            partial(self._open_signals, run_id),
            partial(self._stored.signals, run_id),
        )

    def _open_signals(self, run_id: str, signals: Iterable[Signal]) -> list[Signal]:
        return [self._open_signal(run_id, signal) for signal in signals]

    def _open_signal(self, run_id: str, signal: Signal) -> Signal:
        if not is_sealed(signal.payload):
            return signal
        payload = self._values.open(
            signal.payload,
            f"signal {signal.name!r} to run {run_id}",
            associated_data.of_signal(run_id, signal),
        )
        return msgspec.structs.replace(signal, payload=payload)

    def message_payload(self, message_id: str, payload: bytes) -> bytes:
        """Return the payload of a message, opened."""
        if not is_sealed(payload):
            return payload
        place = associated_data.message(message_id)
        return self._values.open(payload, f"the message {message_id}", place)

    def signal_payload(self, run_id: str, signal: Signal) -> bytes:
        """Return the payload of a signal, opened."""
        if not is_sealed(signal.payload):
            return signal.payload
        return self.signals(run_id, [signal])[0].payload


def has_sealed_values(run: RunRecord) -> bool:
    """Return whether a value of a run is not stored unchanged."""
    return is_sealed(run.input) or is_sealed(run.result) or is_sealed(run.error)


def _label(event: Event | RunEvent, run_id: str) -> str:
    """Return the words that name an event in errors."""
    words = (event.kind, event.step or "", f"of run {run_id}")
    return " ".join(filter(None, words))
