"""One try at a step: called, timed, and turned into an event."""

from __future__ import annotations

import asyncio
import random
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core import duration, retry
from holdfast.core.program import RunStep, StepInfo
from holdfast.core.records import Event, Kind
from holdfast.engine.failure import as_data
from holdfast.engine.wants import Step
from holdfast.errors import StepTimeout

if TYPE_CHECKING:
    from holdfast.engine.driver import Driver

NOTE_AFTER = 1_000_000
"""Microseconds after which a step that still runs is noted in the history, so that anybody can see it."""


async def attempt(driver: Driver, want: Step) -> None:
    """Run a step once and leave what it came to in the driver's inbox. A dropped step leaves nothing."""
    host, command = driver.host, want.command
    want.started_at = host.store.now()
    note = host.alarms.at(want.started_at + NOTE_AFTER, partial(driver.note_started, want))
    limit = None
    timed_out = False
    task = asyncio.current_task()

    def expire() -> None:
        nonlocal timed_out
        timed_out = True
        assert task is not None
        task.cancel()

    if command.timeout is not None:
        limit = host.alarms.at(want.started_at + command.timeout, expire)
    value, error = None, None
    try:
        value = await _call(driver, command, want.attempt)
    except asyncio.CancelledError:
        if not timed_out:
            return
    except Exception as raised:
        error = raised
    except BaseException as raised:  # a step must not take its worker along
        error = RuntimeError(f"the step raised {type(raised).__name__}: {raised}")
    finally:
        note.cancel()
        if limit is not None:
            limit.cancel()
    if timed_out:
        error = StepTimeout(step=command.id, timeout=duration.show(command.timeout or 0))
    driver.ended(command.id, value, error, want.started_at)


async def _call(driver: Driver, command: RunStep, number: int) -> Any:
    info = StepInfo(driver.run.id, driver.run.workflow, command.id, number, driver.run.generation)
    if command.is_async:
        return await command.call(info, None)
    return await driver.host.threads.run(partial(command.call, info, None))


def event_of(driver: Driver, want: Step, value: Any, error: Exception | None, started_at: int | None) -> Event:
    """Return the event that an attempt comes to: completed, failed for good, or to be tried again at an instant."""
    command = want.command
    data = None
    if error is None:
        try:
            data = driver.host.codec.encode(value, what=f"the result of step {command.name!r}")
        except Exception as refused:
            error = refused
    if error is None:
        return Event(Kind.STEP_COMPLETED, command.id, data, None, want.attempt, started_at)
    wait = retry.decide(command.policy, error, want.attempt, random.random())
    if wait is None:
        return Event(Kind.STEP_FAILED, command.id, None, as_data(error), want.attempt, started_at)
    until = driver.host.store.now() + wait
    again = msgspec.json.encode({"until": until})
    return Event(Kind.STEP_RETRIED, command.id, again, as_data(error), want.attempt, started_at)
