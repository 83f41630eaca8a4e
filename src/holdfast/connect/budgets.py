"""Budgets: what an engine can be asked about them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.connect.calls import AsyncCalls, Calls
from holdfast.core.budgets.model import Budget
from holdfast.service import budgets as asked
from holdfast.service.budgets import Spendings


class Budgets(Calls):
    """The part of ``Engine`` that is about budgets."""

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
        """Create a budget that runs share by its name, or change what is named of it:
        ``budget("team", {"tokens": 1000})``.

        Past a hard limit a run waits, fails or is cancelled (*on_breach*); a soft one is only
        counted. *reset* is "hour", "day", "week" or "month" in a *zone*, a duration, or "never"."""
        self._parts.client.unbound("budget")
        store = self._parts.store
        self._do(
            asked.set_budget(
                store, name, limits, soft=soft, on_breach=on_breach, reset=reset, zone=zone
            )
        )

    def raise_budget(
        self, name: str, amounts: Mapping[str, Any], *, key: str | None = None
    ) -> bool:
        """Add to the limits of a budget and let whoever waits for room go on; with a key once, and
        False when it came before."""
        self._parts.client.unbound("raise_budget")
        done: bool = self._do(asked.raise_budget(name, amounts, key))
        return done

    def reset_budget(self, name: str) -> None:
        """Begin anew with nothing used, and let whoever waits for room go on."""
        self._parts.client.unbound("reset_budget")
        self._do(asked.reset_budget(name))

    def spend_budget(
        self, name: str, amounts: Mapping[str, Any], *, key: str | None = None
    ) -> bool:
        """Count what was spent outside any run, all or nothing; with a key once, and False when it
        came before. Raises BudgetExceeded."""
        self._parts.client.unbound("spend_budget")
        done: bool = self._do(asked.spend_budget(name, amounts, key))
        return done

    def budgets(self) -> list[Budget]:
        """Return all budgets, those of trees among them. Amounts are millionths."""
        self._parts.client.unbound("budgets")
        return self._parts.store.budgets()

    def spending(self, run_id: str) -> Spendings:
        """Report what a run and all below it have spent."""
        return asked.spending(self._parts.store, self._parts.client.get(run_id).id)


class AsyncBudgets(AsyncCalls):
    """The part of ``AsyncEngine`` that is about budgets."""

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
        """Create a budget that runs share by its name, or change what is named of it."""
        await self._call(
            Budgets.budget, name, limits, soft=soft, on_breach=on_breach, reset=reset, zone=zone
        )

    async def raise_budget(
        self, name: str, amounts: Mapping[str, Any], *, key: str | None = None
    ) -> bool:
        """Add to the limits of a budget and let whoever waits for room go on."""
        return await self._call(Budgets.raise_budget, name, amounts, key=key)

    async def reset_budget(self, name: str) -> None:
        """Begin anew with nothing used, and let whoever waits for room go on."""
        await self._call(Budgets.reset_budget, name)

    async def spend_budget(
        self, name: str, amounts: Mapping[str, Any], *, key: str | None = None
    ) -> bool:
        """Count what was spent outside any run, all or nothing. Raises BudgetExceeded."""
        return await self._call(Budgets.spend_budget, name, amounts, key=key)

    async def budgets(self) -> list[Budget]:
        """Return all budgets."""
        return await self._call(Budgets.budgets)

    async def spending(self, run_id: str) -> Spendings:
        """Report what a run and all below it have spent."""
        return await self._call(Budgets.spending, run_id)
