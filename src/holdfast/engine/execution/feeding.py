"""The right to feed a program on its own loop, without a round trip to the worker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.core.commands import Command
from holdfast.core.events import Event
from holdfast.engine.execution.pending.base import Execution
from holdfast.engine.runtime.program_loop import FeedAhead, PlacedProgram


def right_to_feed(run: Execution) -> FeedAhead | None:
    """Return the right to feed the program on its own loop, if the step that begins is all that
    the run waits for. The keys must not be needed: they are read before each turn."""
    program = run.program
    if run.keys.kept is not None or run.state.run.budgets:
        return None
    if not isinstance(program, PlacedProgram) or not program.feeds_before_commit:
        return None
    if len(run.pending.by_step) > 1 or run.pending.launches or run.mailbox.is_busy():
        return None
    run.ahead = program.feed_ahead()
    return run.ahead


def note_fed(
    run: Execution,
    event: Event,
    commands: Sequence[Command],
    error: BaseException | None,
    spending: Any,
) -> None:
    """Report an outcome that the program's own loop has fed already."""
    ahead = run.ahead
    assert ahead is not None, "the worker gives up the right when it has recorded the outcome"
    ahead.event = event
    ahead.commands = commands
    ahead.error = error
    run.mailbox.add_outcome(event, spending)
