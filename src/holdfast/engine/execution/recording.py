"""Record the progress of a run in one commit, and note its state after it."""

from __future__ import annotations

from functools import partial
from typing import Any

from holdfast.core.commands import Finish
from holdfast.core.status import FINAL
from holdfast.engine.execution import commits
from holdfast.engine.execution.commit_buffer import CommitBuffer
from holdfast.engine.execution.commits import persist
from holdfast.engine.execution.pending.base import Execution
from holdfast.engine.execution.pending.children import unstarted_maps
from holdfast.engine.execution.pending.gates import note_stored
from holdfast.engine.execution.pending.graph_growth import write_growth
from holdfast.errors import (
    BudgetNotFound,
    Diverged,
    GraphRefused,
    HoldfastError,
    LaneDraining,
    RunExists,
    StoreError,
)
from holdfast.store.effects import RevisionChanged
from holdfast.store.gates.operations import ChangeGate
from holdfast.store.graphs.operations import AddMembers
from holdfast.store.runs.operations import Advance, Advanced, CancelChildren, CancelOtherRun
from holdfast.store.streams.operations import AppendOutput

REFUSALS = (RunExists, BudgetNotFound, LaneDraining, GraphRefused)
"""Errors by which the store refuses a commit because of a command in it: the workflow fails."""


async def record_progress(run: Execution, *, rests: bool) -> None:
    """Commit the buffer and, when the program rests, the status of the run."""
    if run.output.writing is not None:
        await run.output.wait_until_written()
    commit = run.commit
    run.commit = CommitBuffer()  # before the write: reports during it belong to the next commit
    if commit.has_effects and len(commit.of(CancelOtherRun)) > commits.PORTION:
        await commits.cancel_in_portions(run, commit)
    is_open = rests and commit.finish is None
    can_move = run.pending.by_step or run.pending.launches or run.resting is not None
    if is_open and not can_move:  # a run with tokens at rest waits for instructions
        why = "the workflow waits for something that can never happen"
        raise Diverged(run=run.state.run.id, why=why)
    parks = (
        is_open
        and not run.pending.launches  # cheapest first: most turns end with a step to launch
        and run.pending.only_wait()
        and not _has_unseen(run, commit)
    )
    op = commits.progress(run, commit, parks=parks)
    if op is None:
        run.output.release()
        return
    answer = await write(run, op)
    if isinstance(answer, RevisionChanged):
        # Something has reached the run before it was parked: record the progress, and go on.
        run.state.revision = answer.revision
        run.notify()
        if commit.is_empty and not op.of(AppendOutput):
            return
        answer = await write(run, commits.without_parking(run, op))
    _applied(run, op, answer)


def _has_unseen(run: Execution, commit: CommitBuffer) -> bool:
    """Return whether something was reported that was not processed yet: to park says that
    everything up to this revision was seen."""
    mailbox = run.mailbox
    if mailbox.is_notified or mailbox.has_new_signals or mailbox.findings:
        return True
    if commit.of(CancelChildren):
        return True
    return run.state.had_children and bool(unstarted_maps(run))


async def write(run: Execution, op: Advance) -> Advanced | RevisionChanged:
    """Write a commit; if the store refuses a command in it, the run fails."""
    answer: Advanced | RevisionChanged
    state = run.state
    try:
        if (
            not (op.effects and op.of(AppendOutput))
            and not (state.in_graph or state.had_children)
            and run.context.sealer.is_light(op)
        ):
            try:  # most writes need nothing else of what persist() does
                answer = await run.context.writer.post(op)
                return answer
            except StoreError as error:
                commits.log_retry(run, error)
        if op.of(AddMembers):
            answer = await write_growth(run, op, partial(persist, run))
        else:
            answer = await persist(run, op)
        return answer
    except REFUSALS as error:
        return await _fail(run, op, error)


async def _fail(run: Execution, op: Advance, error: HoldfastError) -> Advanced | RevisionChanged:
    """End the run as failed, because its commit was refused."""
    if op.events:
        # The refused events are not in the history: their numbers are free.
        run.state.seq = op.events[0].seq - 1
    failed = Advance(run_id=op.run_id, generation=op.generation, effects=op.of(AppendOutput))
    commits.finish(run, failed, Finish("failed", error=error))
    run.state.number(failed.events)
    op.effects = ()
    op.status = failed.status
    run.state.is_over = True
    answer: Advanced | RevisionChanged = await persist(run, failed)
    run.context.writer.metrics.committed(run.state.run, failed.events)
    op.events = []
    return answer


def _applied(run: Execution, op: Advance, answer: Any) -> None:
    """Note the state of the run after a commit."""
    state = run.state
    if op.events:
        run.context.writer.metrics.committed(state.run, op.events)
    was_waiting = state.waiting
    state.waiting = op.waits is not None
    if state.waiting and not was_waiting:
        state.waiting_since = state.now()
        run.context.capacity.rests(run)
    elif was_waiting and not state.waiting:
        run.context.capacity.goes_on(run)
        state.resumes = True
    state.is_finished = op.status in FINAL
    if answer.breach is not None:
        run.set_breach(answer.breach)
    state.is_over = state.is_over or state.is_finished or op.release
    if op.effects:
        _note_effects(run, op, answer)


def _note_effects(run: Execution, op: Advance, answer: Any) -> None:
    """Note the effects of a commit: open gates, and runs that are leased to this worker."""
    cancels = op.of(CancelChildren)
    if cancels:
        run.notify()  # the children may have ended before this commit
        if answer.unasked:
            run.commit.add(cancels[-1])
    note_stored(run, op.of(ChangeGate))
    for child, started in zip(op.children(), answer.started, strict=False):
        if child.definition is not None:
            run.context.stored_definitions.kept.note(child.definition)
        if started.leased:
            run.context.adopt(child, answer.now)
    for member, created_at in answer.born:
        run.context.adopt(run.context.sealer.opener.new_run(member), created_at)
