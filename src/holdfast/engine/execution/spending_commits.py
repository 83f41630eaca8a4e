"""Committing completed attempts that spend, before the program is fed their outcomes."""

from __future__ import annotations

from typing import Any

from holdfast.core.budgets.model import Breach
from holdfast.core.events import Event
from holdfast.engine.execution.commits import add_output, persist
from holdfast.engine.execution.pending.base import Execution
from holdfast.engine.execution.pending.budgets import refused_attempt, spending_commit
from holdfast.store.budgets.operations import BudgetRefused
from holdfast.store.streams.operations import AppendFrames


async def commit_spending(run: Execution, events: list[Event]) -> list[Event]:
    """Commit attempts that spend before the program is fed: without room they have not
    completed. Return the completed ones; the outcomes of the others go to *events*."""
    waiting = run.mailbox.spending_outcomes
    run.mailbox.spending_outcomes = []
    done: list[Event] = []
    together = [outcome for outcome in waiting if outcome[1].is_plain]
    if len(together) > 1 and await _spend_for(run, together) is None:
        done = [event for event, _ in together]
        waiting = [outcome for outcome in waiting if outcome[0] not in done]
    for event, spending in waiting:
        breach = await _spend_for(run, [(event, spending)])
        if breach is None:
            done.append(event)
        else:
            run.accept(refused_attempt(event, spending, breach), spending, events)
    return done


async def _spend_for(run: Execution, attempts: list[tuple[Event, Any]]) -> Breach | None:
    """Commit these attempts and their spending, all or none; return the limit that refuses
    them."""
    output = run.output
    await output.wait_until_written()
    op = spending_commit(run, attempts)
    run.state.set_times(op.events)
    for number, event in enumerate(op.events, run.state.seq + 1):
        event.seq = number
        output.ended(event)
    frames = output.take()
    add_output(op, frames)
    answer = await persist(run, op)
    if isinstance(answer, BudgetRefused):
        for event in op.events:
            output.reopen(frames, event)
        if frames is not None:  # the output of the attempts is not refused with them
            await persist(run, AppendFrames(run.state.run.id, run.state.run.generation, frames))
        return answer.breach
    run.context.writer.metrics.committed(run.state.run, op.events)
    run.state.seq += len(op.events)
    run.state.steps += len(attempts)
    for event, spending in attempts:
        run.budget.reserved_steps.discard(event.step or "")
        run.budget.note_spent(spending.take())
        run.pending.remove(event.step or "")
    run.note_breach(answer.breach)
    return None
