"""The budgets of a run as its execution knows them: their lines, and whether a limit is passed."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping

import msgspec

from holdfast.core.budgets import rules as budget_rules
from holdfast.core.budgets.model import Breach, BudgetLine, SpendEntry
from holdfast.core.commands import RunStep
from holdfast.engine.execution.attempt_spending import AttemptSpending
from holdfast.engine.execution.state import RunState
from holdfast.engine.runtime.context import WorkerContext


class BudgetGuard:
    """The budgets of one run, as far as its execution knows them. Other runs spend, too."""

    __slots__ = (
        "_dimensions",
        "_lines",
        "breach",
        "context",
        "has_code_reservation",
        "reserved_steps",
        "state",
    )

    def __init__(self, state: RunState, context: WorkerContext) -> None:
        self.state: RunState = state
        self.context: WorkerContext = context
        self.breach: Breach | None = None
        """The hard limit that is passed: no new step begins."""
        self.reserved_steps: set[str] = set()
        """The steps that have reserved amounts."""
        self.has_code_reservation: bool = False
        """Whether the code of the workflow itself has reserved amounts."""
        self._lines: list[BudgetLine] = []
        self._dimensions: frozenset[str] = frozenset()

    @property
    def budgets(self) -> tuple[str, ...]:
        """The names of the budgets that the run draws on."""
        return self.state.run.budgets

    def new_spending(self, command: RunStep, *, transacts: bool = False) -> AttemptSpending:
        """Return the spending of a new attempt at a step."""
        return AttemptSpending(self, command, transacts)

    def spends_freely(self, *, is_compensation: bool) -> bool:
        """Return whether no limit holds this step up: compensations must run."""
        return is_compensation or self.state.cancelling

    # Lines and dimensions

    def check_dimensions(self, amounts: Mapping[str, int]) -> None:
        """Raise UnknownDimension for a dimension that none of the budgets counts. The lines are
        read once, and again before a dimension is refused."""
        if not self.budgets or self._dimensions.issuperset(amounts):
            return
        if self.is_on_program_loop():
            # The next attempt knows the lines, if this one is refused.
            self.context.loop.call_soon_threadsafe(self.learn_lines)
        else:
            self.learn_lines()
        budget_rules.check_counted(amounts, self._lines, self.budgets)

    def counted_dimensions(self) -> frozenset[str]:
        """Return the dimensions that the budgets count, as far as they were read."""
        if not self.budgets:
            return frozenset()
        if not self._dimensions and not self.is_on_program_loop():
            self.learn_lines()
        return self._dimensions

    def is_on_program_loop(self) -> bool:
        """Return whether this is the thread of the program's loop, which must not read the
        store."""
        program_loop = self.context.program_loop
        return program_loop is not None and program_loop.thread == threading.get_ident()

    def learn_lines(self) -> None:
        """Read the lines of the budgets."""
        self._lines = self.context.store.budgets.lines(self.budgets)
        self._dimensions = frozenset(line.dimension for line in self._lines)

    def _shared_lines(self) -> list[BudgetLine]:
        """Read the lines together with all executions that read them in this turn of the loop."""
        context = self.context
        names = tuple(self.budgets)
        lines = context.lines_of_turn.get(names)
        if lines is None:
            if not context.lines_of_turn:
                # For this turn of the loop only: other processes spend, too.
                context.loop.call_soon(context.lines_of_turn.clear)
            lines = context.store.budgets.lines(names)
            context.lines_of_turn[names] = lines
        # Copies: ``note_spent`` changes them, and other executions share the originals.
        self._lines = [msgspec.structs.replace(line) for line in lines]
        self._dimensions = frozenset(line.dimension for line in lines)
        return self._lines

    def seems_short(self, more: Mapping[str, int]) -> bool:
        """Return whether the budgets have no room for so much, as far as is known here."""
        now = self.state.now()
        for line in self._lines:
            amount = more.get(line.dimension, 0)
            if line.hard is None or amount <= 0:
                continue
            if line.used + line.reserved + amount > line.hard:
                return not budget_rules.is_due(line, now)
        return False

    def note_spent(self, entries: Iterable[SpendEntry]) -> None:
        """Add committed amounts to the known lines."""
        for entry in entries:
            for line in self._lines:
                line.used += entry.amounts.get(line.dimension, 0)

    # Limits

    def find_breach(self) -> None:
        """Find out whether a hard limit is passed."""
        if not self.budgets:
            return
        lines = self._shared_lines()
        if any(line.hard is not None and line.used > line.hard for line in lines):
            store = self.context.store
            budgets = {name: budget for name in self.budgets if (budget := store.budgets.get(name))}
            self.breach = budget_rules.excess(lines, budgets, self.state.now())
