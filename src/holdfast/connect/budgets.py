"""``engine.budgets``: set, raise, reset and spend the budgets that runs share."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from holdfast.connect.async_calls import AsyncCalls
from holdfast.connect.components import Components
from holdfast.service import budgets as budget_service
from holdfast.service.requests import Request
from holdfast.store.budgets.operations import BudgetSpent, Refunded
from holdfast.views import budgets as views
from holdfast.views.budgets import BudgetView, RefundView, SpendingView, SpentView

Amounts = Mapping[str, int | float | str | Decimal | None]
"""Amounts by their dimension, such as ``{"tokens": 1000}``; in limits, None removes the limit."""


class AsyncBudgets:
    """The budgets of an ``AsyncEngine``."""

    def __init__(self, calls: AsyncCalls) -> None:
        self._calls: AsyncCalls = calls

    async def set(
        self,
        name: str,
        limits: Amounts,
        *,
        soft: Amounts | None = None,
        on_breach: str | None = None,
        reset: Any = None,
        zone: str | None = None,
        by: str | None = None,
    ) -> None:
        """Create a budget that runs share by its name, or change it: ``set("team", {"tokens":
        1000})``. Settings of an existing budget that are not passed stay as they are; a limit of
        None removes the limit.

        At a hard limit a run waits, fails or is cancelled, as *on_breach* says; exceeding a *soft*
        limit is only recorded. *reset* is "hour", "day", "week" or "month" in a *zone*, a duration,
        or "never". With *by*, the person or program that asks, the change is recorded in
        ``engine.audit``. Raises BadOption, NamespaceBound.
        """

        def make_request(parts: Components) -> Request[None]:
            parts.client.require_unbound("budgets.set")
            request = budget_service.set_budget(
                parts.store, name, limits, soft=soft, on_breach=on_breach, reset=reset, zone=zone
            )
            return parts.audit.record(request, by, "budgets.set", name, limits=_shown(limits))

        await self._calls.call(lambda parts: parts.merge(lambda: make_request(parts)))

    async def get(self, name: str) -> BudgetView:
        """Return a budget. Raises BudgetNotFound, NamespaceBound."""

        def read(parts: Components) -> BudgetView:
            parts.client.require_unbound("budgets.get")
            return views.of(budget_service.get_budget(parts.store, name))

        return await self._calls.call(read)

    async def list(self, *, after: str | None = None, limit: int = 100) -> list[BudgetView]:
        """Return a page of the budgets, by name, including the budgets of run trees: the first
        *limit*, or those after the name *after*. Raises BadOption, NamespaceBound."""

        def read(parts: Components) -> list[BudgetView]:
            parts.client.require_unbound("budgets.list")
            page = budget_service.find_budgets(parts.store, after, limit)
            return [views.of(budget) for budget in page]

        return await self._calls.call(read)

    async def raise_limits(
        self, name: str, amounts: Amounts, *, key: str | None = None, by: str | None = None
    ) -> bool:
        """Raise the limits of a budget by *amounts* and wake the runs that wait for room. Return
        False, and change nothing, if a raise with the same *key* was made before. Raises
        BudgetNotFound, UnknownDimension, NamespaceBound."""

        def make_request(parts: Components) -> Request[bool]:
            parts.client.require_unbound("budgets.raise_limits")
            request = budget_service.raise_budget(name, amounts, key)
            shown = _shown(amounts)
            return parts.audit.record(request, by, "budgets.raise_limits", name, amounts=shown)

        return await self._calls.commit(make_request)

    async def reset(self, name: str, *, by: str | None = None) -> None:
        """Set the used amounts of a budget to zero and wake the runs that wait for room. Raises
        BudgetNotFound, NamespaceBound."""

        def make_request(parts: Components) -> Request[None]:
            parts.client.require_unbound("budgets.reset")
            request = budget_service.reset_budget(name)
            return parts.audit.record(request, by, "budgets.reset", name)

        await self._calls.commit(make_request)

    async def remove(self, name: str, *, force: bool = False, by: str | None = None) -> None:
        """Remove a budget that runs share. While runs that have not ended draw on it, this is
        refused; with *force* they continue, and the budget no longer counts or limits what they
        spend. Raises BudgetInUse, BudgetNotFound, NamespaceBound."""

        def make_request(parts: Components) -> Request[None]:
            parts.client.require_unbound("budgets.remove")
            request = budget_service.remove_budget(name, force=force)
            return parts.audit.record(request, by, "budgets.remove", name)

        await self._calls.commit(make_request)

    async def spend(self, name: str, amounts: Amounts, *, key: str | None = None) -> SpentView:
        """Spend *amounts* outside any run, all of them or none. The answer names the soft limits
        that the budget exceeds with them. With the *key* of an earlier spending nothing is spent,
        and ``counted`` is false. Raises BudgetExceeded, BudgetNotFound, NamespaceBound."""

        def make_request(parts: Components) -> Request[BudgetSpent]:
            parts.client.require_unbound("budgets.spend")
            return budget_service.spend_budget(name, amounts, key)

        spent = await self._calls.commit(make_request)
        return views.spent_of(spent.counted, spent.soft)

    async def refund(self, run_id: str, *, by: str | None = None) -> RefundView:
        """Give back what a run has spent, to all budgets that it draws on, and wake the runs that
        wait for room in them. What its children have spent stays. A repeated call gives nothing
        back. A budget that was reset since the run was created gets nothing back. Raises
        RunNotFound."""

        def make_request(parts: Components) -> Request[Refunded]:
            request = budget_service.refund_run(parts.client.get(run_id).id)
            return parts.audit.record_run(request, by, "budgets.refund", run_id)

        refunded = await self._calls.commit(make_request)
        return views.refund_of(refunded.amounts, refunded.budgets)

    async def usage(self, run_id: str) -> SpendingView:
        """Return the amounts that a run and its descendants have spent. Raises RunNotFound."""

        def read(parts: Components) -> SpendingView:
            run = parts.client.get(run_id)
            return views.spending_of(run.id, parts.store.budgets.spending(run.id))

        return await self._calls.call(read)


def _shown(amounts: Amounts) -> dict[str, str | None]:
    """Return amounts as the audit log shows them; they are checked already."""
    return {name: None if value is None else str(value) for name, value in amounts.items()}
