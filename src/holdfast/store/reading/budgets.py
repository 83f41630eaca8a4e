"""What can be asked about budgets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.core.budgets import is_due
from holdfast.core.records import Allowance, Budget
from holdfast.store.reading.asking import Asking


class BudgetReader(Asking):
    """What can be asked about budgets."""

    def budgets(self) -> list[Budget]:
        found = {row["name"]: Budget(**dict(row), allowances=[]) for row in self._rows("all_budgets")}
        for line in self._lines(self._rows("all_allowances")):
            found[line.budget].allowances.append(line)
        return list(found.values())

    def budget(self, name: str) -> Budget | None:
        found = self._rows("one_budget", name=name)
        return Budget(**dict(found[0]), allowances=self._lines(self._rows("allowances_of", budget=name))) if found else None

    def allowances(self, names: Sequence[str]) -> list[Allowance]:
        return self._lines(self._rows("allowances", budgets=self._as_list(names))) if names else []

    def spending(self, run_id: str) -> dict[str, dict[str, int]]:
        found: dict[str, dict[str, int]] = {}
        for row in self._rows("spent_below", run_id=run_id):
            found.setdefault(row["run_id"], {})[row["dimension"]] = row["used"]
        return found

    def reservations(self, budget: str) -> list[tuple[str, str, str, int, int]]:
        rows = self._rows("held_back", budget=budget)
        return [(row["run_id"], row["key"], row["dimension"], row["amount"], row["at"]) for row in rows]

    def _lines(self, rows: Sequence[Any]) -> list[Allowance]:
        found = [Allowance(**dict(row)) for row in rows]
        for line in found:
            if is_due(line, self.now()):
                line.used = 0
        return found
