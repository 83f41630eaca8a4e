"""Find out what has reached a run from outside, and which commands are due.

Something that is due may have been overtaken by something that was not reported yet, for example
while this process was stopped. So the store is read before time is allowed to act.
"""

from __future__ import annotations

from functools import partial

from holdfast.core.events import Event
from holdfast.core.runs import PAST_DEADLINE, CancelCause
from holdfast.core.status import Status
from holdfast.engine.execution.findings import FACT, TIME
from holdfast.engine.execution.pending.base import Execution, Pending
from holdfast.engine.execution.pending.budgets import unblock
from holdfast.engine.execution.pending.children import PendingChild, find_ended_children
from holdfast.engine.execution.pending.conditions import PendingCondition
from holdfast.engine.execution.pending.gates import PendingGate, find_closed_gates
from holdfast.engine.execution.pending.instructions import find_instructions
from holdfast.engine.execution.pending.signals import PendingSignal, find_signals
from holdfast.errors import LeaseLost


def must_check(run: Execution) -> bool:
    """Return whether the store or the clock has something for the run.

    If the program's own loop feeds it the outcome of a step first, the rest comes after that.
    """
    mailbox = run.mailbox
    is_reported = mailbox.is_notified or mailbox.has_new_signals
    if not is_reported and (mailbox.due_at is None or mailbox.due_at > run.state.now()):
        return False
    if run.ahead is not None and run.ahead.take():
        run.ahead = None
    return run.ahead is None


def check(run: Execution) -> None:
    """Find out what has happened, from outside and by the clock."""
    mailbox = run.mailbox
    is_due = mailbox.is_due(run.state.now())
    if mailbox.is_notified or is_due:
        _read_update(run)
    elif mailbox.has_new_signals:
        _find_waits(run)
    mailbox.is_notified = False
    mailbox.has_new_signals = False
    if is_due:
        _find_due(run, run.state.now())


def _read_update(run: Execution) -> None:
    """Find out what has reached the run from outside. Raises LeaseLost."""
    state = run.state
    mailbox = run.mailbox
    # An update that was read for many runs at once saves this read.
    update = mailbox.update or run.context.store.runs.update(state.run.id)
    if update is None or update.generation != state.run.generation:
        raise LeaseLost(run=state.run.id, generation=state.run.generation)
    is_reported = mailbox.is_notified or mailbox.has_new_signals
    if not is_reported and update.revision == state.revision:
        return  # nothing has reached the run since the last read
    state.revision = update.revision
    if update.graph_id is not None and not state.in_graph:
        state.join_graph(update.graph_id)
    if update.status is Status.CANCELLING:
        state.cancelling = True
        if not state.cancel_seen:
            expires = update.cancel_cause == CancelCause.DEADLINE
            take = partial(_take_stop, run, update.cancel_reason or "", expires)
            rank = TIME if expires else FACT
            mailbox.add_finding(update.cancelled_at or 0, take, rank)
    run.signals.replace(update.signals, run.commit.taken_ids())
    _find_waits(run)
    find_instructions(run)
    unblock(run)
    if run.pending.first_of(PendingChild, 1):
        find_ended_children(run, update.revision)
    if run.pending.first_of(PendingGate, 1):
        find_closed_gates(run, update.revision)
    _ask_waits(run)


def _ask_waits(run: Execution) -> None:
    """Ask the waits of a run whether what has reached it decides them. Thousands of waits may end
    only by a signal to their step: they are asked only if there is one."""
    steps = {signal.step: None for signal in run.signals if signal.step is not None}
    for step in steps:
        pending = run.pending.get(step)
        if pending is not None:
            pending.on_change(run)
    for kind in run.pending.counts():
        if not kind.ends_by_release and kind.on_change is not Pending.on_change:
            for pending in run.pending.of(kind):
                pending.on_change(run)


def _find_waits(run: Execution) -> None:
    """Find the waits that the signals end."""
    for pending in run.pending.of(PendingCondition):
        pending.find(run)
    find_signals(run, run.pending.of(PendingSignal))


def _find_due(run: Execution, now: int) -> None:
    """Let time act on the pending commands whose instant has come."""
    mailbox = run.mailbox
    mailbox.due_at = None
    unblock(run)
    for pending in run.pending.pop_due(now):
        pending.on_time(run, now)
    mailbox.schedule_check(run.pending.next_due())
    deadline = run.state.run.deadline
    if deadline is None or run.state.cancel_seen:
        return
    if deadline <= now:
        take = partial(_take_stop, run, PAST_DEADLINE.reason, True)
        mailbox.add_finding(deadline, take, TIME)
    else:
        mailbox.schedule_check(deadline)


def _take_stop(run: Execution, reason: str, expires: bool, events: list[Event]) -> None:
    if not run.state.cancel_seen:
        events.append(run.state.request_stop(reason, expire=expires))
