"""Commands about the program itself: recorded decisions, dropped commands, the end."""

from __future__ import annotations

import msgspec

from holdfast.core.commands import Checkpoint, Drop, Finish, RecordDecision, RecordElements
from holdfast.core.event_table import STEP_ENDS
from holdfast.core.events import Event, EventKind
from holdfast.core.history import HistoryProgress, StoredCheckpoint, live_events
from holdfast.engine.execution.pending.base import Execution, Handler
from holdfast.errors import KeyMissing


def _record_decision(run: Execution, command: RecordDecision) -> None:
    data = msgspec.json.encode(command.value)
    event = Event(EventKind.MARKED, command.id, data)
    event.role = command.role
    run.commit.events.append(event)


def _write_checkpoint(run: Execution, command: Checkpoint) -> None:
    """Record the state of the program, and the facts about earlier events for the next holder,
    which need not read them."""
    state = run.state
    progress = _progress_now(run)
    stored = StoredCheckpoint(
        state=msgspec.Raw(command.data),
        progress=progress,
        lives=state.lives,
        replays=run.output.life - 1,
    )
    event = Event(EventKind.CHECKPOINT_WRITTEN, None, msgspec.json.encode(stored))
    run.commit.events.append(event)
    state.checkpoint = event
    state.checkpoint_progress = progress


def _progress_now(run: Execution) -> HistoryProgress:
    """Return the progress of the pending commands. The events since the last checkpoint are read
    again: to keep them in memory would burden every run, and checkpoints are rare."""
    state = run.state
    unwritten = run.commit.events
    progress = (state.checkpoint_progress or HistoryProgress()).copy()
    checkpoint = state.checkpoint
    # A checkpoint without a number is part of this commit: it has all that is stored.
    if checkpoint is None or checkpoint.seq:
        after = 0 if checkpoint is None else checkpoint.seq
        progress.read(live_events(run.context.store.runs.history(state.run.id, after)))
    progress.read(unwritten)
    progress.keep_only(run.pending.by_step)
    progress.cancelled = state.stopped_by if state.cancel_seen else None
    progress.expiring = state.expiring
    progress.waited = set(state.waited)
    progress.replayed = state.progress.replayed
    progress.had_children = state.had_children
    progress.has_code_reservation = run.budget.has_code_reservation
    progress.steps = state.steps + sum(event.kind in STEP_ENDS for event in unwritten)
    return progress


def _record_elements(run: Execution, command: RecordElements) -> None:
    run.commit.events.extend(
        Event(kind, None, msgspec.json.encode({"element": element}))
        for kind, element in command.visits
    )


def _drop(run: Execution, command: Drop) -> None:
    pending = run.pending.drop(command.id)
    if pending is not None:
        pending.on_drop(run)


def _finish(run: Execution, command: Finish) -> None:
    if isinstance(command.error, KeyMissing):
        raise command.error  # not a failure of the workflow: it continues when the key is there
    run.commit.finish = command


HANDLERS: dict[type, Handler] = {
    Checkpoint: _write_checkpoint,
    RecordDecision: _record_decision,
    RecordElements: _record_elements,
    Drop: _drop,
    Finish: _finish,
}
