"""What people ask about budgets, as requests: checked here, before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import msgspec

from holdfast.core.budgets import rules as budget_rules
from holdfast.core.budgets.model import Budget
from holdfast.core.runs import Limits
from holdfast.core.text import is_one_of, is_storable, plain_text
from holdfast.errors import BadOption, BudgetNotFound
from holdfast.service.runs import Request
from holdfast.store.contract import Store
from holdfast.store.contract.budgets import (
    BudgetRefused,
    BudgetSpent,
    RaiseBudget,
    ResetBudget,
    SetBudget,
    SpendBudget,
)

Amounts = Mapping[str, Any]

NEVER = "never"
"""How a budget is told that it is no longer reset."""


class Spendings(msgspec.Struct):
    """What a run has spent, each of those below it, and all of them together."""

    run: dict[str, int | Decimal]
    runs: dict[str, dict[str, int | Decimal]]
    total: dict[str, int | Decimal]


def set_budget(
    store: Store,
    name: str,
    limits: Amounts,
    *,
    soft: Amounts | None,
    on_breach: str | None,
    reset: Any,
    zone: str | None,
) -> Request:
    """Create a budget or change it; what is not said of one that exists stays as it is."""
    name = budget_rules.name_of(name)
    old = store.budget(name)
    if old is None:
        budget_rules.own_name(name)
    elif old.run_id is not None and not (reset is None and zone is None):
        raise BadOption(
            option="reset",
            why="the budget of a tree lives as long as its runs and is not reset by the calendar",
        )
    resets, where = _rhythm(old, reset, zone)
    op = SetBudget(
        name=name, limits=_limits(old, limits, soft, on_breach), resets=resets, zone=where
    )
    return Request(op, lambda answer: None)


def _limits(
    old: Budget | None, limits: Amounts, soft: Amounts | None, on_breach: str | None
) -> Limits:
    """Put together what is said and what was so before; only the dimensions that are named are
    written."""
    if old is None:
        return budget_rules.limits_from(
            limits, soft, budget_rules.WAIT if on_breach is None else on_breach
        )
    soft = {} if soft is None else soft
    if not isinstance(limits, Mapping) or not isinstance(soft, Mapping):
        raise BadOption(
            option="limits", value=limits, why='name what is limited, such as {"tokens": 1000}'
        )
    before = {
        line.dimension: None if line.hard is None else budget_rules.amount(line.hard)
        for line in old.allowances
    }
    found = budget_rules.limits_from(
        {**before, **limits}, soft, old.on_breach if on_breach is None else on_breach
    )
    named = {*limits, *soft}
    return Limits(
        {name: limit for name, limit in found.hard.items() if name in named},
        found.soft,
        found.on_breach,
    )


def _rhythm(old: Budget | None, reset: Any, zone: str | None) -> tuple[str | None, str]:
    if zone is None:
        zone = "UTC" if old is None else old.zone
    resets, where = budget_rules.checked_reset(None if is_one_of(reset, (NEVER,)) else reset, zone)
    return (old.resets if old is not None and reset is None else resets), where


def raise_budget(name: str, amounts: Amounts, key: str | None) -> Request:
    """Add to the limits of a budget; the answer is False when the key came before."""
    found = budget_rules.amounts_from(amounts, most=budget_rules.MOST * 1000)
    return Request(RaiseBudget(budget_rules.name_of(name), found, _key(key)), bool)


def reset_budget(name: str) -> Request:
    """Begin anew with nothing used."""
    return Request(ResetBudget(budget_rules.name_of(name)), lambda answer: None)


def spend_budget(name: str, amounts: Amounts, key: str | None) -> Request:
    """Count what was spent outside any run; the answer is False when the key came before. Raises
    BudgetExceeded."""

    def understand(answer: BudgetSpent | BudgetRefused) -> bool:
        if isinstance(answer, BudgetRefused):
            raise budget_rules.exceeded(answer.breach, {})
        return answer.counted

    return Request(
        SpendBudget(budget_rules.name_of(name), budget_rules.amounts_from(amounts), _key(key)),
        understand,
    )


def get_budget(store: Store, name: str) -> Budget:
    """Return a budget. Raises BudgetNotFound."""
    found = store.budget(name) if isinstance(name, str) else None
    if found is None:
        raise BudgetNotFound(budget=name)
    return found


def spending(store: Store, run_id: str) -> Spendings:
    """Report what a run and all below it have spent."""
    found = store.spending(run_id)
    total: dict[str, int] = {}
    for spent in found.values():
        for dimension, amount in spent.items():
            total[dimension] = total.get(dimension, 0) + amount
    return Spendings(
        run=_amounts(found.get(run_id, {})),
        runs={one: _amounts(spent) for one, spent in found.items()},
        total=_amounts(total),
    )


def _amounts(spent: Mapping[str, int]) -> dict[str, int | Decimal]:
    return {dimension: budget_rules.amount(amount) for dimension, amount in spent.items()}


def _key(key: object) -> str | None:
    if key is None:
        return None
    if not isinstance(key, str) or not key or len(key) > 200 or not is_storable(key):
        raise BadOption(option="key", value=key, why="it must be a text of 1 to 200 characters")
    return plain_text(key)
