"""Where values are sealed before they are written and opened after they are read: the one place
that does either.

A store keeps what it is given, byte for byte, so lists, copies and exports never load what is kept
apart. A value that is small and not encrypted passes untouched, and costs one comparison.
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
from holdfast.core.events import Event, EventKind
from holdfast.core.payload import Fetch, Payload
from holdfast.core.runs import ChildRecord, NewRun, RunRecord
from holdfast.core.status import Status
from holdfast.core.subscriptions import RunEvent
from holdfast.core.waits import Signal
from holdfast.errors import BadData, HoldfastError, KeyMissing
from holdfast.payloads.codecs import Cipher, Compression
from holdfast.payloads.reread import Rereading, opened_again
from holdfast.payloads.signing_secrets import SigningSecrets
from holdfast.payloads.value_format import HEAVY, LARGE, ValueFormat
from holdfast.store.contract.leases import OverrideRun
from holdfast.store.contract.reading import RunReads
from holdfast.store.contract.runs import Advance, DebounceStart, SignalRun, StartRuns
from holdfast.store.contract.waits import DeliverSignal, ReleaseWait

T = TypeVar("T")
Signalling = TypeVar("Signalling", SignalRun, DeliverSignal, ReleaseWait)

RELEASE = "release"
"""The name of the signal by which a person lets a wait go."""

Reread = Callable[[bytes], bytes]
"""Returns what is stored now in the place of a value."""

UNREADABLE = "Unreadable"
"""The type of an error that stands for one that cannot be read here."""


class PayloadSealer:
    """Seals and opens values for one engine."""

    def __init__(
        self,
        store: RunReads,
        cipher: Cipher | None = None,
        packing: Compression | None = None,
        large: int = LARGE,
        *,
        json: bool = True,
        locked: bool = False,
    ) -> None:
        self.values = ValueFormat(store, cipher, packing, large, json=json, locked=locked)
        self.secrets = SigningSecrets(self.values)
        self._stored = Rereading(store)

    @property
    def cipher(self) -> Cipher | None:
        """What encrypts, if anything does."""
        return self.values.cipher

    # Sealing

    def seal(self, op: T) -> T:
        """Return a transition with all its values sealed; the same one when nothing is to be done.
        Raises KeyMissing."""
        sealer = _SEALERS.get(type(op))
        sealed: T = op if sealer is None else sealer(self, op)
        return sealed

    def is_heavy(self, op: object) -> bool:
        """Say whether sealing takes so long that others should not wait for it."""
        weigher = _VALUES.get(type(op))
        return weigher is not None and any(
            value is not None and len(value) > HEAVY for value in weigher(op)
        )

    def seal_runs(self, runs: Sequence[NewRun]) -> Sequence[NewRun]:
        """Return new runs with their inputs sealed."""
        if all(len(run.input) <= self.values.small for run in runs):
            return runs
        return [self._new_run(run) for run in runs]

    def _new_run(self, run: NewRun) -> NewRun:
        if len(run.input) <= self.values.small:
            return run
        found: list[Payload] = []
        sealed = self.values.value(run.input, found, associated_data.run_input(run.id))
        return msgspec.structs.replace(run, input=sealed, payloads=tuple(found))

    def is_same(self, run: NewRun, old_id: str, old: bytes, fetch: Fetch) -> bool:
        """Say whether the input of a run that is there, *old_id*, is that of a new one. Raises
        KeyMissing."""
        own = {payload.digest: payload for payload in run.payloads}
        what = f"the input of run {run.id}"
        if not is_sealed(old) and not is_sealed(run.input):
            return old == run.input
        try:
            before = opened_again(
                old,
                lambda data: self.values.opened(
                    data, what, fetch, associated_data.run_input(old_id)
                ),
                partial(self._stored.input, old_id),
            )
            return before == self.values.opened(
                run.input, what, own.get, associated_data.run_input(run.id)
            )
        except BadData:
            return False

    def _start(self, op: StartRuns) -> StartRuns:
        runs = self.seal_runs(op.runs)
        return op if runs is op.runs else StartRuns(runs)

    def _gather(self, op: DebounceStart) -> DebounceStart:
        run = self._new_run(op.run)
        if run is op.run:
            return op
        plain = op.run.input

        def replace(run_id: str, old: bytes, fetch: Fetch) -> tuple[bytes, list[Payload]]:
            """The input stands for that of a run which gathers already: it is sealed for that
            one."""
            found: list[Payload] = []
            return self.values.value(plain, found, associated_data.run_input(run_id)), found

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
        """Open the value at *place*, change it, and seal what comes of it as the input of a run.
        Raises KeyMissing, BadData."""
        found: list[Payload] = []
        plain = change(self.values.opened(old, "what was gathered", fetch, place))
        return self.values.value(plain, found, associated_data.run_input(run_id)), found

    def forked(
        self, run: RunRecord, events: Sequence[Event], fork_id: str
    ) -> tuple[bytes, list[Event]]:
        """Return the input and the events of a run, encrypted for a fork of it. Raises KeyMissing,
        BadData."""
        copied = [
            msgspec.structs.replace(
                event,
                data=self.values.moved(
                    event.data,
                    *(
                        associated_data.event(one, event.kind, event.step)
                        for one in (run.id, fork_id)
                    ),
                ),
                error=self.values.moved(
                    event.error,
                    *(associated_data.error(one, event.step) for one in (run.id, fork_id)),
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
        found: list[Payload] = []
        return msgspec.structs.replace(
            op, payload=self.values.value(op.payload, found, _place_of_signal(op)), payloads=found
        )

    def _override(self, op: OverrideRun) -> OverrideRun:
        found: list[Payload] = []
        result = self.values.maybe_value(op.result, found, associated_data.run_result(op.run_id))
        error = self.values.maybe_value(op.error, found, associated_data.error(op.run_id))
        return (
            op
            if (result, error) == (op.result, op.error)
            else msgspec.structs.replace(op, result=result, error=error, payloads=found)
        )

    def _advance(self, op: Advance) -> Advance:
        if self.is_light(op):
            return op
        if (
            op.body is not None
        ):  # it is the very transition that its body adds to, and has nothing to say before that
            op.seal = partial(
                self.values.value,
                place=associated_data.event(op.run_id, op.events[0].kind, op.events[0].step),
            )
            return op
        found: list[Payload] = []
        seal = partial(self.values.maybe_value, found=found)
        return msgspec.structs.replace(
            op,
            events=[self._event(op.run_id, event, found) for event in op.events],
            result=seal(op.result, place=associated_data.run_result(op.run_id)),
            error=op.error
            if op.status is Status.STUCK and is_about_keys(op.error)
            else seal(op.error, place=associated_data.error(op.run_id)),
            signals=[
                (
                    run_id,
                    name,
                    self.values.value(payload, found, associated_data.signal(run_id, name)),
                    key,
                )
                for run_id, name, payload, key in op.signals
            ],
            children=self.seal_runs(op.children),
            payloads=found,
        )

    def is_light(self, op: Advance) -> bool:
        """Say whether all its values may pass untouched."""
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
        if op.signals or op.children or op.body is not None:
            return op.body is None and all(
                value is None or len(value) <= small for value in _values_of_advance(op)
            )
        return True

    def _event(self, run_id: str, event: Event, found: list[Payload]) -> Event:
        data, error = event.data, event.error
        if event.kind in SEALED:
            data = self.values.maybe_value(
                data, found, associated_data.event(run_id, event.kind, event.step)
            )
        if event.kind != EventKind.RUN_STUCK or not is_about_keys(error):
            error = self.values.maybe_value(error, found, associated_data.error(run_id, event.step))
        return (
            event
            if data is event.data and error is event.error
            else msgspec.structs.replace(event, data=data, error=error)
        )

    def text_shown(self, message: str | None, place: bytes) -> str | None:
        """Return a text of *place*, opened, with words instead of what could not be opened."""
        try:
            return None if message is None else self.values.text_opened(message, "text", place)
        except HoldfastError as unreadable:
            return f"<{_why(unreadable)}>"

    def hidden(self, data: bytes) -> str:
        """Say in words why a value is not shown."""
        return f"<{_why(KeyMissing(key=split(data).key))}>"

    def new_run_opened(self, run: NewRun) -> NewRun:
        """Return a run that was just started as whoever holds it needs it: with its input
        opened."""
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
        """Return the result of a run that was read in a transaction, opened. Raises KeyMissing,
        BadData."""
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
        return [self._opened(run_id, event) if _is_closed(event) else event for event in events]

    def _opened(self, run_id: str, event: Event) -> Event:
        what = f"{event.kind} {event.step or ''} of run {run_id}".replace("  ", " ")
        data = self.values.maybe(
            event.data, what, associated_data.event(run_id, event.kind, event.step)
        )
        return msgspec.structs.replace(
            event,
            data=data,
            error=self.values.maybe(event.error, what, associated_data.error(run_id, event.step)),
        )

    def told(self, event: RunEvent, fetch: Fetch | None = None) -> RunEvent:
        """Return an event as subscribers hear it, with its values opened; where no key is known at
        all, with words instead. Raises KeyMissing, BadData."""
        if not (is_sealed(event.data) or is_sealed(event.error)):
            return event
        return opened_again(
            event, partial(self._told, fetch=fetch or self.values.fetch), self._stored.event
        )

    def _told(self, event: RunEvent, fetch: Fetch) -> RunEvent:
        what = f"{event.kind} {event.step or ''} of run {event.run_id}".replace("  ", " ")

        def now(old: bytes, *, error: bool) -> bytes:
            current = self._stored.event(event)
            return (current.error if error else current.data) or old

        def see(data: bytes | None, place: bytes, *, error: bool) -> bytes | None:
            if data is None or self.values.locked:
                found: bytes | None = self._seen(
                    data, place, partial(now, error=error), large=True, error=error
                )
                return found
            return self.values.opened(data, what, fetch, place)

        return msgspec.structs.replace(
            event,
            data=see(
                event.data, associated_data.event(event.run_id, event.kind, event.step), error=False
            ),
            error=see(event.error, associated_data.error(event.run_id, event.step), error=True),
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
        return (
            self.signals(run_id, [signal])[0].payload
            if is_sealed(signal.payload)
            else signal.payload
        )

    def _signal_opened(self, run_id: str, signal: Signal) -> bytes:
        return self.values.open(
            signal.payload,
            f"signal {signal.name!r} to run {run_id}",
            associated_data.of_signal(run_id, signal),
        )

    def children(self, children: Iterable[ChildRecord]) -> list[ChildRecord]:
        """Return children with what they came to opened. Raises KeyMissing, BadData."""
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
        """Return a run with those of its values opened that can be: what is kept apart only when it
        is *large* that is wanted. The others stay as they are stored. Never raises."""
        if not (is_sealed(run.input) or is_sealed(run.result) or is_sealed(run.error)):
            return run
        now = partial(self._stored.value, run)
        see = partial(self._readable, large=large)
        return msgspec.structs.replace(
            run,
            input=see(run.input, associated_data.run_input(run.id), partial(now, "input")) or b"",
            result=see(run.result, associated_data.run_result(run.id), partial(now, "result")),
            error=see(run.error, associated_data.error(run.id), partial(now, "error")),
        )

    def _readable(
        self, data: bytes | None, place: bytes, now: Reread, *, large: bool
    ) -> bytes | None:
        if data is None or not is_sealed(data):
            return data
        try:
            return (
                data
                if split(data).form == APART and not large
                else self._open_again(data, place, now)
            )
        except HoldfastError:
            return data

    def _open_again(self, data: bytes, place: bytes, now: Reread) -> bytes:
        return opened_again(data, lambda stored: self.values.open(stored, "value", place), now)

    def shown(self, run: RunRecord, *, large: bool = False) -> RunRecord:
        """The same, with words instead of what could not be opened."""
        if not (is_sealed(run.input) or is_sealed(run.result) or is_sealed(run.error)):
            return run
        now = partial(self._stored.value, run)
        see = partial(self._seen, large=large)
        return msgspec.structs.replace(
            run,
            input=see(run.input, associated_data.run_input(run.id), partial(now, "input")) or b"",
            result=see(run.result, associated_data.run_result(run.id), partial(now, "result")),
            error=see(run.error, associated_data.error(run.id), partial(now, "error"), error=True),
        )

    def shown_events(
        self, run_id: str, events: Sequence[Event], *, large: bool = False
    ) -> list[Event]:
        """The same for events."""
        if large:
            with suppress(HoldfastError):  # else those that can be opened are shown
                return self.events(run_id, events)
        return [
            self._shown_event(run_id, event, large=large) if _is_closed(event) else event
            for event in events
        ]

    def _shown_event(self, run_id: str, event: Event, *, large: bool) -> Event:
        now = partial(self._stored.value_of_event, run_id, event)
        data = self._seen(
            event.data,
            associated_data.event(run_id, event.kind, event.step),
            partial(now, "data"),
            large=large,
        )
        error = self._seen(
            event.error,
            associated_data.error(run_id, event.step),
            partial(now, "error"),
            large=large,
            error=True,
        )
        return msgspec.structs.replace(event, data=data, error=error)

    def signals_shown(self, run_id: str, signals: Iterable[Signal]) -> list[Signal]:
        """The same for signals."""
        return [
            self._shown_signal(run_id, signal) if is_sealed(signal.payload) else signal
            for signal in signals
        ]

    def _shown_signal(self, run_id: str, signal: Signal) -> Signal:
        payload = self._seen(
            signal.payload, associated_data.of_signal(run_id, signal), _unchanged, large=False
        )
        return msgspec.structs.replace(signal, payload=payload)

    def _seen(
        self, data: bytes | None, place: bytes, now: Reread, *, large: bool, error: bool = False
    ) -> Any:
        if data is None or not is_sealed(data):
            return data
        try:
            found = split(data)
            if found.form == APART and not large and not error:
                return msgspec.json.encode(f"<{size_of(data)} bytes, kept apart>")
            return self._open_again(data, place, now)
        except HoldfastError as unreadable:
            told = f"<{_why(unreadable)}>"
            return msgspec.json.encode({"type": UNREADABLE, "message": told} if error else told)


def _unchanged(data: bytes) -> bytes:
    """Read nothing again: only what stands in its row is shown."""
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


def _is_closed(event: Event) -> bool:
    return is_sealed(event.data) or is_sealed(event.error)


def is_about_keys(error: bytes | None) -> bool:
    """Return whether the error of a stuck run says that a key is missing, which must be readable
    without keys.

    Ask only about errors of stuck runs: elsewhere an exception of that name belongs to the user,
    and is encrypted."""
    return error is not None and error.startswith(b'{"type":"KeyMissing"')


def _values_of_advance(op: Advance) -> Iterable[bytes | None]:
    for event in op.events:
        yield event.data
        yield event.error
    yield op.result
    yield op.error
    for _, _, payload, _ in op.signals:
        yield payload
    for child in op.children:
        yield child.input


_SEALERS: dict[type, Callable[[PayloadSealer, Any], Any]] = {
    Advance: PayloadSealer._advance,
    StartRuns: PayloadSealer._start,
    DebounceStart: PayloadSealer._gather,
    SignalRun: PayloadSealer._signal,
    DeliverSignal: PayloadSealer._signal,
    ReleaseWait: PayloadSealer._signal,
    OverrideRun: PayloadSealer._override,
}
"""How the values of each transition that has any are sealed."""

_VALUES: dict[type, Callable[[Any], Iterable[bytes | None]]] = {
    Advance: _values_of_advance,
    StartRuns: lambda op: (run.input for run in op.runs),
    SignalRun: lambda op: (op.payload,),
    DeliverSignal: lambda op: (op.payload,),
    ReleaseWait: lambda op: (op.payload,),
    OverrideRun: lambda op: (op.result, op.error),
}
