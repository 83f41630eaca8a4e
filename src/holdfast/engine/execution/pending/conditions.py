"""Waits for a condition over signals, and waits whose tokens the code hands out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec

from holdfast.core import duration, tokens
from holdfast.core.commands import AwaitCondition, CreateWait
from holdfast.core.conditions import evaluation as conditions
from holdfast.core.conditions.model import OnTimeout
from holdfast.core.events import (
    BY_CODE,
    BY_RELEASE,
    BY_SIGNALS,
    BY_TIMEOUT,
    Event,
    EventKind,
    signals_as_data,
)
from holdfast.core.waits import Signal, WaitKind, WaitRecord
from holdfast.engine.execution.findings import TIME
from holdfast.engine.execution.pending.base import Execution, Handler, Pending, watch_clock
from holdfast.engine.runtime.ids import new_id
from holdfast.store.waits.operations import CloseWait, EscalateWait, OpenWait, ReopenWait

_STOPS = (OnTimeout.CANCEL, OnTimeout.EXPIRE)


class PendingCondition(Pending):
    """A wait for a condition.

    ``until`` is when the wait times out. ``due`` is when to check next: a wait that the condition
    needs may have expired by then.
    """

    __slots__ = ("due", "escalated_at", "is_sealed", "until")

    def __init__(
        self,
        command: AwaitCondition,
        until: int | None,
        escalated_at: int | None,
        *,
        is_sealed: bool,
    ) -> None:
        self.command: AwaitCondition = command
        self.until: int | None = until
        self.escalated_at: int | None = escalated_at
        self.is_sealed: bool = is_sealed
        self.due: int | None = None
        self.set_due(0)  # a wait that the condition needs may have expired already

    @property
    def due_at(self) -> int | None:
        return self.due

    def set_due(self, after: int) -> None:
        """Set the next instant, later than *after*, at which time may end the wait. A wait that was
        escalated waits for the operator, not for time."""
        instants = [self.until]
        if self.escalated_at is None:
            instants.append(conditions.next_expiry(self.command.condition, after))
        self.due = min((instant for instant in instants if instant is not None), default=None)

    def as_wait(self) -> dict[str, Any]:
        return {
            "kind": WaitKind.CONDITION,
            "step": self.command.id,
            "until": self.due,
            "gives_up": self.until,
            "condition": msgspec.to_builtins(self.command.condition),
            "on_timeout": self.command.on_timeout,
            "escalated_at": self.escalated_at,
            "sealed": self.is_sealed,
        }

    # Signals

    def find(self, run: Execution) -> None:
        """Find out whether the condition is met, and by which signal, or whether an operator has
        released the wait."""
        progress = self._progress(run, ())
        for signal in run.signals.addressed():
            progress.offer(signal)
            if progress.met:
                run.mailbox.add_finding(signal.at, partial(self._end, run, signal.at))
                break
        release = run.signals.release_of(self.command.id)
        if release is not None:
            run.mailbox.add_finding(release.at, partial(self._end, run, release.at))

    def _end(self, run: Execution, instant: int, events: list[Event]) -> None:
        """End the wait if its condition was met by *instant*, or if an operator had released it by
        then."""
        if not run.pending.has(self):
            return
        step = self.command.id
        signals = run.signals.addressed(instant)
        progress = self._progress(run, signals)
        release = run.signals.release_of(step)
        if progress.met:
            met_by = [signals[place] for place in progress.satisfiers()]
            self._close(run, BY_SIGNALS, [signals[place] for place in progress.spent()])
            events.append(Event(EventKind.WAIT_SATISFIED, step, _as_data(run, met_by)))
        elif release is not None and release.at <= instant:
            self._close(run, BY_RELEASE, [release])
            events.append(Event(EventKind.WAIT_RELEASED, step, _as_data(run, [release])))

    # Time

    def on_time(self, run: Execution, now: int) -> None:
        run.mailbox.add_finding(self.due or 0, partial(self._pass_time, run), TIME)

    def _pass_time(self, run: Execution, events: list[Event]) -> None:
        if not run.pending.has(self):
            return
        self.announce(run)
        event = self._check_time(run)
        if event is not None:
            events.append(event)

    def _check_time(self, run: Execution) -> Event | None:
        """End the wait if its time is up or its condition can no longer be met; otherwise check
        again when that may be."""
        instant = self.due
        if instant is None or instant > run.state.now():
            run.pending.schedule(self, run.mailbox)
            return None
        signals = run.signals.addressed(instant)
        progress = self._progress(run, signals)
        if (self.until is not None and self.until <= instant) or progress.is_hopeless(instant):
            received = [signals[place] for place in progress.spent()]
            return self._time_out(run, received, progress.missing())
        self.set_due(instant)
        watch_clock(run, self)
        return None

    def _time_out(self, run: Execution, received: list[Signal], missing: list[str]) -> Event | None:
        step = self.command.id
        action = self.command.on_timeout
        if action == OnTimeout.ESCALATE:
            self._escalate(run, missing)
            return None
        self._close(run, BY_TIMEOUT, received)
        if action in _STOPS and not run.state.cancel_seen:
            reason = f"the wait {step!r} timed out, missing: {', '.join(missing)}"
            return run.state.request_stop(reason, expire=action == "expire", wait=step)
        data = _as_data(run, received, missing=missing)
        return Event(EventKind.WAIT_TIMED_OUT, step, data)

    def _escalate(self, run: Execution, missing: list[str]) -> None:
        step = self.command.id
        now = run.state.now()
        self.escalated_at = now
        self.until = None
        self.set_due(now)
        data = msgspec.json.encode({"missing": missing})
        run.commit.events.append(Event(EventKind.WAIT_ESCALATED, step, data, at=now))
        run.commit.add(EscalateWait(step))

    # Records

    def announce(self, run: Execution) -> None:
        """Record that the run waits, if the history does not say so yet."""
        if run.pending.unannounced.pop(self.command.id, None) is None:
            return
        command = self.command
        label = conditions.show(command.condition)[:500]
        data = {"for": label, "until": self.until, "on_timeout": command.on_timeout}
        run.commit.events.append(
            Event(EventKind.WAIT_OPENED, command.id, msgspec.json.encode(data))
        )
        wait = WaitRecord(
            run_id=run.state.run.id,
            step=command.id,
            id=None,
            name=label,
            opened_at=run.state.now(),
            until=self.until,
        )
        _open(run, wait)
        if run.state.progress.replayed:
            for step in self._issued_steps():
                run.commit.add(ReopenWait(step))

    def on_drop(self, run: Execution) -> None:
        step = self.command.id
        if run.pending.unannounced.pop(step, None) is not None:
            return  # the history never had it
        # A signal may have closed an issued wait, but too late: another command may wait for it.
        for issued in self._issued_steps():
            if issued in run.state.waited:
                run.commit.add(ReopenWait(issued))
        run.commit.events.append(Event(EventKind.WAIT_DROPPED, step))
        run.commit.add(CloseWait(step, BY_CODE))
        run.state.waited.discard(step)

    def _close(self, run: Execution, by: str, consumed: Sequence[Signal]) -> None:
        """End the wait: its signals are consumed, and the waits issued for it take no more."""
        run.pending.take(self)
        if consumed:
            run.commit.take([signal.id for signal in consumed])
        run.signals.remove(consumed)
        for step in (self.command.id, *self._issued_steps()):
            run.commit.add(CloseWait(step, by))
            run.state.waited.discard(step)

    def _issued_steps(self) -> list[str]:
        return [wait.step for wait in conditions.issued_waits(self.command.condition).values()]

    def _progress(self, run: Execution, signals: Sequence[Signal]) -> conditions.ConditionProgress:
        read = partial(_read, run)
        return conditions.ConditionProgress(self.command.condition, read).offer_all(signals)


def _read(run: Execution, signal: Signal) -> Any:
    return run.context.codec.decode(
        run.context.sealer.opener.signal_payload(run.state.run.id, signal)
    )


def _as_data(run: Execution, signals: Sequence[Signal], **more: object) -> bytes:
    return signals_as_data(run.context.sealer.opener.signals(run.state.run.id, signals), **more)


def _open(run: Execution, wait: WaitRecord) -> None:
    run.commit.add(OpenWait(wait))
    run.state.waited.add(wait.step)


def _await_condition(run: Execution, command: AwaitCondition) -> None:
    progress = run.state.progress
    is_announced = command.id in progress.until
    until = progress.until.pop(command.id) if is_announced else None
    if not is_announced and command.timeout is not None:
        until = run.state.now() + command.timeout
    context = run.context
    is_sealed = context.codec.name != "json" or context.sealer.cipher is not None
    escalated_at = progress.escalated.pop(command.id, None)
    wait = PendingCondition(command, until, escalated_at, is_sealed=is_sealed)
    if not is_announced:
        run.pending.unannounced[command.id] = wait
    run.pending.add(wait)
    wait.find(run)
    watch_clock(run, wait)


def _create_wait(run: Execution, command: CreateWait) -> Event:
    """Open a wait whose id and token the code hands out. The token is made of the id and the
    signing key, and stored nowhere."""
    key = tokens.current(run.keys.read())
    assert key is not None, "the execution makes sure that there is a key"
    now = run.state.now()
    wait = WaitRecord(
        run_id=run.state.run.id,
        step=command.id,
        id=new_id(),
        name=command.name,
        kid=key.kid,
        opened_at=now,
        until=duration.after(now, command.expires),
    )
    _open(run, wait)
    data = {"id": wait.id, "name": wait.name, "kid": wait.kid, "until": wait.until}
    return Event(EventKind.WAIT_CREATED, command.id, msgspec.json.encode(data))


HANDLERS: dict[type, Handler] = {AwaitCondition: _await_condition, CreateWait: _create_wait}
