"""Operations on budgets, and the answers to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec

from holdfast.core.budgets.model import Breach, Budget, SoftBreach, SpendEntry
from holdfast.core.events import Event
from holdfast.core.runs import Limits
from holdfast.store.database import Operation
from holdfast.store.effects import Effect, Phase


class SetBudget(Operation, kw_only=True):
    """Create a budget, or change the given dimensions of it; other dimensions stay. Raised limits
    wake the runs that wait for them.

    Answers:
        None
        SettingsChanged  ``merges`` is set and the budget is no longer as ``expected``
    Raises:
        BudgetNotFound   ``only_limits`` is set and there is no such budget
    """

    name: str
    limits: Limits
    resets: str | None = None
    zone: str = "UTC"
    only_limits: bool = False
    """Change the limits of an existing budget, and nothing else."""
    merges: bool = False
    expected: Budget | None = None
    """The budget as the caller has read it; None if there was none."""


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


class RemoveBudget(Operation):
    """Remove a budget that runs share, with its reservations and keys. The runs that wait for room
    in it continue.

    Answers:
        None
    Raises:
        BudgetNotFound  there is no such budget
        BudgetInUse     runs that have not ended draw on it, and ``force`` is not set
    """

    name: str
    force: bool = False


class RefundRun(Operation):
    """Give back what a run has spent to the budgets that it draws on, and set its account to 0.

    Answers:
        Refunded     a repeated call gives nothing back
    Raises:
        RunNotFound  there is no such run
    """

    run_id: str


class Refunded(msgspec.Struct):
    """The amounts that a run had spent, and the budgets that got them back. A budget that was reset
    since the run was created is not among them."""

    amounts: dict[str, int] = {}
    budgets: list[str] = []


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
    ``breach`` is the hard limit that they exceed, ``soft`` are the soft limits that the budgets
    exceed with them."""

    now: int
    counted: bool = True
    breach: Breach | None = None
    soft: list[SoftBreach] = []


class BudgetRefused(msgspec.Struct):
    """A hard limit leaves no room; nothing was counted."""

    breach: Breach


class ChargeBudget(Effect):
    """Spend the entries that are not facts: all of them, or none if a hard limit does not allow it.

    Reservations that the same commit releases count as room. The commit has events and no status.

    Answers:
        BudgetRefused   the commit is refused
    Raises:
        LeaseLost       the run has another holder, or none
        BudgetExceeded  the commit would be refused, but has a transactional body
    """

    phase: ClassVar[Phase] = Phase.BEFORE_EVENTS

    budgets: Sequence[str]
    entries: Sequence[SpendEntry]


class RequireBudget(Effect):
    """Park the run until its budgets have room for one of these demands, which are amounts by
    dimension; one per step. An empty demand requires only that no limit is exceeded.

    Answers:
        RevisionChanged  the commit is refused, because all demands have room now
    Raises:
        LeaseLost        the run has another holder, or none
    """

    phase: ClassVar[Phase] = Phase.BEFORE_EVENTS

    budgets: Sequence[str]
    demands: Sequence[dict[str, int]]


class RecordSpending(Effect):
    """Count the entries that are facts, regardless of the limits."""

    phase: ClassVar[Phase] = Phase.BUDGETS
    answers: ClassVar[str | None] = "breach"

    budgets: Sequence[str]
    entries: Sequence[SpendEntry]


class ReleaseReservations(Effect):
    """Release the reservations of the run under these keys, or all of them."""

    phase: ClassVar[Phase] = Phase.BUDGETS

    keys: Sequence[str] | None
    """None: all reservations of the run."""


def spending_effects(budgets: Sequence[str], entries: Sequence[SpendEntry]) -> list[Effect]:
    """Return the effects that charge and record these entries."""
    effects: list[Effect] = []
    asked = [entry for entry in entries if not entry.fact]
    if asked:
        effects.append(ChargeBudget(budgets, asked))
    if len(asked) < len(entries):
        facts = [entry for entry in entries if entry.fact]
        effects.append(RecordSpending(budgets, facts))
    return effects
