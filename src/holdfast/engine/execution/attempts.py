"""Attempts at steps: calling the function, limiting its time, reporting the outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from typing import Any

from holdfast.core import duration
from holdfast.core.budgets.ledger import current_spending
from holdfast.core.commands import Command, RunStep
from holdfast.core.events import Event
from holdfast.core.exits import as_exception
from holdfast.core.step_info import StepInfo
from holdfast.engine.execution.attempt_spending import AttemptSpending
from holdfast.engine.execution.feeding import note_fed, right_to_feed
from holdfast.engine.execution.pending.base import Execution
from holdfast.engine.execution.pending.step_outcomes import completed, encode_result
from holdfast.engine.execution.pending.steps import PendingStep
from holdfast.engine.runtime.program_loop import FeedAhead, PlacedProgram, ProgramLoop
from holdfast.engine.runtime.timer_queue import TimerHandle
from holdfast.errors import EngineClosed, StepTimeout
from holdfast.store.budgets.operations import spending_effects
from holdfast.store.runs.operations import Advance
from holdfast.store.streams.operations import AppendOutput

TEARDOWN = 0.1
"""Seconds after which a loop that cancelled a step from outside counts as alive: ``asyncio.run``
cancels and closes at once."""


class _TaskTimeout:
    """Cancels the current task when its time is up."""

    def __init__(self, run: Execution, until: int) -> None:
        self.passed = False
        self._task = asyncio.current_task()
        self.alarm = run.context.timers.at(until, self._pass)

    def _pass(self) -> None:
        self.passed = True
        assert self._task is not None
        self._task.cancel()


async def attempt(run: Execution, step: PendingStep) -> None:
    """Call the function of a step once and report the outcome. A dropped step reports nothing."""
    context = run.context
    command = step.command
    if not context.session_is_certain():
        # The process was stopped: another worker may have continued the run and this step.
        try:
            await context.ensure_session()
        except EngineClosed:
            return
    step.started_at = context.store.now()
    limit = None
    if command.timeout is not None:
        limit = _TaskTimeout(run, step.started_at + command.timeout)
    value = None
    error = None
    spending = run.budget.new_spending(command)
    step.spending = spending
    try:
        current_spending.set(spending)
        info = _info(run, step)
        if command.is_async:
            value = await command.call(info, None)
        else:
            value = await context.threads.run(partial(command.call, info, None))
    except BaseException as raised:  # whatever it is: a step must not take its worker along
        if isinstance(raised, asyncio.CancelledError) and not run.expects(step):
            return
        error = as_exception(raised, "step")
    finally:
        # A step that has ended at once has no task, and was not added to the long steps.
        if step.task is not None:
            context.long_steps.end(step)
        if limit is not None:
            limit.alarm.cancel()
    if limit is not None and limit.passed:
        error = _timeout(command)
    run.attempt_ended(command.id, value, error, step.started_at, spending)


class RemoteAttempt:
    """One try at an ``async def`` step on the program's loop. It takes no task on the worker's
    loop.

    It refers to its run only while the step is under way: the run refers to its attempts, and both
    would wait for the garbage collector.
    """

    __slots__ = (
        "_ahead",
        "_alarm",
        "_call",
        "_context",
        "_execution",
        "_expired",
        "_loop",
        "_spending",
        "_step",
        "_stopping",
        "_task",
    )

    def __init__(
        self, run: Execution, step: PendingStep, loop: ProgramLoop, ahead: FeedAhead | None
    ) -> None:
        context = run.context
        command = step.command
        started_at = context.store.now()
        step.started_at = started_at
        self._execution = run
        self._step = step
        self._loop = loop
        self._expired = False
        self._stopping = False
        self._task: asyncio.Task[None] | None = None
        self._ahead = ahead
        self._spending = step.spending = AttemptSpending(run.budget, command, False)
        # An empty context: variables of the worker must not reach user code.
        self._context = Context()
        self._context.run(current_spending.set, self._spending)
        self._call = partial(command.call, _info(run, step), None)
        self._alarm: TimerHandle | None = None
        if command.timeout is not None:
            self._alarm = context.timers.at(started_at + command.timeout, self._expire)

    # On the worker's loop

    def adopt(self) -> None:
        """Let the run wait for this attempt, which has begun on the program's loop already."""
        run = self._execution
        step = self._step
        step.task = self
        run.pending.add(step)
        assert step.started_at is not None
        run.context.long_steps.begin(run, step, step.started_at)

    def cancel_unless_adopted(self) -> None:
        """Cancel it if its run has left memory meanwhile."""
        if self._step.task is not self:
            self.cancel()

    def cancel(self) -> None:
        """Ask the step to stop. It has ended when its code has."""
        with suppress(EngineClosed):  # then its loop has cancelled it
            self._loop.post(self._cancel)

    def _expire(self) -> None:
        self._expired = True
        self.cancel()

    def _fed(self, event: Event, commands: list[Command], error: BaseException | None) -> None:
        run = self._execution
        self._let_go()
        turns = run.remote_turns
        spending = self._spending
        may_take = turns is not None and error is None
        if may_take and not (spending.entries or spending.reserved) and turns.take(event, commands):
            return
        note_fed(run, event, commands, error, spending)

    def _end(self, value: Any, raised: BaseException | None) -> None:
        run = self._execution
        step = self._step
        self._let_go()
        if isinstance(raised, asyncio.CancelledError) and not run.expects(step):
            return
        error: Exception | None = None
        if self._expired:  # whatever it has raised, it was cancelled because its time was up
            error = _timeout(step.command)
        elif raised is not None:
            error = as_exception(raised, "step")
        run.attempt_ended(step.command.id, value, error, step.started_at, self._spending)

    def _let_go(self) -> None:
        self._execution.context.long_steps.end(self._step)
        if self._alarm is not None:
            self._alarm.cancel()
        # Breaks the cycle from the run to its step, to this attempt, and back to the run.
        del self._execution, self._step, self._ahead

    # On the program's loop

    def begin(self) -> None:
        """Begin the step. On the program's loop."""
        self._task = self._loop.eager_tasks.start(self._run(), self._context)

    def _cancel(self) -> None:
        self._stopping = True
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        value = None
        error = None
        try:
            value = await self._call()
        except BaseException as raised:  # the worker decides whether the step has failed
            error = raised
            task = asyncio.current_task()
            if (
                isinstance(error, asyncio.CancelledError)
                and not self._stopping
                and task is not None
                and task.cancelling()
            ):
                # The loop may be about to close: then the step is not over, and another worker
                # begins it again.
                self._loop.loop.call_later(TEARDOWN, self._return, None, error)
                return
        self._return(value, error)

    def _return(self, value: Any, raised: BaseException | None) -> None:
        """The step has ended."""
        self._task = None
        answer = self._loop.answer
        spending = self._spending
        is_free = not (spending.entries or spending.reserved)
        if raised is None and self._ahead is not None and is_free:
            event = completed(
                self._step,
                value,
                codec=self._execution.context.codec,
                now=self._execution.state.now(),
            )
            if event is not None and self._ahead.take():
                commands, error = self._ahead.feed(event)
                answer(self._fed, event, commands, error)
                if isinstance(error, KeyboardInterrupt | SystemExit):
                    raise error
                return
        answer(self._end, value, raised)


