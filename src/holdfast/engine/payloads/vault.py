"""Where values are sealed before they are written and opened after they are read: the one place that does either.

A store keeps what it is given, byte for byte, so lists, copies and exports never load what is kept apart. A value that is small
and not encrypted passes untouched, and costs one comparison.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec

from holdfast.core.records import PRIVATE, Child, Event, Fetch, NewRun, Payload, Run, Signal
from holdfast.core.sealed import APART, PACKED, PLAIN, head, is_sealed, reference, size_of, split
from holdfast.core.subscriptions import RunEvent
from holdfast.engine.payloads.codecs import Cipher, Packing
from holdfast.errors import BadData, HoldfastError, KeyMissing
from holdfast.store import contract as c

T = TypeVar("T")
Signalling = TypeVar("Signalling", c.SignalRun, c.DeliverSignal, c.ReleaseWait)

LARGE = 64 * 1024
"""Above so many bytes a value is kept apart, unless told otherwise."""

PART = 512 * 1024
"""In parts of so many bytes."""

HEAVY = 256 * 1024
"""From so many bytes on it is worth while to seal, or to open, in another thread."""

SAMPLE = 64 * 1024
"""How much of a large value is compressed first, to see whether that is of any use."""

FAST = 1
"""How hard values are compressed that are kept apart, unless told otherwise."""

MARK = "\x01"
"""How a text begins that is sealed; the id of its key is between two of them."""

UNREADABLE = "Unreadable"
"""The type of an error that stands for one that cannot be read here."""


class Vault:
    """Seals and opens values for one engine."""

    def __init__(
        self, store: c.Reader, cipher: Cipher | None = None, packing: Packing | None = None, large: int = LARGE, *,
        json: bool = True, locked: bool = False,
    ) -> None:  # fmt: skip
        self._store, self.cipher, self._packing, self.large, self._locked = store, cipher, packing, large, locked
        always = cipher is not None or locked or not json
        self._small = -1 if always else min(large, packing.over) if packing is not None else large
        """Values of at most so many bytes pass untouched."""

    # Sealing

    def seal(self, op: T) -> T:
        """Return a transition with all its values sealed; the same one when nothing is to be done. Raises KeyMissing."""
        sealer = _SEALERS.get(type(op))
        sealed: T = op if sealer is None else sealer(self, op)
        return sealed

    def is_heavy(self, op: object) -> bool:
        """Say whether sealing takes so long that others should not wait for it."""
        weigher = _VALUES.get(type(op))
        return weigher is not None and any(value is not None and len(value) > HEAVY for value in weigher(op))

    def seal_runs(self, runs: Sequence[NewRun]) -> Sequence[NewRun]:
        """Return new runs with their inputs sealed."""
        if all(len(run.input) <= self._small for run in runs):
            return runs
        return [self._new_run(run) for run in runs]

    def _new_run(self, run: NewRun) -> NewRun:
        if len(run.input) <= self._small:
            return run
        found: list[Payload] = []
        sealed = self.value(run.input, found)
        return msgspec.structs.replace(run, input=sealed, payloads=tuple(found))

    def is_same(self, run: NewRun, old: bytes, fetch: Fetch) -> bool:
        """Say whether the input of a run that is there is that of a new one. Raises KeyMissing."""
        own = {payload.digest: payload for payload in run.payloads}
        what = f"the input of run {run.id}"
        if not is_sealed(old) and not is_sealed(run.input):
            return old == run.input
        try:
            return self._open(old, what, fetch) == self._open(run.input, what, own.get)
        except BadData:
            return False

    def _start(self, op: c.StartRuns) -> c.StartRuns:
        runs = self.seal_runs(op.runs)
        return op if runs is op.runs else c.StartRuns(runs)

    def _gather(self, op: c.GatherStart) -> c.GatherStart:
        run = self._new_run(op.run)
        return op if run is op.run else msgspec.structs.replace(op, run=run)

    def remake(self, old: bytes, change: Callable[[bytes], bytes], fetch: Fetch) -> tuple[bytes, list[Payload]]:
        """Open a value, change it, and seal what comes of it. Raises KeyMissing, BadData."""
        found: list[Payload] = []
        return self.value(change(self._open(old, "what was gathered", fetch)), found), found

    def _signal(self, op: Signalling) -> Signalling:
        if len(op.payload) <= self._small:
            return op
        found: list[Payload] = []
        return msgspec.structs.replace(op, payload=self.value(op.payload, found), payloads=found)

    def _override(self, op: c.OverrideRun) -> c.OverrideRun:
        found: list[Payload] = []
        result, error = self._maybe(op.result, found), self._maybe(op.error, found)
        return (
            op
            if (result, error) == (op.result, op.error)
            else msgspec.structs.replace(op, result=result, error=error, payloads=found)
        )

    def _advance(self, op: c.Advance) -> c.Advance:
        if self.is_light(op):
            return op
        if op.body is not None:  # it is the very transition that its body adds to, and has nothing to say before that
            op.seal = self.value
            return op
        found: list[Payload] = []
        seal = partial(self._maybe, found=found)
        return msgspec.structs.replace(
            op,
            events=[self._event(event, seal) for event in op.events],
            result=seal(op.result),
            error=op.error if is_about_keys(op.error) else seal(op.error),
            signals=[(run_id, name, self.value(payload, found), key) for run_id, name, payload, key in op.signals],
            children=self.seal_runs(op.children),
            payloads=found,
        )

    def passes(self, data: bytes) -> bool:
        """Say whether a value may pass untouched."""
        return len(data) <= self._small

    def is_light(self, op: c.Advance) -> bool:
        """Say whether all its values may pass untouched."""
        small = self._small
        if small < 0:
            return False
        for event in op.events:
            if (event.data is not None and len(event.data) > small) or (event.error is not None and len(event.error) > small):
                return False
        if (op.result is not None and len(op.result) > small) or (op.error is not None and len(op.error) > small):
            return False
        if op.signals or op.children or op.body is not None:
            return op.body is None and all(value is None or len(value) <= small for value in _values_of_advance(op))
        return True

    def _event(self, event: Event, seal: Callable[[bytes | None], bytes | None]) -> Event:
        data = seal(event.data) if event.kind in PRIVATE else event.data
        error = event.error if is_about_keys(event.error) else seal(event.error)
        return event if data is event.data and error is event.error else msgspec.structs.replace(event, data=data, error=error)

    def _maybe(self, data: bytes | None, found: list[Payload]) -> bytes | None:
        return None if data is None else self.value(data, found)

    def value(self, data: bytes, found: list[Payload]) -> bytes:
        """Return what stands in the column for *data*; what is kept apart of it is added to *found*."""
        if len(data) <= self._small:
            return data
        if self._locked:
            raise KeyMissing(what="this database is encrypted, and no key is known here")
        if len(data) > self.large:
            payload = self._apart(data)
            found.append(payload)
            return reference(payload.key, payload.digest, len(data))
        return self._inline(data)

    def inline(self, data: bytes) -> bytes:
        """Return what stands in a column for *data* where nothing can be kept apart. Raises KeyMissing."""
        if len(data) <= self._small:
            return data
        if self._locked:
            raise KeyMissing(what="this database is encrypted, and no key is known here")
        return self._inline(data)

    def _inline(self, data: bytes) -> bytes:
        form, body = self._packed(data)
        begin = head(self.cipher.current if self.cipher is not None else "", form)
        if self.cipher is not None:
            return begin + self.cipher.encrypt(body, begin)
        return begin + body if form == PACKED or is_sealed(data) else data

    def text(self, message: str) -> str:
        """Return what stands in a column for text for *message*: with the id of its key, so that it can be found. Raises
        KeyMissing."""
        if self.cipher is None and not self._locked and not message.startswith(MARK):
            return message
        sealed = self.inline(message.encode())
        key = "" if self.cipher is None else self.cipher.current
        return f"{MARK}{key}{MARK}{base64.b64encode(sealed).decode()}"

    def text_opened(self, message: str, what: str) -> str:
        """Undo ``text``. Raises KeyMissing, BadData."""
        if not message.startswith(MARK):
            return message
        return self.open(base64.b64decode(message.split(MARK, 2)[2]), what).decode()

    def text_shown(self, message: str | None) -> str | None:
        """The same, with words instead of what could not be opened."""
        try:
            return None if message is None else self.text_opened(message, "text")
        except HoldfastError as unreadable:
            return f"<{_why(unreadable)}>"

    def output(self, data: bytes, what: str) -> bytes | None:
        """Return what a run has put out, opened; None where no key is known at all. Raises KeyMissing, BadData."""
        return None if self._locked and is_sealed(data) and split(data).key else self.open(data, what)

    def hidden(self, data: bytes) -> str:
        """Say in words why a value is not shown."""
        return str(msgspec.json.decode(self._seen(data, large=False)))

    def new_run_opened(self, run: NewRun) -> NewRun:
        """Return a run that was just started as whoever holds it needs it: with its input opened."""
        if not is_sealed(run.input):
            return run
        return msgspec.structs.replace(run, input=self.open(run.input, f"the input of run {run.id}"))

    def opened(self, data: bytes, what: str, fetch: Fetch) -> bytes:
        """Return a value as it was before it was sealed; what is kept apart is found by *fetch*. Raises KeyMissing, BadData."""
        return self._open(data, what, fetch)

    def _packed(self, data: bytes) -> tuple[bytes, bytes]:
        if self._packing is None or len(data) <= self._packing.over:
            return PLAIN, data
        packed = zlib.compress(data, self._packing.level)
        return (PACKED, packed) if len(packed) < 0.9 * len(data) else (PLAIN, data)

    def _apart(self, data: bytes) -> Payload:
        level = FAST if self._packing is None else self._packing.level
        sample = data[:SAMPLE]
        form, body = PLAIN, data
        if len(zlib.compress(sample, FAST)) < 0.9 * len(sample):
            form, body = PACKED, zlib.compress(data, level)
        if self.cipher is None:
            key, digest = "", hashlib.sha256(data).digest()
        else:
            key, digest = self.cipher.current, self.cipher.digest(data)
            body = self.cipher.encrypt(body, digest + form)
        parts = [body[place : place + PART] for place in range(0, len(body), PART)]
        return Payload(digest, key, form.decode(), len(data), parts)

    # Opening

    def open(self, data: bytes, what: str = "value") -> bytes:
        """Return a stored value as it was before it was sealed. Raises KeyMissing, BadData."""
        return self._open(data, what, self._store.payload) if data[:1] == b"\x00" else data

    def _open(self, data: bytes, what: str, fetch: Fetch) -> bytes:
        if not is_sealed(data):
            return data
        key, form, body = split(data)
        if form == APART:
            digest = body[:32]
            if key and self.cipher is None:
                raise KeyMissing(key=key, what=what)
            payload = fetch(digest)
            if payload is None:
                raise BadData(what=what, why=f"payload {digest.hex()} is not in the store")
            return self.content(payload, what)
        return _unpacked(form, self._decrypted(key, body, head(key, form), what), what)

    def content(self, payload: Payload, what: str = "value") -> bytes:
        """Return the value of a payload, and see that it is what its digest says. Raises KeyMissing, BadData."""
        form, body = payload.form.encode(), b"".join(payload.parts)
        plain = _unpacked(form, self._decrypted(payload.key, body, payload.digest + form, what), what)
        if not payload.key and hashlib.sha256(plain).digest() != payload.digest:
            raise BadData(what=what, why=f"payload {payload.digest.hex()} is not what it was")
        return plain

    def _decrypted(self, key: str, body: bytes, bound: bytes, what: str) -> bytes:
        if not key:
            return body
        if self.cipher is None:
            raise KeyMissing(key=key, what=what)
        return self.cipher.decrypt(key, body, bound, what)

    def maybe(self, data: bytes | None, what: str = "value") -> bytes | None:
        """The same for a value that may not be there."""
        return None if data is None else self.open(data, what)

    def run(self, run: Run) -> Run:
        """Return a run with its values opened. Raises KeyMissing, BadData."""
        if not (is_sealed(run.input) or is_sealed(run.result) or is_sealed(run.error)):
            return run
        return msgspec.structs.replace(
            run,
            input=self.open(run.input, f"the input of run {run.id}"),
            result=self.maybe(run.result, f"the result of run {run.id}"),
            error=self.maybe(run.error, f"the error of run {run.id}"),
        )

    def events(self, run_id: str, events: Sequence[Event]) -> list[Event]:
        """Return events with their values opened. Raises KeyMissing, BadData."""
        return [self._opened(run_id, event) if _is_closed(event) else event for event in events]

    def _opened(self, run_id: str, event: Event) -> Event:
        what = f"{event.kind} {event.step or ''} of run {run_id}".replace("  ", " ")
        return msgspec.structs.replace(event, data=self.maybe(event.data, what), error=self.maybe(event.error, what))

    def told(self, event: RunEvent, fetch: Fetch | None = None) -> RunEvent:
        """Return an event as subscribers hear it, with its values opened; where no key is known at all, with words instead.
        Raises KeyMissing, BadData."""
        if not (is_sealed(event.data) or is_sealed(event.error)):
            return event
        what, fetch = f"{event.kind} {event.step or ''} of run {event.run_id}".replace("  ", " "), fetch or self._store.payload

        def see(data: bytes | None, *, error: bool) -> bytes | None:
            if data is None or self._locked:
                return None if data is None else self._seen(data, large=True, error=error)
            return self._open(data, what, fetch)

        return msgspec.structs.replace(event, data=see(event.data, error=False), error=see(event.error, error=True))

    def signals(self, run_id: str, signals: Iterable[Signal]) -> list[Signal]:
        """Return signals with their payloads opened. Raises KeyMissing, BadData."""
        return [
            msgspec.structs.replace(signal, payload=self.open(signal.payload, f"signal {signal.name!r} to run {run_id}"))
            if is_sealed(signal.payload)
            else signal
            for signal in signals
        ]

    def children(self, children: Iterable[Child]) -> list[Child]:
        """Return children with what they came to opened. Raises KeyMissing, BadData."""
        return [
            msgspec.structs.replace(
                child,
                result=self.maybe(child.result, f"the result of run {child.id}"),
                error=self.maybe(child.error, f"the error of run {child.id}"),
            )
            if is_sealed(child.result) or is_sealed(child.error)
            else child
            for child in children
        ]

    # For people

    def readable(self, run: Run, *, large: bool = False) -> Run:
        """Return a run with those of its values opened that can be: what is kept apart only when it is *large* that is wanted.
        The others stay as they are stored. Never raises."""
        if not (is_sealed(run.input) or is_sealed(run.result) or is_sealed(run.error)):
            return run
        see = partial(self._readable, large=large)
        return msgspec.structs.replace(run, input=see(run.input) or b"", result=see(run.result), error=see(run.error))

    def _readable(self, data: bytes | None, *, large: bool) -> bytes | None:
        if data is None or not is_sealed(data):
            return data
        try:
            return data if split(data).form == APART and not large else self.open(data)
        except HoldfastError:
            return data

    def shown(self, run: Run, *, large: bool = False) -> Run:
        """The same, with words instead of what could not be opened."""
        if not (is_sealed(run.input) or is_sealed(run.result) or is_sealed(run.error)):
            return run
        error = None if run.error is None else self._seen(run.error, large=large, error=True)
        result = None if run.result is None else self._seen(run.result, large=large)
        return msgspec.structs.replace(run, input=self._seen(run.input, large=large), result=result, error=error)

    def shown_events(self, events: Sequence[Event], *, large: bool = False) -> list[Event]:
        """The same for events."""
        return [
            msgspec.structs.replace(
                event,
                data=None if event.data is None else self._seen(event.data, large=large),
                error=None if event.error is None else self._seen(event.error, large=large, error=True),
            )
            if _is_closed(event)
            else event
            for event in events
        ]

    def signals_shown(self, run_id: str, signals: Iterable[Signal]) -> list[Signal]:
        """The same for signals."""
        return [
            msgspec.structs.replace(signal, payload=self._seen(signal.payload, large=False))
            if is_sealed(signal.payload)
            else signal
            for signal in signals
        ]

    def _seen(self, data: bytes, *, large: bool, error: bool = False) -> bytes:
        if not is_sealed(data):
            return data
        try:
            found = split(data)
            if found.form == APART and not large and not error:
                return msgspec.json.encode(f"<{size_of(data)} bytes, kept apart>")
            return self.open(data)
        except HoldfastError as unreadable:
            told = f"<{_why(unreadable)}>"
            return msgspec.json.encode({"type": UNREADABLE, "message": told} if error else told)


def _why(error: HoldfastError) -> str:
    if isinstance(error, KeyMissing):
        return f"encrypted with key {error.facts.get('key', '')}, which is not known here".replace("key ,", "a key")
    return str(error)


def _unpacked(form: bytes, body: bytes, what: str) -> bytes:
    if form != PACKED:
        return body
    try:
        return zlib.decompress(body)
    except zlib.error as error:
        raise BadData(what=what, why=f"it cannot be decompressed: {error}") from error


def _is_closed(event: Event) -> bool:
    return is_sealed(event.data) or is_sealed(event.error)


def is_about_keys(error: bytes | None) -> bool:
    """That a key is missing must be readable without keys."""
    return error is not None and error.startswith(b'{"type":"KeyMissing"')


def _values_of_advance(op: c.Advance) -> Iterable[bytes | None]:
    for event in op.events:
        yield event.data
        yield event.error
    yield op.result
    yield op.error
    for _, _, payload, _ in op.signals:
        yield payload
    for child in op.children:
        yield child.input


_SEALERS: dict[type, Callable[[Vault, Any], Any]] = {
    c.Advance: Vault._advance,
    c.StartRuns: Vault._start,
    c.GatherStart: Vault._gather,
    c.SignalRun: Vault._signal,
    c.DeliverSignal: Vault._signal,
    c.ReleaseWait: Vault._signal,
    c.OverrideRun: Vault._override,
}
"""How the values of each transition that has any are sealed."""

_VALUES: dict[type, Callable[[Any], Iterable[bytes | None]]] = {
    c.Advance: _values_of_advance,
    c.StartRuns: lambda op: (run.input for run in op.runs),
    c.SignalRun: lambda op: (op.payload,),
    c.DeliverSignal: lambda op: (op.payload,),
    c.ReleaseWait: lambda op: (op.payload,),
    c.OverrideRun: lambda op: (op.result, op.error),
}
