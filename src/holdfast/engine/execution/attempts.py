"""One try at a step: called, timed, and turned into an event."""

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
from holdfast.core.program import Program
from holdfast.core.step_info import StepInfo
from holdfast.engine.execution.budget_guard import AttemptSpending, Spender
from holdfast.engine.execution.outcomes import completed, encoded
from holdfast.engine.execution.pending import PendingStep
from holdfast.engine.runtime.program_loop import FeedAhead, ProgramLoop
from holdfast.engine.runtime.timer_queue import TimerHandle
from holdfast.errors import EngineClosed, StepTimeout
from holdfast.store.contract import Advance

TEARDOWN = 0.1
"""Seconds after which a loop that cancelled a step from outside counts as alive: ``asyncio.run``
cancels and closes at once."""


class _TaskTimeout:
    """Cancels the current task when its time is up."""

    def __init__(self, held: Spender, until: int) -> None:
        self.passed = False
        self._task = asyncio.current_task()
        self.alarm = held.host.alarms.at(until, self._pass)

    def _pass(self) -> None:
        self.passed = True
        assert self._task is not None
        self._task.cancel()


async def attempt(held: Spender, want: PendingStep) -> None:
    """Run a step once and leave what it came to in the run's inbox. A dropped step leaves
    nothing."""
    host, command = held.host, want.command
    if (
        not host.is_sure()
    ):  # the process was stopped: the run may have gone on elsewhere, and this step may be done
        try:
            await host.make_sure()
        except EngineClosed:
            return  # another worker asks
    want.started_at = host.store.now()
    limit = (
        None if command.timeout is None else _TaskTimeout(held, want.started_at + command.timeout)
    )
    value, error = None, None
    purse = want.purse = held.new_purse(command.id, command.under)
    try:
        current_spending.set(purse)
        info = _info(held, command, want.attempt)
        if command.is_async:
            value = await command.call(info, None)
        else:
            value = await host.threads.run(partial(command.call, info, None))
    except BaseException as raised:  # whatever it is: a step must not take its worker along
        if isinstance(raised, asyncio.CancelledError) and not held.expects(want):
            return
        error = as_exception(raised, "step")
    finally:
        if (
            want.task is not None
        ):  # else it has ended at once, and no one was told that it has begun
            host.long_steps.end(want)
        if limit is not None:
            limit.alarm.cancel()
    if limit is not None and limit.passed:
        error = _timeout(command)
    held.ended(command.id, value, error, want.started_at, purse)


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
        "_expired",
        "_held",
        "_loop",
        "_purse",
        "_stopping",
        "_task",
        "_want",
    )

    def __init__(
        self, held: Spender, want: PendingStep, loop: ProgramLoop, ahead: FeedAhead | None
    ) -> None:
        host = held.host
        command = want.command
        started_at = host.store.now()
        want.started_at = started_at
        self._held = held
        self._want = want
        self._loop = loop
        self._expired = False
        self._stopping = False
        self._task: asyncio.Task[None] | None = None
        self._ahead = ahead
        self._purse = want.purse = held.new_purse(command.id, command.under)
        self._context = Context()
        self._context.run(current_spending.set, self._purse)
        self._call = partial(command.call, _info(held, command, want.attempt), None)
        self._alarm: TimerHandle | None = None
        if command.timeout is not None:
            self._alarm = host.alarms.at(started_at + command.timeout, self._expire)

    # On the worker's loop

    def post(self) -> None:
        """Let the program's loop begin. Raises EngineClosed."""
        self._loop.post(self.begin)

    def adopt(self) -> None:
        """Let the run wait for an attempt that has begun on the program's loop already."""
        held, want = self._held, self._want
        want.task = self
        held.wants[want.command.id] = want
        assert want.started_at is not None
        held.host.long_steps.begin(held, want, want.started_at)

    def cancel_unless_adopted(self) -> None:
        """Cancel it if its run has left memory meanwhile."""
        if self._want.task is not self:
            self.cancel()

    def cancel(self) -> None:
        """Ask the step to stop. It has ended when its code has."""
        with suppress(EngineClosed):  # then its loop has cancelled it
            self._loop.post(self._cancel)

    def _expire(self) -> None:
        self._expired = True
        self.cancel()

    def _fed(self, event: Event, commands: list[Command], error: BaseException | None) -> None:
        held = self._held
        self._let_go()
        held.note_fed(event, commands, error, self._purse)

    def _end(self, value: Any, raised: BaseException | None) -> None:
        held, want = self._held, self._want
        self._let_go()
        if isinstance(raised, asyncio.CancelledError) and not held.expects(want):
            return
        error = None if raised is None else as_exception(raised, "step")
        if self._expired:
            error = _timeout(want.command)
        held.ended(want.command.id, value, error, want.started_at, self._purse)

    def _let_go(self) -> None:
        self._held.host.long_steps.end(self._want)
        if self._alarm is not None:
            self._alarm.cancel()
        del self._held, self._want, self._ahead

    # On the program's loop

    def begin(self) -> None:
        """Begin the step. On the program's loop."""
        self._task = self._loop.hands.start(self._run(), self._context)

    def _cancel(self) -> None:
        self._stopping = True
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        value, error = None, None
        try:
            value = await self._call()
        except BaseException as raised:  # it is for the worker to say what that means
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
        if raised is None and self._ahead is not None and self._purse.is_empty():
            event = completed(self._want, value, codec=self._held.host.codec, now=self._held.now())
            if event is not None and self._ahead.take():
                commands, error = self._ahead.feed(event)
                answer(self._fed, event, commands, error)
                if isinstance(error, KeyboardInterrupt | SystemExit):
                    raise error
                return
        answer(self._end, value, raised)


