"""How an execution gives its run up: parked, released, handed back or stuck."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from holdfast.core.events import Event, EventKind, EventRole
from holdfast.core.status import Status
from holdfast.core.streams.model import CloseReason
from holdfast.engine.execution import commits
from holdfast.engine.execution.pending.base import Execution
from holdfast.engine.execution.pending.steps import PendingStep
from holdfast.engine.execution.recording import write
from holdfast.engine.runtime.error_data import error_data
from holdfast.engine.runtime.log_records import of_run
from holdfast.errors import EngineClosed, HoldfastError, KeyMissing, LeaseLost
from holdfast.store.budgets.operations import ReleaseReservations
from holdfast.store.effects import RevisionChanged
from holdfast.store.runs.operations import Advance

log = logging.getLogger("holdfast")

READ_RETRY_SECONDS = 0.5
"""Seconds until a run that could not be read is released."""


def should_leave_memory(run: Execution) -> bool:
    if run.context.stopping:
        return run.pending.only_wait()
    state = run.state
    return state.waiting and state.now() >= state.waiting_since + run.context.idle_timeout


async def leave_memory(run: Execution) -> None:
    """Park the run in the store alone, or hand it to another worker."""
    op = Advance(run_id=run.state.run.id, generation=run.state.run.generation)
    commits.park(run, op)
    op.release = True
    if not run.pending:
        op.status = run.state.active_status()
        op.waits = None
    await run.output.wait_until_written()
    commits.add_output(op, run.output.take())
    answer = await write(run, op)
    if isinstance(answer, RevisionChanged):
        run.state.revision = answer.revision
        run.notify()
    else:
        run.state.is_over = True


async def stop_working(run: Execution) -> None:
    """Release the run because the worker stops; steps that are at work end first."""
    if any(pending.task is not None for pending in run.pending.of(PendingStep)):
        run.pending.launches.clear()  # the next holder starts them
        return
    await release(run)


async def release(run: Execution) -> None:
    await run.output.wait_until_written()
    status = Status.CANCELLING if run.state.cancelling else Status.PENDING
    op = Advance(
        run_id=run.state.run.id, generation=run.state.run.generation, status=status, release=True
    )
    commits.add_output(op, run.output.take(CloseReason.RELEASED, only_steps=True))
    await write(run, op)
    run.state.is_over = True


async def hand_back(run: Execution, error: Exception) -> None:
    """Release the run so that its next holder reads it from the store: either the store could
    not be read, or the history there has events that this execution does not know."""
    log.warning(
        "run %s is released and will be read again: %s",
        run.state.run.id,
        error,
        extra=of_run(run.state.run),
    )
    run.close()
    await asyncio.sleep(READ_RETRY_SECONDS)
    with suppress(LeaseLost, EngineClosed):
        await release(run)


async def mark_stuck(run: Execution, error: Exception) -> None:
    """Record why the run cannot continue without an operator; nothing else is lost."""
    is_foreseen = isinstance(error, HoldfastError)
    log.error(
        "run %s of %s is stuck: %s",
        run.state.run.id,
        run.state.run.workflow,
        error,
        exc_info=None if is_foreseen else error,
        extra=of_run(run.state.run),
    )
    await run.output.wait_until_written()
    # A refused event is not in the history, whatever number it was given here.
    history = run.context.store.runs.history(run.state.run.id)
    run.state.seq = max((event.seq for event in history), default=0)
    data = error_data(error)
    event = Event(EventKind.RUN_STUCK, error=data)
    if isinstance(error, KeyMissing):
        event.role = EventRole.KEY_MISSING
    run.state.number([event])
    op = Advance(
        run_id=run.state.run.id,
        generation=run.state.run.generation,
        status=Status.STUCK,
        release=True,
        error=data,
        events=[event],
    )
    if run.budget.reserved_steps:
        op.effects = (ReleaseReservations(sorted(run.budget.reserved_steps)),)
    commits.add_output(op, run.output.take(CloseReason.STUCK, only_steps=True))
    with suppress(LeaseLost, EngineClosed):
        await write(run, op)
        run.context.writer.metrics.committed(run.state.run, op.events)
