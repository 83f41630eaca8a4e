"""Detect that a worker is idle: each of its executions waits for time, a signal or a person, and
no run can be claimed.

This is the only module that reads private state of the engine from outside. It runs on the engine's
own loop, so the state does not change while it reads.
"""

from __future__ import annotations

import asyncio

from holdfast.engine.execution.execution import RunExecution
from holdfast.engine.worker.worker import Worker

TURNS = 3
"""The number of consecutive turns of the loop in which nothing must happen."""

LOOK = 0.05
"""The interval in seconds at which a wait for a step checks whether the engine is still alive."""


class NotIdle(AssertionError):
    """The engine was still busy when the time to become idle was over."""


def is_dead(worker: Worker) -> bool:
    """Return whether the engine has crashed or was closed."""
    return worker.writer._dead is not None


async def run_until_idle(worker: Worker, limit: float) -> None:
    """Wait until nothing more happens unless time passes or a signal or an answer arrives.

    Return early if the engine dies. Raises NotIdle after *limit* real seconds.
    """
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
    """Give the loop a turn; if only steps are running, wait until one of them ends."""
    waiting = [
        execution.mailbox.completion
        for execution in worker.executions.values()
        if _sleeps(execution) and not _rests(execution)
    ]
    others = [execution for execution in worker.executions.values() if not _sleeps(execution)]
    if waiting and not others and _is_idle(worker):
        # A limit, because the engine may die in the thread of a step, which completes no wait.
        patience = min(deadline - worker.loop.time(), LOOK)
        await asyncio.wait(
            [completion.as_future() for completion in waiting if completion],
            timeout=patience,
            return_when=asyncio.FIRST_COMPLETED,
        )
    else:
        await asyncio.sleep(0)


def is_idle(worker: Worker) -> bool:
    """Return whether the worker and all of its executions are idle at this moment."""
    return _is_idle(worker) and all(_rests(execution) for execution in worker.executions.values())


def _is_idle(worker: Worker) -> bool:
    """Return whether the worker itself has nothing to write, to claim or to wake."""
    writer, ready = worker.writer, worker.claims.ready
    timers = worker.timers._heap
    claims = ready.is_set() or not ready._waiters
    due = any(
        instant <= worker.clock.now() and timer.call is not None for instant, _, timer in timers
    )
    busy = worker.graph_resolver.busy or worker.resolvers.busy
    return not (writer._queue or writer._scheduled or claims or due or busy)


def _sleeps(execution: RunExecution) -> bool:
    return (
        execution.mailbox.completion is not None
        and not execution.mailbox.completion.done()
        and not execution.mailbox.outcomes
        and not execution.mailbox.is_notified
    )


def _rests(execution: RunExecution) -> bool:
    """Return whether the run only waits, and no outcome of its waits has arrived."""
    is_due = execution.mailbox.is_due(execution.state.now())
    return _sleeps(execution) and not is_due and execution.pending.only_wait()


def at_work(worker: Worker) -> list[str]:
    """Return readable descriptions of the executions that keep the engine busy."""
    return [
        f"run {execution.run.id} of {execution.run.workflow} {_doing(execution)}"
        for execution in worker.executions.values()
        if not _rests(execution)
    ]


def _doing(execution: RunExecution) -> str:
    running = [step for step, pending in execution.pending.items() if pending.is_running]
    if not running:
        return "is being driven on"
    return f"runs step {', '.join(running)}"


def next_instant(worker: Worker) -> int | None:
    """Return the next time, in microseconds, at which something is due; None if nothing is."""
    now = worker.clock.now()
    times = [
        worker.store.runs.next_wake(),
        *(execution.mailbox.due_at for execution in worker.executions.values()),
    ]
    return min((time for time in times if time is not None and time > now), default=None)
