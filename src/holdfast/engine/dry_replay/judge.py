"""Judge one run: replay its history with a definition, and return what the code asks for next.

Invariants:
- No command is executed, no attempt at a step is made, and nothing is written.
- No clock is read: the code lives by the times of its history.
- The only user code that runs is the code of the workflow itself.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from holdfast.core import history as run_history
from holdfast.core.codec import Codec
from holdfast.core.dry_replay import Judgement, Verdict, judge_commands, judge_divergence
from holdfast.core.events import Event, EventKind
from holdfast.core.history import LoadedHistory
from holdfast.core.program import Definition, ForesightedProgram, OfflineContext
from holdfast.core.runs import RunRecord
from holdfast.errors import Diverged, HoldfastError

UNREADABLE = (HoldfastError, msgspec.MsgspecError, ValueError, KeyError, TypeError, AttributeError)
"""The errors that damaged data of events raise."""


class RecordedRun(msgspec.Struct):
    """A run and its history, as they were read; ``error`` tells why they cannot be used."""

    run: RunRecord
    history: list[Event]
    error: Exception | None = None


def unjudged(run: RunRecord, verdict: Verdict, why: str | None = None) -> Judgement:
    """Return a judgement for which no code was run."""
    return Judgement(
        run_id=run.id,
        workflow=run.workflow,
        version=run.version,
        status=run.status.value,
        verdict=verdict,
        why=why,
    )


def explain(error: BaseException) -> str:
    """Return an error as a text."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def judge_unopened(recorded: RecordedRun, definition: Definition | None) -> Judgement | None:
    """Return the judgement of a run that needs no replay; None if it must be replayed."""
    run = recorded.run
    if definition is None:
        return unjudged(run, Verdict.UNKNOWN, "no named module defines this workflow")
    accepted = definition.accepts_versions
    if accepted is not None and run.version not in accepted:
        return unjudged(run, Verdict.UNSERVED, "the workflow leaves this version to other workers")
    if recorded.error is not None:
        return unjudged(run, Verdict.UNREADABLE, explain(recorded.error))
    if any(event.kind == EventKind.HISTORY_DELETED for event in recorded.history):
        return unjudged(run, Verdict.UNREADABLE, "its history was deleted")
    return None


async def judge(
    run: RunRecord, history: Sequence[Event], definition: Definition, codec: Codec
) -> Judgement:
    """Replay a run, whose values are open, with *definition*."""
    try:
        loaded = run_history.load(history) if history else LoadedHistory()
    except UNREADABLE as error:
        return unjudged(run, Verdict.UNREADABLE, explain(error))
    context = OfflineContext(codec)
    context.epoch = loaded.lives.epoch
    try:
        program = definition.program(run, context)
    except Exception as error:
        return unjudged(run, Verdict.UNLOADABLE, explain(error))
    judgement = unjudged(run, Verdict.CONTINUES)
    try:
        commands = await program.begin(loaded.events, loaded.state)
        if isinstance(program, ForesightedProgram):
            divergence = program.foreseen_divergence()
            if divergence is not None:
                return judge_divergence(judgement, divergence)
    except Diverged as error:
        return judge_divergence(judgement, error)
    except Exception as error:
        return unjudged(run, Verdict.UNLOADABLE, explain(error))
    else:
        return judge_commands(judgement, commands, loaded)
    finally:
        program.close()
