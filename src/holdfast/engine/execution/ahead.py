"""Shortcuts that save a commit, or a round trip to the program's loop.

- A step that follows from a signal alone need not wait for the commit: the signal is committed
  already, and leads to the same step after a crash.
- The program of an ``AsyncEngine`` lives on the loop of its program. The outcome of its only step
  is fed there, and the step that follows from a signal begins there, which saves round trips
  between the two threads.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.commands import Command
from holdfast.core.events import Event
from holdfast.engine.execution.attempts import BeginAhead
from holdfast.engine.execution.pending.base import Execution
from holdfast.engine.execution.pending.steps import PendingStep
from holdfast.engine.execution.updates import must_check
from holdfast.engine.runtime.program_loop import PlacedProgram
from holdfast.store.signals.operations import TakeSignals


def follows_from_signal(run: Execution) -> bool:
    """Return whether the signal that is the only event of this turn is all that the run waited
    for: nothing else could have come first."""
    is_alone = not run.pending and not run.pending.launches and len(run.commit.events) == 1
    if not is_alone or run.program is None or run.services is None:
        return False
    run.services.asked_time = False
    return run.program.feeds_before_commit


def wants_plain_steps(run: Execution) -> bool:
    """Return whether the next commit has only the signal, and only plain steps are to begin, to
    which the time of its reception means nothing."""
    commit = run.commit
    if commit.finish is not None or len(commit.events) > 1 or not commit.has_only(TakeSignals):
        return False
    are_plain = all(
        isinstance(pending, PendingStep) and not pending.command.transactional
        for pending in run.pending.launches
    )
    is_timeless = run.services is not None and not run.services.asked_time
    has_room = run.budget.breach is None and not run.context.stopping
    return are_plain and is_timeless and has_room


def takes_place(run: Execution) -> bool:
    """Return whether a step may begin before the commit. A run that has waited takes a place among
    the runs at work first."""
    return not run.state.waiting or run.context.capacity.take_place(run)


def may_begin_ahead(run: Execution) -> bool:
    """Return whether the step that follows from a signal may begin on the program's loop before
    the worker knows of it."""
    if not isinstance(run.program, PlacedProgram) or run.ahead is not None:
        return False
    mailbox = run.mailbox
    if run.state.run.budgets or mailbox.findings or mailbox.outcomes:
        return False
    if mailbox.gate_is_overdue or run.pending.unannounced or must_check(run):
        return False
    if run.state.is_about_to_stop() or not wants_plain_steps(run):
        return False
    return run.context.session_is_certain() and takes_place(run)


async def feed_and_begin(run: Execution, outcomes: Sequence[Event]) -> Sequence[Command]:
    """Feed the program on its own loop, and let the step that follows begin there; return its other
    commands."""
    program = run.program
    program_loop = run.context.program_loop
    assert isinstance(program, PlacedProgram) and program_loop is not None
    begin = BeginAhead(run, program_loop)
    commands, attempt = await program.feed_and_begin(outcomes, begin)
    if attempt is not None:
        run.follows_signal = False
        attempt.adopt()
        return ()
    if run.state.waiting:
        run.context.capacity.rests(run)  # the place is not needed
    return commands


def take_fed(run: Execution, outcomes: list[Event]) -> Sequence[Command]:
    """Remove the outcome that the program's own loop has fed from *outcomes*; return the commands
    of the program."""
    ahead = run.ahead
    if ahead is None or not outcomes:
        return ()
    run.ahead = None
    is_first = ahead.take() if ahead.event is None else outcomes[0] is ahead.event
    assert is_first, "the outcome that was fed first is recorded first"
    if ahead.event is None:
        return ()
    del outcomes[0]
    if ahead.error is not None:
        raise ahead.error
    return ahead.commands
