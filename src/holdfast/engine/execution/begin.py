"""Begin the execution of a run: open its values, load its history, create and start its program."""

from __future__ import annotations

from holdfast.core import history as run_history
from holdfast.core.events import Event, EventKind
from holdfast.core.history import LoadedHistory
from holdfast.core.program import Definition, Program
from holdfast.engine.execution.pending.base import Execution
from holdfast.engine.execution.pending.instructions import find_instructions
from holdfast.engine.execution.program_context import ExecutionServices, Report
from holdfast.payloads.offload import open_off_loop

NOTHING = LoadedHistory()
"""The history of a run that begins; it is never changed."""


async def begin_run(
    run: Execution, definition: Definition, history: list[Event], *, fresh: bool, report: Report
) -> None:
    """Create the program of a run and feed it the history; execute the commands that it returns.

    A *fresh* run was created by this process: its values are open, and it has no history.
    """
    context = run.context
    state = run.state
    if not fresh:
        state.run, history = await open_off_loop(
            state.run, history, context.sealer, context.threads
        )
    loaded = NOTHING
    if history:
        loaded = run_history.load(history)
        state.recall(history, loaded)
        run.output.life += loaded.replays
        run.budget.has_code_reservation = loaded.progress.has_code_reservation
    run.output.replayed = not fresh
    run.mailbox.schedule_check(state.run.deadline)
    run.budget.find_breach()
    program = _new_program(run, definition, loaded, report)
    commands = await program.begin(loaded.events, loaded.state)
    is_asked_to_stop = state.cancelling and not state.cancel_seen
    if not fresh:
        # Before the commands: a command that finds something of the same instant comes later.
        find_instructions(run)
        if is_asked_to_stop:
            run.notify()
    await run.execute_commands(commands)


def _new_program(
    run: Execution, definition: Definition, loaded: LoadedHistory, report: Report
) -> Program:
    context = run.context
    run.services = ExecutionServices(
        run.state, context, run.budget, run.output, report=report, wait_token=run.keys.token
    )
    program = definition.program(run.state.run, run.services)
    if context.program_loop is not None and not definition.needs_thread:
        # The code will run on the program's loop, which must not read the store.
        run.keys.keep(
            at_once=loaded.state is not None
            or any(event.kind == EventKind.WAIT_CREATED for event in loaded.events)
        )
        program = context.program_loop.place(program)
    run.output.fed_before_commit = program.feeds_before_commit
    run.program = program
    return program
