"""Apply the operations on budgets: spend, reserve, release, set, raise and reset.

Spending is counted, reservations are granted or refused, and a raised or reset limit wakes the runs
that are blocked on it.

Lock order: the run, then budget lines by budget and dimension. Every statement that locks lines
uses this order.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from holdfast.core import claiming
from holdfast.core.budgets import rules as budget_rules
from holdfast.core.budgets.model import Breach, Budget, BudgetLine, SpendEntry
from holdfast.core.runs import NewRun
from holdfast.errors import BudgetNotFound, LeaseLost
from holdfast.store.budgets.operations import (
    BudgetRefused,
    BudgetSpent,
    ChargeBudget,
    RaiseBudget,
    RecordSpending,
    ReleaseReservations,
    RequireBudget,
    ReserveBudget,
    ResetBudget,
    SetBudget,
    SpendBudget,
    SpendRunBudget,
)
from holdfast.store.database import Row, Transaction
from holdfast.store.effects import Commit, RevisionChanged, applies
from holdfast.store.transitions.touching import notify_or_wake
from holdfast.store.transitions.transaction import append, load

REMEMBERED = 30 * 86_400 * 1_000_000
"""Microseconds for which a key is remembered at least, even if its budget is reset often."""


# What runs do


def record_spend(
    tx: Transaction, run_id: str, names: Sequence[str], spendings: Iterable[SpendEntry]
) -> Breach | None:
    """Count spending that has happened, regardless of limits. Return the first hard limit it
    exceeds."""
    breach: Breach | None = None
    for spending in spendings:
        if spending.key is not None and not _is_new(
            tx, f"{budget_rules.RUN}{run_id}", spending.key, run_id
        ):
            continue
        exceeded = _count(tx, run_id, names, spending.amounts)
        if spending.under is not None:
            _draw(tx, run_id, spending.under, spending.amounts)
        breach = breach or exceeded
    return breach


def _count(
    tx: Transaction, run_id: str, names: Sequence[str], amounts: Mapping[str, int]
) -> Breach | None:
    rows = tx.rows(
        "count_spending",
        run_id=run_id,
        budgets=tx.as_list(names),
        dimensions=tx.as_list(amounts),
        amounts=tx.as_list(amounts.values()),
    )
    lines = [BudgetLine(**dict(row)) for row in rows]
    due = sorted({line.budget for line in lines if budget_rules.is_due(line, tx.now)})
    if due:
        lines = _reset_due(tx, due, lines, amounts)
    soft = budget_rules.crossed(lines, amounts)
    passed = [line for line in lines if line.hard is not None and line.used > line.hard]
    if not (soft or passed):
        return None
    _count_breach(tx, soft, hard=0)
    _count_breach(tx, passed, hard=1)
    return (
        budget_rules.excess(passed, _load(tx, [line.budget for line in passed]), tx.now)
        if passed
        else None
    )


def _reset_due(
    tx: Transaction, due: Sequence[str], lines: list[BudgetLine], amounts: Mapping[str, int]
) -> list[BudgetLine]:
    """Reset budgets that are due, and add the amounts of this call again. Return all lines."""
    for name in due:
        _reset(tx, _load(tx, [name])[name])
        tx.many(
            "add_used",
            [_amount(line, amounts[line.dimension]) for line in lines if line.budget == name],
        )
    return [line for line in lines if line.budget not in due] + _lines(tx, due, amounts)


@applies(ChargeBudget)
def charge_budgets(
    tx: Transaction, commit: Commit, effects: Sequence[ChargeBudget]
) -> BudgetRefused | None:
    """Spend the entries that are not facts, all of them or none. Return the refusal.

    Raises LeaseLost; also BudgetExceeded if user code has written in this transaction, which is
    then rolled back.
    """
    asked = [entry for effect in effects for entry in effect.entries if not entry.fact]
    breach = _try_spend(tx, commit, effects[0].budgets, asked) if asked else None
    if breach is None:
        return None
    if commit.calls_body:
        wanted = budget_rules.added(entry.amounts for entry in asked)
        raise budget_rules.exceeded(breach, wanted)
    return BudgetRefused(breach)


def _try_spend(
    tx: Transaction, commit: Commit, names: Sequence[str], asked: Sequence[SpendEntry]
) -> Breach | None:
    """Spend these entries, or return the limit that refuses. Raises LeaseLost."""
    # Fast path: lease check, limit check and spending in one statement instead of five. No row
    # means that it did not apply; the slow path then spends, or finds the limit that refuses.
    is_plain = len(asked) == 1 and asked[0].key is None and asked[0].under is None
    if is_plain and not commit.of(ReleaseReservations):
        amounts = asked[0].amounts
        rows = tx.rows(
            "take_spending",
            run_id=commit.run_id,
            generation=commit.generation,
            budgets=tx.as_list(names),
            dimensions=tx.as_list(amounts),
            amounts=tx.as_list(amounts.values()),
            now=tx.now,
        )
        if rows:
            _count_breach(
                tx, budget_rules.crossed([BudgetLine(**dict(row)) for row in rows], amounts), hard=0
            )
            return None
    return _spend_by_parts(tx, commit, names, asked)


def _spend_by_parts(
    tx: Transaction, commit: Commit, names: Sequence[str], asked: Sequence[SpendEntry]
) -> Breach | None:
    """Spend with keys or reservations, or find the limit that refuses. Raises LeaseLost."""
    run_id = commit.run_id
    _check_lease(tx, run_id, commit.generation)
    account = f"{budget_rules.RUN}{run_id}"
    new = [entry for entry in asked if entry.key is None or _is_new(tx, account, entry.key, run_id)]
    wanted = budget_rules.added(entry.amounts for entry in new)
    breach = _check_limits(tx, names, wanted, _credit_of(tx, commit, new))
    if breach is not None:
        # A refused key must not be remembered: the next attempt with it has to count.
        for entry in new:
            if entry.key is not None:
                tx.change("forget_spend_key", budget=account, key=entry.key)
        return breach
    record_spend(tx, run_id, names, [SpendEntry(entry.amounts, None, entry.under) for entry in new])
    return None


def _credit_of(tx: Transaction, commit: Commit, asked: Sequence[SpendEntry]) -> dict[str, int]:
    """Return the amounts that the commit may spend in addition to the room of its budgets: those
    that it releases or draws from reservations, less the facts that it records."""
    released = [key for effect in commit.of(ReleaseReservations) for key in effect.keys or ()]
    drawn = [entry.under for entry in asked if entry.under is not None]
    reserved = budget_rules.added(
        _credit(tx, commit.run_id, key) for key in dict.fromkeys([*released, *drawn])
    )
    facts = budget_rules.added(
        entry.amounts
        for effect in commit.of(RecordSpending)
        for entry in effect.entries
        if entry.fact
    )
    return {name: max(amount - facts.get(name, 0), 0) for name, amount in reserved.items()}


@applies(RequireBudget)
def require_budgets(
    tx: Transaction, commit: Commit, effects: Sequence[RequireBudget]
) -> RevisionChanged | None:
    """Refuse to park a run whose budgets have room for all its demands. Raises LeaseLost."""
    lease = _check_lease(tx, commit.run_id, commit.generation)
    if any(is_blocked(tx, effect.budgets, effect.demands) for effect in effects):
        return None
    return RevisionChanged(revision=lease["revision"])


@applies(RecordSpending)
def record_spendings(
    tx: Transaction, commit: Commit, effects: Sequence[RecordSpending]
) -> Breach | None:
    """Count facts of spending. Return the first hard limit that they exceed."""
    facts = [entry for effect in effects for entry in effect.entries if entry.fact]
    return record_spend(tx, commit.run_id, effects[0].budgets, facts)


@applies(ReleaseReservations)
def release_reservations(
    tx: Transaction, commit: Commit, effects: Sequence[ReleaseReservations]
) -> None:
    """Release reservations by their keys, or all of the run."""
    for effect in effects:
        if effect.keys is None:
            release_reservations_of_run(tx, commit.run_id)
        else:
            _release_keys(tx, commit.run_id, effect.keys)


def spend(tx: Transaction, op: SpendRunBudget) -> BudgetSpent | BudgetRefused:
    """Spend from the budgets of a run, or refuse. Raises LeaseLost."""
    _check_lease(tx, op.run_id, op.generation)
    if op.key is not None and not _is_new(tx, f"{budget_rules.RUN}{op.run_id}", op.key, op.run_id):
        append(tx, op.run_id, [op.event])
        return BudgetSpent(tx.now, counted=False)
    credit = _credit(tx, op.run_id, op.under)
    breach = None if op.force else _check_limits(tx, op.budgets, op.amounts, credit)
    if breach is not None:
        if op.key is not None:
            tx.change("forget_spend_key", budget=f"{budget_rules.RUN}{op.run_id}", key=op.key)
        return BudgetRefused(breach)
    passed = record_spend(tx, op.run_id, op.budgets, [SpendEntry(op.amounts, None, op.under)])
    append(tx, op.run_id, [op.event])
    return BudgetSpent(tx.now, breach=passed)


def reserve(tx: Transaction, op: ReserveBudget) -> BudgetSpent | BudgetRefused:
    """Set the reservation under a key to these amounts, or refuse and leave it as it was."""
    _check_lease(tx, op.run_id, op.generation)
    old = {
        (row["budget"], row["dimension"]): row["amount"]
        for row in tx.rows("reservation", run_id=op.run_id, key=op.key)
    }
    credit = {dimension: amount for (_, dimension), amount in old.items()}
    for dimension, amount in _credit(tx, op.run_id, op.under).items():
        credit[dimension] = credit.get(dimension, 0) + amount
    breach = None if op.force else _check_limits(tx, op.budgets, op.amounts, credit)
    if breach is not None:
        return BudgetRefused(breach)
    lines = [line for line in _lines(tx, op.budgets) if line.dimension in op.amounts]
    tx.many("save_reservation", [_reservation(tx, op, line) for line in lines])
    more = [
        (line, op.amounts[line.dimension] - old.get((line.budget, line.dimension), 0))
        for line in lines
    ]
    tx.many("add_reserved", [_amount(line, amount) for line, amount in more if amount])
    if op.event is not None:
        append(tx, op.run_id, [op.event])
    return BudgetSpent(tx.now)


def _reservation(tx: Transaction, op: ReserveBudget, line: BudgetLine) -> Row:
    return {
        "run_id": op.run_id,
        "key": op.key,
        "budget": line.budget,
        "dimension": line.dimension,
        "amount": op.amounts[line.dimension],
        "lasting": int(op.event is not None),
        "at": tx.now,
    }


def _credit(tx: Transaction, run_id: str, under: str | None) -> dict[str, int]:
    """Return the rest of the reservation *under*, by dimension."""
    if under is None:
        return {}
    return {
        row["dimension"]: row["amount"] for row in tx.rows("reservation", run_id=run_id, key=under)
    }


def _draw(tx: Transaction, run_id: str, key: str, amounts: Mapping[str, int]) -> None:
    """Reduce a reservation by the amounts that were spent from it."""
    reservations = tx.rows("reservation", run_id=run_id, key=key)
    taken = [(row, min(row["amount"], amounts.get(row["dimension"], 0))) for row in reservations]
    drawn = [
        {"budget": row["budget"], "dimension": row["dimension"], "amount": -amount}
        for row, amount in taken
        if amount
    ]
    tx.many("draw_reservation", [{"run_id": run_id, "key": key, **draw} for draw in drawn])
    tx.many("add_reserved", drawn)


def _release_keys(tx: Transaction, run_id: str, keys: Iterable[str]) -> None:
    for key in keys:
        reservations = tx.rows("reservation", run_id=run_id, key=key)
        tx.many("add_reserved", [_released(row) for row in reservations])
        tx.change("delete_one_reservation", run_id=run_id, key=key)


def release_reservations_of_run(tx: Transaction, run_id: str) -> None:
    """Release all reservations of a run that has ended."""
    _release(tx, tx.rows("reservations_of_run", run_id=run_id))


def release_reservations_of_holder(tx: Transaction, run_id: str) -> None:
    """Release the reservations of a run's steps: its lease is taken from its holder."""
    _release(
        tx, [row for row in tx.rows("reservations_of_run", run_id=run_id) if not row["lasting"]]
    )


