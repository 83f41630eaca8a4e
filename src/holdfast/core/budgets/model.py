"""Budgets and their lines, as they are stored."""

from __future__ import annotations

import msgspec


class BudgetLine(msgspec.Struct, kw_only=True):
    """One dimension of a budget: its limits, what is used and what is set aside, in millionths of a
    unit."""

    budget: str
    dimension: str
    run_id: str | None = None
    hard: int | None = None
    soft: int | None = None
    used: int = 0
    reserved: int = 0
    reset_at: int | None = None


class Budget(msgspec.Struct, kw_only=True):
    """What runs may spend together: a tree of them, or all that name it."""

    name: str
    on_breach: str = "wait"
    run_id: str | None = None
    resets: str | None = None
    zone: str = "UTC"
    reset_at: int | None = None
    reset_count: int = 0
    breaches: int = 0
    soft_breaches: int = 0
    breached_at: int | None = None
    breached: str | None = None
    created_at: int = 0
    allowances: list[BudgetLine] = []


class Breach(msgspec.Struct, frozen=True):
    """A hard limit that is passed, or would be: which, by how much, and what is to happen. Amounts
    are millionths."""

    budget: str
    dimension: str
    used: int
    reserved: int
    limit: int
    wanted: int
    on_breach: str = "wait"
    reset_at: int | None = None


class SpendEntry(msgspec.Struct):
    """Something that is spent: counted once, and only once when it has a key. ``under`` names what
    was set aside for it. A ``fact`` has happened and is counted whatever the limits say; anything
    else is taken when there is room, or not at all."""

    amounts: dict[str, int]
    key: str | None = None
    under: str | None = None
    fact: bool = False
