"""What has happened to a held run since its last turn: attempts that ended, time that passed, what came from outside."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import msgspec

from holdfast.core.records import Event, Kind, Run
from holdfast.core.status import Status
from holdfast.engine import gates
from holdfast.engine.commands import start_more
from holdfast.engine.held import LISTS
from holdfast.engine.host import Host
from holdfast.engine.past import DEADLINE
from holdfast.engine.spending import HandPurse, Spender
from holdfast.engine.wants import ChildEnd, Conditional, Gated, MapEnd, Signalled, Step, Timer, Want, until
from holdfast.errors import LeaseLost, StoreError
from holdfast.store.contract import Delivered, Glance, Store


def knock_all(store: Store, drivers: Sequence[Happening]) -> None:
    """Something reached these runs: let them look; what there is to see is read together when they are many."""
    seen: dict[str, Glance] = {}
    if len(drivers) > 1:
        with suppress(StoreError):  # each looks by itself then, and does what it does in such trouble
            seen = store.glances([driver.run.id for driver in drivers])
    for driver in drivers:
        driver.knock(seen.get(driver.run.id))


class Happening(Spender):
    """A held run, and what happens to it."""

    def __init__(self, run: Run, host: Host) -> None:
        super().__init__(run, host)
        self._revision = run.revision
        self._heard = False

    def _collect(self) -> list[Event]:
        """Return what has happened since the last turn, in order."""
        events: list[Event] = []
        while self._inbox:
            self._heed(*self._inbox.popleft(), events)
        if self._due is not None and self._due <= self.now():
            self._collect_due(events)
        if self._knocked:
            self._knocked = self._heard = False
            self._look(events)
        elif self._heard:
            self._heard = False
            self._heed_signals(events)
        return events

    def _heed(self, event: Event, purse: HandPurse | None, events: list[Event]) -> None:
        want = self.wants.get(event.step or "")
        if isinstance(want, Step) and (want.released or event.kind == Kind.STEP_RETRIED) and event.kind != Kind.STEP_STARTED:
            self.forget_release(want)
        if purse is not None and purse.asks and event.kind == Kind.STEP_COMPLETED and isinstance(want, Step):
            self.payable.append((event, purse))
            return
        self.book(event.step or "", purse)
        if not isinstance(want, Step):
            return  # it was dropped meanwhile
        if event.kind == Kind.STEP_RETRIED:
            want.attempt, want.task = event.attempt + 1, None
            want.again_at = msgspec.json.decode(event.data or b"{}")["until"]
            self.due_at(want.again_at)
        elif event.kind == Kind.STEP_BLOCKED:
            self.block_step(want, event)
        elif event.kind != Kind.STEP_STARTED:
            del self.wants[event.step or ""]
        self.outlet.ended(event)
        events.append(event)

    def _collect_due(self, events: list[Event]) -> None:
        now, self._due = self.now(), None
        self.unblock()
        for step, want in list(self.wants.items()):
            if isinstance(want, Timer) and want.until <= now:
                del self.wants[step]
                events.append(Event(Kind.TIMER_FIRED, step))
            elif isinstance(want, Signalled) and want.until is not None and want.until <= now:
                self._knocked = True  # a signal that is there already comes first: look, then see
                self.expire_signal(step, want, events)
            elif isinstance(want, Conditional) and want.due is not None and want.due <= now:
                self.listen()
                found = self.judge(want) or self.look_at_the_clock(want)
                events.extend([found] if found is not None else [])
            elif isinstance(want, Step) and want.again_at is not None and want.again_at <= now:
                want.again_at = None
                self.launches.append(want)
            elif isinstance(want, Gated) and want.until is not None and want.until <= now:
                gates.tend(self, want, events)
            else:
                self.due_at(until(want))
        if self.run.deadline is not None and not self._cancel_seen:
            self._check_deadline(now, events)

    def _check_deadline(self, now: int, events: list[Event]) -> None:
        assert self.run.deadline is not None
        if self.run.deadline <= now:
            events.append(self.ask_to_stop(DEADLINE, expire=True))
        else:
            self.due_at(self.run.deadline)

    def _look(self, events: list[Event]) -> None:
        """Something reached the run from outside: see what."""
        found = self._seen or self.host.store.glance(self.run.id)
        if found is None or found.generation != self.run.generation:
            raise LeaseLost(run=self.run.id, generation=self.run.generation)
        self._revision = found.revision
        self._cancelling = self._cancelling or found.status is Status.CANCELLING
        if found.status is Status.CANCELLING and not self._cancel_seen:
            events.append(self.ask_to_stop(found.cancel_reason or "", expire=found.cancel_reason == DEADLINE))
        self.listen_to(found.signals, exact=True)
        self.hand_out_signals(events)
        self.unblock()
        for step, want in list(self.wants.items()):
            outcome = self._outcome_from_outside(step, want)
            if outcome is not None:
                self.wants.pop(step, None)
                events.append(outcome)

    def hear(self, told: Delivered) -> None:
        """A signal reached the run. If that is all that has happened since we looked, we need not look again."""
        next_one = told.generation == self.run.generation and told.revision == self._revision + 1
        if not next_one or not self._exact or self._knocked:
            self.knock()
            return
        self._revision = told.revision
        self._signals.append(told.signal)
        self._heard = True
        self._poke()

    def _heed_signals(self, events: list[Event]) -> None:
        """Signals were told: see what they are to whoever waits for some."""
        self.hand_out_signals(events)
        for want in [want for want in self.wants.values() if isinstance(want, Conditional)]:
            outcome = self.judge(want)
            events.extend([outcome] if outcome is not None else [])

    def _outcome_from_outside(self, step: str, want: Want) -> Event | None:
        if isinstance(want, Timer):
            return Event(Kind.TIMER_FIRED, step) if self.is_let_go(step) else None
        if isinstance(want, Step) and want.again_at is not None:
            self.let_try(want)
            if want.again_at is None:
                self.launches.append(want)
            return None
        if isinstance(want, Gated):
            return gates.look(self, want)
        if isinstance(want, Conditional):
            return self.judge(want)
        if isinstance(want, ChildEnd):
            children = self.host.store.children(self.run.id, [want.command.start])
            return want.outcome(children[0], self.host.vault.children) if children else None
        if isinstance(want, MapEnd):
            children = self.host.store.children(self.run.id, [step])
            outcome = want.outcome(children, self.host.vault.children)
            if outcome is None:
                start_more(self, want, want.room(children))
            elif want.ended < len(want.command.inputs):
                self.cancel_map(step, "one of its siblings failed")
            return outcome
        return None

    # What need not wait for its commit

    def follows_from_a_signal(self, events: list[Event]) -> bool:
        """Say whether a signal is all that has happened, and nothing else was waited for that could have come first."""
        alone = len(events) == 1 and not self.wants and not self.launches and len(self.batch.events) == 1
        if not alone or events[0].kind != Kind.SIGNAL_RECEIVED:
            return False
        assert self._program is not None
        self._program.asked_time = False
        return self._program.speculative

    def wants_steps_only(self) -> bool:
        """Say whether all that the next commit has to say is the signal, and all that is to be launched is plain steps, to which
        the time of its reception is nothing."""
        batch = self.batch
        if batch.finish is not None or len(batch.events) > 1 or any(getattr(batch, name) for name in LISTS if name != "taken"):
            return False
        plain = all(isinstance(want, Step) and not want.command.transactional for want in self.launches)
        timeless = self._program is not None and not self._program.asked_time
        return plain and timeless and self.breach is None and not self.host.stopping
