"""Seal the values of operations before they are written, and open stored values after reading.

No other module does either. Invariants:
- A store keeps the bytes that it is given, so lists, copies and exports never load values that are
  kept apart.
- A value that is small and not encrypted is stored unchanged, and costs one comparison.
- An encrypted value is bound to its place: run, event and step, or signal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import msgspec

from holdfast.core import associated_data
from holdfast.core.envelope import APART, is_sealed, size_of, split
from holdfast.core.event_table import SEALED
from holdfast.core.events import Event, EventRole
from holdfast.core.payload import Fetch, Payload
from holdfast.core.runs import ChildRecord, NewRun, RunRecord
from holdfast.core.subscriptions import RunEvent
from holdfast.core.waits import Signal
from holdfast.errors import BadData, HoldfastError, KeyMissing
from holdfast.payloads.codecs import Cipher, Compression
from holdfast.payloads.reread import Rereading, opened_again
from holdfast.payloads.signing_secrets import SigningSecrets
from holdfast.payloads.value_format import HEAVY, INLINE_LIMIT, ValueFormat
from holdfast.store.effects import Effect
from holdfast.store.runs.operations import Advance, DebounceStart, StartChildren, StartRuns
from holdfast.store.signals.operations import SignalOtherRun, SignalRun
from holdfast.store.store import View
from holdfast.store.tasks.operations import OverrideRun
from holdfast.store.waits.operations import DeliverSignal, ReleaseWait

T = TypeVar("T")
Signalling = TypeVar("Signalling", SignalRun, DeliverSignal, ReleaseWait)

RELEASE = "release"
"""The name of the signal by which an operator releases a wait."""

Reread = Callable[[bytes], bytes]
"""Returns the value that the store has now in place of an old one."""

UNREADABLE = "Unreadable"
"""The type of the error that is shown in place of an error that cannot be read here."""


class PayloadSealer:
    """Seals and opens values for one engine."""

    def __init__(
        self,
        store: View,
        cipher: Cipher | None = None,
        packing: Compression | None = None,
        inline_limit: int = INLINE_LIMIT,
        *,
        json: bool = True,
        locked: bool = False,
    ) -> None:
        self.values = ValueFormat(store, cipher, packing, inline_limit, json=json, locked=locked)
        self.secrets = SigningSecrets(self.values)
        self._stored = Rereading(store)

    @property
    def cipher(self) -> Cipher | None:
        """The cipher; None if values are not encrypted."""
        return self.values.cipher

    # Sealing

    def seal(self, op: T) -> T:
        """Return an operation with all its values sealed; *op* itself if none of them changes.
        Raises KeyMissing."""
        seal_op = _SEALERS.get(type(op))
        sealed: T = op if seal_op is None else seal_op(self, op)
        return sealed

    def is_heavy(self, op: object) -> bool:
        """Return whether sealing *op* takes so long that it belongs in a thread."""
        values_of = _VALUES.get(type(op))
        return values_of is not None and any(
            value is not None and len(value) > HEAVY for value in values_of(op)
        )

    def seal_runs(self, runs: Sequence[NewRun]) -> Sequence[NewRun]:
        """Return new runs with their inputs sealed."""
        if all(len(run.input) <= self.values.small for run in runs):
            return runs
        return [self._new_run(run) for run in runs]

    def _new_run(self, run: NewRun) -> NewRun:
        if len(run.input) <= self.values.small:
            return run
        payloads: list[Payload] = []
        sealed = self.values.value(run.input, payloads, associated_data.run_input(run.id))
        return msgspec.structs.replace(run, input=sealed, payloads=tuple(payloads))

    def is_same(self, run: NewRun, old_id: str, old: bytes, fetch: Fetch) -> bool:
        """Return whether *old*, the stored input of the existing run *old_id*, equals the input of
        the new *run*. An input that is damaged equals none. Raises KeyMissing."""
        own = {payload.digest: payload for payload in run.payloads}
        label = f"the input of run {run.id}"
        if not is_sealed(old) and not is_sealed(run.input):
            return old == run.input
        try:
            before = opened_again(
                old,
                lambda data: self.values.opened(
                    data, label, fetch, associated_data.run_input(old_id)
                ),
                partial(self._stored.input, old_id),
            )
            return before == self.values.opened(
                run.input, label, own.get, associated_data.run_input(run.id)
            )
        except BadData:
            return False

    def _start(self, op: StartRuns) -> StartRuns:
        runs = self.seal_runs(op.runs)
        return op if runs is op.runs else StartRuns(runs)

    def _debounce(self, op: DebounceStart) -> DebounceStart:
        run = self._new_run(op.run)
        if run is op.run:
            return op
        plain = op.run.input

        def replace(run_id: str, old: bytes, fetch: Fetch) -> tuple[bytes, list[Payload]]:
            """Return the new input, sealed for the run that already waits for more starts."""
            payloads: list[Payload] = []
            return self.values.value(plain, payloads, associated_data.run_input(run_id)), payloads

        return msgspec.structs.replace(op, run=run, merge=op.merge or replace)

    def remake(
        self,
        old: bytes,
        change: Callable[[bytes], bytes],
        fetch: Fetch,
        run_id: str,
        *,
        place: bytes,
    ) -> tuple[bytes, list[Payload]]:
        """Open the value *old* of *place*, change it, and return the result sealed as the input of
        run *run_id*, with its payloads. Raises KeyMissing, BadData."""
        payloads: list[Payload] = []
        plain = change(self.values.opened(old, f"the input of run {run_id}", fetch, place))
        return self.values.value(plain, payloads, associated_data.run_input(run_id)), payloads

    def forked(
        self, run: RunRecord, events: Sequence[Event], fork_id: str
    ) -> tuple[bytes, list[Event]]:
        """Return the input and the events of a run, encrypted for its fork *fork_id*. Raises
        KeyMissing, BadData."""
        copied = [
            msgspec.structs.replace(
                event,
                data=self.values.moved(
                    event.data,
                    associated_data.event(run.id, event.kind, event.step),
                    associated_data.event(fork_id, event.kind, event.step),
                ),
                error=self.values.moved(
                    event.error,
                    associated_data.error(run.id, event.step),
                    associated_data.error(fork_id, event.step),
                ),
            )
            for event in events
        ]
        moved = self.values.moved(
            run.input, associated_data.run_input(run.id), associated_data.run_input(fork_id)
        )
        return moved or b"", copied

    def _signal(self, op: Signalling) -> Signalling:
        if len(op.payload) <= self.values.small:
            return op
        payloads: list[Payload] = []
        return msgspec.structs.replace(
            op,
            payload=self.values.value(op.payload, payloads, _place_of_signal(op)),
            payloads=payloads,
        )

    def _override(self, op: OverrideRun) -> OverrideRun:
        payloads: list[Payload] = []
        result = self.values.maybe_value(op.result, payloads, associated_data.run_result(op.run_id))
        error = self.values.maybe_value(op.error, payloads, associated_data.error(op.run_id))
        if (result, error) == (op.result, op.error):
            return op
        return msgspec.structs.replace(op, result=result, error=error, payloads=payloads)

    def _advance(self, op: Advance) -> Advance:
        if self.is_light(op):
            return op
        # The body adds its event to this very operation, in the transaction: there is nothing to
        # seal before, and a copy of the operation would miss the event.
        if op.body is not None:
            op.body.seal = partial(
                self.values.value,
                place=associated_data.event(op.run_id, op.events[0].kind, op.events[0].step),
            )
            return op
        payloads: list[Payload] = []
        seal = partial(self.values.maybe_value, payloads=payloads)
        error = op.error
        if not any(event.role == EventRole.KEY_MISSING for event in op.events):
            error = seal(op.error, place=associated_data.error(op.run_id))
        return msgspec.structs.replace(
            op,
            events=[self._event(op.run_id, event, payloads) for event in op.events],
            result=seal(op.result, place=associated_data.run_result(op.run_id)),
            error=error,
            effects=[self._effect(effect, payloads) for effect in op.effects],
            payloads=payloads,
        )

    def _effect(self, effect: Effect, payloads: list[Payload]) -> Effect:
        if isinstance(effect, StartChildren):
            return StartChildren(self.seal_runs(effect.children), effect.fanouts)
        if isinstance(effect, SignalOtherRun):
            place = associated_data.signal(effect.run_id, effect.name)
            payload = self.values.value(effect.payload, payloads, place)
            return msgspec.structs.replace(effect, payload=payload)
        return effect

    def is_light(self, op: Advance) -> bool:
        """Return whether all values of *op* are stored unchanged.

        The loops are written out: this runs for every step."""
        small = self.values.small
        if small < 0:
            return False
        for event in op.events:
            if (event.data is not None and len(event.data) > small) or (
                event.error is not None and len(event.error) > small
            ):
                return False
        if (op.result is not None and len(op.result) > small) or (
            op.error is not None and len(op.error) > small
        ):
            return False
        if op.body is not None:
            return False
        return not op.effects or all(len(value) <= small for value in _values_of_effects(op))

    def _event(self, run_id: str, event: Event, payloads: list[Payload]) -> Event:
        data = event.data
        error = event.error
        if event.kind in SEALED:
            data = self.values.maybe_value(
                data, payloads, associated_data.event(run_id, event.kind, event.step)
            )
        if event.role != EventRole.KEY_MISSING:  # that error must be readable without keys
            error = self.values.maybe_value(
                error, payloads, associated_data.error(run_id, event.step)
            )
        if data is event.data and error is event.error:
            return event
        return msgspec.structs.replace(event, data=data, error=error)

    def text_shown(self, message: str | None, place: bytes) -> str | None:
        """Return the plain form of a text of *place*; the reason in its place if it cannot be
        opened."""
        try:
            return None if message is None else self.values.text_opened(message, "text", place)
        except HoldfastError as unreadable:
            return f"<{_why(unreadable)}>"

    def hidden(self, data: bytes) -> str:
        """Return the text that is shown in place of an encrypted value."""
        return f"<{_why(KeyMissing(key=split(data).key))}>"

    def new_run_opened(self, run: NewRun) -> NewRun:
        """Return a run that was just started with its input opened, as its holder needs it. Raises
        KeyMissing, BadData."""
        if not is_sealed(run.input):
            return run
        plain = self.values.open(
            run.input, f"the input of run {run.id}", associated_data.run_input(run.id)
        )
        return msgspec.structs.replace(run, input=plain)

    # Opening

    def run(self, run: RunRecord) -> RunRecord:
        """Return a run with its values opened. Raises KeyMissing, BadData."""
        if not (is_sealed(run.input) or is_sealed(run.result) or is_sealed(run.error)):
            return run
        return opened_again(run, self._run_opened, self._stored.run)

    def _run_opened(self, run: RunRecord) -> RunRecord:
        return msgspec.structs.replace(
            run,
            input=self.values.open(
                run.input, f"the input of run {run.id}", associated_data.run_input(run.id)
            ),
            result=self.values.maybe(
                run.result, f"the result of run {run.id}", associated_data.run_result(run.id)
            ),
            error=self.values.maybe(
                run.error, f"the error of run {run.id}", associated_data.error(run.id)
            ),
        )

    def input(self, run: RunRecord) -> bytes:
        """Return the input of a run, opened. Raises KeyMissing, BadData."""
        return opened_again(
            run.input,
            lambda data: self.values.open(
                data, f"the input of run {run.id}", associated_data.run_input(run.id)
            ),
            partial(self._stored.input, run.id),
        )

    def result(self, run_id: str, data: bytes, fetch: Fetch, what: str) -> bytes:
        """Return the plain form of a run's result that was read in a transaction; *fetch* reads
        payloads in the same transaction. Raises KeyMissing, BadData."""
        return opened_again(
            data,
            lambda stored: self.values.opened(
                stored, what, fetch, associated_data.run_result(run_id)
            ),
            partial(self._stored.result, run_id),
        )

    def events(self, run_id: str, events: Sequence[Event]) -> list[Event]:
        """Return events with their values opened. Raises KeyMissing, BadData."""
        return opened_again(
            list(events), partial(self._events_opened, run_id), partial(self._stored.events, run_id)
        )

    def _events_opened(self, run_id: str, events: Sequence[Event]) -> list[Event]:
        return [
            self._event_opened(run_id, event) if _has_sealed_values(event) else event
            for event in events
        ]

    def _event_opened(self, run_id: str, event: Event) -> Event:
        label = f"{event.kind} {event.step or ''} of run {run_id}".replace("  ", " ")
        data = self.values.maybe(
            event.data, label, associated_data.event(run_id, event.kind, event.step)
        )
        return msgspec.structs.replace(
            event,
            data=data,
            error=self.values.maybe(event.error, label, associated_data.error(run_id, event.step)),
        )

    def subscriber_event(self, event: RunEvent, fetch: Fetch | None = None) -> RunEvent:
        """Return an event as subscribers receive it, with its values opened. If the engine has no
        key at all, a text stands in place of each value. Raises KeyMissing, BadData."""
        if not (is_sealed(event.data) or is_sealed(event.error)):
            return event
        return opened_again(
            event,
            partial(self._subscriber_event, fetch=fetch or self.values.fetch),
            self._stored.event,
        )

    def _subscriber_event(self, event: RunEvent, fetch: Fetch) -> RunEvent:
        label = f"{event.kind} {event.step or ''} of run {event.run_id}".replace("  ", " ")

        def now(old: bytes, *, error: bool) -> bytes:
            current = self._stored.event(event)
            return (current.error if error else current.data) or old

        def opened(data: bytes | None, place: bytes, *, error: bool) -> bytes | None:
            if data is None or self.values.locked:
                shown: bytes | None = self._shown(
                    data, place, partial(now, error=error), large=True, error=error
                )
                return shown
            return self.values.opened(data, label, fetch, place)

        return msgspec.structs.replace(
            event,
            data=opened(
                event.data, associated_data.event(event.run_id, event.kind, event.step), error=False
            ),
            error=opened(event.error, associated_data.error(event.run_id, event.step), error=True),
        )

    def signals(self, run_id: str, signals: Iterable[Signal]) -> list[Signal]:
        """Return signals with their payloads opened. Raises KeyMissing, BadData."""
        return opened_again(
            list(signals),
            partial(self._signals_opened, run_id),
            partial(self._stored.signals, run_id),
        )

    def _signals_opened(self, run_id: str, signals: Iterable[Signal]) -> list[Signal]:
        return [
            msgspec.structs.replace(signal, payload=self._signal_opened(run_id, signal))
            if is_sealed(signal.payload)
            else signal
            for signal in signals
        ]

    def signal(self, run_id: str, signal: Signal) -> bytes:
        """Return the payload of a signal, opened. Raises KeyMissing, BadData."""
        if not is_sealed(signal.payload):
            return signal.payload
        return self.signals(run_id, [signal])[0].payload

    def _signal_opened(self, run_id: str, signal: Signal) -> bytes:
        return self.values.open(
            signal.payload,
            f"signal {signal.name!r} to run {run_id}",
            associated_data.of_signal(run_id, signal),
        )

    def children(self, children: Iterable[ChildRecord]) -> list[ChildRecord]:
        """Return children with their results and errors opened. Raises KeyMissing, BadData."""
        return opened_again(list(children), self._children_opened, self._stored.children)

    def _children_opened(self, children: Iterable[ChildRecord]) -> list[ChildRecord]:
        return [
            msgspec.structs.replace(
                child,
                result=self.values.maybe(
                    child.result,
                    f"the result of run {child.id}",
                    associated_data.run_result(child.id),
                ),
                error=self.values.maybe(
                    child.error, f"the error of run {child.id}", associated_data.error(child.id)
                ),
            )
            if is_sealed(child.result) or is_sealed(child.error)
            else child
            for child in children
        ]

    # For people

    def readable(self, run: RunRecord, *, large: bool = False) -> RunRecord:
        """Return a run with its values opened as far as possible. A value that is kept apart is
        opened only with *large*. A value that is not opened stays as it is stored. Never
        raises."""
        if not (is_sealed(run.input) or is_sealed(run.result) or is_sealed(run.error)):
            return run
        reread = partial(self._stored.value, run)
        opened = partial(self._readable, large=large)
        return msgspec.structs.replace(
            run,
            input=opened(run.input, associated_data.run_input(run.id), partial(reread, "input"))
            or b"",
            result=opened(
                run.result, associated_data.run_result(run.id), partial(reread, "result")
            ),
            error=opened(run.error, associated_data.error(run.id), partial(reread, "error")),
        )

    def _readable(
        self, data: bytes | None, place: bytes, reread: Reread, *, large: bool
    ) -> bytes | None:
        if data is None or not is_sealed(data):
            return data
        try:
            if split(data).form == APART and not large:
                return data
            return self._open_again(data, place, reread)
        except HoldfastError:
            return data

    def _open_again(self, data: bytes, place: bytes, reread: Reread) -> bytes:
        return opened_again(data, lambda stored: self.values.open(stored, "value", place), reread)

    def shown(self, run: RunRecord, *, large: bool = False) -> RunRecord:
        """Return a run for people: with its values opened, and a text in place of each value that
        is not opened. A value that is kept apart is opened only with *large*. Never raises."""
        if not (is_sealed(run.input) or is_sealed(run.result) or is_sealed(run.error)):
            return run
        reread = partial(self._stored.value, run)
        shown = partial(self._shown, large=large)
        return msgspec.structs.replace(
            run,
            input=shown(run.input, associated_data.run_input(run.id), partial(reread, "input"))
            or b"",
            result=shown(run.result, associated_data.run_result(run.id), partial(reread, "result")),
            error=shown(
                run.error, associated_data.error(run.id), partial(reread, "error"), error=True
            ),
        )

    def shown_events(
        self, run_id: str, events: Sequence[Event], *, large: bool = False
    ) -> list[Event]:
        """Return events for people: with their values opened, and a text in place of each value
        that is not opened. A value that is kept apart is opened only with *large*. Never
        raises."""
        if large:
            # Saves reading a row again for each value; if one fails, each is opened by itself.
            with suppress(HoldfastError):
                return self.events(run_id, events)
        return [
            self._shown_event(run_id, event, large=large) if _has_sealed_values(event) else event
            for event in events
        ]

    def _shown_event(self, run_id: str, event: Event, *, large: bool) -> Event:
        reread = partial(self._stored.value_of_event, run_id, event)
        data = self._shown(
            event.data,
            associated_data.event(run_id, event.kind, event.step),
            partial(reread, "data"),
            large=large,
        )
        error = self._shown(
            event.error,
            associated_data.error(run_id, event.step),
            partial(reread, "error"),
            large=large,
            error=True,
        )
        return msgspec.structs.replace(event, data=data, error=error)

    def signals_shown(self, run_id: str, signals: Iterable[Signal]) -> list[Signal]:
        """Return signals for people: with their payloads opened, and a text in place of each
        payload that is not opened or is kept apart. Never raises."""
        return [
            self._shown_signal(run_id, signal) if is_sealed(signal.payload) else signal
            for signal in signals
        ]

    def _shown_signal(self, run_id: str, signal: Signal) -> Signal:
        payload = self._shown(
            signal.payload, associated_data.of_signal(run_id, signal), _unchanged, large=False
        )
        return msgspec.structs.replace(signal, payload=payload)

    def _shown(
        self, data: bytes | None, place: bytes, reread: Reread, *, large: bool, error: bool = False
    ) -> Any:
        if data is None or not is_sealed(data):
            return data
        try:
            if split(data).form == APART and not large and not error:
                return msgspec.json.encode(f"<{size_of(data)} bytes, kept apart>")
            return self._open_again(data, place, reread)
        except HoldfastError as unreadable:
            text = f"<{_why(unreadable)}>"
            return msgspec.json.encode({"type": UNREADABLE, "message": text} if error else text)


def _unchanged(data: bytes) -> bytes:
    """Return *data* itself: signals are shown without reading their rows again."""
    return data


def _why(error: HoldfastError) -> str:
    if isinstance(error, KeyMissing):
        return f"encrypted with key {error.facts.get('key', '')}, which is not known here".replace(
            "key ,", "a key"
        )
    return str(error)


def _place_of_signal(op: SignalRun | DeliverSignal | ReleaseWait) -> bytes:
    if isinstance(op, ReleaseWait):
        return associated_data.signal(op.run_id, RELEASE, step=op.step)
    run_id = op.run_id if isinstance(op, SignalRun) else ""
    return associated_data.signal(run_id, op.name, op.wait_id)


def _has_sealed_values(event: Event) -> bool:
    return is_sealed(event.data) or is_sealed(event.error)


def _values_of_advance(op: Advance) -> Iterable[bytes | None]:
    for event in op.events:
        yield event.data
        yield event.error
    yield op.result
    yield op.error
    yield from _values_of_effects(op)


def _values_of_effects(op: Advance) -> Iterable[bytes]:
    for effect in op.effects:
        if isinstance(effect, SignalOtherRun):
            yield effect.payload
        elif isinstance(effect, StartChildren):
            yield from (child.input for child in effect.children)


_SEALERS: dict[type, Callable[[PayloadSealer, Any], Any]] = {
    Advance: PayloadSealer._advance,
    StartRuns: PayloadSealer._start,
    DebounceStart: PayloadSealer._debounce,
    SignalRun: PayloadSealer._signal,
    DeliverSignal: PayloadSealer._signal,
    ReleaseWait: PayloadSealer._signal,
    OverrideRun: PayloadSealer._override,
}
"""The method that seals the values of each kind of operation that has values."""

_VALUES: dict[type, Callable[[Any], Iterable[bytes | None]]] = {
    Advance: _values_of_advance,
    StartRuns: lambda op: (run.input for run in op.runs),
    SignalRun: lambda op: (op.payload,),
    DeliverSignal: lambda op: (op.payload,),
    ReleaseWait: lambda op: (op.payload,),
    OverrideRun: lambda op: (op.result, op.error),
}
"""The values of each kind of operation whose values may be large."""
