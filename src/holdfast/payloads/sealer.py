"""Seal the values of operations before they are written.

``opener`` opens stored values after reading, and ``display`` opens them for people. Invariants:
- A store keeps the bytes that it is given, so lists, copies and exports never load values that are
  kept apart.
- A value that is small and not encrypted is stored unchanged, and costs one comparison.
- An encrypted value is bound to its place: run, event and step, or signal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec

from holdfast.core import associated_data
from holdfast.core.envelope import is_sealed
from holdfast.core.event_table import SEALED
from holdfast.core.events import Event, EventRole
from holdfast.core.messages import INSTRUCTION
from holdfast.core.payload import INLINE_LIMIT, Fetch, Payload
from holdfast.core.runs import NewRun, RunRecord
from holdfast.errors import BadData
from holdfast.payloads.codecs import Cipher, Compression
from holdfast.payloads.display import PayloadDisplay
from holdfast.payloads.opener import PayloadOpener
from holdfast.payloads.reread import CurrentValues, open_or_reread
from holdfast.payloads.signing_secrets import SigningSecrets
from holdfast.payloads.value_format import HEAVY, ValueFormat
from holdfast.store.audit.operations import Audited
from holdfast.store.effects import Effect
from holdfast.store.messages.operations import (
    BroadcastPart,
    InstructRun,
    Message,
    PublishMessage,
    SendBroadcast,
    SendMessage,
    StartWithKept,
)
from holdfast.store.runs.operations import Advance, DebounceStart, StartChildren, StartRuns
from holdfast.store.signals.operations import SignalOtherRun, SignalRun
from holdfast.store.store import View
from holdfast.store.tasks.operations import OverrideRun
from holdfast.store.waits.operations import DeliverSignal, ReleaseWait

T = TypeVar("T")
Signalling = TypeVar("Signalling", SignalRun, DeliverSignal, ReleaseWait, InstructRun)
Sent = TypeVar("Sent", Message, BroadcastPart)

RELEASE = "release"
"""The name of the signal by which an operator releases a wait."""


class PayloadSealer:
    """Seals values for one engine, and has the parts that open them."""

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
        self.values: ValueFormat = ValueFormat(
            store, cipher, packing, inline_limit, json=json, locked=locked
        )
        self.secrets: SigningSecrets = SigningSecrets(self.values)
        self._stored: CurrentValues = CurrentValues(store)
        self.opener: PayloadOpener = PayloadOpener(self.values, self._stored)
        self.display: PayloadDisplay = PayloadDisplay(self.values, self._stored, self.opener)

    @property
    def cipher(self) -> Cipher | None:
        """The cipher; None if values are not encrypted."""
        return self.values.cipher

    def seal(self, op: T) -> T:
        """Return an operation with all its values sealed; *op* itself if none of them changes.
        Raises KeyMissing."""
        seal_op = _SEALERS.get(type(op))
        if seal_op is None:
            return op
        sealed: T = seal_op(self, op)
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
        sealed = self.values.seal(run.input, payloads, associated_data.run_input(run.id))
        return msgspec.structs.replace(run, input=sealed, payloads=tuple(payloads))

    def has_same_input(self, run: NewRun, old_id: str, old: bytes, fetch: Fetch) -> bool:
        """Return whether *old*, the stored input of the existing run *old_id*, equals the input of
        the new *run*. An input that is damaged equals none. Raises KeyMissing."""
        own = {payload.digest: payload for payload in run.payloads}
        label = f"the input of run {run.id}"
        if not is_sealed(old) and not is_sealed(run.input):
            return old == run.input
        try:
            before = open_or_reread(
                old,
                lambda data: self.values.open_with(
                    data, label, fetch, associated_data.run_input(old_id)
                ),
                partial(self._stored.input, old_id),
            )
            return before == self.values.open_with(
                run.input, label, own.get, associated_data.run_input(run.id)
            )
        except BadData:
            return False

    def _start(self, op: StartRuns) -> StartRuns:
        runs = self.seal_runs(op.runs)
        if runs is op.runs:
            return op
        return StartRuns(runs)

    def _debounce(self, op: DebounceStart) -> DebounceStart:
        run = self._new_run(op.run)
        if run is op.run:
            return op
        plain = op.run.input

        def replace(run_id: str, old: bytes, fetch: Fetch) -> tuple[bytes, list[Payload]]:
            """Return the new input, sealed for the run that already waits for more starts."""
            payloads: list[Payload] = []
            return self.values.seal(plain, payloads, associated_data.run_input(run_id)), payloads

        return msgspec.structs.replace(op, run=run, merge=op.merge or replace)

    def reseal_input(
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
        plain = change(self.values.open_with(old, f"the input of run {run_id}", fetch, place))
        return self.values.seal(plain, payloads, associated_data.run_input(run_id)), payloads

    def copy_for_fork(
        self, run: RunRecord, events: Sequence[Event], fork_id: str
    ) -> tuple[bytes, list[Event]]:
        """Return the input and the events of a run, encrypted for its fork *fork_id*. Raises
        KeyMissing, BadData."""
        copied = [
            msgspec.structs.replace(
                event,
                data=self.values.move(
                    event.data,
                    associated_data.event(run.id, event.kind, event.step),
                    associated_data.event(fork_id, event.kind, event.step),
                ),
                error=self.values.move(
                    event.error,
                    associated_data.error(run.id, event.step),
                    associated_data.error(fork_id, event.step),
                ),
            )
            for event in events
        ]
        moved = self.values.move(
            run.input, associated_data.run_input(run.id), associated_data.run_input(fork_id)
        )
        return moved or b"", copied

    def _signal(self, op: Signalling) -> Signalling:
        if len(op.payload) <= self.values.small:
            return op
        payloads: list[Payload] = []
        return msgspec.structs.replace(
            op,
            payload=self.values.seal(op.payload, payloads, _place_of_signal(op)),
            payloads=payloads,
        )

    def _audited(self, op: Audited) -> Audited:
        sealed = None if op.op is None else self.seal(op.op)
        return op if sealed is op.op else Audited(sealed, op.entry)

    def _override(self, op: OverrideRun) -> OverrideRun:
        payloads: list[Payload] = []
        result = self.values.seal_optional(
            op.result, payloads, associated_data.run_result(op.run_id)
        )
        error = self.values.seal_optional(op.error, payloads, associated_data.error(op.run_id))
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
                self.values.seal,
                place=associated_data.event(op.run_id, op.events[0].kind, op.events[0].step),
            )
            return op
        payloads: list[Payload] = []
        seal = partial(self.values.seal_optional, payloads=payloads)
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
            payload = self.values.seal(effect.payload, payloads, place)
            return msgspec.structs.replace(effect, payload=payload)
        if isinstance(effect, SendMessage):
            return SendMessage(self._message(effect.message))
        if isinstance(effect, SendBroadcast):
            return SendBroadcast(self._message(effect.part))
        return effect

    def _message(self, message: Sent) -> Sent:
        """Return a message with its payload sealed, and the inputs of the runs that it may start.

        The payload stays with the message: its receivers are not known yet."""
        payload = message.payload
        if self.values.small < 0:
            payload = self.values.seal_inline(payload, associated_data.message(message.id))
        starts = [
            msgspec.structs.replace(offer, run=self._new_run(offer.run)) for offer in message.starts
        ]
        return msgspec.structs.replace(message, payload=payload, starts=starts)

    def _start_with_kept(self, op: StartWithKept) -> StartWithKept:
        starts = [
            msgspec.structs.replace(offer, run=self._new_run(offer.run)) for offer in op.starts
        ]
        return msgspec.structs.replace(op, starts=starts)

    def _publish(self, op: PublishMessage) -> PublishMessage:
        return PublishMessage(self._message(op.message))

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
            data = self.values.seal_optional(
                data, payloads, associated_data.event(run_id, event.kind, event.step)
            )
        if event.role != EventRole.KEY_MISSING:  # that error must be readable without keys
            error = self.values.seal_optional(
                error, payloads, associated_data.error(run_id, event.step)
            )
        if data is event.data and error is event.error:
            return event
        return msgspec.structs.replace(event, data=data, error=error)


def _place_of_signal(op: SignalRun | DeliverSignal | ReleaseWait | InstructRun) -> bytes:
    if isinstance(op, InstructRun):
        return associated_data.signal(op.run_id, "instruction", step=INSTRUCTION)
    if isinstance(op, ReleaseWait):
        return associated_data.signal(op.run_id, RELEASE, step=op.step)
    if isinstance(op, DeliverSignal):  # bound to its wait: the run follows from it
        return associated_data.signal("", op.name, op.wait_id)
    return associated_data.signal(op.run_id, op.name, op.wait_id)


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
        elif isinstance(effect, SendMessage):
            yield from (offer.run.input for offer in effect.message.starts)
        elif isinstance(effect, SendBroadcast):
            yield from (offer.run.input for offer in effect.part.starts)


_SEALERS: dict[type, Callable[[PayloadSealer, Any], Any]] = {
    Advance: PayloadSealer._advance,
    StartRuns: PayloadSealer._start,
    DebounceStart: PayloadSealer._debounce,
    SignalRun: PayloadSealer._signal,
    DeliverSignal: PayloadSealer._signal,
    ReleaseWait: PayloadSealer._signal,
    InstructRun: PayloadSealer._signal,
    PublishMessage: PayloadSealer._publish,
    BroadcastPart: PayloadSealer._message,
    StartWithKept: PayloadSealer._start_with_kept,
    OverrideRun: PayloadSealer._override,
    Audited: PayloadSealer._audited,
}
"""The method that seals the values of each kind of operation that has values."""

_VALUES: dict[type, Callable[[Any], Iterable[bytes | None]]] = {
    Advance: _values_of_advance,
    StartRuns: lambda op: (run.input for run in op.runs),
    SignalRun: lambda op: (op.payload,),
    DeliverSignal: lambda op: (op.payload,),
    ReleaseWait: lambda op: (op.payload,),
    InstructRun: lambda op: (op.payload,),
    OverrideRun: lambda op: (op.result, op.error),
}
"""The values of each kind of operation whose values may be large."""
