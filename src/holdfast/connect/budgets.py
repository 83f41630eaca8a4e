"""The calls of an engine on budgets: create, raise, reset, spend, list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.connect.calls import AsyncCalls, Calls
from holdfast.core.budgets.model import Budget
from holdfast.service import budgets as budget_service
from holdfast.service.budgets import Spendings


class Budgets(Calls):
    """The calls of ``Engine`` on budgets."""

    def budget(
        self,
        name: str,
        limits: Mapping[str, Any],
        *,
        soft: Mapping[str, Any] | None = None,
        on_breach: str | None = None,
        reset: Any = None,
        zone: str | None = None,
    ) -> None:
        """Create a budget that runs share by its name, or change it: ``budget("team", {"tokens":
        1000})``. Settings of an existing budget that are not passed stay as they are.

        At a hard limit a run waits, fails or is cancelled, as *on_breach* says; exceeding a *soft*
        limit is only recorded. *reset* is "hour", "day", "week" or "month" in a *zone*, a duration,
        or "never". Raises BadOption, NamespaceBound.
        """
        self._parts.client.unbound("budget")
        store = self._parts.store
        self._do(
            budget_service.set_budget(
                store, name, limits, soft=soft, on_breach=on_breach, reset=reset, zone=zone
            )
        )

    def raise_budget(
        self, name: str, amounts: Mapping[str, Any], *, key: str | None = None
    ) -> bool:
        """Raise the limits of a budget by *amounts* and wake the runs that wait for room. Return
        False, and change nothing, if a raise with the same *key* was made before."""
        self._parts.client.unbound("raise_budget")
        done: bool = self._do(budget_service.raise_budget(name, amounts, key))
        return done

    def reset_budget(self, name: str) -> None:
        """Set the used amounts of a budget to zero and wake the runs that wait for room."""
        self._parts.client.unbound("reset_budget")
        self._do(budget_service.reset_budget(name))

    def spend_budget(
        self, name: str, amounts: Mapping[str, Any], *, key: str | None = None
    ) -> bool:
        """Spend *amounts* outside any run, all of them or none. Return False, and spend nothing, if
        a spending with the same *key* was made before. Raises BudgetExceeded."""
        self._parts.client.unbound("spend_budget")
        done: bool = self._do(budget_service.spend_budget(name, amounts, key))
        return done

    def budgets(self) -> list[Budget]:
        """Return all budgets, including the budgets of run trees. Amounts are in millionths. Raises
        NamespaceBound."""
        self._parts.client.unbound("budgets")
        return self._parts.store.budgets.all()

    def spending(self, run_id: str) -> Spendings:
        """Return the amounts that a run and its descendants have spent. Raises RunNotFound."""
        return budget_service.spending(self._parts.store, self._parts.client.get(run_id).id)


class AsyncBudgets(AsyncCalls):
    """The calls of ``AsyncEngine`` on budgets."""

    async def budget(
        self,
        name: str,
        limits: Mapping[str, Any],
        *,
        soft: Mapping[str, Any] | None = None,
        on_breach: str | None = None,
        reset: Any = None,
        zone: str | None = None,
    ) -> None:
        """Create a budget that runs share by its name, or change it, as ``Engine.budget`` does."""
        await self._call(
            Budgets.budget, name, limits, soft=soft, on_breach=on_breach, reset=reset, zone=zone
        )

    async def raise_budget(
        self, name: str, amounts: Mapping[str, Any], *, key: str | None = None
    ) -> bool:
        """Raise the limits of a budget by *amounts* and wake the runs that wait for room. Return
        False if a raise with the same *key* was made before."""
        return await self._call(Budgets.raise_budget, name, amounts, key=key)

    async def reset_budget(self, name: str) -> None:
        """Set the used amounts of a budget to zero and wake the runs that wait for room."""
        await self._call(Budgets.reset_budget, name)

    async def spend_budget(
        self, name: str, amounts: Mapping[str, Any], *, key: str | None = None
    ) -> bool:
        """Spend *amounts* outside any run, all of them or none. Return False if a spending with the
        same *key* was made before. Raises BudgetExceeded."""
        return await self._call(Budgets.spend_budget, name, amounts, key=key)

    async def budgets(self) -> list[Budget]:
        """Return all budgets, including the budgets of run trees. Amounts are in millionths. Raises
        NamespaceBound."""
        return await self._call(Budgets.budgets)

    async def spending(self, run_id: str) -> Spendings:
        """Return the amounts that a run and its descendants have spent. Raises RunNotFound."""
        return await self._call(Budgets.spending, run_id)
