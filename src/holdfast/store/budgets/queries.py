"""Queries about budgets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.core.budgets.model import Budget, BudgetLine
from holdfast.core.budgets.rules import is_due, is_reset_rule
from holdfast.store.reader import Reader


class BudgetQueries:
    """Queries about budgets."""

    def __init__(self, reader: Reader) -> None:
        self._reader: Reader = reader

    def page(self, after: str, limit: int) -> list[Budget]:
        """Return the first budgets by name after the name *after*, with their lines. A line whose
        reset is due is returned with nothing used."""
        page = self._reader.listed(_budget, "budgets_after", after=after, limit=limit)
        budgets = {budget.name: budget for budget in page}
        names = self._reader.as_list(list(budgets))
        lines = self._reader.listed(_line, "budget_lines", budgets=names) if budgets else []
        for line in self._as_of_now(lines):
            budgets[line.budget].lines.append(line)
        return page

    def get(self, name: str) -> Budget | None:
        """Return the budget with its lines, or None."""
        budget = self._reader.first(_budget, "one_budget", name=name)
        if budget is not None:
            budget.lines = self._as_of_now(self._reader.all(_line, "lines_of_budget", budget=name))
        return budget

    def lines(self, names: Sequence[str]) -> list[BudgetLine]:
        """Return the lines of these budgets. A line whose reset is due is returned with nothing
        used."""
        if not names:
            return []
        return self._as_of_now(
            self._reader.all(_line, "budget_lines", budgets=self._reader.as_list(names))
        )

    def spending(self, run_id: str) -> dict[str, dict[str, int]]:
        """Return what a run and each run below it have spent, by run and dimension; of a run that
        is not a root, only its own."""
        spending: dict[str, dict[str, int]] = {}
        for row in self._reader.rows("spent_below", run_id=run_id):
            spending.setdefault(row["run_id"], {})[row["dimension"]] = row["used"]
        return spending

    def reservations(self, budget: str) -> list[tuple[str, str, str, int, int]]:
        """Return the reservations in a budget: run, key, dimension, amount, and the time
        of each."""
        rows = self._reader.rows("reservations_in_budget", budget=budget)
        return [
            (row["run_id"], row["key"], row["dimension"], row["amount"], row["at"]) for row in rows
        ]

    def _as_of_now(self, lines: list[BudgetLine]) -> list[BudgetLine]:
        """Return the lines, with nothing used where a reset is due: the next write resets them."""
        for line in lines:
            if is_due(line, self._reader.now()):
                line.used = 0
        return lines


def _budget(row: Any) -> Budget:
    resets = row["resets"]
    if resets is not None and not is_reset_rule(resets):
        raise ValueError("the reset rule cannot be read")  # the reader reports it as damage
    return Budget(**dict(row), lines=[])


def _line(row: Any) -> BudgetLine:
    return BudgetLine(**dict(row))
