"""One run while a worker holds it: its program alive in memory, fed one outcome after another.

A turn takes what has happened, feeds it to the program, does what the program then wants, and commits all of it at once: the
outcomes, what they led to, and where the run stands. Only then are new steps launched. Feeding before the commit is safe
because a program does nothing by itself; a program that does (``speculative`` is false) is fed after it. One thing need not
wait for the commit: a step that follows from a signal alone. The signal is written already, so whoever takes the run up
after a crash is led to the very same step.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from holdfast.core import tokens
from holdfast.core.graphs.records import MARK
from holdfast.core.program import Command, CreateWait, Definition, Finish
from holdfast.core.records import OUTCOMES, Breach, Event, Kind, Run, Signal
from holdfast.core.schedules.record import tick_of
from holdfast.core.status import FINAL, Status
from holdfast.core.streams import Reason
from holdfast.engine import gates, past
from holdfast.engine.attempts import attempt, transact
from holdfast.engine.commands import handle
from holdfast.engine.failure import as_data
from holdfast.engine.happening import Happening
from holdfast.engine.held import LISTS, Batch
from holdfast.engine.host import Host
from holdfast.engine.keys import offered
from holdfast.engine.outcomes import ENDED
from holdfast.engine.payloads.aside import opened, sealed
from holdfast.engine.strand import Pause
from holdfast.engine.wants import Paying, Step
from holdfast.engine.writer import PASSING
from holdfast.errors import (
    BudgetNotFound,
    Diverged,
    EngineClosed,
    GraphRefused,
    HoldfastError,
    LaneDraining,
    LeaseLost,
    RunExists,
    StoreError,
)
from holdfast.store.contract import Advance, Advanced, AppendFrames, Changed, NeedKey, Refused, Transition

log = logging.getLogger("holdfast")
REFUSALS = (RunExists, BudgetNotFound, LaneDraining, GraphRefused)
"""What a write of a run is refused with when what it wants cannot be."""

NOTE_AFTER = 1_000_000
"""Microseconds after which a step that still runs is noted in the history, so that anybody can see it."""

PAUSE = 0.5
"""Seconds until somebody tries to read again what could not be read."""


class Driver(Happening):
    """Drives one run."""

    def __init__(self, run: Run, definition: Definition, host: Host, signals: list[Signal]) -> None:
        super().__init__(run, host)
        self._signals, self._exact = signals, not run.revision  # they were read after the run, unless there were none to read
        self._definition, self._in_graph = definition, MARK in run.id
        self.blocking = definition.blocking
        self.finished = False
        self._seq = 0
        self._cancelling = run.status is Status.CANCELLING
        self._waits_since = 0

    # The life of a held run

    async def live(self, history: list[Event], *, fresh: bool) -> None:
        """Go on with the run until it ends, parks, or is lost."""
        try:
            await self._begin(history, fresh=fresh)
            while not self._over:
                events = self._collect()
                if self.gate_is_over:
                    await gates.close_overdue(self, self._persist)
                if events or self.payable or self.batch.says_something() or self.launches:
                    await self._turn(events)
                elif self._should_let_go():
                    await self._let_go()
                elif not self.waiting and self._only_waits():
                    await self._do([])  # it could not be parked when it should: something had reached it
                else:
                    await self._sleep()
        except LeaseLost:
            log.debug("run %s is no longer ours", self.run.id)
            self.host.doubt()
        except EngineClosed:
            log.debug("run %s is left as it is: the engine was closed", self.run.id)
        except PASSING as error:
            await self._give_back(error)
        except Exception as error:  # a diverged history, malformed data, or a fault of ours: a person must look
            await self._stick(error)
        finally:
            self.close()

    async def _begin(self, history: list[Event], *, fresh: bool) -> None:
        if not fresh:
            self.run, history = await opened(self.run, history, self.host.vault, self.host.threads)
        events = past.valid(history) if history else []
        self.outlet.replayed, self.progress = not fresh, past.Progress(events)
        if history:
            self._recall(history, events)
        self.due_at(self.run.deadline)
        program = self._program = self._definition.program(self.run, self.host.codec)
        program.report, program.clock, program.token = self.reported, self.now, self.token_of
        program.sink, self.outlet.speculative = self.outlet, program.speculative
        program.purse = self.new_purse
        self.look_at_budgets()
        commands = await program.begin(events)
        if not fresh and self._cancelling and not self._cancel_seen:
            self.knock()
        await self._do(commands)

    def _recall(self, history: list[Event], events: list[Event]) -> None:
        """Take over what was in the memory of whoever held the run before; *events* are those of its history that count."""
        self._seq = history[-1].seq
        self._cancel_seen = self.progress.cancelled is not None
        self._expiring, self._stopped_by = self.progress.expiring, self.progress.cancelled or ""
        self.waited = self.progress.waited
        self.outlet.life += sum(event.kind == Kind.RUN_REPLAYED for event in history)
        self.had_children = any(event.kind in (Kind.CHILD_STARTED, Kind.MAP_STARTED) for event in events)
        self.lasting = any(event.kind == Kind.BUDGET_RESERVED for event in events)

    async def _turn(self, events: list[Event]) -> None:
        assert self._program is not None
        paid = await self._take_payments(events) if self.payable else []
        self._stamp(events)
        self.batch.events.extend(events)
        outcomes = [event for event in events if event.kind in OUTCOMES]
        if outcomes and not self._program.speculative:
            await self._commit(rest=False)
        outcomes = [*paid, *outcomes]
        follows = self.follows_from_a_signal(events)
        commands = await self._program.feed(outcomes) if outcomes else []
        await self._do(commands, at_once=follows)

    async def _take_payments(self, events: list[Event]) -> list[Event]:
        """Record attempts that spend, before anybody hears of them: without room they have not completed. Return those that
        have; what became of the others is among *events*."""
        payable, self.payable = self.payable, []
        done: list[Event] = []
        together = [one for one in payable if one[1].is_plain]
        if len(together) > 1 and await self._pay_for(together) is None:
            done = [event for event, _ in together]
            payable = [one for one in payable if one[0] not in done]
        for event, purse in payable:
            breach = await self._pay_for([(event, purse)])
            if breach is None:
                done.append(event)
            else:
                self._heed(self.unpaid(event, purse, breach), purse, events)
        return done

    async def _pay_for(self, paid: list[tuple[Event, Any]]) -> Breach | None:
        """Record these and what they spend, or nothing; then say which limit there is."""
        if self.outlet.writing is not None:
            await self.outlet.writing
        op = self.settling(paid)
        self._stamp(op.events)
        for number, event in enumerate(op.events, self._seq + 1):
            event.seq = number
            self.outlet.ended(event)
        op.output = self.outlet.take()
        answer = await self._persist(op)
        if isinstance(answer, Refused):
            for event in op.events:
                self.outlet.reopen(op.output, event)
            if op.output is not None:  # what was put out is not lost by it
                await self._persist(AppendFrames(self.run.id, self.run.generation, op.output))
            return answer.breach
        self._seq += len(op.events)
        for event, purse in paid:
            self.asides.discard(event.step or "")
            self.note_lines(purse.take())
            self.wants.pop(event.step or "", None)
        self.note_breach(answer.breach)
        return None

    async def _do(self, commands: list[Command], *, at_once: bool = False) -> None:
        """Do what the program wants, and what it wants when it hears what is answered at once; then commit and launch. *at_once*:
        launch before that if nothing else is wanted."""
        assert self._program is not None
        while commands:
            if CreateWait in map(type, commands) and tokens.current(self.host.store.keys()) is None:
                await self.host.writer.submit(NeedKey(offered()))
            answers = [event for command in commands if (event := handle(self, command)) is not None]
            if self.batch.finish is not None:
                break
            self._stamp(answers)
            self.batch.events.extend(answers)
            if answers and not self._program.speculative:
                await self._commit(rest=False)
            commands = await self._program.feed(answers) if answers else []
        if at_once and self.wants_steps_only():
            await self._launch()
        await self._commit(rest=True)
        await self._launch()

    def _stamp(self, events: list[Event]) -> None:
        """Date the events now: the program lives by the time of what it is fed, and must see the same in every replay."""
        if events:
            now = self.now()
            for event in events:
                event.at = event.at or now

    # Waiting

    async def _sleep(self) -> None:
        """Wait until something happens, or something is due."""
        self._woken = Pause()
        if self._alarm is not None:
            self._alarm.cancel()
        wake_at = self._due
        if self.waiting:
            let_go_at = self._waits_since + self.host.linger
            wake_at = let_go_at if wake_at is None else min(wake_at, let_go_at)
        if wake_at is not None:
            self._alarm = self.host.alarms.at(wake_at, self._poke)
        if not (self._inbox or self._knocked or self._heard):
            await self._woken
        self._woken = None

    # Writing

    async def _commit(self, *, rest: bool) -> None:
        """Write what the batch says and, when the program rests, where the run stands."""
        if self.outlet.writing is not None:
            await self.outlet.writing  # what was put out before is written before
        batch, self.batch = self.batch, Batch()
        if batch.finish is None and rest and not self.wants and not self.launches:
            raise Diverged(run=self.run.id, why="the workflow waits for something that can never happen")
        # Not before it has looked at what reached it: to park says that all up to this revision was seen.
        unseen = self._knocked or self._heard
        parks = rest and batch.finish is None and not unseen and self._only_waits()
        op = self._operation(batch, parks=parks)
        if op is None:
            self.outlet.release()
            return
        answer = await self._write(op)
        if isinstance(answer, Changed):
            self._revision = answer.revision
            self.knock()
            if not batch.says_something() and op.output is None:
                return
            answer = await self._write(self._without_parking(op))
        self._settle(op, batch, answer)

    def _operation(self, batch: Batch, *, parks: bool) -> Advance | None:
        op = Advance(run_id=self.run.id, generation=self.run.generation, events=batch.events, budgets=self.run.budgets)
        if batch.more:
            for name in LISTS:
                setattr(op, name, getattr(batch, name))
        if batch.finish is not None:
            self._conclude(op, batch.finish)
        elif parks:
            self._park(op)
        elif self.waiting:
            op.status, op.revision = self.at_work(), self._revision
        elif not batch.says_something():
            return None
        elif not batch.events:
            op.status, op.revision = self.at_work(), self._revision
        for event in op.events:
            self._seq += 1
            event.seq = self._seq
        if self.outlet.is_used:
            op.output = self.outlet.take(op.status.value if op.status in FINAL else None)
        return op

    def _conclude(self, op: Advance, finish: Finish) -> None:
        status = Status(finish.status)
        if status is Status.CANCELLED and self._expiring:
            status = Status.EXPIRED
        failed = getattr(self._program, "failed_undos", None)
        facts = {"undo_failed": list(failed)} if failed else {}
        if finish.error is not None:
            op.error = as_data(finish.error, **facts)
        elif status is not Status.COMPLETED:
            op.error = msgspec.json.encode({"type": status.value, "message": self.why_stopped(), "facts": facts})
        op.status, op.result, op.had_children = status, finish.result, self.had_children
        op.settles_all = self.lasting or bool(self.asides)
        op.scheduled = tick_of(self.run.key) is not None
        if self.waited:
            op.closed = [*op.closed, *self.close_all_waits()]
        if self.run.parent_id is not None:
            op.parent = (self.run.parent_id, self.run.parent_step or "", self.run.parent_index)
        gates.withdraw_all(self, op)
        op.events.append(Event(ENDED[status], error=op.error))

    def _park(self, op: Advance) -> None:
        waits = [wait for want in self.wants.values() if (wait := want.wait()) is not None]
        op.status = Status.CANCELLING if self._cancelling else Status.WAITING
        op.waits = msgspec.json.encode(waits)
        op.wake_at = min((wait["until"] for wait in waits if wait.get("until") is not None), default=None)
        op.revision = self._revision
        op.keep = self._worth_keeping(op.wake_at)
        self.park_blocked(op)

    def _without_parking(self, op: Advance) -> Advance:
        op.status = op.revision = op.waits = op.wake_at = None
        op.keep, op.demands = True, ()
        if not op.events or self.waiting:
            op.status = self.at_work() if not self.is_cancelled_outside() else Status.CANCELLING
        return op

    async def _write(self, op: Advance) -> Advanced | Changed:
        """Write, whatever it takes."""
        try:
            answer: Advanced | Changed = await self._persist(op)
            return answer
        except REFUSALS as error:
            return await self._fail(op, error)

    async def _persist(self, op: Transition) -> Any:
        """Try again for as long as the store is in trouble: nothing is lost by waiting, and only the very same write, sent
        again, is recognised by a store that was cut off in the middle of it."""
        pause, written = 0.05, op
        ends = self._in_graph and isinstance(op, Advance) and op.status in FINAL
        if isinstance(op, Advance) and not self.host.vault.is_light(op):
            written = await sealed(op, self.host.vault, self.host.threads)
        while True:
            if ends:
                self.host.settle_soon()
            try:
                return await self.host.writer.post(written)
            except StoreError as error:
                log.warning("run %s cannot be written now, will try again: %s", self.run.id, error)
            await asyncio.sleep(pause)
            pause = min(pause * 2, 5.0)

    async def _fail(self, op: Advance, error: HoldfastError) -> Advanced | Changed:
        """A child that cannot be, or what cannot be added to a graph: the workflow fails."""
        self._seq = op.events[0].seq - 1 if op.events else self._seq
        failed = Advance(run_id=op.run_id, generation=op.generation, output=op.output)
        self._conclude(failed, Finish("failed", error=error))
        for event in failed.events:
            self._seq += 1
            event.seq = self._seq
        op.children, op.grows, op.status = (), (), failed.status
        self._over = True
        answer: Advanced | Changed = await self._persist(failed)
        return answer

    def _settle(self, op: Advance, batch: Batch, answer: Any) -> None:
        """The write stands: take note of where the run is now."""
        was_waiting, self.waiting = self.waiting, op.waits is not None
        if self.waiting and not was_waiting:
            self._waits_since = self.now()
        self.finished = op.status in FINAL
        self.note_breach(answer.breach)
        self._over = self._over or self.finished or not op.keep
        for child, started in zip(op.children, answer.started, strict=False):
            if started.leased:
                self.host.adopt(child, answer.now)
        for run, at in answer.born:
            self.host.adopt(self.host.vault.new_run_opened(run), at)

    def _should_let_go(self) -> bool:
        if self.host.stopping:
            return self._only_waits()
        return self.waiting and self.now() >= self._waits_since + self.host.linger

    async def _let_go(self) -> None:
        """Park for good, or hand the run back: it costs rows and nothing else from here on."""
        op = Advance(run_id=self.run.id, generation=self.run.generation)
        self._park(op)
        op.keep = False
        if not self.wants:
            op.status, op.waits = self.at_work(), None
        op.output = self.outlet.take()
        answer = await self._write(op)
        if isinstance(answer, Changed):
            self._revision = answer.revision
            self.knock()
        else:
            self._over = True

    async def _launch(self) -> None:
        """Start the steps that are wanted, now that all before them is recorded."""
        if self._over or (self.launches and self.is_about_to_stop()):
            return
        if self.host.stopping and self.launches:
            await self._hand_back()
            return
        launches, self.launches = self.launches, []
        for want in self.hold_up(launches):
            if isinstance(want, Paying):
                await self._pay(want)
            elif want.command.transactional:
                await self._transact(want)
            else:
                want.task = self.host.hands.start(attempt(self, want))
                if want.task is not None:
                    since = self.now() if want.started_at is None else want.started_at
                    want.note = self.host.alarms.at(since + NOTE_AFTER, partial(self.note_started, want))

    async def _hand_back(self) -> None:
        """The worker stops: let another one go on from here."""
        if any(isinstance(want, Step) and want.task is not None for want in self.wants.values()):
            self.launches.clear()
            return  # the steps at work end first; what they lead to is not launched
        await self._release()

    async def _release(self) -> None:
        status = Status.CANCELLING if self._cancelling else Status.PENDING
        op = Advance(run_id=self.run.id, generation=self.run.generation, status=status, keep=False)
        op.output = self.outlet.take(Reason.RELEASED, only_steps=True)
        await self._write(op)
        self._over = True

    async def _give_back(self, error: Exception) -> None:
        """The store could not be read, so nobody knows what has reached the run: it begins anew from the store, a bit later."""
        log.warning("run %s cannot be read now, and is given back: %s", self.run.id, error)
        self.close()
        await asyncio.sleep(PAUSE)
        with suppress(LeaseLost, EngineClosed):
            await self._release()

    async def _transact(self, want: Step) -> None:
        """Run a step inside the transaction that records it."""
        command, started_at = want.command, self.now()
        event = Event(Kind.STEP_COMPLETED, command.id, attempt=want.attempt, started_at=started_at, seq=self._seq + 1)
        event.at = started_at
        purse = self.new_purse(command.id, command.under, transacts=True)
        op = Advance(
            run_id=self.run.id, generation=self.run.generation, events=[event], spends=purse.spendings, budgets=self.run.budgets,
        )  # fmt: skip
        op.body = partial(transact, self, want, op, purse)
        try:
            answer: Advanced = await self._persist(op)
        except (LeaseLost, EngineClosed):
            raise
        except Exception as error:
            self.ended(command.id, None, error, started_at, purse)
            return
        self.note_breach(answer.breach)
        self._seq += 1
        event.data = answer.data
        del self.wants[command.id]
        assert self._program is not None
        await self._do(await self._program.feed([event]))

    async def _pay(self, want: Paying) -> None:
        """Take from the budgets what the code wants, or let it wait."""
        event = denied = self.uncounted(want)
        if event is None:
            op = self.payment(want, self._seq + 1)
            answer = await self._persist(op)
            if isinstance(answer, Refused):
                event = denied = self.refused(want, answer.breach)
            else:
                self._seq, event = self._seq + 1, op.event
                self.note_breach(answer.breach)
        if event is None:
            return
        if denied is not None:
            self.batch.events.append(denied)
        del self.wants[want.command.id]
        assert self._program is not None
        await self._do(await self._program.feed([event]))

    async def _stick(self, error: Exception) -> None:
        """The run cannot go on without a person: say why, and lose nothing."""
        foreseen = isinstance(error, HoldfastError)
        log.error("run %s of %s is stuck: %s", self.run.id, self.run.workflow, error, exc_info=None if foreseen else error)
        # What was refused is not in the history, whatever number it was given here.
        self._seq = max((event.seq for event in self.host.store.history(self.run.id)), default=0) + 1
        data = as_data(error)
        op = Advance(
            run_id=self.run.id, generation=self.run.generation, status=Status.STUCK, keep=False, error=data,
            events=[Event(Kind.RUN_STUCK, error=data, seq=self._seq)], settles=sorted(self.asides),
            output=self.outlet.take(Reason.STUCK, only_steps=True),
        )  # fmt: skip
        with suppress(LeaseLost, EngineClosed):
            await self._write(op)

    def close(self) -> None:
        """Leave memory; nothing is recorded by that."""
        self._over = True
        if self._alarm is not None:
            self._alarm.cancel()
        for want in self.wants.values():
            if isinstance(want, Step) and want.task is not None:
                want.task.cancel()
        program, self._program = self._program, None  # they know each other: parted, both are freed at once
        if program is not None:
            program.close()
