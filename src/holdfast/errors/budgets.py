"""Errors about budgets."""

from __future__ import annotations

from holdfast.errors.base import HoldfastError, UsageError


class BudgetNotFound(UsageError):
    """There is no such budget: `holdfast budgets` lists what there is, `holdfast budgets set` makes
    one."""


class UnknownDimension(UsageError):
    """The budget does not count this dimension: name one that it does, or add it with `holdfast
    budgets set`."""


class BudgetExceeded(HoldfastError):
    """There is no room left in the budget: `holdfast budgets raise` makes room."""

    breach: object = None
    wanted: object = None
