"""Open stored values for people: a text stands in place of each value that is not opened."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial

import msgspec

from holdfast.core import associated_data
from holdfast.core.envelope import is_sealed, split
from holdfast.core.events import Event
from holdfast.core.runs import RunRecord
from holdfast.core.waits import Signal
from holdfast.errors import HoldfastError, KeyMissing
from holdfast.payloads.opener import PayloadOpener, has_sealed_values
from holdfast.payloads.placeholders import (
    Reread,
    open_error_or_placeholder,
    open_or_placeholder,
    placeholder,
)
from holdfast.payloads.reread import CurrentValues
from holdfast.payloads.value_format import ValueFormat


class PayloadDisplay:
    """Opens stored values for people. No method raises because of a value.

    A value that is kept apart is opened only with *large*; an error is always opened."""

    def __init__(self, values: ValueFormat, stored: CurrentValues, opener: PayloadOpener) -> None:
        self._values: ValueFormat = values
        self._stored: CurrentValues = stored
        self._opener: PayloadOpener = opener

    def run(self, run: RunRecord, *, large: bool = False) -> RunRecord:
        """Return a run for people."""
        if not has_sealed_values(run):
            return run
        reread = partial(self._stored.value, run)
        show = partial(self._show, large=large)
        input = show(run.input, associated_data.run_input(run.id), partial(reread, "input"))
        return msgspec.structs.replace(
            run,
            input=input or b"",
            result=show(run.result, associated_data.run_result(run.id), partial(reread, "result")),
            error=self._show_error(
                run.error, associated_data.error(run.id), partial(reread, "error")
            ),
        )

    def events(self, run_id: str, events: Sequence[Event], *, large: bool = False) -> list[Event]:
        """Return events for people."""
        if large:
            # Saves reading a row again for each value; if one fails, each is opened by itself.
            with suppress(HoldfastError):
                return self._opener.events(run_id, events)
        return [self._event(run_id, event, large=large) for event in events]

    def _event(self, run_id: str, event: Event, *, large: bool) -> Event:
        if not (is_sealed(event.data) or is_sealed(event.error)):
            return event
        reread = partial(self._stored.value_of_event, run_id, event)
        data = self._show(
            event.data,
            associated_data.event(run_id, event.kind, event.step),
            partial(reread, "data"),
            large=large,
        )
        error = self._show_error(
            event.error, associated_data.error(run_id, event.step), partial(reread, "error")
        )
        return msgspec.structs.replace(event, data=data, error=error)

    def signals(self, run_id: str, signals: Iterable[Signal]) -> list[Signal]:
        """Return signals for people."""
        return [self._signal(run_id, signal) for signal in signals]

    def _signal(self, run_id: str, signal: Signal) -> Signal:
        if not is_sealed(signal.payload):
            return signal
        payload = open_or_placeholder(
            self._values,
            signal.payload,
            associated_data.of_signal(run_id, signal),
            lambda old: old,  # a payload that is missing is not worth reading the row again
            large=False,
        )
        return msgspec.structs.replace(signal, payload=payload)

    def text(self, message: str | None, place: bytes) -> str | None:
        """Return the plain form of a text of *place*; the reason in its place if it cannot be
        opened."""
        if message is None:
            return None
        try:
            return self._values.open_text(message, "text", place)
        except HoldfastError as unreadable:
            return placeholder(unreadable)

    def placeholder(self, data: bytes) -> str:
        """Return the text that is shown in place of an encrypted value whose key is not known."""
        return placeholder(KeyMissing(key=split(data).key))

    def _show(
        self, data: bytes | None, place: bytes, reread: Reread, *, large: bool
    ) -> bytes | None:
        if data is None:
            return None
        return open_or_placeholder(self._values, data, place, reread, large=large)

    def _show_error(self, data: bytes | None, place: bytes, reread: Reread) -> bytes | None:
        if data is None:
            return None
        return open_error_or_placeholder(self._values, data, place, reread)
