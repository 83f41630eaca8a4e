"""SpendingSink: the object through which the code of a step spends and reserves.

The engine sets it in a context variable for the time of an attempt; ``holdfast.budgets`` reads it
there.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Protocol


class SpendingSink(Protocol):
    """The spending of one attempt at a step. Amounts are millionths of a unit."""

    def spend(self, amounts: Mapping[str, int], key: str | None, *, fact: bool) -> None:
        """Note an amount. It is taken from the budgets when the attempt completes; a *fact* is
        counted when the attempt ends, however it ends. Raises UnknownDimension, BudgetExceeded."""

    def counted(self) -> frozenset[str]:
        """Return the dimensions that the budgets of the run count; empty if it has no budget."""

    def reserve(self, amounts: Mapping[str, int]) -> object:
        """Reserve amounts and return the reservation, for ``release``. Raises BudgetExceeded."""

    async def reserve_aio(self, amounts: Mapping[str, int]) -> object:
        """Reserve amounts like ``reserve``, without blocking the event loop."""

    def release(self, held: object) -> None:
        """Release the unspent rest of the reservation *held*."""


current_spending: ContextVar[SpendingSink | None] = ContextVar("holdfast_spending", default=None)
