"""Spending by the code of a workflow, and steps that have no room in a budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from holdfast.core import typed_json
from holdfast.core.budgets import rules as budget_rules
from holdfast.core.budgets.model import Breach, OnBreach
from holdfast.core.commands import ReleaseReservation, Reserve, Spend
from holdfast.core.events import Event, EventKind
from holdfast.core.runs import CancelCause
from holdfast.core.status import Status
from holdfast.engine.execution.attempt_spending import AttemptSpending
from holdfast.engine.execution.pending.base import Execution, Handler, Pending
from holdfast.engine.execution.pending.step_outcomes import without_room
from holdfast.engine.execution.pending.steps import PendingStep, record_dropped_spending
from holdfast.engine.runtime.error_data import error_data
from holdfast.errors import HoldfastError, UnknownDimension
from holdfast.store.budgets.operations import (
    ReleaseReservations,
    RequireBudget,
    ReserveBudget,
    SpendRunBudget,
    spending_effects,
)
from holdfast.store.runs.operations import Advance, CancelOtherRun

CHECK_AGAIN = 1_000_000
"""Microseconds after which a branch without room checks again while other branches are at work."""

REPEAT_AFTER = 0.5
"""Seconds after which an attempt is repeated that the store has interrupted."""


class PendingSpend(Pending):
    """A spending or reservation that the code of the workflow asks for."""

    __slots__ = ("blocked", "demand")

    def __init__(self, command: Spend | Reserve) -> None:
        self.command: Spend | Reserve = command
        self.blocked: Breach | None = None
        self.demand: dict[str, int] = {}

    def as_wait(self) -> dict[str, Any] | None:
        if self.blocked is None:
            return None
        return budget_rules.as_wait(self.blocked, self.command.id)

    def operation(self, run: Execution) -> SpendRunBudget | ReserveBudget:
        """Return the operation that spends or reserves the amounts, or is refused."""
        command = self.command
        amounts = {name: budget_rules.show(amount) for name, amount in command.amounts.items()}
        is_spend = isinstance(command, Spend)
        event = Event(
            EventKind.BUDGET_SPENT if is_spend else EventKind.BUDGET_RESERVED,
            command.id,
            msgspec.json.encode(amounts),
            seq=run.state.seq + 1,
            at=run.state.now(),
        )
        common: dict[str, Any] = {
            "run_id": run.state.run.id,
            "generation": run.state.run.generation,
            "budgets": run.state.run.budgets,
            "amounts": command.amounts,
            "event": event,
            "under": command.under,
        }
        is_free = run.budget.spends_freely(is_compensation=False)
        if isinstance(command, Spend):
            return SpendRunBudget(**common, key=command.key, force=is_free or command.fact)
        run.budget.has_code_reservation = True
        return ReserveBudget(**common, key=command.id, force=is_free)

    def unknown_dimension(self, run: Execution) -> Event | None:
        """Return the failure, if none of the run's budgets counts a dimension of the amounts."""
        try:
            run.budget.check_dimensions(self.command.amounts)
        except UnknownDimension as error:
            return self._denied(run, error)
        return None

    def refused(self, run: Execution, breach: Breach) -> Event | None:
        """Wait for room, or return the failure, as the budget says."""
        if breach.on_breach != OnBreach.FAIL:
            block(run, self, breach, self.command.amounts)
            return None
        return self._denied(run, budget_rules.breach_error(breach, self.command.amounts))

    def _denied(self, run: Execution, error: HoldfastError) -> Event:
        is_spend = isinstance(self.command, Spend)
        kind = EventKind.BUDGET_SPENT if is_spend else EventKind.BUDGET_RESERVED
        return Event(kind, self.command.id, error=error_data(error), at=run.state.now())


Blockable = PendingStep | PendingSpend


def may_launch(run: Execution, launches: Sequence[Blockable]) -> list[Blockable]:
    """Return the commands that may begin although a hard limit is passed. The others wait for room,
    fail, or end with their run."""
    breach = run.budget.breach
    assert breach is not None
    free: list[Blockable] = []
    for pending in launches:
        if not isinstance(pending, PendingStep):
            free.append(pending)  # a spending asks the store, which knows
        elif run.budget.spends_freely(is_compensation=pending.command.is_compensation):
            free.append(pending)
        elif breach.on_breach == OnBreach.FAIL:
            error = budget_rules.breach_error(breach, {})
            run.attempt_ended(pending.command.id, None, error, run.state.now())
        else:
            block(run, pending, breach, {})
    return free


