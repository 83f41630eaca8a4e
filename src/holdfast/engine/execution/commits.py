"""Building and writing the commits of a run: progress, parking, the end.

A write is tried until the store takes it: nothing is lost by waiting, and only the very same write,
sent again, is recognised by a store that was cut off in the middle of it.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import msgspec

from holdfast.core.commands import Finish
from holdfast.core.event_table import STEP_ENDS
from holdfast.core.events import BY_END, Event, EventKind
from holdfast.core.gates import rules as gate_rules
from holdfast.core.gates.model import Gate
from holdfast.core.status import FINAL, Status
from holdfast.core.streams.model import Output
from holdfast.core.waits import WaitKind
from holdfast.engine.execution.commit_buffer import CommitBuffer
from holdfast.engine.execution.pending.base import Execution
from holdfast.engine.execution.pending.budgets import block_run
from holdfast.engine.execution.pending.gates import withdraw_all
from holdfast.engine.execution.pending.graph_growth import fills_a_commit
from holdfast.engine.execution.pending.listing import listed_waits
from holdfast.engine.execution.pending.subscriptions import close_all
from holdfast.engine.runtime.error_data import error_data
from holdfast.engine.runtime.log_records import of_run
from holdfast.errors import StoreError
from holdfast.payloads.offload import seal_off_loop
from holdfast.store.budgets.operations import ReleaseReservations, RequireBudget
from holdfast.store.database import Operation
from holdfast.store.effects import Effect
from holdfast.store.gates.operations import ChangeGate
from holdfast.store.graphs.operations import AddMembers
from holdfast.store.resting_tokens.operations import ClearTokens
from holdfast.store.runs.operations import Advance, Advanced, CancelOtherRun, end_of
from holdfast.store.streams.operations import AppendFrames, AppendOutput
from holdfast.store.waits.operations import CloseWait

log = logging.getLogger("holdfast")

PORTION = 500
"""How many children one commit starts or cancels at most, and how many outcomes it records: other
writers wait meanwhile."""

_LAST_EVENT = {
    Status.COMPLETED: EventKind.RUN_COMPLETED,
    Status.FAILED: EventKind.RUN_FAILED,
    Status.CANCELLED: EventKind.RUN_CANCELLED,
    Status.EXPIRED: EventKind.RUN_EXPIRED,
}


# Building


def progress(run: Execution, commit: CommitBuffer, *, parks: bool) -> Advance | None:
    """Return the write of a commit; None if there is nothing to write."""
    state = run.state
    op = Advance(
        run_id=state.run.id,
        generation=state.run.generation,
        events=commit.events,
    )
    if commit.has_effects:
        op.effects = commit.effects
    if commit.finish is not None:
        finish(run, op, commit.finish)
    elif state.changes_version:
        op.status = state.active_status()
        op.release = True  # the next holder begins with the definition of the other version
    elif parks:
        park(run, op)
    elif state.waiting or (not commit.events and not commit.is_empty):
        op.status = state.active_status()
        op.revision = state.revision
    elif not commit.events:
        return None  # nothing at all: effects without events are handled above
    state.number(op.events)
    if run.output.is_used:
        add_output(op, run.output.take(op.status.value if op.status in FINAL else None))
    return op


def add_output(op: Advance, output: Output | None) -> None:
    """Let the write append output."""
    if output is not None:
        op.effects = [*op.effects, AppendOutput(output)]


def finish(run: Execution, op: Advance, command: Finish) -> None:
    """Let the write end the run."""
    state = run.state
    status = Status(command.status)
    if status is Status.CANCELLED and state.expiring:
        status = Status.EXPIRED
    failed = command.failed_compensations
    facts = {"undo_failed": list(failed)} if failed else {}
    if command.error is not None:
        op.error = error_data(command.error, **facts)
    elif status is not Status.COMPLETED:
        message = _stop_reason(run)
        op.error = msgspec.json.encode({"type": status.value, "message": message, "facts": facts})
    op.status = status
    op.result = command.result
    op.graph_id = state.run.graph_id
    effects = _effects_of_end(run)
    if effects:
        op.effects = [*op.effects, *effects]
    if run.pending.by_step:
        withdraw_all(run, op)
        close_all(run, op)
    op.events.append(_last_event(run, op, status))


def _effects_of_end(run: Execution) -> list[Effect]:
    """Return the effects of the end of a run; most runs have none."""
    state = run.state
    effects: list[Effect] = [CloseWait(step, BY_END) for step in sorted(state.waited)]
    if run.budget.has_code_reservation or run.budget.reserved_steps:
        effects.append(ReleaseReservations(None))
    # A run that was taken over may end before its tokens rest here: the rows are of another worker.
    if run.resting is not None or run.may_have_rested:
        effects.append(ClearTokens())
    end = end_of(state.run, had_children=state.had_children)
    if end is not None:
        effects.append(end)
    return effects


def _last_event(run: Execution, op: Advance, status: Status) -> Event:
    """Return the last event of a run. That of a completed run has the number of its steps, so that
    a check can detect a step that is missing from the history."""
    steps = 0
    if status is Status.COMPLETED:
        steps = run.state.steps + sum(event.kind in STEP_ENDS for event in op.events)
    last = Event(_LAST_EVENT[status], error=op.error)
    if steps:
        last.data = b'{"steps":%d}' % steps
    return last


def _stop_reason(run: Execution) -> str:
    if run.state.stopped_by:
        return run.state.stopped_by
    stored = run.context.store.runs.get(run.state.run.id)
    if stored is None or not stored.cancel_reason:
        return "cancelled"
    return stored.cancel_reason


def park(run: Execution, op: Advance) -> None:
    """Let the write park the run on its waits. It names the revision that was seen: the store
    refuses it if something has reached the run since."""
    waits = listed_waits(run.pending)
    op.status = Status.CANCELLING if run.state.cancelling else Status.WAITING
    op.waits = msgspec.json.encode(waits)
    instants = [wait["until"] for wait in waits if wait.get("until") is not None]
    if any(wait["kind"] is WaitKind.OTHERS for wait in waits):
        instants += _unlisted_instants(run, op)
    op.wake_at = min(instants, default=None)
    op.revision = run.state.revision
    op.release = not _stays_in_memory(run, op.wake_at)
    if run.resting is not None:
        tokens = run.resting.take()
        if tokens is not None:
            op.effects = [*op.effects, tokens]
    block_run(run, op)


def _unlisted_instants(run: Execution, op: Advance) -> list[int]:
    """Return when time matters to waits that are not listed, at the earliest. A gate that this
    write stores is not scheduled yet."""
    gates = [effect.change for effect in op.of(ChangeGate) if isinstance(effect.change, Gate)]
    instants = [run.pending.next_due(), *map(gate_rules.next_at, gates)]
    return [instant for instant in instants if instant is not None]


def _stays_in_memory(run: Execution, wake_at: int | None) -> bool:
    """Return whether a parked run stays in memory: a short wait does, and one that may end at any
    moment. A long wait costs rows and nothing else."""
    context = run.context
    if context.stopping or not context.may_stay_in_memory(run.state.run.lane):
        return False
    if not all(kind.is_timed for kind in run.pending.counts()):
        return True
    return wake_at is not None and wake_at - run.state.now() <= context.idle_timeout


def without_parking(run: Execution, op: Advance) -> Advance:
    """Return the same write for a run that goes on instead of parking."""
    op.status = None
    op.revision = None
    op.waits = None
    op.wake_at = None
    op.release = False
    op.effects = [effect for effect in op.effects if type(effect) is not RequireBudget]
    if not op.events or run.state.waiting:
        stored = run.context.store.runs.get(run.state.run.id)
        is_cancelled = stored is not None and stored.status is Status.CANCELLING
        op.status = Status.CANCELLING if is_cancelled else run.state.active_status()
    return op


def is_portion(commit: CommitBuffer) -> bool:
    """Return whether the children and new graph members so far are enough for one commit."""
    if len(commit.children) >= PORTION:
        return True
    return bool(commit.of(AddMembers)) and fills_a_commit(commit)


# Writing


async def persist(run: Execution, op: Operation) -> Any:
    """Write, and try again while the store fails. Meanwhile no later output of the run overtakes
    the output of this write."""
    written = op
    ends_member = False
    has_output = type(op) is AppendFrames
    if type(op) is Advance:
        ends_member = run.state.in_graph and op.status in FINAL
        has_output = bool(op.of(AppendOutput))
        if not run.context.sealer.is_light(op):
            written = await seal_off_loop(op, run.context.sealer, run.context.threads)
    if has_output:
        run.output.hold()
    try:
        return await _write(run, op, written, ends_member=ends_member)
    finally:
        if has_output:
            run.output.resume()


async def _write(run: Execution, op: Operation, written: Operation, *, ends_member: bool) -> Any:
    context = run.context
    pause = 0.05
    while True:
        if ends_member:
            # Again for each try: the resolution belongs to the transaction that ends the member.
            context.resolve_graphs_with_commit()
        try:
            answer = await context.writer.post(written)
            if _has_more_children_to_stop(op, answer):
                continue
            return answer
        except StoreError as error:
            if context.is_shut_out(error):
                raise
            log_retry(run, error)
        await asyncio.sleep(pause)
        pause = min(pause * 2, 5.0)


def _has_more_children_to_stop(op: Operation, answer: Any) -> bool:
    """Return whether only a portion of the children was asked to stop: all are asked before their
    parent ends."""
    if type(answer) is not Advanced or type(op) is not Advance:
        return False
    return answer.unasked and op.status in FINAL


def log_retry(run: Execution, error: StoreError) -> None:
    """Log that a write failed and is tried again."""
    log.warning(
        "run %s cannot be written now, will try again: %s",
        run.state.run.id,
        error,
        extra=of_run(run.state.run),
    )


async def cancel_in_portions(run: Execution, commit: CommitBuffer) -> None:
    """Cancel most of thousands of runs before the commit that records why.

    After a crash in between, the next holder is led to the same cancellations, because nothing else
    is recorded yet.
    """
    while len(commit.of(CancelOtherRun)) > PORTION:
        op = Advance(
            run_id=run.state.run.id,
            generation=run.state.run.generation,
            status=run.state.active_status(),
            effects=commit.drop(CancelOtherRun, PORTION),
        )
        await persist(run, op)
