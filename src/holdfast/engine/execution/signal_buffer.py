"""What signals are to the waits of a held run: the simple ones take one of their name, the others
are judged over all of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec

from holdfast.core import tokens
from holdfast.core.commands import AwaitCondition, CreateWait
from holdfast.core.conditions import evaluation as conditions
from holdfast.core.events import (
    BY_CODE,
    BY_END,
    BY_RELEASE,
    BY_SIGNALS,
    BY_TIMEOUT,
    Event,
    EventKind,
    signals_as_data,
)
from holdfast.core.history import DEADLINE
from holdfast.core.program import Definition, Program
from holdfast.core.runs import RunRecord
from holdfast.core.tokens import SigningKey, wait_token
from holdfast.core.waits import Signal, WaitRecord
from holdfast.engine.execution import gate_actions
from holdfast.engine.execution.findings import TIME
from holdfast.engine.execution.pending import (
    PendingCondition,
    PendingGate,
    PendingSignal,
    PendingTimer,
    until,
)
from holdfast.engine.execution.state import Held
from holdfast.engine.runtime.context import WorkerContext
from holdfast.engine.runtime.ids import new_id
from holdfast.engine.runtime.program_loop import FeedAhead

_STOPS = ("cancel", "expire")


class Listening(Held):
    """A held run, and what it hears."""

    def __init__(self, run: RunRecord, host: WorkerContext) -> None:
        super().__init__(run, host)
        self._exact = True
        self._keys: list[SigningKey] | None = None
        """The keys as of the last turn, for code on the program's loop, which reads nothing from
        the store; else None."""
        self._reads_ahead = False
        self.waited: set[str] = set()
        """The steps of its waits that may still be open."""
        self._cancel_seen = False
        self._cancelling = False
        self._expiring = False
        self._stopped_by = ""

    def ask_to_stop(self, reason: str, *, expire: bool = False, wait: str | None = None) -> Event:
        """Return what asks the program to stop; *wait* is the step whose time was up."""
        self._cancel_seen = self._cancelling = True
        self._expiring, self._stopped_by = expire, reason
        told = {"reason": reason, "expire": expire, **({} if wait is None else {"wait": wait})}
        return Event(EventKind.CANCEL_REQUESTED, None, msgspec.json.encode(told))

    def reason_for_children(self) -> str:
        """Return the reason for which the children are cancelled when the run stops."""
        if self._expiring:
            return DEADLINE
        return self._stopped_by or "its parent failed"

    def is_about_to_stop(self) -> bool:
        """Say whether the program is about to hear that it must stop, and may want nothing more of
        what it wanted."""
        if self._cancel_seen:
            return False
        return self._cancelling or (
            self.run.deadline is not None and self.run.deadline <= self.now()
        )

    # Signals

    def listen_to(self, signals: list[Signal], *, exact: bool) -> None:
        """These are all that there are: *exact*, when they are those of the revision that we have
        seen, and none is newer."""
        taken = set(self.batch.taken) if self.batch.more else ()
        self._signals = (
            [signal for signal in signals if signal.id not in taken] if taken else list(signals)
        )
        self._exact = exact

    def find_signals(self) -> None:
        """See which signals the waits of this run have come to: of each name as many as there are
        waits for it, for the next wait looks again. To find all of thousands each time would take
        longer than a session lives."""
        names: dict[str, int] = {}
        for want in list(self.wants.values()):
            if isinstance(want, PendingSignal):
                names[want.command.name] = names.get(want.command.name, 0) + 1
            elif isinstance(want, PendingCondition):
                self.find_condition(want)
        for signal in self._signals if names else ():
            if signal.name in names and signal.wait_id is None and signal.step is None:
                self.found(signal.at, partial(self.deliver, signal.name))
                names[signal.name] -= 1
                if not names[signal.name]:
                    del names[signal.name]
                    if not names:
                        break

    def deliver(self, name: str, events: list[Event]) -> None:
        """Give the oldest signal of that name to the first that waits for it."""
        waiting = (
            step
            for step, want in self.wants.items()
            if isinstance(want, PendingSignal) and want.command.name == name
        )
        step = next(waiting, None)
        received = None if step is None else self.take_signal(step, name)
        if step is not None and received is not None:
            del self.wants[step]
            events.append(received)

    # Time

    def watch_clock(
        self, want: PendingTimer | PendingSignal | PendingCondition | PendingGate
    ) -> None:
        """See to it that this wait ends when its time is up: now, if that has come."""
        instant = until(want)
        if instant is not None and instant <= self.now():
            self.found(instant, partial(self.pass_time, want), TIME)
        else:
            self.due_at(instant)

    def pass_time(
        self,
        want: PendingTimer | PendingSignal | PendingCondition | PendingGate,
        events: list[Event],
    ) -> None:
        """The time of a wait is up, and nothing came before."""
        step = want.command.id
        if self.wants.get(step) is not want:
            return
        if isinstance(want, PendingTimer):
            self._fire(want, events)
        elif isinstance(want, PendingGate):
            gate_actions.tend(self, want, events)
        else:
            self.announce(want)
            self._time_out(want, events)

    def _time_out(self, want: PendingSignal | PendingCondition, events: list[Event]) -> None:
        if isinstance(want, PendingSignal):
            del self.wants[want.command.id]
            events.append(Event(EventKind.SIGNAL_TIMED_OUT, want.command.id))
            return
        event = self.look_at_the_clock(want)
        if event is not None:
            events.append(event)

    def watch_release(self, want: PendingTimer) -> None:
        """See whether a person has let a timer go."""
        release = self.release_of(want.command.id)
        if release is not None:
            self.found(release.at, partial(self._fire, want))

    def _fire(self, want: PendingTimer, events: list[Event]) -> None:
        step = want.command.id
        if self.wants.get(step) is want:
            del self.wants[step]
            self.take_releases(step)
            events.append(Event(EventKind.TIMER_FIRED, step))

    def announce(self, want: PendingSignal | PendingCondition) -> None:
        """Let the history say that the run waits for this, if it does not say so yet."""
        if self.opening.pop(want.command.id, None) is None:
            return
        if isinstance(want, PendingCondition):
            self._begin_waiting(want)
        else:
            data = msgspec.json.encode({"name": want.command.name, "until": want.until})
            self.batch.events.append(Event(EventKind.SIGNAL_AWAITED, want.command.id, data))

    def announce_all(self) -> None:
        """The program rests: let the history have the waits that are open now."""
        for want in list(self.opening.values()):
            if self.wants.get(want.command.id) is want:
                self.announce(want)
        self.opening.clear()

    # Waits

    def create_wait(self, command: CreateWait) -> Event:
        """Open a wait that can be handed out. Its token is made of its id and the key, and stored
        nowhere."""
        keys = self.host.store.keys()
        if self._reads_ahead:
            self._keys = keys
        key = tokens.current(keys)
        assert key is not None, "the driver sees to it that there is one"
        now = self.now()
        until = None if command.expires is None else now + command.expires
        wait = WaitRecord(
            run_id=self.run.id,
            step=command.id,
            id=new_id(),
            name=command.name,
            kid=key.kid,
            opened_at=now,
            until=until,
        )
        self._open(wait)
        told = {"id": wait.id, "name": wait.name, "kid": wait.kid, "until": until}
        return Event(EventKind.WAIT_CREATED, command.id, msgspec.json.encode(told))

    def token_of(self, wait_id: str, kid: str) -> str:
        """Return the token of a wait, as its workflow asks for it: on the program's loop nothing is
        read for that."""
        keys = self.host.store.keys() if self._keys is None else self._keys
        return wait_token(keys, wait_id, self.host.sealer.secrets.reveal)

    def placed(self, definition: Definition, events: Sequence[Event]) -> Program:
        """Return the program of this run. Async code runs on the program's loop, if there is one,
        and finds the keys of the waits that it has handed out."""
        program, elsewhere = definition.program(self.run, self.host.codec), self.host.program_loop
        if elsewhere is None or definition.blocking:
            return program
        self._reads_ahead = True
        if any(event.kind == EventKind.WAIT_CREATED for event in events):
            self._keys = self.host.store.keys()
        return elsewhere.place(program)

    def feed_ahead(self) -> FeedAhead | None:
        """Return the right to feed the program on its own loop; None if the keys must be read
        before its next turn."""
        return None if self._keys is not None else super().feed_ahead()

    def refresh_keys(self) -> None:
        """Read the keys again before the next turn of a program that may make tokens: they may have
        been rotated since."""
        self._keys = self.host.store.keys()

    def await_condition(self, command: AwaitCondition) -> None:
        """Wait for a condition."""
        opened = command.id in self.progress.until
        until = self.progress.until.pop(command.id) if opened else None
        if not opened and command.timeout is not None:
            until = self.now() + command.timeout
        sealed = self.host.codec.name != "json" or self.host.sealer.cipher is not None
        escalated_at = self.progress.escalated.pop(command.id, None)
        want = PendingCondition(command, until, escalated_at, sealed=sealed)
        if not opened:
            self.opening[command.id] = want
        self.wants[command.id] = want
        self.find_condition(want)
        self.watch_clock(want)

    def _begin_waiting(self, want: PendingCondition) -> None:
        command, now = want.command, self.now()
        label = conditions.show(command.condition)[:500]
        told = {"for": label, "until": want.until, "on_timeout": command.on_timeout}
        self.batch.events.append(
            Event(EventKind.WAIT_OPENED, command.id, msgspec.json.encode(told))
        )
        self._open(
            WaitRecord(
                run_id=self.run.id,
                step=command.id,
                id=None,
                name=label,
                opened_at=now,
                until=want.until,
            )
        )
        if self.progress.replayed:
            self.batch.reopened.extend(
                wait.step for wait in conditions.issued_waits(command.condition).values()
            )

    def find_condition(self, want: PendingCondition) -> None:
        """See whether a condition is met, and by which signal it was, or whether a person has let
        the wait go."""
        tally = self._tally(want, ())
        for signal in self._addressed(None):
            tally.offer(signal)
            if tally.met:
                self.found(signal.at, partial(self._judge, want, signal.at))
                break
        release = self.release_of(want.command.id)
        if release is not None:
            self.found(release.at, partial(self._judge, want, release.at))

    def _judge(self, want: PendingCondition, instant: int, events: list[Event]) -> None:
        """End a wait whose condition was met by *instant*, or which a person had let go by then."""
        step = want.command.id
        if self.wants.get(step) is not want:
            return
        addressed = self._addressed(instant)
        tally = self._tally(want, addressed)
        release = self.release_of(step)
        if tally.met:
            met_by = [addressed[place] for place in tally.satisfiers()]
            self._close(want, BY_SIGNALS, [addressed[place] for place in tally.spent()])
            events.append(Event(EventKind.WAIT_SATISFIED, step, self._told(met_by)))
        elif release is not None and release.at <= instant:
            self._close(want, BY_RELEASE, [release])
            events.append(Event(EventKind.WAIT_RELEASED, step, self._told([release])))

    def look_at_the_clock(self, want: PendingCondition) -> Event | None:
        """See whether the time of a wait is up, or whether it can no longer be met; if not, look
        again when it may be."""
        instant = want.due
        if instant is None or instant > self.now():
            self.due_at(instant)
            return None
        addressed = self._addressed(instant)
        tally = self._tally(want, addressed)
        if (want.until is not None and want.until <= instant) or tally.is_hopeless(instant):
            return self._give_up(
                want, [addressed[place] for place in tally.spent()], tally.missing()
            )
        want.set_due(instant)
        self.watch_clock(want)
        return None

    def _give_up(
        self, want: PendingCondition, heard: list[Signal], missing: list[str]
    ) -> Event | None:
        step, action = want.command.id, want.command.on_timeout
        if action == "escalate":
            want.escalated_at, want.until = self.now(), None
            want.set_due(self.now())
            data = msgspec.json.encode({"missing": missing})
            self.batch.events.append(
                Event(EventKind.WAIT_ESCALATED, step, data, at=want.escalated_at)
            )
            self.batch.escalated.append(step)
            return None
        self._close(want, BY_TIMEOUT, heard)
        if action in _STOPS and not self._cancel_seen:
            reason = f"it has waited in vain, step {step!r}: missing is {', '.join(missing)}"
            return self.ask_to_stop(reason, expire=action == "expire", wait=step)
        return Event(EventKind.WAIT_TIMED_OUT, step, self._told(heard, missing=missing))

    def drop_wait(self, want: PendingCondition) -> None:
        """Nobody waits for this any more. The waits that were handed out stay open: something else
        may wait for them."""
        step = want.command.id
        if self.opening.pop(step, None) is not None:
            return  # the history never had it
        handed = (wait.step for wait in conditions.issued_waits(want.command.condition).values())
        self.batch.reopened.extend(
            one for one in handed if one in self.waited
        )  # a signal may have closed it: it came too late
        self.batch.events.append(Event(EventKind.WAIT_DROPPED, step))
        self.batch.closed.append((step, BY_CODE))
        self.waited.discard(step)

    def close_all_waits(self) -> list[tuple[str, str]]:
        """Return all waits that may be open, to be closed with the run."""
        return [(step, BY_END) for step in sorted(self.waited)]

    def _addressed(self, instant: int | None) -> list[Signal]:
        """Return the signals that conditions are judged by: those that had come by *instant*, or
        all."""
        return [
            signal
            for signal in self._signals
            if signal.step is None and (instant is None or signal.at <= instant)
        ]

    def _tally(
        self, want: PendingCondition, signals: Sequence[Signal]
    ) -> conditions.ConditionProgress:
        return conditions.ConditionProgress(want.command.condition, self._read).offer_all(signals)

    def _read(self, signal: Signal) -> Any:
        return self.host.codec.decode(self.host.sealer.signal(self.run.id, signal))

    def _told(self, signals: Sequence[Signal], **more: object) -> bytes:
        return signals_as_data(self.host.sealer.signals(self.run.id, signals), **more)

    def _open(self, wait: WaitRecord) -> None:
        self.batch.opened.append(wait)
        self.waited.add(wait.step)

    def _close(self, want: PendingCondition, by: str, spent: Sequence[Signal]) -> None:
        """The wait is over: nobody else shall have its signals, and what was handed out for it
        takes no more."""
        self.wants.pop(want.command.id, None)
        self.batch.taken.extend(signal.id for signal in spent)
        self._signals = [signal for signal in self._signals if signal not in spent]
        for step in (
            want.command.id,
            *(wait.step for wait in conditions.issued_waits(want.command.condition).values()),
        ):
            self.batch.closed.append((step, by))
            self.waited.discard(step)
