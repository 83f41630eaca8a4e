"""Errors about budgets."""

from __future__ import annotations

from holdfast.errors.base import HoldfastError, UsageError


class BudgetNotFound(UsageError):
    """There is no such budget: `holdfast budgets` lists the budgets, `holdfast budgets set` creates
    one."""


class BudgetInUse(UsageError):
    """Runs that have not ended draw on the budget: wait for them, or remove it with --force
    (force=True), and they continue without it."""


class UnknownDimension(UsageError):
    """The budget does not count this dimension: name a dimension that it counts, or add this one
    with `holdfast budgets set`."""


class BudgetExceeded(HoldfastError):
    """The budget has no room left: raise its limit with `holdfast budgets raise`."""

    breach: object = None
    wanted: object = None
