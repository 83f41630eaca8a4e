"""Plain turns: a step has completed, nothing else has happened, and the program wants another step.

Most turns of most runs are plain. A plain turn needs no budget, output, timer, signal or child, so
it asks for none of them: that saves a quarter of the Python calls of a step in sequence.

Invariants:
- A turn that is not plain is left to ``RunExecution`` as it is: with its outcome in the mailbox, or
  with the outcome in the commit buffer and the commands of the program still to be executed.
- While plain turns follow each other, only this module changes the state of the run. What others
  report goes to the mailbox, and the next turn is then not plain.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.core.commands import Command, RunStep
from holdfast.core.events import Event, EventKind
from holdfast.engine.execution import commits
from holdfast.engine.execution.ahead import take_fed
from holdfast.engine.execution.attempts import begin_only_step
from holdfast.engine.execution.launching import start_attempt
from holdfast.engine.execution.pending.base import Execution
from holdfast.engine.execution.pending.steps import PendingStep
from holdfast.engine.runtime.inline_task import Completion
from holdfast.errors import StoreError
from holdfast.store.runs.operations import Advance


def is_simple(run: Execution) -> bool:
    """Return whether the run waits for one step and for nothing else, and has nothing to commit
    but its outcome. Plain turns leave that as it is."""
    state = run.state
    pending = run.pending
    program = run.program
    if len(pending.by_step) != 1 or pending.launches or pending.unannounced:
        return False
    if program is None or not program.feeds_before_commit or not run.commit.is_empty:
        return False
    if state.waiting or state.resumes or state.cancelling or state.changes_version:
        return False
    if state.in_graph or state.had_children or run.resting is not None:
        return False
    if state.run.budgets or run.budget.breach is not None or run.keys.kept is not None:
        return False
    (step,) = pending.by_step.values()
    return type(step) is PendingStep and not step.releases and not step.command.own


def is_plain(run: Execution) -> bool:
    """Return whether all that has happened to a simple run is that its step has completed."""
    outcomes = run.mailbox.outcomes
    if len(outcomes) != 1 or not _is_undisturbed(run):
        return False
    event, spending = outcomes[0]
    return event.kind == EventKind.STEP_COMPLETED and not (spending.entries or spending.reserved)


def _is_undisturbed(run: Execution) -> bool:
    """Return whether nothing has happened to a simple run besides its step."""
    mailbox = run.mailbox
    if mailbox.is_notified or mailbox.has_new_signals or mailbox.findings:
        return False
    if mailbox.due_at is not None or mailbox.gate_is_overdue or mailbox.spending_outcomes:
        return False
    output = run.output
    return not (output.is_used or output.writing is not None or run.context.stopping)


async def take_plain_turns(run: Execution) -> None:
    """Take the turns of a simple run as long as they are plain; the first one is."""
    context = run.context
    mailbox = run.mailbox
    program = run.program
    assert program is not None
    while True:
        event, _ = mailbox.outcomes.pop()
        outcomes = [event]
        commands: Sequence[Command] = () if run.ahead is None else take_fed(run, outcomes)
        if outcomes:
            commands = await program.feed(outcomes)
        step = _plain_step(run, commands)
        is_reported = mailbox.is_notified or mailbox.has_new_signals or mailbox.findings
        if step is None or is_reported or run.output.is_used:
            run.pending.remove(event.step or "")
            run.commit.events.append(event)
            await run.execute_commands(commands)
            return
        op = _commit_of(run, event)
        # Awaited here: a function of its own would cost a call at every resumption.
        try:
            if context.sealer.is_light(op):
                await context.writer.post(op)
            else:
                await commits.persist(run, op)
        except StoreError as error:
            commits.log_retry(run, error)
            await commits.persist(run, op)
        _go_on(run, op, step)
        if not mailbox.outcomes:
            await _wait_for_outcome(run)
        if not is_plain(run):
            return


def _plain_step(run: Execution, commands: Sequence[Command]) -> PendingStep | None:
    """Return the step that the program wants, if its first attempt can begin after a commit that
    records nothing but the outcome of the last step."""
    if len(commands) != 1:
        return None
    command = commands[0]
    if type(command) is not RunStep or command.transactional or command.own:
        return None
    if command.kept_args is not None or command.id in run.state.progress.attempts:
        return None
    return PendingStep(command, 1, None)


def _commit_of(run: Execution, event: Event) -> Advance:
    """Return the write that records the outcome of a step."""
    state = run.state
    state.seq += 1
    state.steps += 1
    event.seq = state.seq
    return Advance(run_id=state.run.id, generation=state.run.generation, events=[event])


def _go_on(run: Execution, op: Advance, step: PendingStep) -> None:
    """Begin the next step, now that the outcome of the last one is committed."""
    context = run.context
    event = op.events[0]
    metrics = context.writer.metrics
    metrics.count_step(run.state.run, event, "completed")
    if metrics.observers:
        metrics.report(run.state.run, op.events)
    run.pending.replace(event.step or "", step)
    if context.stopping or run.state.is_over:
        run.pending.launches.append(step)
    elif run.remote_turns is None or not begin_only_step(run, step):
        start_attempt(run, step)


async def _wait_for_outcome(run: Execution) -> None:
    """Wait until the run has something to process that is not a plain turn of its program's own
    loop."""
    mailbox = run.mailbox
    if run.pending.launches or mailbox.is_notified or mailbox.has_new_signals:
        return
    run.context.waits(run)
    turns = None if run.ahead is None else RemoteTurns(run)
    run.remote_turns = turns
    try:
        while True:
            completion = Completion()
            mailbox.completion = completion
            try:
                await completion
                return
            except StoreError as error:
                assert turns is not None, "only a turn that commits raises it"
                await turns.commit_again(error)
    finally:
        mailbox.completion = None
        run.remote_turns = None  # it refers to the run


class RemoteTurns:
    """Plain turns of a run whose program has a loop of its own, while the execution sleeps.

    That loop has fed the outcome already, so only the commit is left to do. It is done without
    resuming the execution, which saves a third of the worker's calls per step. The execution
    resumes if a turn is not plain, if a commit fails, or if something else reaches the run; during
    a commit, it waits for its end.
    """

    __slots__ = ("_completion", "_op", "_run", "_step")

    def __init__(self, run: Execution) -> None:
        self._run: Execution = run
        self._op: Advance
        self._step: PendingStep
        self._completion: Completion
        """What the execution waits for, while the mailbox does not have it."""

    def take(self, event: Event, commands: Sequence[Command]) -> bool:
        """Take the turn after this outcome, which the program was fed. Return False, and change
        nothing, if it is not plain."""
        run = self._run
        mailbox = run.mailbox
        if mailbox.completion is None or mailbox.outcomes or not _is_undisturbed(run):
            return False
        step = _plain_step(run, commands)
        if step is None:
            return False
        op = _commit_of(run, event)
        if not run.context.sealer.is_light(op):
            run.state.seq -= 1
            run.state.steps -= 1
            return False
        run.ahead = None
        self._op = op
        self._step = step
        self._completion = mailbox.completion
        mailbox.completion = None  # a report must not resume the execution during the commit
        run.context.writer.post_for(op, self)
        return True

    async def commit_again(self, error: StoreError) -> None:
        """Commit the last turn, after the store has failed."""
        commits.log_retry(self._run, error)
        await commits.persist(self._run, self._op)
        _go_on(self._run, self._op, self._step)
        if self._run.pending.launches:
            self._run.mailbox.notify()

    # Called by the writer

    def done(self) -> bool:
        """Return False: the commit cannot be cancelled."""
        return False

    def set_result(self, answer: Any) -> None:
        """The commit has succeeded: begin the next step."""
        run = self._run
        mailbox = run.mailbox
        completion = self._completion
        if run.state.is_over:
            return  # the execution was closed meanwhile, and waits no more
        mailbox.completion = completion
        try:
            _go_on(run, self._op, self._step)
        except Exception as error:
            completion.set_exception(error)
            return
        if run.pending.launches or mailbox.is_notified or mailbox.has_new_signals:
            mailbox.wake()

    def set_exception(self, error: BaseException) -> None:
        """The commit has failed: the execution decides what to do."""
        if not self._run.state.is_over:
            self._completion.set_exception(error)
