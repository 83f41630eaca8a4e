"""Create, change, raise and reset budgets; more room wakes the runs that are blocked on one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from holdfast.core import claiming
from holdfast.core.budgets import rules as budget_rules
from holdfast.core.budgets.model import Budget, BudgetLine
from holdfast.core.runs import NewRun
from holdfast.errors import BudgetNotFound
from holdfast.store.budgets.lines import known_lines, load_budgets, lock_lines, remember_key, reset
from holdfast.store.budgets.operations import (
    RaiseBudget,
    ResetBudget,
    SetBudget,
)
from holdfast.store.database import SettingsChanged, Transaction
from holdfast.store.rows import load
from holdfast.store.wakeup import notify_or_wake


def check_names(tx: Transaction, runs: Sequence[NewRun]) -> None:
    """Check that the budgets of new runs exist. Raises BudgetNotFound."""
    check_budgets(tx, {name for run in runs for name in run.budgets})


def check_budgets(tx: Transaction, names: Iterable[str]) -> None:
    """Check that budgets exist. Budgets of trees are created with their runs. Raises
    BudgetNotFound."""
    wanted = {name for name in names if not name.startswith(budget_rules.TREE)}
    missing = sorted(wanted - set(load_budgets(tx, sorted(wanted)))) if wanted else []
    if missing:
        raise BudgetNotFound(budget=missing[0])


def open_trees(tx: Transaction, runs: Sequence[NewRun]) -> None:
    """Create the tree budgets of new runs that have limits of their own."""
    for run in runs:
        if run.limits is not None:
            _save(
                tx,
                f"{budget_rules.TREE}{run.id}",
                run.id,
                SetBudget(name="", limits=run.limits),
                None,
                {},
            )


def set_budget(tx: Transaction, op: SetBudget) -> SettingsChanged | None:
    """Create a budget or change it. Raises BudgetNotFound if only limits are given and it is
    missing."""
    # The lines first: they are locked, and the budget changes only under that lock.
    lines = {line.dimension: line for line in lock_lines(tx, [op.name])}
    old = load_budgets(tx, [op.name]).get(op.name)
    if old is None and op.only_limits:
        raise BudgetNotFound(budget=op.name)
    if op.merges:
        stored = None if old is None else msgspec.structs.replace(old, lines=list(lines.values()))
        if _settings(stored) != _settings(op.expected):
            return SettingsChanged()
    if not _save(tx, op.name, None if old is None else old.run_id, op, old, lines):
        return SettingsChanged()  # another process has just created the budget
    before = {name: line.hard for name, line in lines.items()}
    if old is not None and budget_rules.is_raised(before, op.limits.hard):
        _wake(tx, op.name)
    return None


def _settings(budget: Budget | None) -> tuple[object, ...] | None:
    """Return the fields of a budget that a caller sets; None for None."""
    if budget is None:
        return None
    limits = {line.dimension: (line.hard, line.soft) for line in budget.lines}
    return budget.on_breach, budget.resets, budget.zone, limits


def _save(
    tx: Transaction,
    name: str,
    run_id: str | None,
    op: SetBudget,
    old: Budget | None,
    lines: Mapping[str, BudgetLine],
) -> bool:
    """Write a budget and its limits; with ``only_limits``, the rest stays as it was. Return False
    if a budget exists that the caller does not know."""
    resets = op.resets
    zone = op.zone
    at = None
    if op.only_limits and old is not None:
        resets = old.resets
        zone = old.zone
        at = old.reset_at
    elif resets is not None:
        at = old.reset_at if old is not None and (old.resets, old.zone) == (resets, zone) else None
        at = at or budget_rules.next_reset(resets, zone, tx.now, tx.now)
    on_breach = old.on_breach if op.only_limits and old is not None else op.limits.on_breach
    values = {
        "name": name,
        "run_id": run_id,
        "on_breach": on_breach,
        "resets": resets,
        "zone": zone,
        "reset_at": at,
    }
    replaces = int(old is not None or not op.merges)
    if not tx.change("save_budget", **values, created_at=tx.now, replaces=replaces):
        return False
    # The lines repeat the time of the next reset, so that a statement that spends sees it.
    tx.change("save_line_resets", name=name, reset_at=at)
    for dimension, hard in op.limits.hard.items():
        known = lines.get(dimension)
        soft = op.limits.soft.get(dimension, None if known is None else known.soft)
        soft = None if soft is None or (hard is not None and soft > hard) else soft
        tx.change(
            "save_budget_line",
            budget=name,
            dimension=dimension,
            run_id=run_id,
            hard=hard,
            soft=soft,
            reset_at=at,
        )
    return True


def raise_budget(tx: Transaction, op: RaiseBudget) -> bool:
    """Add to hard limits, once per key. Return whether anything changed."""
    lines = {line.dimension: line for line in known_lines(tx, op.name)}
    budget_rules.check_dimensions(op.amounts, lines)
    if op.key is not None and not remember_key(
        tx, op.name, f"raise {op.key}", load_budgets(tx, [op.name])[op.name].run_id
    ):
        return False
    for dimension, amount in op.amounts.items():
        line = lines[dimension]
        values = {
            "budget": op.name,
            "dimension": dimension,
            "run_id": line.run_id,
            "soft": line.soft,
            "reset_at": line.reset_at,
        }
        tx.change(
            "save_budget_line", **values, hard=None if line.hard is None else line.hard + amount
        )
    _wake(tx, op.name)
    return True


def reset_budget(tx: Transaction, op: ResetBudget) -> None:
    """Set the used amounts to zero, start the next period, and wake the runs that wait for room."""
    known_lines(tx, op.name)
    reset(tx, load_budgets(tx, [op.name])[op.name])
    _wake(tx, op.name)


def _wake(tx: Transaction, name: str) -> None:
    """Wake the runs that wait for room in this budget."""
    waiting = [
        row["id"]
        for row in tx.rows("blocked_runs")
        if name in budget_rules.names(msgspec.json.decode(bytes(row["waits"] or b"[]")))
    ]
    # Locked and checked again: a run may have continued since it was found.
    for run_id in waiting:
        state = load(tx, run_id)
        if claiming.is_parked(state):
            notify_or_wake(tx, state)
