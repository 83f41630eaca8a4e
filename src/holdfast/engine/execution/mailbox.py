"""What has happened to a held run since its last turn: attempts that ended, time that passed, what
came from outside."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from heapq import heappop

import msgspec

from holdfast.core.commands import Command
from holdfast.core.events import Event, EventKind
from holdfast.core.gates.model import OPEN
from holdfast.core.history import DEADLINE
from holdfast.core.runs import ChildRecord, RunRecord, child_record
from holdfast.core.status import FINAL, Status
from holdfast.engine.execution import gate_actions
from holdfast.engine.execution.attempts import BeginAhead
from holdfast.engine.execution.budget_guard import AttemptSpending, Spender
from holdfast.engine.execution.command_handlers import start_more
from holdfast.engine.execution.commit_buffer import LISTS
from holdfast.engine.execution.findings import FACT, TIME
from holdfast.engine.execution.pending import (
    Pending,
    PendingChild,
    PendingChildren,
    PendingCondition,
    PendingGate,
    PendingMap,
    PendingSignal,
    PendingStep,
    PendingTimer,
    ended_at,
    until,
)
from holdfast.engine.runtime.context import WorkerContext
from holdfast.engine.runtime.program_loop import PlacedProgram
from holdfast.errors import LeaseLost, RowDamaged, StoreError
from holdfast.store.contract import RunUpdate, SignalArrived, Store

FEW = 4
"""How many children are looked up one by one."""


def notify_all(store: Store, drivers: Sequence[Happening]) -> None:
    """Something reached these runs: let them look; what there is to see is read together when they
    are many."""
    seen: dict[str, RunUpdate] = {}
    if len(drivers) > 1:
        with suppress(
            StoreError, RowDamaged
        ):  # each looks by itself then, and does what it does in such trouble
            seen = store.glances([driver.run.id for driver in drivers])
    for driver in drivers:
        driver.knock(seen.get(driver.run.id))


class Happening(Spender):
    """A held run, and what happens to it."""

    def __init__(self, run: RunRecord, host: WorkerContext) -> None:
        super().__init__(run, host)
        self._revision = run.revision

    def _collect(self) -> list[Event]:
        """Return the ends of attempts up to the first finding; all that else has happened becomes a
        finding."""
        if (self._knocked or self._heard or self._due is not None) and self._must_seek():
            self._seek()
        events: list[Event] = []
        while self._inbox and (
            not self.findings or self._inbox[0][0].at <= self.findings[0].instant
        ):
            self._heed(*self._inbox.popleft(), events)
        return events

    def _must_seek(self) -> bool:
        if not (
            self._knocked or self._heard or (self._due is not None and self._due <= self.now())
        ):
            return False
        if self.ahead is None:
            return True
        if self.ahead.take():
            self.ahead = None
        return (
            self.ahead is None
        )  # else the program is fed the end of a step first, and hears of the rest after that

    def next_events(self) -> list[Event]:
        """Return what the next finding leads to; nothing when there is none, or an attempt ended
        before it."""
        events: list[Event] = []
        while self.findings and not events:
            if self._inbox and self._inbox[0][0].at <= self.findings[0].instant:
                break
            heappop(self.findings).take(events)
        return events

    def _seek(self) -> None:
        """See what has happened, from outside and by the clock. What is due may have been overtaken
        by something that no one has told us of yet, for example while this process was stopped: so
        the store is asked first."""
        is_due = self._due is not None and self._due <= self.now()
        if self._knocked or is_due:
            self._look()
        elif self._heard:
            self.find_signals()
        self._knocked = self._heard = False
        if is_due:
            self._find_due(self.now())

    def _heed(self, event: Event, purse: AttemptSpending | None, events: list[Event]) -> None:
        want = self.wants.get(event.step or "")
        if (
            isinstance(want, PendingStep)
            and (want.released or event.kind == EventKind.STEP_RETRIED)
            and event.kind != EventKind.STEP_STARTED
        ):
            self.forget_release(want)
        if (
            purse is not None
            and purse.asks
            and event.kind == EventKind.STEP_COMPLETED
            and isinstance(want, PendingStep)
        ):
            self.payable.append((event, purse))
            return
        self.book(event.step or "", purse)
        if not isinstance(want, PendingStep):
            return  # it was dropped meanwhile
        if event.kind == EventKind.STEP_RETRIED:
            want.attempt, want.task = event.attempt + 1, None
            want.again_at = msgspec.json.decode(event.data or b"{}")["until"]
            self.due_at(want.again_at)
        elif event.kind == EventKind.STEP_BLOCKED:
            self.block_step(want, event)
        elif event.kind != EventKind.STEP_STARTED:
            del self.wants[event.step or ""]
        self.outlet.ended(event)
        events.append(event)

    def _find_due(self, now: int) -> None:
        self._due = None
        self.unblock()
        for want in list(self.wants.values()):
            if isinstance(want, PendingStep) and want.again_at is not None and want.again_at <= now:
                want.again_at = None
                self.launches.append(want)
            elif isinstance(want, PendingGate):
                self._find_due_gate(want, now)
            elif isinstance(want, PendingTimer | PendingSignal | PendingCondition):
                self.watch_clock(want)
            else:
                self.due_at(until(want))
        if self.run.deadline is not None and not self._cancel_seen:
            self._watch_deadline(now, self.run.deadline)

    def _find_due_gate(self, want: PendingGate, now: int) -> None:
        if not want.stored:
            return
        if (
            want.gate.status == OPEN
            and want.gate.deadline is not None
            and want.gate.deadline <= now
        ):
            self.gate_is_over = (
                True  # only the store can close it: a decision may come at the very same time
            )
        else:
            self.watch_clock(want)

    def _watch_deadline(self, now: int, deadline: int) -> None:
        if deadline <= now:
            self.found(deadline, partial(self._take_stop, DEADLINE), TIME)
        else:
            self.due_at(deadline)

    def _take_stop(self, reason: str, events: list[Event]) -> None:
        if not self._cancel_seen:
            events.append(self.ask_to_stop(reason, expire=reason == DEADLINE))

    def _look(self) -> None:
        """See what has reached the run from outside."""
        seen = self._seen or self.host.store.glance(self.run.id)
        if seen is None or seen.generation != self.run.generation:
            raise LeaseLost(run=self.run.id, generation=self.run.generation)
        if not self._knocked and not self._heard and seen.revision == self._revision:
            return  # nothing has, since we looked last
        self._revision = seen.revision
        self._cancelling = self._cancelling or seen.status is Status.CANCELLING
        if seen.status is Status.CANCELLING and not self._cancel_seen:
            rank = TIME if seen.cancel_reason == DEADLINE else FACT
            self.found(
                seen.cancelled_at or 0, partial(self._take_stop, seen.cancel_reason or ""), rank
            )
        self.listen_to(seen.signals, exact=True)
        self.find_signals()
        self.unblock()
        self._find_ends(self.wants.values())
        for step, want in list(self.wants.items()):
            self._find_outside(step, want)

    def _find_ends(self, wants: Iterable[Pending]) -> None:
        """See which children have ended that the run waits for. Of many they are read together:
        one query for each, after every end, would keep the loop busy for longer than a session
        lives."""
        awaited = [want for want in wants if isinstance(want, PendingChild)]
        if len(awaited) < FEW or self.run.forked_from is not None:
            for want in awaited:
                child = self._child(want)
                if child is not None and child.status in FINAL:
                    self.found(ended_at(child), partial(self._take_child, want, child))
            return
        ended = {
            child.id: child
            for child in self.host.store.ended_children(
                self.run.id, [want.command.start for want in awaited]
            )
        }
        for want in awaited:
            child = ended.get(want.command.run_id)
            if child is not None:
                self.found(ended_at(child), partial(self._take_child, want, child))

    def hear(self, told: SignalArrived) -> None:
        """A signal reached the run. If that is all that has happened since we looked, we need not
        look again."""
        next_one = told.generation == self.run.generation and told.revision == self._revision + 1
        if not next_one or not self._exact or self._knocked:
            self.knock()
            return
        self._revision = told.revision
        self._signals.append(told.signal)
        self._heard = True
        self._poke()

    def _find_outside(self, step: str, want: Pending) -> None:
        """See whether something outside has decided what this want came to; signals are seen to
        elsewhere."""
        if isinstance(want, PendingTimer):
            self.watch_release(want)
        elif isinstance(want, PendingStep) and want.again_at is not None:
            self.let_try(want)
            if want.again_at is None:
                self.launches.append(want)
        elif isinstance(want, PendingGate):
            gate_actions.look(self, want)
        elif isinstance(want, PendingMap):
            self._find_map(step, want)
        elif isinstance(want, PendingChildren):
            self._find_last_end(want)

    def _child(self, want: PendingChild) -> ChildRecord | None:
        """Return the child that is waited for; that of a fork may be one that the forked run has
        started."""
        children = self.host.store.children(self.run.id, [want.command.start])
        mine = next((child for child in children if child.id == want.command.run_id), None)
        if mine is not None or self.run.forked_from is None:
            return mine
        run = self.host.store.run(want.command.run_id)
        return None if run is None else child_record(run)

    def _take_child(self, want: PendingChild, child: ChildRecord, events: list[Event]) -> None:
        if self.wants.get(want.command.id) is want:
            del self.wants[want.command.id]
            events.append(want.outcome(child, self.host.sealer.children))

    def _find_map(self, step: str, want: PendingMap) -> None:
        children = self.host.store.children(self.run.id, [step])
        instant = want.instant(children)
        if instant is None:
            start_more(self, want, want.room(children))
        else:
            self.found(instant, partial(self._take_map, want, children))

    def starts_more(self) -> bool:
        """Start the next children of very long maps, unless something has reached the run: that is
        looked at first."""
        if self._knocked or self._heard or self._cancelling:
            return False
        for want in self.unstarted():
            start_more(self, want, want.startable())
        return bool(self.batch.children)

    def unstarted(self) -> list[PendingMap]:
        """Return the maps that have more children to start with the next commit."""
        return [
            want
            for want in self.wants.values()
            if isinstance(want, PendingMap) and want.startable() > 0
        ]

    def _take_map(self, want: PendingMap, children: list[ChildRecord], events: list[Event]) -> None:
        step = want.command.id
        if self.wants.get(step) is want:
            del self.wants[step]
            events.append(want.outcome(children, self.host.sealer.children))
            if want.ended < len(want.command.inputs):
                self.cancel_map(step, "one of its siblings failed")

    def _find_last_end(self, want: PendingChildren) -> None:
        if self.batch.more and self.batch.child_cancels:
            return  # the store does not know all children before the commit that cancels them
        released = self.release_of(want.command.id) is not None
        if released or not self.host.store.open_children(self.run.id, limit=1):
            self.found(self.now(), partial(self._take_last_end, want, released))

    def _take_last_end(self, want: PendingChildren, released: bool, events: list[Event]) -> None:
        step = want.command.id
        if self.wants.get(step) is want:
            del self.wants[step]
            self.take_releases(step)
            events.append(want.outcome(released=released))

    # What need not wait for its commit

    def follows_from_a_signal(self, events: list[Event]) -> bool:
        """Say whether a signal is all that has happened, and nothing else was waited for that could
        have come first."""
        alone = (
            len(events) == 1
            and not self.wants
            and not self.launches
            and len(self.batch.events) == 1
        )
        if not alone or events[0].kind != EventKind.SIGNAL_RECEIVED:
            return False
        assert self._program is not None
        self._program.asked_time = False
        return self._program.speculative

    def wants_steps_only(self) -> bool:
        """Say whether all that the next commit has to say is the signal, and all that is to be
        launched is plain steps, to which the time of its reception is nothing."""
        batch = self.batch
        if (
            batch.finish is not None
            or len(batch.events) > 1
            or any(getattr(batch, name) for name in LISTS if name != "taken")
        ):
            return False
        plain = all(
            isinstance(want, PendingStep) and not want.command.transactional
            for want in self.launches
        )
        timeless = self._program is not None and not self._program.asked_time
        return plain and timeless and self.breach is None and not self.host.stopping

    def may_begin_ahead(self) -> bool:
        """Return whether a step that follows from a signal may begin on the program's loop before
        the worker hears that it is wanted. A run that has waited takes a place."""
        if (
            not isinstance(self._program, PlacedProgram)
            or self.ahead is not None
            or self.run.budgets
        ):
            return False
        if (
            self.findings
            or self.gate_is_over
            or self._inbox
            or self.opening
            or self._must_seek()
            or self.is_about_to_stop()
        ):
            return False
        return self.wants_steps_only() and self.host.is_sure() and self.may_go_on()

    async def tell_and_begin(self, outcomes: list[Event]) -> Sequence[Command]:
        """Tell the program on its own loop, and let the step that follows begin there. Return what
        else it wants."""
        program, program_loop = self._program, self.host.program_loop
        assert isinstance(program, PlacedProgram) and program_loop is not None
        commands, begun = await program.feed_and_begin(
            outcomes, BeginAhead(self, program, program_loop)
        )
        if begun is not None:
            self.follows = False
            begun.adopt()
            return ()
        if self.waiting:
            self.host.capacity.rests(self)  # the place is not needed
        return commands

    def is_displaced(self) -> bool:
        """Return whether the place of the run was given to another one while it waited: it is
        claimed when one is free."""
        resumes, self.resumes = self.resumes, False
        return resumes and self.host.capacity.is_exceeded()

    def may_go_on(self) -> bool:
        """Return whether a step may begin before the commit. A run that has waited takes a place
        first."""
        return not self.waiting or self.host.capacity.take_place(self)

    def stamp(self, events: list[Event]) -> None:
        """Date the events now: the program lives by the time of what it is fed, and must see the
        same in every replay."""
        now = 0
        for event in events:
            if not event.at:
                now = now or self.now()
                event.at = now
