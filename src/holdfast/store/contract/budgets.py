"""What can be done to budgets."""

from __future__ import annotations

import msgspec

from holdfast.core.budgets.model import Breach
from holdfast.core.events import Event
from holdfast.core.runs import Limits


class SetBudget(msgspec.Struct, kw_only=True):
    """Create a budget, or change what is named of it: dimensions that are not named stay. Limits
    that let more be spent wake whoever waits for them. Answers None. Raises BudgetNotFound when it
    must exist and does not."""

    name: str
    limits: Limits
    resets: str | None = None
    zone: str = "UTC"
    only_limits: bool = False
    """Change the limits of one that exists, and nothing else."""


class RaiseBudget(msgspec.Struct):
    """Add to the hard limits of a budget, and wake whoever waits for room in it. With a key it is
    done once. Answers False when the key came before. Raises BudgetNotFound, UnknownDimension."""

    name: str
    amounts: dict[str, int]
    key: str | None = None


class ResetBudget(msgspec.Struct):
    """Begin anew with nothing used, and wake whoever waits for room. Answers None. Raises
    BudgetNotFound."""

    name: str


class SpendBudget(msgspec.Struct):
    """Count what somebody outside any run has spent: all of it, or nothing when a hard limit does
    not allow it. With a key it is counted once. Answers Spent, or Refused. Raises BudgetNotFound,
    UnknownDimension."""

    name: str
    amounts: dict[str, int]
    key: str | None = None


class SpendRunBudget(msgspec.Struct, kw_only=True):
    """A run takes from its budgets, all of it or nothing, and records that it did. Answers Spent,
    or Refused. Raises LeaseLost."""

    run_id: str
    generation: int
    budgets: tuple[str, ...]
    amounts: dict[str, int]
    event: Event
    key: str | None = None
    under: str | None = None
    force: bool = False


class ReserveBudget(msgspec.Struct, kw_only=True):
    """Have so much set aside under a key, no more and no less, in all budgets of a run. With an
    event it lasts until it is settled; without one it is given back with the lease. Answers Spent,
    or Refused. Raises LeaseLost."""

    run_id: str
    generation: int
    budgets: tuple[str, ...]
    key: str
    amounts: dict[str, int]
    event: Event | None = None
    under: str | None = None
    force: bool = False


class BudgetSpent(msgspec.Struct):
    """It was taken; ``counted`` is false when the key came before, ``breach`` says which hard limit
    is passed by it."""

    now: int
    counted: bool = True
    breach: Breach | None = None


class BudgetRefused(msgspec.Struct):
    """There is no room, and nothing was taken."""

    breach: Breach
