"""Records of budgets and their lines, breaches and spending."""

from __future__ import annotations

from enum import StrEnum

import msgspec


class OnBreach(StrEnum):
    """What happens to a run that would pass a hard limit."""

    WAIT = "wait"
    FAIL = "fail"
    CANCEL = "cancel"


class BudgetLine(msgspec.Struct, kw_only=True):
    """One dimension of a budget: its limits, the amount used and the amount reserved, in millionths
    of a unit."""

    budget: str
    dimension: str
    run_id: str | None = None
    hard: int | None = None
    soft: int | None = None
    used: int = 0
    reserved: int = 0
    reset_at: int | None = None


class Budget(msgspec.Struct, kw_only=True):
    """The amounts that several runs may spend together: the runs of one tree, or all runs that name
    the budget."""

    name: str
    on_breach: str = OnBreach.WAIT
    run_id: str | None = None
    resets: str | None = None
    zone: str = "UTC"
    reset_at: int | None = None
    reset_count: int = 0
    last_reset_at: int | None = None
    breaches: int = 0
    soft_breaches: int = 0
    breached_at: int | None = None
    breached: str | None = None
    created_at: int = 0
    lines: list[BudgetLine] = []


class Breach(msgspec.Struct, frozen=True):
    """A hard limit that is exceeded or would be exceeded: its budget line, the amounts in
    millionths, and the reaction that the budget asks for."""

    budget: str
    dimension: str
    used: int
    reserved: int
    limit: int
    wanted: int
    on_breach: str = OnBreach.WAIT
    reset_at: int | None = None


class SoftBreach(msgspec.Struct, frozen=True):
    """A soft limit that the amount used exceeds, in millionths."""

    budget: str
    dimension: str
    used: int
    limit: int


class SpendEntry(msgspec.Struct):
    """One act of spending.

    - ``key``: entries with the same key are counted once.
    - ``under``: the key of the reservation that it draws on.
    - ``fact``: it has happened already and is counted whatever the limits say. Any other entry is
      taken as a whole if all of it fits, or not at all.
    """

    amounts: dict[str, int]
    key: str | None = None
    under: str | None = None
    fact: bool = False
