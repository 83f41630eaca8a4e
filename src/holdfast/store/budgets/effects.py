"""Apply the effects of a run on its budgets, in the order of this file.

Facts are recorded before reservations are released, because a fact may draw on a reservation that
the same commit releases.
"""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.core.budgets import rules as budget_rules
from holdfast.core.budgets.model import Breach, BudgetLine, SpendEntry
from holdfast.store.budgets.lines import check_limits, count_breach, remember_key
from holdfast.store.budgets.operations import (
    BudgetRefused,
    ChargeBudget,
    RecordSpending,
    ReleaseReservations,
    RequireBudget,
)
from holdfast.store.budgets.reservations import (
    credit_under,
    release_keys,
    release_reservations_of_run,
)
from holdfast.store.budgets.spend import is_blocked, record_spend
from holdfast.store.database import Transaction
from holdfast.store.effects import Commit, RevisionChanged, applies
from holdfast.store.rows import check_lease


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
        wanted = budget_rules.sum_amounts(entry.amounts for entry in asked)
        raise budget_rules.breach_error(breach, wanted)
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
            count_breach(
                tx, budget_rules.crossed([BudgetLine(**dict(row)) for row in rows], amounts), hard=0
            )
            return None
    return _spend_by_parts(tx, commit, names, asked)


def _spend_by_parts(
    tx: Transaction, commit: Commit, names: Sequence[str], asked: Sequence[SpendEntry]
) -> Breach | None:
    """Spend with keys or reservations, or find the limit that refuses. Raises LeaseLost."""
    run_id = commit.run_id
    check_lease(tx, run_id, commit.generation)
    account = f"{budget_rules.RUN}{run_id}"
    new = [
        entry
        for entry in asked
        if entry.key is None or remember_key(tx, account, entry.key, run_id)
    ]
    wanted = budget_rules.sum_amounts(entry.amounts for entry in new)
    breach = check_limits(tx, names, wanted, _credit_of(tx, commit, new))
    if breach is not None:
        # A refused key must not be remembered: the next attempt with it has to count.
        for entry in new:
            if entry.key is not None:
                tx.change("forget_spend_key", budget=account, key=entry.key)
        return breach
    record_spend(tx, run_id, names, [SpendEntry(entry.amounts, None, entry.under) for entry in new])
    return None


def _credit_of(tx: Transaction, commit: Commit, asked: Sequence[SpendEntry]) -> dict[str, int]:
    """Return the amounts that the commit may spend in addition to the room of its budgets: the
    reservations that it releases or draws on, less the facts that it records."""
    released = [key for effect in commit.of(ReleaseReservations) for key in effect.keys or ()]
    drawn = [entry.under for entry in asked if entry.under is not None]
    reserved = budget_rules.sum_amounts(
        credit_under(tx, commit.run_id, key) for key in dict.fromkeys([*released, *drawn])
    )
    facts = budget_rules.sum_amounts(
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
    lease = check_lease(tx, commit.run_id, commit.generation)
    if any(is_blocked(tx, effect.budgets, effect.demands) for effect in effects):
        return None
    return RevisionChanged(revision=lease["revision"])


@applies(RecordSpending)
def record_spendings(
    tx: Transaction, commit: Commit, effects: Sequence[RecordSpending]
) -> Breach | None:
    """Count facts of spending. Return the first hard limit that they exceed."""
    facts = [entry for effect in effects for entry in effect.entries if entry.fact]
    return record_spend(tx, commit.run_id, effects[0].budgets, facts).breach


@applies(ReleaseReservations)
def release_reservations(
    tx: Transaction, commit: Commit, effects: Sequence[ReleaseReservations]
) -> None:
    """Release reservations by their keys, or all of the run."""
    for effect in effects:
        if effect.keys is None:
            release_reservations_of_run(tx, commit.run_id)
        else:
            release_keys(tx, commit.run_id, effect.keys)
