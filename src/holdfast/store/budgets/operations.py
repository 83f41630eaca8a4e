"""Operations on budgets, and the answers to them."""

from __future__ import annotations

import msgspec

from holdfast.core.budgets.model import Breach
from holdfast.core.events import Event
from holdfast.core.runs import Limits
from holdfast.store.database import Operation


class SetBudget(Operation, kw_only=True):
    """Create a budget, or change the given dimensions of it; other dimensions stay. Raised limits
    wake the runs that wait for them.

    Answers:
        None
    Raises:
        BudgetNotFound  ``only_limits`` is set and there is no such budget
    """

    name: str
    limits: Limits
    resets: str | None = None
    zone: str = "UTC"
    only_limits: bool = False
    """Change the limits of an existing budget, and nothing else."""


class RaiseBudget(Operation):
    """Add to the hard limits of a budget, and wake the runs that wait for room in it. With a key,
    this happens once.

    Answers:
        bool              False if the key was used before
    Raises:
        BudgetNotFound    there is no such budget
        UnknownDimension  the budget has no such dimension
    """

    name: str
    amounts: dict[str, int]
    key: str | None = None


class ResetBudget(Operation):
    """Set the used amounts to 0, and wake the runs that wait for room.

    Answers:
        None
    Raises:
        BudgetNotFound  there is no such budget
    """

    name: str


class SpendBudget(Operation):
    """Spend from a budget outside any run: all amounts, or none if a hard limit does not allow it.
    With a key, they are counted once.

    Answers:
        BudgetSpent       the amounts were counted, now or before with this key
        BudgetRefused     a hard limit does not allow it; nothing was counted
    Raises:
        BudgetNotFound    there is no such budget
        UnknownDimension  the budget has no such dimension
    """

    name: str
    amounts: dict[str, int]
    key: str | None = None


class SpendRunBudget(Operation, kw_only=True):
    """Spend from the budgets of a run, all amounts or none, and record the event of it. With a key,
    they are counted once. ``under`` is the key of the reservation that the amounts are taken from;
    with ``force`` no limit refuses them.

    Answers:
        BudgetSpent    the amounts were counted, now or before with this key
        BudgetRefused  a hard limit does not allow it; nothing was written
    Raises:
        LeaseLost      *generation* is not the run's current generation, or the run has no holder
    """

    run_id: str
    generation: int
    budgets: tuple[str, ...]
    amounts: dict[str, int]
    event: Event
    key: str | None = None
    under: str | None = None
    force: bool = False


class ReserveBudget(Operation, kw_only=True):
    """Make the reservation of a key equal to these amounts, in all budgets of a run. With an event
    it lasts until it is released; without one it is released with the lease.

    Answers:
        BudgetSpent    the amounts are reserved
        BudgetRefused  a hard limit does not allow it; an earlier reservation stays as it is
    Raises:
        LeaseLost      *generation* is not the run's current generation, or the run has no holder
    """

    run_id: str
    generation: int
    budgets: tuple[str, ...]
    key: str
    amounts: dict[str, int]
    event: Event | None = None
    under: str | None = None
    force: bool = False


class BudgetSpent(msgspec.Struct):
    """The amounts were counted or reserved. ``counted`` is false if the key was used before;
    ``breach`` is the hard limit that they exceed."""

    now: int
    counted: bool = True
    breach: Breach | None = None


class BudgetRefused(msgspec.Struct):
    """A hard limit leaves no room; nothing was counted."""

    breach: Breach
