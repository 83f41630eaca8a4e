"""Knowing when a worker has nothing left to do: every run it holds waits for time, a signal or a
person, and none can be claimed.

The one place that looks into the engine from outside. It runs on the engine's own loop, so what it
sees does not move.
"""

from __future__ import annotations

import asyncio

from holdfast.engine.execution.execution import RunExecution
from holdfast.engine.worker.worker import Worker

TURNS = 3
"""For so many turns of the loop in a row nothing must happen."""

LOOK = 0.05
"""Seconds after which somebody who waits for a step looks whether the engine is still alive."""


class NotIdle(AssertionError):
    """The engine is still at work though it was given time to settle."""


def is_dead(worker: Worker) -> bool:
    """Say whether the engine has crashed, or was closed."""
    return worker.writer._dead is not None


async def run_until_idle(worker: Worker, limit: float) -> None:
    """Wait until nothing happens any more unless time passes or somebody does something. Raises
    NotSettled."""
    deadline = worker.loop.time() + limit
    quiet = 0
    while quiet < TURNS and not is_dead(worker):
        if worker.loop.time() > deadline:
            raise NotIdle(
                f"the engine is still at work after {limit:g} s:"
                f" {'; '.join(at_work(worker)) or 'it claims'}"
            )
        quiet = quiet + 1 if is_idle(worker) else 0
        await _pass_a_turn(worker, deadline)


async def _pass_a_turn(worker: Worker, deadline: float) -> None:
    """Let the others have their turn; if all that is at work are steps, wait for one of them to
    end."""
    waiting = [
        driver.mailbox.completion
        for driver in worker.drivers.values()
        if _sleeps(driver) and not _rests(driver)
    ]
    others = [driver for driver in worker.drivers.values() if not _sleeps(driver)]
    if waiting and not others and _is_idle(worker):
        patience = min(
            deadline - worker.loop.time(), LOOK
        )  # the engine may die in the thread of a step, which wakes nobody
        await asyncio.wait(
            [one.watched() for one in waiting if one],
            timeout=patience,
            return_when=asyncio.FIRST_COMPLETED,
        )
    else:
        await asyncio.sleep(0)


def is_idle(worker: Worker) -> bool:
    """Say whether, right now, nothing is going on."""
    return _is_idle(worker) and all(_rests(driver) for driver in worker.drivers.values())


def _is_idle(worker: Worker) -> bool:
    """The worker itself has nothing to write, to claim or to wake."""
    writer, ready = worker.writer, worker._ready
    alarms = worker.alarms._heap
    claims = ready.is_set() or not ready._waiters
    due = any(
        instant <= worker.clock.now() and alarm.call is not None for instant, _, alarm in alarms
    )
    return not (writer._queue or writer._scheduled or claims or due or worker.settler.busy)


def _sleeps(driver: RunExecution) -> bool:
    return (
        driver.mailbox.completion is not None
        and not driver.mailbox.completion.done()
        and not driver.mailbox.outcomes
        and not driver.mailbox.is_notified
    )


def _rests(driver: RunExecution) -> bool:
    """The run only waits, and what it waits for has not come."""
    is_due = driver.mailbox.is_due(driver.state.now())
    return _sleeps(driver) and not is_due and driver.pending.only_wait()


def at_work(worker: Worker) -> list[str]:
    """Say, for people, what keeps the engine busy."""
    return [
        f"run {driver.run.id} of {driver.run.workflow} {_doing(driver)}"
        for driver in worker.drivers.values()
        if not _rests(driver)
    ]


def _doing(driver: RunExecution) -> str:
    running = [step for step, pending in driver.pending.items() if pending.is_running]
    return f"runs step {', '.join(running)}" if running else "is being driven on"


def next_instant(worker: Worker) -> int | None:
    """Return when something will happen by the mere passing of time, if anything will."""
    now = worker.clock.now()
    times = [
        worker.store.next_wake(),
        *(driver.mailbox.due_at for driver in worker.drivers.values()),
    ]
    return min((time for time in times if time is not None and time > now), default=None)
