"""Queries about budgets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.core.budgets.model import Budget, BudgetLine
from holdfast.core.budgets.rules import is_due
from holdfast.store.reader import Queries


class BudgetQueries(Queries):
    """Queries about budgets."""

    def budgets(self) -> list[Budget]:
        budgets = {budget.name: budget for budget in self._listed(_budget, "all_budgets")}
        for line in self._as_of_now(self._listed(_line, "all_budget_lines")):
            if line.budget in budgets:
                budgets[line.budget].lines.append(line)
        return list(budgets.values())

    def budget(self, name: str) -> Budget | None:
        budget = self._one(_budget, "one_budget", name=name)
        if budget is not None:
            budget.lines = self._as_of_now(self._all(_line, "lines_of_budget", budget=name))
        return budget

    def budget_lines(self, names: Sequence[str]) -> list[BudgetLine]:
        if not names:
            return []
        return self._as_of_now(self._all(_line, "budget_lines", budgets=self._as_list(names)))

    def spending(self, run_id: str) -> dict[str, dict[str, int]]:
        spending: dict[str, dict[str, int]] = {}
        for row in self._rows("spent_below", run_id=run_id):
            spending.setdefault(row["run_id"], {})[row["dimension"]] = row["used"]
        return spending

    def reservations(self, budget: str) -> list[tuple[str, str, str, int, int]]:
        rows = self._rows("held_back", budget=budget)
        return [
            (row["run_id"], row["key"], row["dimension"], row["amount"], row["at"]) for row in rows
        ]

    def _as_of_now(self, lines: list[BudgetLine]) -> list[BudgetLine]:
        """Return the lines, with nothing used where a reset is due: the next write resets them."""
        for line in lines:
            if is_due(line, self.now()):
                line.used = 0
        return lines


def _budget(row: Any) -> Budget:
    return Budget(**dict(row), lines=[])


def _line(row: Any) -> BudgetLine:
    return BudgetLine(**dict(row))
