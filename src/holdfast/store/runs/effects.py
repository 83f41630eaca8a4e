"""Apply the effects of runs on runs: start and stop children, stop other runs, report the end."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.runs import PAST_DEADLINE, CancelCause, Cancellation
from holdfast.core.status import Status
from holdfast.errors import RunFinished, RunNotFound
from holdfast.store.database import Started, Transaction
from holdfast.store.effects import Commit, applies
from holdfast.store.runs.cancel import PORTION, cancel_children, request_cancel
from holdfast.store.runs.ending import RunEnd, end_runs
from holdfast.store.runs.operations import (
    CancelChildren,
    CancelOtherRun,
    EndRun,
    RecordCanceller,
    RequestCancel,
    StartChildren,
    StartRuns,
)
from holdfast.store.runs.start import start_runs


@applies(StartChildren)
def start_children(
    tx: Transaction, commit: Commit, effects: Sequence[StartChildren]
) -> list[Started]:
    """Start children and count them. A child that exists already (a replay) is not counted
    again."""
    children = [child for effect in effects for child in effect.children]
    started = start_runs(tx, StartRuns(children))
    existing = [
        child.parent_step
        for child, answer in zip(children, started, strict=True)
        if not answer.created
    ]
    for fanout in (fanout for effect in effects for fanout in effect.fanouts):
        tx.change(
            "insert_fanout",
            run_id=commit.run_id,
            step=fanout.step,
            remaining=fanout.remaining - existing.count(fanout.step),
            eager=int(fanout.eager),
        )
    return started


@applies(CancelOtherRun)
def cancel_other_runs(tx: Transaction, commit: Commit, effects: Sequence[CancelOtherRun]) -> None:
    """Ask other runs to stop, unless they have ended."""
    for effect in effects:
        try:
            request = RequestCancel(effect.run_id, effect.reason, cause=effect.cause, by=effect.by)
            request_cancel(tx, request)
        except (RunNotFound, RunFinished):
            continue


@applies(CancelChildren)
def stop_children(tx: Transaction, commit: Commit, effects: Sequence[CancelChildren]) -> bool:
    """Ask the children of the run to stop. Return whether some have not been asked yet."""
    is_incomplete = False
    for effect in effects:
        is_incomplete = not cancel_children(tx, commit.run_id, effect.cancellation)
    return is_incomplete


@applies(RecordCanceller)
def record_canceller(tx: Transaction, commit: Commit, effects: Sequence[RecordCanceller]) -> None:
    """Record who cancelled the run."""
    for effect in effects:
        reason, cause, by = effect.cancellation
        tx.change("record_canceller", run_id=commit.run_id, reason=reason, cause=cause, by=by)


@applies(EndRun)
def report_end(tx: Transaction, commit: Commit, effects: Sequence[EndRun]) -> None:
    """Report the end of the run to its children, its parent and its schedule."""
    for effect in effects:
        if effect.had_children:
            # Children started by this very commit are not in *descendants*: read them again.
            started = sum(len(start.children) for start in commit.of(StartChildren))
            descendants = None if started else commit.descendants
            reason = why_children_stop(commit.status)
            cancel_children(tx, commit.run_id, reason, descendants, room=PORTION + started)
        assert commit.status is not None, "only a run that ends reports its end"
        end = RunEnd(
            commit.run_id,
            commit.status,
            commit.result,
            parent=effect.parent,
            scheduled=effect.scheduled,
            graph_id=commit.graph_id,
        )
        end_runs(tx, [end])


def why_children_stop(status: Status | None) -> Cancellation:
    """Return the request by which the children of a run stop that ends with this status."""
    if status is Status.EXPIRED:
        return PAST_DEADLINE
    return Cancellation("its parent ended", CancelCause.PARENT)
