"""Create, change, raise and reset budgets; more room wakes the runs that are blocked on one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

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
from holdfast.store.budgets.waking import wake_waiting
from holdfast.store.database import SettingsChanged, Transaction


def check_names(tx: Transaction, runs: Sequence[NewRun]) -> None:
    """Check that the budgets of new runs exist. A child may inherit a budget that was removed while
    its parent was alive. Raises BudgetNotFound."""
    missing = _missing(tx, {name for run in runs for name in run.budgets})
    for run in runs if missing else ():
        gone = set(missing).intersection(run.budgets)
        gone -= _named_before(tx, run) if gone else set()
        if gone:
            raise BudgetNotFound(budget=min(gone))


def check_budgets(tx: Transaction, names: Iterable[str]) -> None:
    """Check that budgets exist. Raises BudgetNotFound."""
    missing = _missing(tx, names)
    if missing:
        raise BudgetNotFound(budget=missing[0])


def _missing(tx: Transaction, names: Iterable[str]) -> list[str]:
    """Return the names without a budget. Budgets of trees are created with their runs."""
    wanted = sorted({name for name in names if not name.startswith(budget_rules.TREE)})
    if not wanted:
        return []
    there = {row["name"] for row in tx.rows("budgets_to_use", names=tx.as_list(wanted))}
    return [name for name in wanted if name not in there]


def _named_before(tx: Transaction, run: NewRun) -> set[str]:
    """Return the budgets of the run itself, if it exists already, and of its parent."""
    ids = [run_id for run_id in (run.id, run.parent_id) if run_id is not None]
    rows = [row for run_id in ids for row in tx.rows("budgets_of_run", run_id=run_id)]
    return {name for row in rows for name in (row["budgets"] or "").split("\n")}


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
    # Only more room can let a run continue: other changes wake no one.
    before = {name: line.hard for name, line in lines.items()}
    if old is not None and budget_rules.is_raised(before, op.limits.hard):
        wake_waiting(tx, op.name)
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
    wake_waiting(tx, op.name)
    return True


def reset_budget(tx: Transaction, op: ResetBudget) -> None:
    """Set the used amounts to zero, start the next period, and wake the runs that wait for room."""
    known_lines(tx, op.name)
    reset(tx, load_budgets(tx, [op.name])[op.name])
    wake_waiting(tx, op.name)
