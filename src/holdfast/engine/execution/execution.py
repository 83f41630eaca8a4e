"""The execution of one leased run: its program lives in memory and is fed one outcome at a time.

A turn drains the mailbox, feeds the program, executes the commands that it returns, and commits all
of it at once: the outcomes, what they led to, and the status of the run. Only then do new steps
begin.

Invariants:
- Outcomes are fed before they are committed. This is safe because a program does nothing by itself;
  a program that does (``feeds_before_commit`` is false) is fed after the commit.
- A step begins after the commit that precedes it, unless it follows from a signal alone
  (``ahead``).
- A park names the revision that was seen, so the run never sleeps through a signal.
- Nothing refers back to the execution but its program while it is open, so both are freed at once.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from holdfast.core.budgets.model import Breach
from holdfast.core.commands import Command
from holdfast.core.event_table import OUTCOMES
from holdfast.core.events import Event, EventKind
from holdfast.core.program import Definition, Program
from holdfast.core.runs import RunRecord
from holdfast.core.waits import Signal
from holdfast.engine.execution import commits, updates
from holdfast.engine.execution.ahead import (
    feed_and_begin,
    follows_from_signal,
    may_begin_ahead,
    take_fed,
    takes_place,
    wants_plain_steps,
)
from holdfast.engine.execution.attempt_spending import AttemptSpending
from holdfast.engine.execution.begin import begin_run
from holdfast.engine.execution.budget_guard import BudgetGuard
from holdfast.engine.execution.command_batch import execute_batch
from holdfast.engine.execution.commit_buffer import CommitBuffer
from holdfast.engine.execution.commits import persist
from holdfast.engine.execution.launching import launch
from holdfast.engine.execution.leaving import (
    hand_back,
    leave_memory,
    mark_stuck,
    should_leave_memory,
)
from holdfast.engine.execution.mailbox import Mailbox
from holdfast.engine.execution.output_buffer import OutputBuffer
from holdfast.engine.execution.pending.base import PendingCommands
from holdfast.engine.execution.pending.budgets import (
    block_step,
    record_spending,
    repeat_attempt,
)
from holdfast.engine.execution.pending.children import start_more, unstarted_maps
from holdfast.engine.execution.pending.step_outcomes import event_of
from holdfast.engine.execution.pending.steps import (
    PendingStep,
    begin_one_step,
    record_dropped_spending,
)
from holdfast.engine.execution.pending.tokens import RestingTokens
from holdfast.engine.execution.plain_steps import is_plain, is_simple, take_plain_turns
from holdfast.engine.execution.program_context import ExecutionServices
from holdfast.engine.execution.recording import record_progress
from holdfast.engine.execution.signal_buffer import SignalBuffer
from holdfast.engine.execution.signing_keys import SigningKeys
from holdfast.engine.execution.spending_commits import commit_spending
from holdfast.engine.execution.state import RunState
from holdfast.engine.runtime.context import WorkerContext
from holdfast.engine.runtime.group_commit import TEMPORARY
from holdfast.engine.runtime.log_records import of_run
from holdfast.engine.runtime.program_loop import FeedAhead
from holdfast.errors import (
    EngineClosed,
    LeaseLost,
    RowDamaged,
    StoreError,
    WriteConflict,
)
from holdfast.store.database import SignalArrived
from holdfast.store.gates.operations import ExpireGates
from holdfast.store.runs.queries import RunUpdate
from holdfast.store.store import Store

log = logging.getLogger("holdfast")


def notify_all(store: Store, executions: Sequence[RunExecution]) -> None:
    """Notify executions that something has reached their runs. What there is to see is read
    together if they are many."""
    seen: dict[str, RunUpdate] = {}
    if len(executions) > 1:
        # On an error each execution reads by itself, and handles the error there.
        with suppress(StoreError, RowDamaged):
            seen = store.runs.updates([execution.run.id for execution in executions])
    for execution in executions:
        execution.notify(seen.get(execution.run.id))


class RunExecution:
    """Executes one run, from its lease until it ends, parks or is lost."""

    __slots__ = (
        "__weakref__",
        "_definition",
        "ahead",
        "blocking",
        "budget",
        "commit",
        "context",
        "follows_signal",
        "keys",
        "mailbox",
        "output",
        "pending",
        "program",
        "remote_turns",
        "resting",
        "services",
        "signals",
        "state",
    )

    def __init__(
        self, run: RunRecord, definition: Definition, context: WorkerContext, signals: list[Signal]
    ) -> None:
        self.context: WorkerContext = context
        self.state: RunState = RunState(run, context.store.now)
        self.mailbox: Mailbox = Mailbox()
        # The signals were read after the run, unless there were none to read.
        self.signals: SignalBuffer = SignalBuffer(signals, is_exact=not run.revision)
        self.pending: PendingCommands = PendingCommands()
        self.commit: CommitBuffer = CommitBuffer()
        self.budget: BudgetGuard = BudgetGuard(self.state, context)
        self.keys: SigningKeys = SigningKeys(context)
        self.output: OutputBuffer = OutputBuffer(run, context)
        self.program: Program | None = None
        self.services: ExecutionServices | None = None
        """What the program sees of this execution."""
        self.blocking: bool = definition.needs_thread
        self.ahead: FeedAhead | None = None
        self.follows_signal: bool = False
        self.remote_turns: Any = None
        self.resting: RestingTokens | None = None
        self._definition: Definition = definition

    @property
    def run(self) -> RunRecord:
        """The run as it was leased."""
        return self.state.run

    @property
    def finished(self) -> bool:
        """Whether the run has ended."""
        return self.state.is_finished

    @property
    def may_have_rested(self) -> bool:
        """Whether another worker may have written tokens of this run: it has a history, and is the
        run of a model."""
        return self._definition.writes_checkpoints and self.state.seq > 0

    # The loop

    async def execute(self, history: list[Event], *, fresh: bool) -> None:
        """Execute the run until it ends, parks or is lost."""
        try:
            await begin_run(self, self._definition, history, fresh=fresh, report=self.report)
            await self._run_turns()
        except LeaseLost:
            log.debug("run %s is no longer leased here", self.run.id, extra=of_run(self.run))
            self.context.verify_session()
        except EngineClosed:
            log.debug(
                "run %s is left as it is: the engine was closed",
                self.run.id,
                extra=of_run(self.run),
            )
        except (*TEMPORARY, WriteConflict) as error:
            await hand_back(self, error)
        except Exception as error:
            # A diverged history, malformed data or a fault of the engine: an operator must look.
            if self.context.is_shut_out(error):
                await hand_back(self, error)
            else:
                await mark_stuck(self, error)
        finally:
            self.close()

    async def _run_turns(self) -> None:
        mailbox = self.mailbox
        while not self.state.is_over:
            if mailbox.outcomes and is_simple(self) and is_plain(self):
                await take_plain_turns(self)
                continue
            events = self._drain()
            if (
                events
                or mailbox.findings
                or mailbox.gate_is_overdue
                or mailbox.spending_outcomes
                or self.pending.launches
                or not self.commit.is_empty
            ):
                spent = await commit_spending(self, events) if mailbox.spending_outcomes else ()
                await self.execute_commands(await self._feed(events, spent))
            elif self.ahead is not None and not (
                mailbox.is_notified or mailbox.has_new_signals or mailbox.due_at is not None
            ):
                # The program's loop executes the only step: nothing else can end this wait.
                self.context.waits(self)
                await mailbox.sleep(None, self.context.timers)
            elif should_leave_memory(self):
                await leave_memory(self)
            elif not self.state.waiting and self.pending.only_wait():
                await self.execute_commands(())  # the run could not park: something had reached it
            else:
                await self._sleep()

    async def _feed(self, events: list[Event], spent: Sequence[Event] = ()) -> Sequence[Command]:
        """Feed the program what has happened, and return its commands; *spent* are outcomes that
        are committed already."""
        program = self.program
        assert program is not None
        self.commit.events.extend(events)
        if len(events) == 1 and events[0].at and events[0].kind in OUTCOMES:
            outcomes = events.copy()  # the usual turn, with the outcome of a step
        else:
            self.state.set_times(events)
            outcomes = [event for event in events if event.kind in OUTCOMES]
        if outcomes and not program.feeds_before_commit:
            await record_progress(self, rests=False)
            self._allow_attempts()
        if spent:
            outcomes = [*spent, *outcomes]
        self.follows_signal = (
            len(events) == 1
            and events[0].kind == EventKind.SIGNAL_RECEIVED
            and follows_from_signal(self)
        )
        if self.keys.kept is not None:
            self.keys.refresh()
        if self.follows_signal and may_begin_ahead(self):
            return await feed_and_begin(self, outcomes)
        if self.ahead is None:
            return await program.feed(outcomes) if outcomes else ()
        commands = take_fed(self, outcomes)
        return [*commands, *await program.feed(outcomes)] if outcomes else commands

    async def execute_commands(self, commands: Sequence[Command]) -> None:
        """Execute commands and feed what has happened meanwhile, until the program rests; then
        commit, and start the new steps."""
        while True:
            while commands and not begin_one_step(self, commands):
                commands = await execute_batch(self, commands)
            if self.state.is_over:
                return  # a command was refused, and the run has failed
            if self.commit.finish is not None or self.state.changes_version:
                break  # another definition is fed what has reached the run meanwhile
            mailbox = self.mailbox
            if not (
                mailbox.findings
                or mailbox.gate_is_overdue
                or mailbox.is_notified
                or mailbox.has_new_signals
                or mailbox.due_at is not None
            ):
                break
            events = await self._next_events()
            if not events:
                break
            commands = await self._feed(events)
        if self.pending.unannounced:
            self._announce_waits()
        if self.follows_signal and wants_plain_steps(self) and takes_place(self):
            await launch(self)
        self.follows_signal = False
        await record_progress(self, rests=True)
        while self.state.had_children and not self.state.is_over and self._start_more_children():
            await record_progress(self, rests=True)
        await launch(self)

    def _announce_waits(self) -> None:
        """Let the history have the waits that are still open now that the program rests."""
        for pending in list(self.pending.unannounced.values()):
            if self.pending.has(pending):
                pending.announce(self)
        self.pending.unannounced.clear()

    def _start_more_children(self) -> bool:
        """Start the next children of very long maps, unless something has reached the run: that
        comes first."""
        mailbox = self.mailbox
        if mailbox.is_notified or mailbox.has_new_signals or self.state.cancelling:
            return False
        for pending in unstarted_maps(self):
            start_more(self, pending, pending.startable())
        return bool(self.commit.children)

    # The mailbox

    def notify(self, update: RunUpdate | None = None) -> None:
        """Report that something has reached the run from outside; *update* is its state in the
        store, if that was just read."""
        self.mailbox.notify(update)

    def receive_signal(self, arrived: SignalArrived) -> None:
        """Receive a signal from this process. If nothing else has reached the run since the last
        read, the store need not be read again."""
        state = self.state
        is_next = (
            arrived.generation == state.run.generation and arrived.revision == state.revision + 1
        )
        if not is_next or not self.signals.is_exact or self.mailbox.is_notified:
            self.notify()
            return
        state.revision = arrived.revision
        self.signals.append(arrived.signal)
        self.mailbox.has_new_signals = True
        self.mailbox.wake()

    def _drain(self) -> list[Event]:
        """Return the outcomes of attempts that ended before the first finding."""
        mailbox = self.mailbox
        is_reported = mailbox.is_notified or mailbox.has_new_signals
        if (is_reported or mailbox.due_at is not None) and updates.must_check(self):
            updates.check(self)
        events: list[Event] = []
        while mailbox.outcomes:
            if not mailbox.findings:
                for ended in mailbox.take_outcomes():
                    self.accept(*ended, events)
            elif (outcome := mailbox.next_outcome()) is not None:
                self.accept(*outcome, events)
            else:
                break
        return events

    def accept(self, event: Event, spending: AttemptSpending | None, events: list[Event]) -> None:
        """Process the outcome of an attempt; append it to *events* unless it must wait for room in
        a budget."""
        step = event.step or ""
        pending = self.pending.by_step.get(step)
        kind = event.kind
        if not isinstance(pending, PendingStep):
            record_spending(self, step, spending)
            return  # the step was dropped meanwhile
        if (pending.releases or kind == EventKind.STEP_RETRIED) and kind != EventKind.STEP_STARTED:
            pending.clear_release(self)
        if spending is not None and (spending.entries or spending.reserved):
            if kind == EventKind.STEP_COMPLETED and spending.needs_room:
                self.mailbox.spending_outcomes.append((event, spending))
                return
            record_spending(self, step, spending)
        if kind == EventKind.STEP_RETRIED:
            pending.retry_after(self, event)
        elif kind == EventKind.STEP_BLOCKED:
            block_step(self, pending, event)
        elif kind != EventKind.STEP_STARTED:
            self.pending.remove(step)
        self.output.ended(event)
        events.append(event)

    async def _next_events(self) -> list[Event]:
        """Return the events of the next finding, by the instant at which it happened."""
        if len(self.commit.events) > commits.PORTION:
            await record_progress(self, rests=False)  # other writers must get their turn
        mailbox = self.mailbox
        while mailbox.gate_is_overdue or updates.must_check(self):
            if updates.must_check(self):
                updates.check(self)
            if mailbox.gate_is_overdue:
                # A decision may come at the very same instant: only the store can tell.
                mailbox.gate_is_overdue = False
                await persist(self, ExpireGates(self.run.id))
                self.notify()
        return mailbox.next_events() if mailbox.findings else []

    async def _sleep(self) -> None:
        """Wait until something is reported or due."""
        self.context.waits(self)
        if self.ahead is not None and self.ahead.is_taken():
            await self.mailbox.sleep_until_outcome()  # it is on its way from the program's loop
            return
        wake_at = self.mailbox.due_at
        if self.state.waiting:
            leaves_at = self.state.waiting_since + self.context.idle_timeout
            wake_at = leaves_at if wake_at is None else min(wake_at, leaves_at)
        await self.mailbox.sleep(wake_at, self.context.timers)

    # Attempts

    def attempt_ended(
        self,
        step: str,
        value: Any,
        error: Exception | None,
        started_at: int | None,
        spending: Any = None,
    ) -> None:
        """Report the outcome of an attempt at a step."""
        pending = self.pending.by_step.get(step)
        now = self.state.now
        if isinstance(pending, PendingStep):
            if error is not None and spending is not None and error is spending.store_error:
                repeat_attempt(self, pending, spending)
                return
            event = event_of(pending, value, error, started_at, codec=self.context.codec, now=now)
            # When the attempt ended, not when it is processed: a timer may be due in between.
            event.at = now()
            self.mailbox.add_outcome(event, spending)
        elif not self.pending.is_dropped(step):
            # The program was quicker than its own command.
            self.pending.early[step] = (value, error, started_at, spending)
        elif spending is not None and not self.state.is_over:
            record_dropped_spending(self, step, spending)
            self.mailbox.wake()

    def report(
        self, step: str, value: Any, error: Exception | None, started_at: int, spending: Any
    ) -> None:
        """Report the outcome of an attempt that the program made in a thread of its own."""
        with suppress(RuntimeError):  # the loop is closed: no execution is left to record it
            self.context.code_threads.post(
                self.attempt_ended, step, value, error, started_at, spending
            )

    def expects(self, pending: PendingStep) -> bool:
        """Return whether the run waits for this attempt.

        If not, the engine itself has cancelled it: the step was dropped, or the run has left
        memory. The loop of a program that ends without closing its engine cancels tasks, too.
        """
        if self.state.is_over or self.context.is_abandoned():
            return False
        return self.pending.has(pending)

    def note_started(self, pending: PendingStep) -> None:
        """Record that a step has begun, because it runs for long."""
        if pending.is_running and not pending.is_noted and not self.state.is_over:
            pending.is_noted = True
            event = Event(
                EventKind.STEP_STARTED,
                pending.command.id,
                attempt=pending.attempt,
                started_at=pending.started_at,
                at=self.state.now(),
                role=pending.command.role,
            )
            self.mailbox.add_outcome(event, None)

    # Budgets

    def set_breach(self, breach: Breach | None) -> None:
        """Let no new step begin while a hard limit is passed."""
        self.budget.breach = breach
        if self.services is not None:
            self.services.may_start_attempts = breach is None

    def _allow_attempts(self) -> None:
        """Let a program that begins attempts by itself do so, unless the run is about to stop."""
        services = self.services
        assert services is not None
        is_free = self.budget.breach is None
        services.may_start_attempts = is_free and not self.state.is_about_to_stop()

    def note_breach(self, breach: Breach | None) -> None:
        """Note the hard limit that a commit has passed, if it has."""
        if breach is not None:
            self.set_breach(breach)

    # The end

    def close(self) -> None:
        """Leave memory; nothing is recorded by that."""
        self.state.is_over = True
        if self.ahead is not None:
            self.ahead.take()  # a step that ends from now on leads to nothing
        self.mailbox.close()
        for pending in self.pending.values():
            pending.on_close()
        for leave in self.context.writer.metrics.leaving:
            leave(self.run)
        # The program and the execution refer to each other: parted, both are freed at once.
        program = self.program
        self.program = None
        self.services = None
        if program is not None:
            program.close()
