"""Requests about budgets: check the arguments and build the operations.

Everything is checked before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.core.budgets import rules as budget_rules
from holdfast.core.budgets.model import Budget, OnBreach
from holdfast.core.runs import Limits
from holdfast.core.text import is_one_of, is_storable, plain_text
from holdfast.core.validation import checked_count, checked_flag, checked_text
from holdfast.errors import BadOption, BudgetNotFound
from holdfast.service.requests import Request, identity
from holdfast.store.budgets.operations import (
    BudgetRefused,
    BudgetSpent,
    RaiseBudget,
    Refunded,
    RefundRun,
    RemoveBudget,
    ResetBudget,
    SetBudget,
    SpendBudget,
)
from holdfast.store.store import Store

Amounts = Mapping[str, Any]

NEVER = "never"
"""The value of *reset* that ends the periodic reset of a budget."""


def set_budget(
    store: Store,
    name: str,
    limits: Amounts,
    *,
    soft: Amounts | None,
    on_breach: str | None,
    reset: Any,
    zone: str | None,
) -> Request[None]:
    """Create a budget or change it. Options that are not given stay as they are in an existing
    budget. Raises BadOption."""
    name = budget_rules.name_of(name)
    old = store.budgets.get(name)
    if old is None:
        budget_rules.own_name(name)
    elif old.run_id is not None and not (reset is None and zone is None):
        raise BadOption(
            option="reset",
            why="the budget of a tree lives as long as its runs and is not reset by the calendar",
        )
    resets, zone = _reset_rule(old, reset, zone)
    op = SetBudget(
        name=name,
        limits=_limits(old, limits, soft, on_breach),
        resets=resets,
        zone=zone,
        merges=True,
        expected=old,
    )
    return Request(op, lambda answer: None)


def _limits(
    old: Budget | None, limits: Amounts, soft: Amounts | None, on_breach: str | None
) -> Limits:
    """Return the limits to write: those of the named dimensions, checked together with the limits
    that the budget has already."""
    if on_breach is None:
        on_breach = OnBreach.WAIT if old is None else old.on_breach
    if old is None:
        return budget_rules.limits_from(limits, soft, on_breach)
    if soft is None:
        soft = {}
    if not isinstance(limits, Mapping) or not isinstance(soft, Mapping):
        raise BadOption(
            option="limits", value=limits, why='name what is limited, such as {"tokens": 1000}'
        )
    before = {
        line.dimension: None if line.hard is None else budget_rules.amount(line.hard)
        for line in old.lines
    }
    merged = budget_rules.limits_from({**before, **limits}, soft, on_breach)
    named = {*limits, *soft}
    return Limits(
        {name: limit for name, limit in merged.hard.items() if name in named},
        merged.soft,
        merged.on_breach,
    )


def _reset_rule(old: Budget | None, reset: Any, zone: str | None) -> tuple[str | None, str]:
    """Return the reset rule of a budget, None if it has none, and its time zone."""
    if zone is None:
        zone = "UTC" if old is None else old.zone
    if is_one_of(reset, (NEVER,)):
        return budget_rules.checked_reset(None, zone)
    resets, zone = budget_rules.checked_reset(reset, zone)
    if old is not None and reset is None:
        resets = old.resets
    return resets, zone


def raise_budget(name: str, amounts: Amounts, key: str | None) -> Request[bool]:
    """Raise the limits of a budget by *amounts*. The answer is False if a raise with this *key* was
    made before."""
    checked = budget_rules.amounts_from(amounts, most=budget_rules.MOST * 1000)
    return Request(RaiseBudget(budget_rules.name_of(name), checked, checked_key(key)), bool)


def reset_budget(name: str) -> Request[None]:
    """Set the used amounts of a budget back to zero."""
    return Request(ResetBudget(budget_rules.name_of(name)), lambda answer: None)


def remove_budget(name: str, *, force: bool) -> Request[None]:
    """Remove a budget that runs share. Raises BadOption for the budget of a tree."""
    budget = budget_rules.name_of(name)
    if budget.startswith(budget_rules.TREE):
        raise BadOption(
            option="budget",
            value=name,
            why="the budget of a tree is deleted with its run",
        )
    return Request(RemoveBudget(budget, checked_flag("force", force)), lambda answer: None)


def refund_run(run_id: str) -> Request[Refunded]:
    """Give back what a run has spent, once."""
    return Request(RefundRun(run_id), identity)


def spend_budget(name: str, amounts: Amounts, key: str | None) -> Request[BudgetSpent]:
    """Spend amounts outside any run. Decoding the answer raises BudgetExceeded."""

    def decode(answer: BudgetSpent | BudgetRefused) -> BudgetSpent:
        if isinstance(answer, BudgetRefused):
            raise budget_rules.breach_error(answer.breach, {})
        return answer

    return Request(
        SpendBudget(
            budget_rules.name_of(name), budget_rules.amounts_from(amounts), checked_key(key)
        ),
        decode,
    )


def find_budgets(store: Store, after: str | None, limit: int) -> list[Budget]:
    """Return a page of the budgets, by name: those after the name *after*."""
    return store.budgets.page(checked_text("after", after) or "", checked_count("limit", limit))


def get_budget(store: Store, name: str) -> Budget:
    """Return a budget. Raises BudgetNotFound."""
    budget = store.budgets.get(name) if isinstance(name, str) else None
    if budget is None:
        raise BudgetNotFound(budget=name)
    return budget


def checked_key(key: object) -> str | None:
    """Return the key that prevents double counting, or None. Raises BadOption."""
    if key is None:
        return None
    if not isinstance(key, str) or not key or len(key) > 200 or not is_storable(key):
        raise BadOption(option="key", value=key, why="a key is a text of 1 to 200 characters")
    return plain_text(key)