def _timeout(command: RunStep) -> StepTimeout:
    return StepTimeout(step=command.id, timeout=duration.show(command.timeout or 0))


def begin_remotely(run: Execution, step: PendingStep) -> asyncio.Task[None] | RemoteAttempt | None:
    """Make an attempt at an ``async def`` step on the program's loop; return what can be
    cancelled."""
    context = run.context
    program_loop = context.program_loop
    assert program_loop is not None
    if context.session_is_certain():
        remote = RemoteAttempt(run, step, program_loop, right_to_feed(run))
        program_loop.post(remote.begin)
        return remote
    return context.eager_tasks.start(_begin_when_sure(run, step, program_loop))


def begin_only_step(run: Execution, step: PendingStep) -> bool:
    """Make an attempt at the step that is all that the run waits for, on the program's loop, which
    feeds the program its outcome. Return False if it cannot begin there at once."""
    context = run.context
    program = run.program
    program_loop = context.program_loop
    if not step.command.is_async or not context.session_is_certain():
        return False
    assert isinstance(program, PlacedProgram) and program_loop is not None
    run.ahead = program.feed_ahead()
    step.task = remote = RemoteAttempt(run, step, program_loop, run.ahead)
    program_loop.post(remote.begin)
    context.long_steps.begin(run, step, step.started_at or 0)
    return True


