"""Suspend a leased run until signals arrive, and pass the outcome to its next holder.

The run waits like any other run: the delivery of a signal evaluates the condition. When the run is
claimed again, the condition is evaluated once more, from the same signals.

Invariant: the outcome is recorded before a holder receives it. Every later holder receives the same
outcome, until the run is suspended again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.core import duration, tokens, typed_json
from holdfast.core import history as run_history
from holdfast.core.codec import Codec
from holdfast.core.conditions import evaluation as conditions
from holdfast.core.conditions import validation as condition_validation
from holdfast.core.conditions.model import (
    AnyOf,
    Condition,
    OnTimeout,
    ReleaseOnly,
    SignalToWait,
)
from holdfast.core.duration import Duration, as_datetime
from holdfast.core.events import (
    BY_RELEASE,
    BY_SIGNALS,
    BY_TIMEOUT,
    Event,
    EventKind,
    signals_as_data,
)
from holdfast.core.status import Status
from holdfast.core.tasks import suspension
from holdfast.core.tasks.suspension import Suspension
from holdfast.core.text import is_storable
from holdfast.core.tokens import wait_token
from holdfast.core.validation import checked_name, checked_text
from holdfast.core.waits import Signal, WaitRecord
from holdfast.engine.runtime.ids import new_id
from holdfast.errors import BadCondition, WaitClosed, WaitNotFound
from holdfast.payloads.sealer import PayloadSealer
from holdfast.service.instants import Moment, instant
from holdfast.service.requests import Request
from holdfast.service.runs import RunService
from holdfast.service.tasks.lease_state import Deferred, LeaseState, WaitResult
from holdfast.service.tasks.writes import write_as_holder
from holdfast.store.effects import Effect
from holdfast.store.signals.operations import TakeSignals
from holdfast.store.store import Store
from holdfast.store.tasks.operations import SetAttemptDeadline
from holdfast.store.waits.operations import CloseWait, OpenWait


class LeaseWait:
    """A wait that the holder of a lease has issued: a program with its id and its token may deliver
    signals to it."""

    def __init__(self, wait: WaitRecord, token: tokens.Token) -> None:
        assert wait.id is not None
        self.id = wait.id
        self.name = wait.name
        self.until = None if wait.until is None else as_datetime(wait.until)
        self.token = token
        self.condition = SignalToWait(wait.id, wait.step, wait.name, wait.until)

    def __repr__(self) -> str:
        return f"<wait {self.name} {self.id}>"


class Suspensions:
    """Suspends and resumes leased runs."""

    def __init__(self, client: RunService, horizon: int) -> None:
        self._store: Store = client.store
        self._codec: Codec = client.codec
        self._sealer: PayloadSealer = client.sealer
        self._horizon: int = horizon
        """Microseconds for which a run may be suspended, at most."""

    # Issued waits

    def known_wait(self, held: LeaseState, name: str) -> LeaseWait | None:
        """Return the open issued wait of that name, None if the run has none: a repeated call to
        create it has the same answer."""
        open_waits = (
            wait
            for wait in self._store.waits.find(held.run.id, limit=10_000)
            if wait.id is not None and wait.name == name and wait.closed_at is None
        )
        wait = next(open_waits, None)
        if wait is None:
            return None
        return self._issued(wait)

    def create_wait(self, held: LeaseState, name: str, expires: Moment | None) -> Request[Any]:
        """Issue a wait. The answer is LeaseWait. The caller must have created a signing key.
        Raises BadOption, BadWait."""
        name = checked_name("name", name)
        now = self._store.now()
        until = self._until("expires", expires, now)
        key = tokens.current(self._store.keys.all())
        assert key is not None, "the caller creates a signing key before"
        step = f"create {name} {held.proof.generation}.{held.seq + 1}"
        wait = WaitRecord(
            run_id=held.run.id,
            step=step,
            id=new_id(),
            name=name,
            kid=key.kid,
            opened_at=now,
            until=until,
        )
        data = {"id": wait.id, "name": name, "kid": key.kid, "until": until}
        event = Event(EventKind.WAIT_CREATED, step, msgspec.json.encode(data))
        return write_as_holder(held, [event], self._issued(wait), effects=[OpenWait(wait)])

    def _until(self, option: str, when: Moment | None, now: int) -> int | None:
        if when is None:
            return None
        return suspension.checked_instant(option, instant(when, now), now, self._horizon)

    def _issued(self, wait: WaitRecord) -> LeaseWait:
        assert wait.id is not None
        return LeaseWait(
            wait, wait_token(self._store.keys.all(), wait.id, self._sealer.secrets.reveal)
        )

    def _open_wait(self, held: LeaseState, wait_id: str) -> SignalToWait:
        wait = None
        if isinstance(wait_id, str) and is_storable(wait_id):
            wait = self._store.waits.get(wait_id)
        if wait is None or wait.id is None or wait.run_id != held.run.id:
            raise WaitNotFound(run=held.run.id, wait=wait_id)
        if wait.closed_at is not None:
            raise WaitClosed(wait=wait_id, why=f"the wait was closed by {wait.closed_by}")
        return SignalToWait(wait.id, wait.step, wait.name, wait.until)

    # Suspending

    def suspension(
        self,
        held: LeaseState,
        members: Sequence[Any],
        timeout: Moment | None,
        on_timeout: str,
        *,
        reason: str | None = None,
        by: str | None = None,
        resume_delay: Duration | None = None,
    ) -> Suspension:
        """Return the checked suspension of a run until one of these signals, waits or conditions;
        without any, until an operator releases it. Raises BadOption, BadCondition, BadWait,
        BadDuration, WaitNotFound, WaitClosed."""
        condition = self._condition(held, members)
        now = self._store.now()
        until = self._until("timeout", timeout, now)
        expired = [
            wait.label
            for wait in conditions.issued_waits(condition).values()
            if wait.until is not None and wait.until <= now
        ]
        progress = conditions.ConditionProgress(condition, self._read(held)).offer_all(
            self._addressed(held)
        )
        if expired and progress.is_hopeless(now):
            raise BadCondition(
                condition=expired[0],
                why="this wait has expired, so the condition can no longer be met",
            )
        ends = suspension.checked_end(on_timeout, until, condition)
        return Suspension(
            step=f"wait {held.proof.generation}",
            condition=condition,
            until=until,
            on_timeout=ends,
            reason=checked_text("reason", reason),
            asked_by=checked_text("by", by),
            resume_delay=_delay("resume_delay", resume_delay, self._horizon),
        )

    def _condition(self, held: LeaseState, members: Sequence[Any]) -> Condition:
        if not members:
            return ReleaseOnly()
        parts = [
            suspension.condition_of(member, lambda wait_id: self._open_wait(held, wait_id))
            for member in members
        ]
        if len(parts) == 1:
            return parts[0]
        return condition_validation.checked_condition(AnyOf(tuple(parts)))

    def suspend(self, held: LeaseState, wait: Suspension) -> Request[Any]:
        """Suspend the run. Its next holder receives the outcome of the wait. The answer is
        Deferred, or RevisionChanged if something reached the run meanwhile."""
        event = Event(EventKind.WAIT_OPENED, wait.step, wait.as_data())
        run = self._store.runs.get(held.run.id)
        now = self._store.now()
        label = conditions.show(wait.condition)[:500]
        row = WaitRecord(
            run_id=held.run.id,
            step=wait.step,
            id=None,
            name=label,
            opened_at=now,
            until=wait.until,
            reason=wait.reason,
            asked_by=wait.asked_by,
        )
        return self._park(
            held,
            wait,
            self._addressed(held),
            [event],
            effects=[OpenWait(row)],
            revision=None if run is None else run.revision,
        )

    def _park(
        self,
        held: LeaseState,
        wait: Suspension,
        addressed: list[Signal],
        events: list[Event],
        *,
        effects: Sequence[Effect] = (),
        revision: int | None = None,
    ) -> Request[Any]:
        """Park the run on its suspension, or leave it claimable if its condition is met already."""
        now = self._store.now()
        until = None if wait.until is None else as_datetime(wait.until)
        progress = conditions.ConditionProgress(wait.condition, self._read(held)).offer_all(
            addressed
        )
        if progress.met:  # the signals came before the wait
            ready = Deferred(Status.PENDING, until)
            return write_as_holder(
                held, events, ready, status=Status.PENDING, release=True, effects=effects
            )
        sealed = self._codec.name != "json" or self._sealer.cipher is not None
        due = wait.due(now)
        if due is not None:
            effects = [*effects, SetAttemptDeadline(due)]
        return write_as_holder(
            held,
            events,
            Deferred(Status.WAITING, until),
            status=Status.WAITING,
            release=True,
            revision=revision,
            waits=wait.waits(now, sealed=sealed),
            effects=effects,
        )

    # Resuming

    def load_last_wait(self, held: LeaseState, history: Sequence[Event]) -> None:
        """Set in *held* the last suspension of the run, if it is not over, or its outcome. Raises
        KeyMissing, BadData."""
        held.open, outcome = suspension.last_wait(run_history.live_events(history))
        if outcome is not None:
            (opened,) = self._sealer.opener.events(held.run.id, [outcome])
            held.resumed = _wait_result(opened)

    def judge(self, held: LeaseState, signals: Sequence[Signal]) -> Request[Any]:
        """Return the request that records the outcome of a wait, before the holder receives it; if
        the wait is not over, the request that parks the run again."""
        wait = held.open
        assert wait is not None
        addressed = [signal for signal in signals if not signal.is_release]
        progress = conditions.ConditionProgress(wait.condition, self._read(held)).offer_all(
            addressed
        )
        now = self._store.now()
        if progress.met:
            consumed = [addressed[place] for place in progress.spent()]
            satisfiers = [addressed[place] for place in progress.satisfiers()]
            resume_at = None
            if wait.resume_delay is not None:
                resume_at = max(signal.at for signal in satisfiers) + wait.resume_delay
            return self._end_wait(
                held, wait, EventKind.WAIT_SATISFIED, satisfiers, consumed, resume_at
            )
        release = next((signal for signal in signals if signal.step == wait.step), None)
        if release is not None:
            # The release of an operator who wants the run to resume later lies in the future.
            released = EventKind.WAIT_RELEASED
            return self._end_wait(held, wait, released, [release], [release], release.at)
        late = wait.escalated_at is None and (
            (wait.until is not None and wait.until <= now) or progress.is_hopeless(now)
        )
        if late and wait.on_timeout == OnTimeout.CONTINUE:
            received = [addressed[place] for place in progress.spent()]
            return self._end_wait(
                held, wait, EventKind.WAIT_TIMED_OUT, received, received, missing=progress.missing()
            )
        if late:  # other policies are applied when the parked run is due, not by a holder
            wait.until = now
        return self._park(held, wait, addressed, [])

    def _end_wait(
        self,
        held: LeaseState,
        wait: Suspension,
        kind: str,
        signals: Sequence[Signal],
        consumed: Sequence[Signal],
        resume_at: int | None = None,
        **more: Any,
    ) -> Request[Any]:
        """Return the request that ends a wait: it records the outcome with *signals*, consumes the
        signals *consumed*, and closes the wait and its issued waits. If *resume_at* is still to
        come, the run is delayed until then, and its next holder receives the outcome."""
        by = {
            EventKind.WAIT_SATISFIED: BY_SIGNALS,
            EventKind.WAIT_RELEASED: BY_RELEASE,
            EventKind.WAIT_TIMED_OUT: BY_TIMEOUT,
        }[kind]
        steps = (
            wait.step,
            *(issued.step for issued in conditions.issued_waits(wait.condition).values()),
        )
        event = Event(
            kind,
            wait.step,
            signals_as_data(self._sealer.opener.signals(held.run.id, signals), **more),
        )
        effects = [
            TakeSignals([signal.id for signal in consumed]),
            *(CloseWait(step, by) for step in steps),
        ]
        if resume_at is not None and resume_at > self._store.now():
            return write_as_holder(
                held,
                [event],
                Deferred(Status.PENDING, as_datetime(resume_at)),
                status=Status.PENDING,
                release=True,
                wake_at=resume_at,
                effects=effects,
            )
        return write_as_holder(held, [event], _wait_result(event), effects=effects)

    def _addressed(self, held: LeaseState) -> list[Signal]:
        """Return the signals of a run, without releases, which are addressed to a step."""
        return [
            signal for signal in self._store.signals.of_run(held.run.id) if not signal.is_release
        ]

    def _read(self, held: LeaseState) -> conditions.Read:
        def read(signal: Signal) -> Any:
            return self._codec.decode(self._sealer.opener.signal_payload(held.run.id, signal))

        return read


def _delay(option: str, value: Duration | None, horizon: int) -> int | None:
    """Return a delay in microseconds. Raises BadWait if it is longer than *horizon*."""
    if value is None:
        return None
    delay = duration.parse(value)
    if delay == 0:
        return None
    return suspension.checked_instant(option, delay, 0, horizon)


class _ReceivedSignal(msgspec.Struct):
    """A signal, in the data of an event that ends a wait."""

    id: int
    name: str
    payload: msgspec.Raw
    at: int = 0
    source: str | None = None
    wait: str | None = None


class _WaitEnd(msgspec.Struct):
    """The data of an event that ends a wait."""

    signals: list[_ReceivedSignal] = []


_HOW = {
    EventKind.WAIT_SATISFIED: "signals",
    EventKind.WAIT_RELEASED: "release",
    EventKind.WAIT_TIMED_OUT: "timeout",
}


def _wait_result(event: Event) -> WaitResult:
    data = typed_json.decode(event.data or b"{}", _WaitEnd)
    signals = [
        Signal(
            0, line.name, bytes(line.payload), line.at, None, True, line.id, line.wait, line.source
        )
        for line in data.signals
    ]
    if event.kind == EventKind.WAIT_RELEASED:
        return WaitResult("release", [], signals[0].source, signals[0].payload)
    return WaitResult(_HOW[event.kind], signals)