def release_reservations_of_session(tx: Transaction, session_id: str) -> None:
    """Release the reservations of the steps that an ended session was running.

    Whether these steps run again is decided later, with new reservations.
    """
    _release(tx, tx.rows("reservations_of_session", session_id=session_id))


def _release(tx: Transaction, reservations: Sequence[Row]) -> None:
    if reservations:
        tx.many("add_reserved", [_released(row) for row in reservations])
        keys = sorted({(row["run_id"], row["key"]) for row in reservations})
        tx.many("delete_one_reservation", [{"run_id": run_id, "key": key} for run_id, key in keys])


def _released(row: Row) -> Row:
    return {"budget": row["budget"], "dimension": row["dimension"], "amount": -row["amount"]}


def is_blocked(tx: Transaction, names: Sequence[str], demands: Sequence[Mapping[str, int]]) -> bool:
    """Return whether one of these demands still does not fit. An empty demand only requires that
    no limit is exceeded."""
    lines = _fresh(tx, names)
    known = _load(tx, names)
    return any(_stops(lines, known, demand, tx.now) for demand in demands)


def _stops(
    lines: Sequence[BudgetLine], known: Mapping[str, Budget], demand: Mapping[str, int], now: int
) -> bool:
    breach = (
        budget_rules.refusal(lines, demand, known)
        if demand
        else budget_rules.excess(lines, known, now)
    )
    return breach is not None


