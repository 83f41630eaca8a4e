"""What a step holds in its hand while it runs: through it, it spends and sets aside. The engine
gives it, code uses it."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Protocol


class SpendingSink(Protocol):
    """The purse of one attempt at a step."""

    def spend(self, amounts: Mapping[str, int], key: str | None, *, fact: bool) -> None:
        """Note what is spent: it is taken when the attempt completes. A fact is counted when it has
        ended, however it ends. Raises UnknownDimension, BudgetExceeded."""

    def counted(self) -> frozenset[str]:
        """Return the dimensions that the budgets of the run count; none if it has no budget."""

    def reserve(self, amounts: Mapping[str, int]) -> object:
        """Set so much aside and return what it is given back by. Raises BudgetExceeded."""

    async def reserve_aio(self, amounts: Mapping[str, int]) -> object:
        """The same, without holding up the loop."""

    def release(self, held: object) -> None:
        """What is left of it is set aside no more."""


current_spending: ContextVar[SpendingSink | None] = ContextVar("holdfast_purse", default=None)