def block(run: Execution, pending: Blockable, breach: Breach, demand: Mapping[str, int]) -> None:
    """Let a command wait for room in a budget, or ask for the cancellation of the run."""
    pending.blocked = breach
    pending.demand = dict(demand)
    if breach.on_breach == OnBreach.CANCEL and not run.state.cancelling:
        reason = f"the budget {breach.budget} is spent"
        run.commit.add(CancelOtherRun(run.state.run.id, reason, CancelCause.BUDGET))
    run.mailbox.schedule_check(run.state.now() + CHECK_AGAIN)


def block_step(run: Execution, pending: PendingStep, event: Event) -> None:
    """Let a step wait whose attempt found no room."""
    data = msgspec.json.decode(event.data or b"{}")
    pending.task = None
    block(run, pending, typed_json.convert(data["breach"], Breach), data["wanted"])


def repeat_attempt(run: Execution, pending: PendingStep, spending: AttemptSpending) -> None:
    """Make an attempt again soon, because the store failed when it reserved amounts. Nothing of it
    is recorded but the facts that it has spent."""
    record_spending(run, pending.command.id, spending)
    run.context.loop.call_later(REPEAT_AFTER, _launch_again, run, pending)
    run.mailbox.wake()


def _launch_again(run: Execution, pending: PendingStep) -> None:
    if run.expects(pending):
        run.pending.launches.append(pending)
        run.mailbox.wake()


def unblock(run: Execution) -> None:
    """Try all commands again that had no room: something has changed."""
    blocked = [pending for pending in _blockable(run) if pending.blocked is not None]
    if not blocked:
        return
    run.set_breach(None)
    run.context.lines_of_turn.clear()
    run.budget.find_breach()
    run.set_breach(run.budget.breach)
    for pending in blocked:
        pending.blocked = None
        run.pending.launches.append(pending)


def block_run(run: Execution, op: Advance) -> None:
    """Park a run that waits for room as blocked: no worker holds it."""
    if run.state.cancelling:
        return
    demands = [pending.demand for pending in _blockable(run) if pending.blocked]
    if demands:
        op.status = Status.BLOCKED
        op.release = True
        op.effects = [*op.effects, RequireBudget(run.state.run.budgets, demands)]


def _blockable(run: Execution) -> list[Blockable]:
    return [*run.pending.of(PendingStep), *run.pending.of(PendingSpend)]


# Attempts that spend


def record_spending(run: Execution, step: str, spending: AttemptSpending | None) -> None:
    """Count the facts that an ended attempt has spent, and release its reservation, with the next
    commit."""
    if spending is None:
        return
    if spending.entries:
        record_dropped_spending(run, step, spending)
    if spending.reserved:
        run.commit.add(ReleaseReservations((step,)))
        run.budget.reserved_steps.discard(step)


def spending_commit(run: Execution, attempts: Sequence[tuple[Event, AttemptSpending]]) -> Advance:
    """Return the write by which completed attempts spend, all of them or none."""
    entries = [entry for _, spending in attempts for entry in spending.entries]
    effects = spending_effects(run.state.run.budgets, entries)
    reserved = [event.step or "" for event, spending in attempts if spending.reserved]
    if reserved:
        effects.append(ReleaseReservations(reserved))
    return Advance(
        run_id=run.state.run.id,
        generation=run.state.run.generation,
        events=[event for event, _ in attempts],
        effects=effects,
    )


def refused_attempt(event: Event, spending: AttemptSpending, breach: Breach) -> Event:
    """Return the outcome of an attempt whose spending was refused: it has not completed."""
    wanted = budget_rules.sum_amounts(entry.amounts for entry in spending.entries if not entry.fact)
    error = budget_rules.breach_error(breach, wanted)
    outcome = without_room(event.step or "", error, breach, event.attempt, event.started_at)
    outcome.role = event.role
    return outcome


def _spend(run: Execution, command: Spend | Reserve) -> None:
    pending = PendingSpend(command)
    run.pending.add(pending)
    run.pending.launches.append(pending)


def _release_reservation(run: Execution, command: ReleaseReservation) -> Event:
    run.commit.add(ReleaseReservations((command.reservation,)))
    return Event(EventKind.BUDGET_SETTLED, command.id)


HANDLERS: dict[type, Handler] = {
    Spend: _spend,
    Reserve: _spend,
    ReleaseReservation: _release_reservation,
}