async def _begin_when_sure(run: Execution, step: PendingStep, program_loop: ProgramLoop) -> None:
    try:
        await run.context.ensure_session()
    except EngineClosed:
        return
    if run.expects(step):
        step.task = remote = RemoteAttempt(run, step, program_loop, right_to_feed(run))
        program_loop.post(remote.begin)


class BeginAhead:
    """The right to begin, on the program's loop, the one plain step that follows from a signal.

    The signal is committed already and leads to the same step after a crash, so the step need not
    wait until the worker has recorded the signal. That saves a round trip to the worker."""

    __slots__ = ("_execution", "_loop")

    def __init__(self, run: Execution, loop: ProgramLoop) -> None:
        self._execution = run
        self._loop = loop

    def __call__(self, commands: Sequence[Command]) -> RemoteAttempt | None:
        """Return the attempt, if these commands are such a step. The worker waits for the answer
        meanwhile, and touches nothing that is read here."""
        run = self._execution
        if len(commands) != 1:
            return None
        command = commands[0]
        if (
            not isinstance(command, RunStep)
            or not command.is_async
            or command.timeout is not None
            or command.own
        ):
            return None
        was_tried = command.id in run.state.progress.attempts
        asked_time = run.services is None or run.services.asked_time
        if was_tried or asked_time or not run.context.session_is_certain():
            return None
        return RemoteAttempt(run, PendingStep(command, 1, None), self._loop, None)


def _info(run: Execution, step: PendingStep) -> StepInfo:
    record = run.state.run
    command = step.command
    lives = run.state.lives
    return StepInfo(
        record.id,
        record.workflow,
        command.id,
        step.attempt,
        record.generation,
        run.output,
        lives.of(command.id) if lives.replays else 0,
        None,
        step.last_error,
        run.context.writer.metrics.tracing,
    )


def body_of(
    run: Execution, step: PendingStep, op: Advance, spending: AttemptSpending
) -> Callable[[Any], bytes]:
    """Return the function that runs a step inside the transaction that records it. The committing
    thread calls it, in a copy of the current context and not in its own."""
    context = copy_context()
    return lambda connection: context.run(_transact, run, step, op, spending, connection)


def _transact(
    run: Execution, step: PendingStep, op: Advance, spending: AttemptSpending, connection: Any
) -> bytes:
    """Call the step; its output becomes part of the transaction."""
    command = step.command
    info = _info(run, step)
    # The store may have rolled back an earlier call and repeat the transaction.
    run.output.discard_attempt(command.id, step.attempt)
    spending.entries.clear()
    current_spending.set(spending)
    try:
        data = encode_result(command, command.call(info, connection), run.context.codec)
    except Exception:
        raise
    except BaseException as raised:
        # Such as sys.exit(): it must not end the transaction, which other runs share.
        if isinstance(raised, KeyboardInterrupt):
            run.context.writer.interrupt()
        raise as_exception(raised, "step") from raised
    # Replaces the effects of an earlier call, which was rolled back.
    effects = spending_effects(run.state.run.budgets, spending.entries)
    output = run.output.take_attempt(command.id, step.attempt)
    if output is not None:
        effects.append(AppendOutput(output))
    op.effects = effects
    return data