def _timeout(command: RunStep) -> StepTimeout:
    return StepTimeout(step=command.id, timeout=duration.show(command.timeout or 0))


def begin_remotely(held: Spender, want: PendingStep) -> asyncio.Task[None] | RemoteAttempt | None:
    """Make an attempt at an ``async def`` step on the program's loop; return what can be
    cancelled."""
    host, program_loop = held.host, held.host.program_loop
    assert program_loop is not None
    if host.is_sure():
        remote = RemoteAttempt(held, want, program_loop, held.feed_ahead())
        remote.post()
        return remote
    return host.hands.start(_begin_when_sure(held, want, program_loop))


async def _begin_when_sure(held: Spender, want: PendingStep, program_loop: ProgramLoop) -> None:
    try:
        await held.host.make_sure()
    except EngineClosed:
        return
    if held.expects(want):
        want.task = remote = RemoteAttempt(held, want, program_loop, held.feed_ahead())
        remote.post()


class BeginAhead:
    """The right to begin, on the program's loop, the one plain step that follows from a signal.

    The signal is committed already and leads to the same step after a crash, so the step need not
    wait until the worker has heard of it and has recorded the signal. That saves a journey to the
    worker and back."""

    __slots__ = ("_held", "_loop", "_program")

    def __init__(self, held: Spender, program: Program, loop: ProgramLoop) -> None:
        self._held = held
        self._program = program
        self._loop = loop

    def __call__(self, commands: Sequence[Command]) -> RemoteAttempt | None:
        """Return the attempt, if these commands are such a step. The worker waits for the answer
        meanwhile, and touches nothing that is read here."""
        held = self._held
        command = commands[0] if len(commands) == 1 else None
        if (
            not isinstance(command, RunStep)
            or not command.is_async
            or command.timeout is not None
            or command.own
        ):
            return None
        was_tried = command.id in held.progress.attempts
        if was_tried or self._program.asked_time or not held.host.is_sure():
            return None
        return RemoteAttempt(held, PendingStep(command, 1, None), self._loop, None)


def _info(held: Spender, command: RunStep, number: int) -> StepInfo:
    run, life = held.run, held.lives.of(command.id)
    return StepInfo(run.id, run.workflow, command.id, number, run.generation, held.outlet, life)


def body_of(
    held: Spender, want: PendingStep, op: Advance, purse: AttemptSpending
) -> Callable[[Any], bytes]:
    """Return what runs a step inside the transaction that records it. Whichever thread commits
    calls it: in a context of the run, and not in one of that thread."""
    context = copy_context()
    return lambda connection: context.run(_transact, held, want, op, purse, connection)


def _transact(
    held: Spender, want: PendingStep, op: Advance, purse: AttemptSpending, connection: Any
) -> bytes:
    """Call the step, and let what it puts out be part of the transaction, too."""
    command = want.command
    info = _info(held, command, want.attempt)
    held.outlet.begin_anew(command.id, want.attempt)
    purse.spendings.clear()  # it may be called again when the store was in trouble
    current_spending.set(purse)
    try:
        data = encoded(command, command.call(info, connection), held.host.codec)
    except Exception:
        raise
    except (
        BaseException
    ) as raised:  # such as sys.exit(): the others in this transaction are not to blame
        if isinstance(raised, KeyboardInterrupt):
            held.host.writer.interrupt()
        raise as_exception(raised, "step") from raised
    op.output = held.outlet.take_attempt(command.id, want.attempt)
    return data
