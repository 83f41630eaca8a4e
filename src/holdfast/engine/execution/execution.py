"""One run while a worker holds it: its program alive in memory, fed one outcome after another.

A turn takes what has happened, feeds it to the program, does what the program then wants, and
commits all of it at once: the outcomes, what they led to, and where the run stands. Only then are
new steps launched. Feeding before the commit is safe because a program does nothing by itself; a
program that does (``speculative`` is false) is fed after it. One thing need not wait for the
commit: a step that follows from a signal alone. The signal is written already, so whoever takes the
run up after a crash is led to the very same step.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec

from holdfast.core import history as run_history
from holdfast.core import tokens
from holdfast.core.commands import Command, CreateWait, Finish
from holdfast.core.event_table import OUTCOMES
from holdfast.core.events import Event, EventKind
from holdfast.core.program import Definition
from holdfast.core.runs import RunRecord
from holdfast.core.schedules.model import tick_of
from holdfast.core.status import FINAL, Status
from holdfast.core.streams.model import CloseReason
from holdfast.core.waits import Signal
from holdfast.engine.execution import gate_actions, writing
from holdfast.engine.execution.attempts import attempt, begin_remotely, body_of
from holdfast.engine.execution.command_handlers import begins_one_step, handle
from holdfast.engine.execution.commit_buffer import LISTS, CommitBuffer
from holdfast.engine.execution.graph_growth import is_large_growth, write_growth
from holdfast.engine.execution.outcomes import end_of
from holdfast.engine.execution.pending import PendingSpend, PendingStep
from holdfast.engine.execution.writing import REFUSALS, Writing
from holdfast.engine.runtime.context import WorkerContext
from holdfast.engine.runtime.error_data import error_data
from holdfast.engine.runtime.group_commit import TEMPORARY
from holdfast.engine.runtime.ids import offered_key
from holdfast.engine.runtime.inline_task import Completion
from holdfast.errors import (
    Diverged,
    EngineClosed,
    HoldfastError,
    LeaseLost,
    StoreError,
    WriteConflict,
)
from holdfast.payloads.offload import opened
from holdfast.store.contract import Advance, Advanced, BudgetRefused, NeedKey, RevisionChanged

log = logging.getLogger("holdfast")

READ_RETRY_SECONDS = 0.5
"""Seconds until somebody tries to read again what could not be read."""


class RunExecution(Writing):
    """Drives one run."""

    def __init__(
        self, run: RunRecord, definition: Definition, host: WorkerContext, signals: list[Signal]
    ) -> None:
        super().__init__(run, host)
        self._signals, self._exact = (
            signals,
            not run.revision,
        )  # they were read after the run, unless there were none to read
        self._definition = definition
        self.blocking = definition.blocking
        self.follows = False
        """Whether what is wanted now follows from a signal alone."""
        self.finished = False
        self._cancelling = run.status is Status.CANCELLING

    # The life of a held run

    async def live(self, history: list[Event], *, fresh: bool) -> None:
        """Go on with the run until it ends, parks, or is lost."""
        try:
            await self._begin(history, fresh=fresh)
            while not self._over:
                events = self._collect()
                if (
                    events
                    or self.findings
                    or self.gate_is_over
                    or self.payable
                    or self.batch.says_something()
                    or self.launches
                ):
                    paid = await self._take_payments(events) if self.payable else ()
                    await self._do(await self._tell(events, paid))
                elif self._should_let_go():
                    await self._let_go()
                elif not self.waiting and self._only_waits():
                    await self._do(
                        []
                    )  # it could not be parked when it should: something had reached it
                else:
                    await self._sleep()
        except LeaseLost:
            log.debug("run %s is no longer ours", self.run.id)
            self.host.doubt()
        except EngineClosed:
            log.debug("run %s is left as it is: the engine was closed", self.run.id)
        except (*TEMPORARY, WriteConflict) as error:
            await self._give_back(error)
        except (
            Exception
        ) as error:  # a diverged history, malformed data, or a fault of ours: a person must look
            await (self._give_back(error) if self.host.is_shut_out(error) else self._stick(error))
        finally:
            self.close()

    async def _begin(self, history: list[Event], *, fresh: bool) -> None:
        if not fresh:
            self.run, history = await opened(self.run, history, self.host.sealer, self.host.threads)
        events = run_history.live_events(history) if history else []
        self.outlet.replayed, self.progress = not fresh, run_history.HistoryProgress(events)
        if history:
            self._recall(history, events)
        self.due_at(self.run.deadline)
        program = self._program = self.placed(self._definition, events)
        program.report, program.clock, program.token = self.reported, self.now, self.token_of
        program.sink, self.outlet.speculative = self.outlet, program.speculative
        program.purse, program.is_sure = self.new_purse, self.host.is_sure
        program.life_of, program.epoch = self.lives.of, self.lives.epoch
        self.look_at_budgets()
        if self.is_about_to_stop():
            program.held_up = True  # a blocking program would begin its next step by itself
        commands = await program.begin(events)
        if not fresh and self._cancelling and not self._cancel_seen:
            self.knock()
        await self._do(commands)

    def _recall(self, history: list[Event], events: list[Event]) -> None:
        """Take over what was in the memory of whoever held the run before; *events* are those of
        its history that count."""
        self._seq = history[-1].seq
        self.lives = run_history.StepLives(history)
        self._cancel_seen = self.progress.cancelled is not None
        self._expiring, self._stopped_by = self.progress.expiring, self.progress.cancelled or ""
        self.waited = self.progress.waited
        self.outlet.life += sum(event.kind == EventKind.RUN_REPLAYED for event in history)
        self.had_children = any(
            event.kind in (EventKind.CHILD_STARTED, EventKind.MAP_STARTED) for event in events
        )
        self.lasting = any(event.kind == EventKind.BUDGET_RESERVED for event in events)

    async def _tell(self, events: list[Event], paid: Sequence[Event] = ()) -> Sequence[Command]:
        """Tell the program what has happened; *paid* are outcomes that are recorded already. Return
        what it wants then."""
        assert self._program is not None
        self.stamp(events)
        self.batch.events.extend(events)
        outcomes = [event for event in events if event.kind in OUTCOMES]
        if outcomes and not self._program.speculative:
            await self._commit(rest=False)
            self._program.held_up = self.breach is not None or self.is_about_to_stop()
        if paid:
            outcomes = [*paid, *outcomes]
        self.follows = self.follows_from_a_signal(events)
        if self._keys is not None:
            self.refresh_keys()
        if self.follows and self.may_begin_ahead():
            return await self.tell_and_begin(outcomes)
        if self.ahead is None:
            return await self._program.feed(outcomes) if outcomes else ()
        commands = self.take_ahead(outcomes)
        return [*commands, *await self._program.feed(outcomes)] if outcomes else commands

    async def _do(self, commands: Sequence[Command]) -> None:
        """Do what the program wants, and tell it what has happened meanwhile, until it rests; then
        commit and launch."""
        assert self._program is not None
        while True:
            while commands and not begins_one_step(self, commands):
                commands = await self._handle(commands)
            if self._over:
                return  # a part of what the program wanted was refused, and the run has failed
            if self.batch.finish is not None:
                break
            if not (
                self.findings
                or self.gate_is_over
                or self._knocked
                or self._heard
                or self._due is not None
            ):
                break
            events = await self._next_events()
            if not events:
                break
            commands = await self._tell(events)
        if self.opening:
            self.announce_all()
        if self.follows and self.wants_steps_only() and self.may_go_on():
            await (
                self._launch()
            )  # the signal is written already, and leads to the same steps after a crash
        self.follows = False
        await self._commit(rest=True)
        while self.had_children and not self._over and self.starts_more():
            await self._commit(rest=True)
        await self._launch()

    async def _handle(self, commands: Sequence[Command]) -> Sequence[Command]:
        """Do what the program wants; return what it wants when it hears what is answered at
        once."""
        assert self._program is not None
        if CreateWait in map(type, commands) and tokens.current(self.host.store.keys()) is None:
            await self.host.writer.submit(NeedKey(offered_key(self.host.sealer)))
        answers: list[Event] = []
        recorded = 0
        for command in commands:
            if self.batch.more and self.batch.grows and is_large_growth(command):
                recorded = await self._record_part(
                    answers, recorded
                )  # it is checked against what is in the graph
            event = handle(self, command)
            if event is not None:
                answers.append(event)
                if self.batch.more and self.is_portion() and self.batch.finish is None:
                    recorded = await self._record_part(answers, recorded)
            if self._over:
                break
        if self.batch.finish is not None or not answers or self._over:
            return []
        self._note_answers(answers[recorded:])
        if not self._program.speculative:
            await self._commit(rest=False)
        return await self._program.feed(answers)

    async def _record_part(self, answers: list[Event], recorded: int) -> int:
        """Commit what is started or added to a graph so far, and the answers but the first
        *recorded*: of thousands in one turn each commit has a portion. After a crash the program
        wants the others. Return how many answers are recorded."""
        self._note_answers(answers[recorded:])
        await self._commit(rest=False)
        return len(answers)

    async def _next_events(self) -> list[Event]:
        """Return what has happened next, by the instant at which it happened."""
        if len(self.batch.events) > writing.PORTION:
            await self._commit(
                rest=False
            )  # thousands of outcomes at once: others must get their turn to write
        while self.gate_is_over or self._must_seek():
            if self._must_seek():
                self._seek()
            if self.gate_is_over:
                await gate_actions.close_overdue(self, self._persist)
        return self.next_events() if self.findings else []

    # Waiting

    async def _sleep(self) -> None:
        """Wait until something happens, or something is due."""
        self._woken = Completion()
        if self._alarm is not None:
            self._alarm.cancel()
        if self.is_fed_ahead():
            if not self._inbox:
                await self._woken  # the outcome is on its way, and all else has time until then
            self._woken = None
            return
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
            await self.outlet.wait_until_written()
        batch, self.batch = self.batch, CommitBuffer()
        if batch.more and len(batch.cancels) > writing.PORTION:
            await self._cancel_first(batch)
        if batch.finish is None and rest and not self.wants and not self.launches:
            raise Diverged(
                run=self.run.id, why="the workflow waits for something that can never happen"
            )
        # Not before it has looked at what reached it: to park says that all up to this revision was
        # seen.
        unseen = (
            self._knocked
            or self._heard
            or bool(self.findings)
            or (batch.more and bool(batch.child_cancels))
        )
        unseen = unseen or (self.had_children and bool(self.unstarted()))
        parks = rest and batch.finish is None and not unseen and self._only_waits()
        op = self._operation(batch, parks=parks)
        if op is None:
            self.outlet.release()
            return
        answer = await self._write(op)
        if isinstance(answer, RevisionChanged):
            self._revision = answer.revision
            self.knock()
            if not batch.says_something() and op.output is None:
                return
            answer = await self._write(self._without_parking(op))
        self._settle(op, batch, answer)

    def _operation(self, batch: CommitBuffer, *, parks: bool) -> Advance | None:
        op = Advance(
            run_id=self.run.id,
            generation=self.run.generation,
            events=batch.events,
            budgets=self.run.budgets,
        )
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
            op.error = error_data(finish.error, **facts)
        elif status is not Status.COMPLETED:
            op.error = msgspec.json.encode(
                {"type": status.value, "message": self.why_stopped(), "facts": facts}
            )
        op.status, op.result, op.had_children = status, finish.result, self.had_children
        op.settles_all = self.lasting or bool(self.asides)
        op.scheduled = tick_of(self.run.key) is not None
        if self.waited:
            op.closed = [*op.closed, *self.close_all_waits()]
        if self.run.parent_id is not None:
            op.parent = (self.run.parent_id, self.run.parent_step or "", self.run.parent_index)
        gate_actions.withdraw_all(self, op)
        op.events.append(end_of(status, op.error, self._program))

    async def _write(self, op: Advance) -> Advanced | RevisionChanged:
        """Write, whatever it takes."""
        answer: Advanced | RevisionChanged
        try:
            if (
                op.output is None
                and not (self._in_graph or self.had_children)
                and self.host.sealer.is_light(op)
            ):
                try:  # most writes need none of what else _persist does
                    answer = await self.host.writer.post(op)
                    return answer
                except StoreError as error:
                    log.warning(
                        "run %s cannot be written now, will try again: %s", self.run.id, error
                    )
            answer = await (
                write_growth(self, op, self._persist) if op.grows else self._persist(op)
            )
            return answer
        except REFUSALS as error:
            return await self._fail(op, error)

    async def _fail(self, op: Advance, error: HoldfastError) -> Advanced | RevisionChanged:
        """A child that cannot be, or what cannot be added to a graph: the workflow fails."""
        self._seq = op.events[0].seq - 1 if op.events else self._seq
        failed = Advance(run_id=op.run_id, generation=op.generation, output=op.output)
        self._conclude(failed, Finish("failed", error=error))
        for event in failed.events:
            self._seq += 1
            event.seq = self._seq
        op.children, op.grows, op.status = (), (), failed.status
        self._over = True
        answer: Advanced | RevisionChanged = await self._persist(failed)
        return answer

    def _settle(self, op: Advance, batch: CommitBuffer, answer: Any) -> None:
        """The write stands: take note of where the run is now."""
        was_waiting, self.waiting = self.waiting, op.waits is not None
        if self.waiting and not was_waiting:
            self._waits_since = self.now()
            self.host.capacity.rests(self)
        elif was_waiting and not self.waiting:
            self.host.capacity.goes_on(self)
            self.resumes = True
        self.finished = op.status in FINAL
        self.note_breach(answer.breach)
        if op.child_cancels:
            self.knock()  # the children may have ended before this commit
            if answer.unasked:
                self.batch.child_cancels.append(op.child_cancels[-1])
        if op.gates:
            gate_actions.note_stored(self, op.gates)
        self._over = self._over or self.finished or not op.keep
        for child, started in zip(op.children, answer.started, strict=False):
            if started.leased:
                self.host.adopt(child, answer.now)
        for run, at in answer.born:
            self.host.adopt(self.host.sealer.new_run_opened(run), at)

    async def _let_go(self) -> None:
        """Park for good, or hand the run back: it costs rows and nothing else from here on."""
        op = Advance(run_id=self.run.id, generation=self.run.generation)
        self._park(op)
        op.keep = False
        if not self.wants:
            op.status, op.waits = self.at_work(), None
        await self.outlet.wait_until_written()
        op.output = self.outlet.take()
        answer = await self._write(op)
        if isinstance(answer, RevisionChanged):
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
        if self.launches and self.resumes and self.is_displaced():
            await self._release()
            return
        launches, self.launches = self.launches, []
        for want in self.hold_up(launches):
            if isinstance(want, PendingSpend):
                await self._pay(want)
            elif want.command.transactional:
                await self._transact(want)
            else:
                remote = want.command.is_async and self.host.program_loop is not None
                want.task = (
                    begin_remotely(self, want)
                    if remote
                    else self.host.hands.start(attempt(self, want))
                )
                if want.task is not None:
                    since = self.now() if want.started_at is None else want.started_at
                    self.host.long_steps.begin(self, want, since)

    async def _hand_back(self) -> None:
        """The worker stops: let another one go on from here."""
        if any(
            isinstance(want, PendingStep) and want.task is not None for want in self.wants.values()
        ):
            self.launches.clear()
            return  # the steps at work end first; what they lead to is not launched
        await self._release()

    async def _release(self) -> None:
        await self.outlet.wait_until_written()
        status = Status.CANCELLING if self._cancelling else Status.PENDING
        op = Advance(run_id=self.run.id, generation=self.run.generation, status=status, keep=False)
        op.output = self.outlet.take(CloseReason.RELEASED, only_steps=True)
        await self._write(op)
        self._over = True

    async def _give_back(self, error: Exception) -> None:
        """Release the run, so that its next holder reads it from the store: either the store could
        not be read, or the history there has lines that this holder does not know."""
        log.warning(
            "run %s is released and will be read again from the store: %s", self.run.id, error
        )
        self.close()
        await asyncio.sleep(READ_RETRY_SECONDS)
        with suppress(LeaseLost, EngineClosed):
            await self._release()

    async def _transact(self, want: PendingStep) -> None:
        """Run a step inside the transaction that records it."""
        command, started_at = want.command, self.now()
        event = Event(
            EventKind.STEP_COMPLETED,
            command.id,
            attempt=want.attempt,
            started_at=started_at,
            seq=self._seq + 1,
        )
        event.at = started_at
        purse = self.new_purse(command.id, command.under, transacts=True)
        op = Advance(
            run_id=self.run.id,
            generation=self.run.generation,
            events=[event],
            spends=purse.spendings,
            budgets=self.run.budgets,
        )
        op.body = body_of(self, want, op, purse)
        try:
            answer: Advanced = await self._persist(op)
        except (LeaseLost, EngineClosed, WriteConflict):
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

    async def _pay(self, want: PendingSpend) -> None:
        """Take from the budgets what the code wants, or let it wait."""
        event = denied = self.uncounted(want)
        if event is None:
            op = self.payment(want, self._seq + 1)
            answer = await self._persist(op)
            if isinstance(answer, BudgetRefused):
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
        log.error(
            "run %s of %s is stuck: %s",
            self.run.id,
            self.run.workflow,
            error,
            exc_info=None if foreseen else error,
        )
        await self.outlet.wait_until_written()
        # What was refused is not in the history, whatever number it was given here.
        self._seq = (
            max((event.seq for event in self.host.store.history(self.run.id)), default=0) + 1
        )
        data = error_data(error)
        op = Advance(
            run_id=self.run.id,
            generation=self.run.generation,
            status=Status.STUCK,
            keep=False,
            error=data,
            events=[Event(EventKind.RUN_STUCK, error=data, seq=self._seq)],
            settles=sorted(self.asides),
            output=self.outlet.take(CloseReason.STUCK, only_steps=True),
        )
        with suppress(LeaseLost, EngineClosed):
            await self._write(op)

    def close(self) -> None:
        """Leave memory; nothing is recorded by that."""
        self._over = True
        if self.ahead is not None:
            self.ahead.take()  # a step that ends from now on leads to nothing
        if self._alarm is not None:
            self._alarm.cancel()
        for want in self.wants.values():
            if isinstance(want, PendingStep) and want.task is not None:
                want.task.cancel()
        program, self._program = (
            self._program,
            None,
        )  # they know each other: parted, both are freed at once
        if program is not None:
            program.close()
