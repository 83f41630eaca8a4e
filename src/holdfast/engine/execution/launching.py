"""Starting the steps and spendings that a program asks for, after the commit that precedes them."""

from __future__ import annotations

from holdfast.core.events import Event, EventKind
from holdfast.engine.execution.attempts import attempt, begin_remotely, body_of
from holdfast.engine.execution.commits import persist
from holdfast.engine.execution.leaving import release, stop_working
from holdfast.engine.execution.pending.base import Execution
from holdfast.engine.execution.pending.budgets import PendingSpend, may_launch
from holdfast.engine.execution.pending.steps import PendingStep
from holdfast.errors import EngineClosed, LeaseLost, WriteConflict
from holdfast.store.budgets.operations import BudgetRefused
from holdfast.store.runs.operations import Advance, Advanced, Body
from holdfast.store.user_code import CodeRaised


async def launch(run: Execution) -> None:
    """Start the steps that the program asks for, now that everything before them is
    committed."""
    launches = run.pending.launches
    if run.state.is_over or (launches and run.state.is_about_to_stop()):
        return
    if launches and run.context.stopping:
        await stop_working(run)
        return
    if launches and run.state.resumes and _is_displaced(run):
        await release(run)
        return
    # Replaced before the loop: what a step of it asks for is added to the new list.
    run.pending.launches = []
    if run.budget.breach is not None:
        launches = may_launch(run, launches)
    for pending in launches:
        if isinstance(pending, PendingSpend):
            await _spend(run, pending)
        elif pending.command.transactional:
            await _transact(run, pending)
        else:
            start_attempt(run, pending)


def _is_displaced(run: Execution) -> bool:
    """Return whether the place of the run was given to another one while it waited: it is
    claimed again when a place is free."""
    run.state.resumes = False
    return run.context.capacity.is_exceeded()


def start_attempt(run: Execution, pending: PendingStep) -> None:
    """Begin an attempt at a step, on the loop or in a thread."""
    context = run.context
    if pending.command.is_async and context.program_loop is not None:
        pending.task = begin_remotely(run, pending)
    else:
        pending.task = context.eager_tasks.start(attempt(run, pending))
    if pending.task is not None:
        since = pending.started_at
        if since is None:
            since = run.state.now()
        context.long_steps.begin(run, pending, since)


async def _transact(run: Execution, pending: PendingStep) -> None:
    """Run a step inside the transaction that records it."""
    command = pending.command
    started_at = run.state.now()
    event = Event(
        EventKind.STEP_COMPLETED,
        command.id,
        attempt=pending.attempt,
        started_at=started_at,
        at=started_at,
        seq=run.state.seq + 1,
        role=command.role,
    )
    spending = run.budget.new_spending(command, transacts=True)
    op = Advance(
        run_id=run.state.run.id,
        generation=run.state.run.generation,
        events=[event],
    )
    op.body = Body(body_of(run, pending, op, spending))
    try:
        answer: Advanced = await persist(run, op)
    # Not outcomes of the step: the commit itself did not take place.
    except (LeaseLost, EngineClosed, WriteConflict):
        raise
    except CodeRaised as raised:
        run.attempt_ended(command.id, None, raised.error, started_at, spending)
        return
    except Exception as error:
        run.attempt_ended(command.id, None, error, started_at, spending)
        return
    run.context.writer.metrics.committed(run.state.run, [event])
    run.note_breach(answer.breach)
    run.state.seq += 1
    run.state.steps += 1
    event.data = answer.data
    run.pending.take(pending)
    assert run.program is not None
    await run.execute_commands(await run.program.feed([event]))


async def _spend(run: Execution, pending: PendingSpend) -> None:
    """Spend or reserve what the code of the workflow asks for, or let it wait for room."""
    denied = pending.unknown_dimension(run)
    event = denied
    if event is None:
        op = pending.operation(run)
        answer = await persist(run, op)
        if isinstance(answer, BudgetRefused):
            denied = pending.refused(run, answer.breach)
            event = denied
        else:
            run.state.seq += 1
            event = op.event
            run.note_breach(answer.breach)
    if event is None:
        return
    if denied is not None:
        run.commit.events.append(denied)
    run.pending.take(pending)
    assert run.program is not None
    await run.execute_commands(await run.program.feed([event]))