# When runs start


def check_names(tx: Transaction, runs: Sequence[NewRun]) -> None:
    """Check that the budgets of new runs exist. Raises BudgetNotFound."""
    check_budgets(tx, {name for run in runs for name in run.budgets})


def check_budgets(tx: Transaction, names: Iterable[str]) -> None:
    """Check that budgets exist. Budgets of trees are created with their runs. Raises
    BudgetNotFound."""
    wanted = {name for name in names if not name.startswith(budget_rules.TREE)}
    missing = sorted(wanted - set(_load(tx, sorted(wanted)))) if wanted else []
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


# What people do


def set_budget(tx: Transaction, op: SetBudget) -> None:
    """Create a budget or change it. Raises BudgetNotFound if only limits are given and it is
    missing."""
    old = _load(tx, [op.name]).get(op.name)
    if old is None and op.only_limits:
        raise BudgetNotFound(budget=op.name)
    lines = {line.dimension: line for line in _lines(tx, [op.name])}
    _save(tx, op.name, None if old is None else old.run_id, op, old, lines)
    before = {name: line.hard for name, line in lines.items()}
    if old is not None and budget_rules.is_raised(before, op.limits.hard):
        _wake(tx, op.name)


def _save(
    tx: Transaction,
    name: str,
    run_id: str | None,
    op: SetBudget,
    old: Budget | None,
    lines: Mapping[str, BudgetLine],
) -> None:
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
    tx.change("save_budget", **values, created_at=tx.now)
    tx.change("set_rhythm", name=name, reset_at=at)
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


