"""One try at a step: called, timed, and turned into an event."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

from holdfast.core import duration
from holdfast.core.program import RunStep, StepInfo
from holdfast.core.purse import current_purse
from holdfast.engine.outcomes import encoded
from holdfast.engine.spending import HandPurse, Spender
from holdfast.engine.wants import Step
from holdfast.errors import StepTimeout
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
        await host.make_sure()
    want.started_at = host.store.now()
    limit = None if command.timeout is None else _Limit(held, want.started_at + command.timeout)
    value, error = None, None
    purse = want.purse = held.new_purse(command.id, command.under)
    try:
        value = await _call(held, command, want.attempt, purse)
    except asyncio.CancelledError:
        if limit is None or not limit.passed:
            return
    except Exception as raised:
        error = raised
    except BaseException as raised:  # a step must not take its worker along
        error = RuntimeError(f"the step raised {type(raised).__name__}: {raised}")
    finally:
        if want.note is not None:
            want.note.cancel()
        if limit is not None:
            limit.alarm.cancel()
    if limit is not None and limit.passed:
        error = StepTimeout(step=command.id, timeout=duration.show(command.timeout or 0))
    held.ended(command.id, value, error, want.started_at, purse)


async def _call(held: Spender, command: RunStep, number: int, purse: HandPurse) -> Any:
    current_purse.set(purse)
    info = StepInfo(held.run.id, held.run.workflow, command.id, number, held.run.generation, held.outlet)
    if command.is_async:
        return await command.call(info, None)
    return await held.host.threads.run(partial(command.call, info, None))


def transact(held: Spender, want: Step, op: Advance, purse: HandPurse, connection: Any) -> bytes:
    """Run a step inside the transaction that records it, and let what it puts out be part of that, too."""
    command = want.command
    info = StepInfo(held.run.id, held.run.workflow, command.id, want.attempt, held.run.generation, held.outlet)
    held.outlet.begin_anew(command.id, want.attempt)
    purse.spendings.clear()  # it may be called again when the store was in trouble
    token = current_purse.set(purse)
    try:
        data = encoded(command, command.call(info, connection), held.host.codec)
    finally:
        current_purse.reset(token)
    op.output = held.outlet.take_attempt(command.id, want.attempt)
    return data
