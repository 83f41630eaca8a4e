"""One try at a step: called, timed, and turned into an event."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context, copy_context
from functools import partial
from typing import Any

from holdfast.core import duration
from holdfast.core.exits import as_exception
from holdfast.core.program import Command, RunStep, StepInfo
from holdfast.core.purse import current_purse
from holdfast.core.records import Event
from holdfast.engine.alarms import Alarm
from holdfast.engine.outcomes import completed, encoded
from holdfast.engine.program_loop import ProgramLoop
from holdfast.engine.spending import HandPurse, Spender
from holdfast.engine.wants import Step
from holdfast.errors import EngineClosed, StepTimeout
from holdfast.store.contract import Advance


class _Limit:
    """Cancels the current task when its time is up."""

    def __init__(self, held: Spender, until: int) -> None:
        self.passed = False
        self._task = asyncio.current_task()
        self.alarm = held.host.alarms.at(until, self._pass)

    def _pass(self) -> None:
        self.passed = True
        assert self._task is not None
        self._task.cancel()


async def attempt(held: Spender, want: Step) -> None:
    """Run a step once and leave what it came to in the run's inbox. A dropped step leaves nothing."""
    host, command = held.host, want.command
    if not host.is_sure():  # the process was stopped: the run may have gone on elsewhere, and this step may be done
        try:
            await host.make_sure()
        except EngineClosed:
            return  # another worker asks
    want.started_at = host.store.now()
    limit = None if command.timeout is None else _Limit(held, want.started_at + command.timeout)
    value, error = None, None
    purse = want.purse = held.new_purse(command.id, command.under)
    try:
        value = await _call(held, command, want.attempt, purse)
    except BaseException as raised:  # whatever it is: a step must not take its worker along
        if isinstance(raised, asyncio.CancelledError) and not held.expects(want):
            return
        error = as_exception(raised, "step")
    finally:
        if want.note is not None:
            want.note.cancel()
        if limit is not None:
            limit.alarm.cancel()
    if limit is not None and limit.passed:
        error = _timeout(command)
    held.ended(command.id, value, error, want.started_at, purse)


async def _call(held: Spender, command: RunStep, number: int, purse: HandPurse) -> Any:
    current_purse.set(purse)
    call = partial(command.call, _info(held, command, number), None)
    return await (call() if command.is_async else held.host.threads.run(call))


class RemoteAttempt:
    """One try at an ``async def`` step on the program's loop. It takes no task on the worker's loop."""

    __slots__ = ("_ahead", "_alarm", "_call", "_expired", "_held", "_program_loop", "_purse", "_want")

    def __init__(self, held: Spender, want: Step, program_loop: ProgramLoop) -> None:
        host, command = held.host, want.command
        self._held, self._want = held, want
        self._program_loop = program_loop
        self._expired = False
        self._alarm: Alarm | None = None
        self._ahead = held.feed_ahead()
        want.started_at = host.store.now()
        self._purse = want.purse = held.new_purse(command.id, command.under)
        context = Context()
        context.run(current_purse.set, self._purse)
        call = partial(command.call, _info(held, command, want.attempt), None)
        self._call = program_loop.call(call, context, self._return)
        if command.timeout is not None:
            self._alarm = host.alarms.at(want.started_at + command.timeout, self._expire)

    def cancel(self) -> None:
        """Ask the step to stop. It has ended when its code has."""
        self._call.cancel()

    def _return(self, value: Any, raised: BaseException | None) -> None:
        """The step has ended, on the program's loop."""
        answer = self._program_loop.answer
        if raised is None and self._ahead is not None and self._purse.is_empty():
            event = completed(self._want, value, codec=self._held.host.codec, now=self._held.now())
            if event is not None and self._ahead.take():
                commands, error = self._ahead.feed(event)
                answer(self._fed, event, commands, error)
                if isinstance(error, KeyboardInterrupt | SystemExit):
                    raise error
                return
        answer(self._end, value, raised)

    # On the worker's loop

    def _expire(self) -> None:
        self._expired = True
        self.cancel()

    def _fed(self, event: Event, commands: list[Command], error: BaseException | None) -> None:
        self._stop_alarms()
        self._held.note_fed(event, commands, error, self._purse)

    def _end(self, value: Any, raised: BaseException | None) -> None:
        held, want = self._held, self._want
        self._stop_alarms()
        if isinstance(raised, asyncio.CancelledError) and not held.expects(want):
            return
        error = None if raised is None else as_exception(raised, "step")
        if self._expired:
            error = _timeout(want.command)
        held.ended(want.command.id, value, error, want.started_at, self._purse)

    def _stop_alarms(self) -> None:
        if self._want.note is not None:
            self._want.note.cancel()
        if self._alarm is not None:
            self._alarm.cancel()


def _timeout(command: RunStep) -> StepTimeout:
    return StepTimeout(step=command.id, timeout=duration.show(command.timeout or 0))


def begin_remotely(held: Spender, want: Step) -> asyncio.Task[None] | RemoteAttempt | None:
    """Make an attempt at an ``async def`` step on the program's loop; return what can be cancelled."""
    host, program_loop = held.host, held.host.program_loop
    assert program_loop is not None
    if host.is_sure():
        return RemoteAttempt(held, want, program_loop)
    return host.hands.start(_begin_when_sure(held, want, program_loop))


async def _begin_when_sure(held: Spender, want: Step, program_loop: ProgramLoop) -> None:
    try:
        await held.host.make_sure()
    except EngineClosed:
        return
    if held.expects(want):
        want.task = RemoteAttempt(held, want, program_loop)


def _info(held: Spender, command: RunStep, number: int) -> StepInfo:
    run, life = held.run, held.lives.of(command.id)
    return StepInfo(run.id, run.workflow, command.id, number, run.generation, held.outlet, life)


def body_of(held: Spender, want: Step, op: Advance, purse: HandPurse) -> Callable[[Any], bytes]:
    """Return what runs a step inside the transaction that records it. Whichever thread commits calls it: in a context of the run,
    and not in one of that thread."""
    context = copy_context()
    return lambda connection: context.run(_transact, held, want, op, purse, connection)


def _transact(held: Spender, want: Step, op: Advance, purse: HandPurse, connection: Any) -> bytes:
    """Call the step, and let what it puts out be part of the transaction, too."""
    command = want.command
    info = _info(held, command, want.attempt)
    held.outlet.begin_anew(command.id, want.attempt)
    purse.spendings.clear()  # it may be called again when the store was in trouble
    current_purse.set(purse)
    try:
        data = encoded(command, command.call(info, connection), held.host.codec)
    except Exception:
        raise
    except BaseException as raised:  # such as sys.exit(): the others in this transaction are not to blame
        if isinstance(raised, KeyboardInterrupt):
            held.host.writer.interrupt()
        raise as_exception(raised, "step") from raised
    op.output = held.outlet.take_attempt(command.id, want.attempt)
    return data
