"""Suspending a leased run on signals, and what whoever claims it next is told of them.

The run waits as any other does: whoever delivers a signal judges the condition. When the run is
claimed again, its condition is judged once more, from the same signals, and what it came to is
recorded before anybody hears of it: it is told to every holder from then on, until the run is
suspended again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.core import history as run_history
from holdfast.core import tokens
from holdfast.core.conditions import evaluation as conditions
from holdfast.core.conditions import validation as condition_validation
from holdfast.core.conditions.model import AnyOf, Condition, SignalToWait
from holdfast.core.events import (
    BY_RELEASE,
    BY_SIGNALS,
    BY_TIMEOUT,
    Event,
    EventKind,
    signals_as_data,
)
from holdfast.core.status import Status
from holdfast.core.streams.model import CloseReason
from holdfast.core.tasks import suspension
from holdfast.core.tasks.suspension import Suspension
from holdfast.core.text import is_storable
from holdfast.core.tokens import wait_token
from holdfast.core.validation import checked_name
from holdfast.core.waits import Signal, WaitRecord
from holdfast.engine.runtime.ids import new_id
from holdfast.errors import BadCondition, BadOption, WaitClosed, WaitNotFound
from holdfast.service.runs import Moment, Request, RunService, instant
from holdfast.service.tasks.lease_state import Deferred, LeaseState, WaitResult


class LeaseWait:
    """A wait that the holder of a lease has opened: whoever gets its id and its token may deliver
    signals to it."""

    def __init__(self, wait: WaitRecord, token: tokens.Token) -> None:
        assert wait.id is not None
        self.id, self.name, self.until = wait.id, wait.name, wait.until
        self.token = token
        self.condition = SignalToWait(wait.id, wait.step, wait.name, wait.until)

    def __repr__(self) -> str:
        return f"<wait {self.name} {self.id}>"


class Suspensions:
    """What a desk for leases knows of waits."""

    horizon = suspension.HORIZON

    def __init__(self, client: RunService) -> None:
        self._client, self.store, self.codec = client, client.store, client.codec
        self.sealer = client.sealer

    def _write(self, held: LeaseState, events: list[Event], outcome: Any, **place: Any) -> Request:
        raise NotImplementedError

    # Waits that are handed out

    def known_wait(self, held: LeaseState, name: str) -> LeaseWait | None:
        """Return the open wait of that name, if the run has one: to open it again is answered the
        same."""
        found = [
            wait
            for wait in self.store.waits(held.run.id, limit=10_000)
            if wait.id is not None and wait.name == name
        ]
        mine = next((wait for wait in found if wait.closed_at is None), None)
        return None if mine is None else self._told_wait(mine)

    def create_wait(self, held: LeaseState, name: str, expires: Moment | None) -> Request:
        """Open a wait that can be handed out; the answer is LeaseWait. There must be a key."""
        name = checked_name("name", name)
        now = self.store.now()
        until = (
            None
            if expires is None
            else suspension.checked_instant("expires", instant(expires, now), now, self.horizon)
        )
        key = tokens.current(self.store.keys())
        assert key is not None, "whoever asks sees to it that there is one"
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
        told = {"id": wait.id, "name": name, "kid": key.kid, "until": until}
        event = Event(EventKind.WAIT_CREATED, step, msgspec.json.encode(told))
        return self._write(held, [event], self._told_wait(wait), opened=[wait])

    def _told_wait(self, wait: WaitRecord) -> LeaseWait:
        assert wait.id is not None
        return LeaseWait(wait, wait_token(self.store.keys(), wait.id, self.sealer.secrets.reveal))

    def _handed(self, held: LeaseState, wait_id: str) -> SignalToWait:
        wait = (
            self.store.wait(wait_id) if isinstance(wait_id, str) and is_storable(wait_id) else None
        )
        if wait is None or wait.id is None or wait.run_id != held.run.id:
            raise WaitNotFound(run=held.run.id, wait=wait_id)
        if wait.closed_at is not None:
            raise WaitClosed(wait=wait_id, why=f"by {wait.closed_by}")
        return SignalToWait(wait.id, wait.step, wait.name, wait.until)

    # Suspending

    def suspension(
        self, held: LeaseState, what: Sequence[Any], timeout: Moment | None, on_timeout: str
    ) -> Suspension:
        """Return what a holder wants to wait for, checked. Raises BadOption, BadCondition, BadWait,
        BadDuration."""
        if not what:
            raise BadOption(
                option="signals", why="name the signals that end the wait, or a condition"
            )
        members = [
            suspension.condition_of(one, lambda wait_id: self._handed(held, wait_id))
            for one in what
        ]
        condition: Condition = (
            members[0] if len(members) == 1 else condition_validation.checked(AnyOf(tuple(members)))
        )
        now = self.store.now()
        until = (
            None
            if timeout is None
            else suspension.checked_instant("timeout", instant(timeout, now), now, self.horizon)
        )
        gone = [
            wait.label
            for wait in conditions.issued_waits(condition).values()
            if wait.until is not None and wait.until <= now
        ]
        tally = conditions.ConditionProgress(condition, self._read(held)).offer_all(
            self._addressed(held)
        )
        if gone and tally.is_hopeless(now):
            raise BadCondition(
                condition=gone[0],
                why="this wait has expired, so that the condition can no longer be met",
            )
        ends = suspension.checked_end(on_timeout, until, condition)
        return Suspension(
            step=f"wait {held.proof.generation}", condition=condition, until=until, on_timeout=ends
        )

    def suspend(self, held: LeaseState, wanted: Suspension) -> Request:
        """Let the run wait; whoever claims it next is told what came."""
        event = Event(EventKind.WAIT_OPENED, wanted.step, wanted.told())
        run, now = self.store.run(held.run.id), self.store.now()
        label = conditions.show(wanted.condition)[:500]
        row = WaitRecord(
            run_id=held.run.id,
            step=wanted.step,
            id=None,
            name=label,
            opened_at=now,
            until=wanted.until,
        )
        revision = None if run is None else run.revision
        more = {"opened": [row], "closes": CloseReason.RELEASED, "revision": revision}
        return self._park(held, wanted, self._addressed(held), [event], **more)

    def _park(
        self,
        held: LeaseState,
        wanted: Suspension,
        addressed: list[Signal],
        events: list[Event],
        **more: Any,
    ) -> Request:
        now = self.store.now()
        tally = conditions.ConditionProgress(wanted.condition, self._read(held)).offer_all(
            addressed
        )
        if tally.met:  # it came before the wait
            ready = Deferred(Status.PENDING, wanted.until)
            return self._write(
                held, events, ready, status=Status.PENDING, keep=False, **{**more, "revision": None}
            )
        sealed = self.codec.name != "json" or self._client.sealer.cipher is not None
        return self._write(
            held,
            events,
            Deferred(Status.WAITING, wanted.until),
            status=Status.WAITING,
            keep=False,
            waits=wanted.waits(now, sealed=sealed),
            alarm=wanted.due(now),
            **more,
        )

    # Going on

    def look_back(self, held: LeaseState, history: Sequence[Event]) -> None:
        """See what a run waited for last, and what that came to."""
        held.open, outcome = suspension.last_wait(run_history.live_events(history))
        if outcome is not None:
            (opened,) = self._client.sealer.events(held.run.id, [outcome])
            held.resumed = _resumed(opened)

    def judge(self, held: LeaseState, signals: Sequence[Signal]) -> Request:
        """Return what records that a wait is over, before its holder hears of it; or, if it is not,
        what lets the run wait on."""
        wait = held.open
        assert wait is not None
        addressed = [signal for signal in signals if signal.step is None]
        tally = conditions.ConditionProgress(wait.condition, self._read(held)).offer_all(addressed)
        now = self.store.now()
        if tally.met:
            spent = [addressed[place] for place in tally.spent()]
            return self._over(
                held,
                wait,
                EventKind.WAIT_SATISFIED,
                [addressed[place] for place in tally.satisfiers()],
                spent,
            )
        release = next((signal for signal in signals if signal.step == wait.step), None)
        if release is not None:
            return self._over(held, wait, EventKind.WAIT_RELEASED, [release], [release])
        late = wait.escalated_at is None and (
            (wait.until is not None and wait.until <= now) or tally.is_hopeless(now)
        )
        if late and wait.on_timeout == "continue":
            heard = [addressed[place] for place in tally.spent()]
            return self._over(
                held, wait, EventKind.WAIT_TIMED_OUT, heard, heard, missing=tally.missing()
            )
        if late:  # what then happens is not for a holder to do
            wait.until = now
        return self._park(held, wait, addressed, [])

    def _over(
        self,
        held: LeaseState,
        wait: Suspension,
        kind: str,
        told: Sequence[Signal],
        spent: Sequence[Signal],
        **more: Any,
    ) -> Request:
        by = {
            EventKind.WAIT_SATISFIED: BY_SIGNALS,
            EventKind.WAIT_RELEASED: BY_RELEASE,
            EventKind.WAIT_TIMED_OUT: BY_TIMEOUT,
        }[kind]
        steps = (
            wait.step,
            *(handed.step for handed in conditions.issued_waits(wait.condition).values()),
        )
        event = Event(
            kind, wait.step, signals_as_data(self._client.sealer.signals(held.run.id, told), **more)
        )
        return self._write(
            held,
            [event],
            _resumed(event),
            taken=[signal.id for signal in spent],
            closed=[(step, by) for step in steps],
        )

    def _addressed(self, held: LeaseState) -> list[Signal]:
        return [signal for signal in self.store.signals(held.run.id) if signal.step is None]

    def _read(self, held: LeaseState) -> conditions.Read:
        def read(signal: Signal) -> Any:
            return self.codec.decode(self._client.sealer.signal(held.run.id, signal))

        return read


class _Line(msgspec.Struct):
    id: int
    name: str
    payload: msgspec.Raw
    at: int = 0
    source: str | None = None
    wait: str | None = None


class _Told(msgspec.Struct):
    signals: list[_Line] = []


_HOW = {
    EventKind.WAIT_SATISFIED: "signals",
    EventKind.WAIT_RELEASED: "release",
    EventKind.WAIT_TIMED_OUT: "timeout",
}


def _resumed(event: Event) -> WaitResult:
    told = msgspec.json.decode(event.data or b"{}", type=_Told)
    found = [
        Signal(0, one.name, bytes(one.payload), one.at, None, True, one.id, one.wait, one.source)
        for one in told.signals
    ]
    if event.kind == EventKind.WAIT_RELEASED:
        return WaitResult("release", [], found[0].source, found[0].payload)
    return WaitResult(_HOW[event.kind], found)
