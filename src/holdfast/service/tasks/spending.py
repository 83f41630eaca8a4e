"""Requests of holders that spend from the budgets of their runs, and tasks without room in them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from holdfast.core.budgets import rules as budget_rules
from holdfast.core.budgets.model import Breach, OnBreach
from holdfast.core.events import Event, EventKind
from holdfast.core.runs import CancelCause
from holdfast.core.status import Status
from holdfast.core.streams.model import CloseReason
from holdfast.engine.runtime.error_data import error_data
from holdfast.service.budgets import checked_key
from holdfast.service.requests import Request
from holdfast.service.runs import RunService
from holdfast.service.tasks.lease_state import LeaseState, RunEnded
from holdfast.service.tasks.writes import write_as_holder
from holdfast.store.budgets.operations import (
    BudgetRefused,
    BudgetSpent,
    RequireBudget,
    SpendRunBudget,
)
from holdfast.store.runs.operations import CancelOtherRun
from holdfast.store.store import Store
from holdfast.store.streams.operations import CloseStreams


class TaskSpending:
    """Builds the operations by which holders spend."""

    def __init__(self, client: RunService) -> None:
        self._store: Store = client.store

    def amounts(self, held: LeaseState, amounts: Mapping[str, Any]) -> dict[str, int]:
        """Return amounts in millionths. Raises BadOption, and UnknownDimension if none of the
        budgets of the run counts one of the dimensions."""
        checked = budget_rules.amounts_from(amounts)
        lines = self._store.budgets.lines(held.run.budgets)
        budget_rules.check_counted(checked, lines, held.run.budgets)
        return checked

    def spend(
        self, held: LeaseState, amounts: dict[str, int], key: str | None
    ) -> Request[BudgetSpent | BudgetRefused]:
        """Spend from all budgets of the run, or from none. Raises BadOption."""
        shown = {name: budget_rules.show(amount) for name, amount in amounts.items()}
        event = Event(
            EventKind.BUDGET_SPENT,
            _step(held),
            msgspec.json.encode(shown),
            seq=held.seq + 1,
            at=self._store.now(),
        )
        op = SpendRunBudget(
            run_id=held.run.id,
            generation=held.proof.generation,
            budgets=held.run.budgets,
            amounts=amounts,
            event=event,
            key=checked_key(key),
            force=held.run.status is Status.CANCELLING,
        )

        def decode(answer: BudgetSpent | BudgetRefused) -> BudgetSpent | BudgetRefused:
            if isinstance(answer, BudgetSpent):
                held.seq += 1
            return answer

        return Request(op, decode)

    def block(self, held: LeaseState, breach: Breach, amounts: dict[str, int]) -> Request[Any]:
        """Give back the lease until the budgets have room for *amounts*. The answer is True, or
        RevisionChanged if there is room now."""
        return block(held, breach, True, RequireBudget(held.run.budgets, [amounts]))

    def ask_to_stop(self, held: LeaseState, breach: Breach) -> Request[bool]:
        """Request the cancellation of the run, because a budget is spent. The answer is True."""
        return ask_to_stop(held, breach)


def begin_without_room(held: LeaseState, breach: Breach) -> Request[bool]:
    """Return the request that is written instead of a lease of a run whose budget is used up: the
    run is blocked, fails, or is leased to be cancelled, as the budget says. The answer is whether
    the holder receives the lease."""
    if breach.on_breach == OnBreach.CANCEL:
        return ask_to_stop(held, breach)
    if breach.on_breach == OnBreach.FAIL:
        return _fail(held, breach)
    return block(held, breach, False)


def block(held: LeaseState, breach: Breach, answer: bool, *effects: RequireBudget) -> Request[bool]:
    """Return the request that blocks the run until a budget has room, at the latest until its
    reset."""
    return write_as_holder(
        held,
        [],
        answer,
        status=Status.BLOCKED,
        release=True,
        waits=msgspec.json.encode([budget_rules.as_wait(breach, _step(held))]),
        wake_at=breach.reset_at,
        effects=effects,
    )


def ask_to_stop(held: LeaseState, breach: Breach) -> Request[bool]:
    """Return the request by which the run asks itself to stop. The answer is True: its holder keeps
    the lease, and cancels the run."""
    reason = f"the budget {breach.budget} is spent"
    error = error_data(budget_rules.breach_error(breach, {}))
    request = write_as_holder(
        held,
        [Event(EventKind.BUDGET_SPENT, _step(held), error=error)],
        True,
        effects=[CancelOtherRun(held.run.id, reason, CancelCause.BUDGET)],
    )

    def decode(answer: Any) -> bool:
        request.decode(answer)
        held.run = msgspec.structs.replace(
            held.run,
            status=Status.CANCELLING,
            cancel_reason=reason,
            cancel_cause=CancelCause.BUDGET,
        )
        return True

    return Request(request.op, decode)


def _fail(held: LeaseState, breach: Breach) -> Request[bool]:
    error = error_data(budget_rules.breach_error(breach, {}))
    request = write_as_holder(
        held,
        [Event(EventKind.RUN_FAILED, error=error)],
        RunEnded(Status.FAILED),
        status=Status.FAILED,
        error=error,
        effects=[CloseStreams(CloseReason.FAILED)],
    )

    def decode(answer: Any) -> bool:
        request.decode(answer)
        return False

    return Request(request.op, decode)


def _step(held: LeaseState) -> str:
    return f"spend {held.proof.generation}.{held.seq + 1}"
