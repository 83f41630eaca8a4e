"""What signals are to the waits of a held run: the simple ones take one of their name, the others are judged over all of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from holdfast.core import conditions, tokens
from holdfast.core.program import AwaitCondition, CreateWait
from holdfast.core.records import Event, Kind, Run, Signal, Wait
from holdfast.engine.held import Held
from holdfast.engine.host import Host
from holdfast.engine.ids import new_id
from holdfast.engine.wants import Conditional, Signalled
from holdfast.store.contract import WAIT_TOKEN

BY_SIGNALS, BY_RELEASE, BY_TIMEOUT, BY_CODE, BY_END = "its signals", "a person", "timeout", "its workflow", "the end of the run"
"""What closes a wait."""

_STOPS = ("cancel", "expire")


class Listening(Held):
    """A held run, and what it hears."""

    def __init__(self, run: Run, host: Host) -> None:
        super().__init__(run, host)
        self._exact = True
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
        return Event(Kind.CANCEL_REQUESTED, None, msgspec.json.encode(told))

    def is_about_to_stop(self) -> bool:
        """Say whether the program is about to hear that it must stop, and may want nothing more of what it wanted."""
        if self._cancel_seen:
            return False
        return self._cancelling or (self.run.deadline is not None and self.run.deadline <= self.now())

    # Signals

    def listen(self) -> None:
        """See which signals there are that no wait has taken."""
        self.listen_to(self.host.store.signals(self.run.id), exact=False)

    def listen_to(self, signals: list[Signal], *, exact: bool) -> None:
        """These are all that there are: *exact*, when they are those of the revision that we have seen, and none is newer."""
        self._signals = [signal for signal in signals if signal.id not in self.batch.taken]
        self._exact = exact

    def hand_out_signals(self, events: list[Event]) -> None:
        """Give each signal, in the order in which they came, to the first that waits for its name."""
        for name in [signal.name for signal in self._signals if signal.wait_id is None and signal.step is None]:
            waiting = (s for s, want in self.wants.items() if isinstance(want, Signalled) and want.command.name == name)
            step = next(waiting, None)
            if step is not None and (found := self.take_signal(step, name)) is not None:
                del self.wants[step]
                events.append(found)

    def expire_signal(self, step: str, want: Signalled, events: list[Event]) -> None:
        """The time of a simple wait is up: but a signal that is there already comes first."""
        self.listen()
        found = self.take_signal(step, want.command.name)
        del self.wants[step]
        events.append(found or Event(Kind.SIGNAL_TIMED_OUT, step))

    # Waits

    def create_wait(self, command: CreateWait) -> Event:
        """Open a wait that can be handed out. Its token is made of its id and the key, and stored nowhere."""
        key = tokens.current(self.host.store.keys())
        assert key is not None, "the driver sees to it that there is one"
        now = self.now()
        until = None if command.expires is None else now + command.expires
        wait = Wait(run_id=self.run.id, step=command.id, id=new_id(), name=command.name, kid=key.kid, opened_at=now, until=until)
        self._open(wait)
        told = {"id": wait.id, "name": wait.name, "kid": wait.kid, "until": until}
        return Event(Kind.WAIT_CREATED, command.id, msgspec.json.encode(told))

    def token_of(self, wait_id: str, kid: str) -> str:
        """Return the token of a wait."""
        return token_of(self.host.store.keys(), wait_id, kid)

    def await_condition(self, command: AwaitCondition) -> Event | None:
        """Wait for a condition; return what it came to if that is known already."""
        opened = command.id in self.progress.until
        until = self.progress.until.pop(command.id) if opened else None
        if not opened and command.timeout is not None:
            until = self.now() + command.timeout
        sealed = self.host.codec.name != "json" or self.host.vault.cipher is not None
        escalated_at = self.progress.escalated.pop(command.id, None)
        want = Conditional(command, until, escalated_at, now=self.now(), sealed=sealed)
        found = self.judge(want)
        if found is not None:
            return found
        if not opened:
            self._begin_waiting(want)
        self.wants[command.id] = want
        return self.look_at_the_clock(want)

    def _begin_waiting(self, want: Conditional) -> None:
        command, now = want.command, self.now()
        label = conditions.show(command.condition)[:500]
        told = {"for": label, "until": want.until, "on_timeout": command.on_timeout}
        self.batch.events.append(Event(Kind.WAIT_OPENED, command.id, msgspec.json.encode(told)))
        self._open(Wait(run_id=self.run.id, step=command.id, id=None, name=label, opened_at=now, until=want.until))
        if self.progress.replayed:
            self.batch.reopened.extend(wait.step for wait in conditions.handed_out(command.condition).values())

    def judge(self, want: Conditional) -> Event | None:
        """Return the outcome of a wait whose condition is met, or which a person has let go."""
        addressed = [signal for signal in self._signals if signal.step is None]
        tally = self._tally(want, addressed)
        step = want.command.id
        if tally.met:
            met_by = [addressed[place] for place in tally.satisfiers()]
            self._close(want, BY_SIGNALS, [addressed[place] for place in tally.spent()])
            return Event(Kind.WAIT_SATISFIED, step, self._told(met_by))
        release = next((signal for signal in self._signals if signal.step == step), None)
        if release is None:
            return None
        self._close(want, BY_RELEASE, [release])
        return Event(Kind.WAIT_RELEASED, step, self._told([release]))

    def look_at_the_clock(self, want: Conditional) -> Event | None:
        """See whether the time of a wait is up, or whether it can no longer be met; if not, look again when it may be."""
        now = self.now()
        if want.due is None or want.due > now:
            self.due_at(want.due)
            return None
        addressed = [signal for signal in self._signals if signal.step is None]
        tally = self._tally(want, addressed)
        if (want.until is not None and want.until <= now) or tally.is_hopeless(now):
            return self._give_up(want, [addressed[place] for place in tally.spent()], tally.missing())
        want.set_due(now)
        self.due_at(want.due)
        return None

    def _give_up(self, want: Conditional, heard: list[Signal], missing: list[str]) -> Event | None:
        step, action = want.command.id, want.command.on_timeout
        if action == "escalate":
            want.escalated_at, want.until = self.now(), None
            want.set_due(self.now())
            data = msgspec.json.encode({"missing": missing})
            self.batch.events.append(Event(Kind.WAIT_ESCALATED, step, data, at=want.escalated_at))
            self.batch.escalated.append(step)
            return None
        self._close(want, BY_TIMEOUT, heard)
        if action in _STOPS and not self._cancel_seen:
            reason = f"it has waited in vain, step {step!r}: missing is {', '.join(missing)}"
            return self.ask_to_stop(reason, expire=action == "expire", wait=step)
        return Event(Kind.WAIT_TIMED_OUT, step, self._told(heard, missing=missing))

    def drop_wait(self, want: Conditional) -> None:
        """Nobody waits for this any more. The waits that were handed out stay open: something else may wait for them."""
        step = want.command.id
        self.batch.events.append(Event(Kind.WAIT_DROPPED, step))
        self.batch.closed.append((step, BY_CODE))
        self.waited.discard(step)

    def close_all_waits(self) -> list[tuple[str, str]]:
        """Return all waits that may be open, to be closed with the run."""
        return [(step, BY_END) for step in sorted(self.waited)]

    def _tally(self, want: Conditional, signals: Sequence[Signal]) -> conditions.Tally:
        return conditions.Tally(want.command.condition, self._read).offer_all(signals)

    def _read(self, signal: Signal) -> Any:
        return self.host.codec.decode(self.host.vault.open(signal.payload, f"signal {signal.name!r} to run {self.run.id}"))

    def _told(self, signals: Sequence[Signal], **more: object) -> bytes:
        return told_of(self.host.vault.signals(self.run.id, signals), **more)

    def _open(self, wait: Wait) -> None:
        self.batch.opened.append(wait)
        self.waited.add(wait.step)

    def _close(self, want: Conditional, by: str, spent: Sequence[Signal]) -> None:
        """The wait is over: nobody else shall have its signals, and what was handed out for it takes no more."""
        self.wants.pop(want.command.id, None)
        self.batch.taken.extend(signal.id for signal in spent)
        self._signals = [signal for signal in self._signals if signal not in spent]
        for step in (want.command.id, *(wait.step for wait in conditions.handed_out(want.command.condition).values())):
            self.batch.closed.append((step, by))
            self.waited.discard(step)


def token_of(keys: Sequence[tokens.Key], wait_id: str, kid: str | None) -> tokens.Token:
    """Return the token of a wait: signed with the key that it was handed out under, or, when that one is gone, the current."""
    key = next((key for key in keys if key.kid == kid), None) or tokens.current(keys)
    assert key is not None, "a wait was handed out, so there is a key"
    return tokens.sign(key, WAIT_TOKEN, {"wait": wait_id})


def told_of(signals: Sequence[Signal], **more: object) -> bytes:
    """Return signals as an event tells them."""
    lines = [
        {
            "id": signal.number, "name": signal.name, "source": signal.source, "wait": signal.wait_id, "at": signal.at,
            "payload": msgspec.Raw(signal.payload),
        }
        for signal in signals
    ]  # fmt: skip
    return msgspec.json.encode({"signals": lines, **more})
