"""Execute the commands of a turn, and divide thousands of them among several commits."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core import tokens
from holdfast.core.commands import Command, CreateWait
from holdfast.core.events import Event
from holdfast.engine.execution import commits
from holdfast.engine.execution.handlers import execute
from holdfast.engine.execution.pending.base import Execution
from holdfast.engine.execution.pending.graph_growth import is_large_growth
from holdfast.engine.execution.recording import record_progress
from holdfast.engine.runtime.ids import offered_key
from holdfast.store.graphs.operations import AddMembers
from holdfast.store.keys.operations import NeedKey


async def execute_batch(run: Execution, commands: Sequence[Command]) -> Sequence[Command]:
    """Execute commands; feed the outcomes that they have at once, and return what the program
    asks for then."""
    program = run.program
    assert program is not None
    if CreateWait in map(type, commands) and tokens.current(run.keys.read()) is None:
        await run.context.writer.submit(NeedKey(offered_key(run.context.sealer)))
    outcomes: list[Event] = []
    recorded = 0
    for command in commands:
        if run.commit.of(AddMembers) and is_large_growth(command):
            # It is checked against the members that are in the graph by then.
            recorded = await _record_portion(run, outcomes, recorded)
        event = execute(run, command)
        if event is not None:
            outcomes.append(event)
            is_open = run.commit.has_effects and run.commit.finish is None
            if is_open and commits.is_portion(run.commit):
                recorded = await _record_portion(run, outcomes, recorded)
        if run.state.is_over:
            break
    if run.commit.finish is not None or not outcomes or run.state.is_over:
        return ()
    _add_events(run, outcomes[recorded:])
    if not program.feeds_before_commit:
        await record_progress(run, rests=False)
    return await program.feed(outcomes)


async def _record_portion(run: Execution, outcomes: list[Event], recorded: int) -> int:
    """Commit the children and members so far, and the outcomes but the first *recorded*; return how
    many outcomes are recorded.

    Thousands of commands in one turn are divided among several commits. After a crash the program
    asks for the others again.
    """
    _add_events(run, outcomes[recorded:])
    await record_progress(run, rests=False)
    return len(outcomes)


def _add_events(run: Execution, outcomes: list[Event]) -> None:
    run.state.set_times(outcomes)
    run.commit.events.extend(outcomes)