def raise_budget(tx: Transaction, op: RaiseBudget) -> bool:
    """Add to hard limits, once per key. Return whether anything changed."""
    lines = {line.dimension: line for line in _known(tx, op.name)}
    budget_rules.check_dimensions(op.amounts, lines)
    if op.key is not None and not _is_new(
        tx, op.name, f"raise {op.key}", _load(tx, [op.name])[op.name].run_id
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
    _known(tx, op.name)
    _reset(tx, _load(tx, [op.name])[op.name])
    _wake(tx, op.name)


def spend_budget(tx: Transaction, op: SpendBudget) -> BudgetSpent | BudgetRefused:
    """Count what a program outside any run has spent, or refuse."""
    lines = _known(tx, op.name)
    budget_rules.check_dimensions(op.amounts, [line.dimension for line in lines])
    # Not counted as a breach yet: a repeated key is answered before a refusal.
    breach = _check_limits(tx, [op.name], op.amounts, {}, noted=False)
    if op.key is not None and not _is_new(tx, op.name, op.key, lines[0].run_id):
        return BudgetSpent(tx.now, counted=False)
    if breach is not None:
        _count_breach(tx, [line for line in lines if line.dimension == breach.dimension], hard=1)
        if op.key is not None:
            tx.change("forget_spend_key", budget=op.name, key=op.key)
        return BudgetRefused(breach)
    counted = [line for line in _lines(tx, [op.name]) if line.dimension in op.amounts]
    tx.many("add_used", [_amount(line, op.amounts[line.dimension]) for line in counted])
    _count_breach(tx, budget_rules.crossed(_lines(tx, [op.name], op.amounts), op.amounts), hard=0)
    return BudgetSpent(tx.now)


def _wake(tx: Transaction, name: str) -> None:
    """Wake the runs that wait for room in this budget."""
    waiting = [
        row["id"]
        for row in tx.rows("blocked_runs")
        if name in budget_rules.names(msgspec.json.decode(bytes(row["waits"] or b"[]")))
    ]
    for run_id in waiting:
        state = load(tx, run_id)
        if claiming.is_parked(state):
            notify_or_wake(tx, state)


# Lines


def _check_limits(
    tx: Transaction,
    names: Sequence[str],
    amounts: Mapping[str, int],
    credit: Mapping[str, int],
    *,
    noted: bool = True,
) -> Breach | None:
    """Return the limit that refuses these amounts, and count the breach if *noted*."""
    lines = _fresh(tx, names)
    breach = budget_rules.refusal(lines, amounts, _load(tx, names), credit) or budget_rules.excess(
        lines, _load(tx, names), tx.now
    )
    if breach is not None and noted:
        _count_breach(
            tx,
            [
                line
                for line in lines
                if (line.budget, line.dimension) == (breach.budget, breach.dimension)
            ],
            hard=1,
        )
    return breach


def _fresh(tx: Transaction, names: Sequence[str]) -> list[BudgetLine]:
    """Return the lines of budgets, locked. Budgets that are due are reset first."""
    lines = _lines(tx, names)
    due = sorted({line.budget for line in lines if budget_rules.is_due(line, tx.now)})
    for name in due:
        _reset(tx, _load(tx, [name])[name])
    return _lines(tx, names) if due else lines


def _reset(tx: Transaction, budget: Budget) -> None:
    at = budget_rules.next_reset(budget.resets, budget.zone, tx.now, budget.created_at)
    tx.change("reset_budget", name=budget.name, reset_at=at)
    tx.change("reset_budget_lines", name=budget.name, reset_at=at)
    tx.change("forget_spend_keys", budget=budget.name, before=tx.now - REMEMBERED)


def _count_breach(tx: Transaction, lines: Sequence[BudgetLine], *, hard: int) -> None:
    noted = [
        {
            "name": line.budget,
            "dimension": line.dimension,
            "hard": hard,
            "soft": 1 - hard,
            "now": tx.now,
        }
        for line in lines
        if not line.budget.startswith(budget_rules.RUN)
    ]
    tx.many("note_breach", noted)


def _lines(
    tx: Transaction, names: Sequence[str], dimensions: Iterable[str] | None = None
) -> list[BudgetLine]:
    lines = (
        [BudgetLine(**dict(row)) for row in tx.rows("lock_budget_lines", budgets=tx.as_list(names))]
        if names
        else []
    )
    if dimensions is None:
        return lines
    wanted = set(dimensions)
    return [line for line in lines if line.dimension in wanted]


def _known(tx: Transaction, name: str) -> list[BudgetLine]:
    lines = _lines(tx, [name])
    if not lines or name.startswith(budget_rules.RUN):
        raise BudgetNotFound(budget=name)
    return lines


def _load(tx: Transaction, names: Sequence[str]) -> dict[str, Budget]:
    return (
        {
            row["name"]: Budget(**dict(row))
            for row in tx.rows("budgets_named", names=tx.as_list(names))
        }
        if names
        else {}
    )


def _amount(line: BudgetLine, amount: int) -> Row:
    return {"budget": line.budget, "dimension": line.dimension, "amount": amount}


def _is_new(tx: Transaction, budget: str, key: str, run_id: str | None) -> bool:
    return tx.change("insert_spend_key", budget=budget, key=key, run_id=run_id, at=tx.now) == 1


def _check_lease(tx: Transaction, run_id: str, generation: int) -> Row:
    """Return the lease of a run. Raises LeaseLost if it is another one."""
    leases = tx.rows("lease_of", run_id=run_id)
    if not leases or leases[0]["generation"] != generation or leases[0]["session_id"] is None:
        raise LeaseLost(run=run_id, generation=generation)
    return leases[0]
