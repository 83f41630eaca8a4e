"""Scope and evaluation state: the variables that a node sees, and the budget of all nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from holdfast.core.expressions.cursor import shown
from holdfast.core.expressions.limits import ExpressionLimits
from holdfast.errors.expressions import BadExpression

MISSING: Any = object()
"""The result of looking for a variable that no scope has."""


class Evaluation:
    """The state of one evaluation: its budget, its time, the text for errors."""

    __slots__ = ("depth", "limits", "now", "resolve_type", "size", "steps", "text")

    def __init__(
        self,
        text: str,
        limits: ExpressionLimits,
        now: datetime | None,
        resolve_type: Callable[[str], Any] | None = None,
    ) -> None:
        self.text: str = text
        self.limits: ExpressionLimits = limits
        self.now: datetime | None = now
        self.steps: int = limits.steps
        self.size: int = limits.size
        self.depth: int = 0
        self.resolve_type: Callable[[str], Any] | None = resolve_type

    def step(self, count: int = 1) -> None:
        """Spend steps; refuse the expression when they are used up."""
        self.steps -= count
        if self.steps < 0:
            self.refuse(f"the expression takes more than {self.limits.steps} steps")

    def produce(self, size: int) -> None:
        """Spend characters or elements of a new value."""
        self.size -= size
        if self.size < 0:
            self.refuse(f"the expression produces more than {self.limits.size} characters")

    def descend(self, depth: int) -> None:
        """Begin the evaluation of a called expression, which is *depth* levels deep."""
        self.depth += depth
        if self.depth > self.limits.calls:
            self.refuse(f"the calls are nested deeper than {self.limits.calls} levels")

    def refuse(self, why: str) -> None:
        """Raise BadExpression for this expression."""
        raise BadExpression(expression=shown(self.text), why=why)


class Scope:
    """Variables, with the scope around them."""

    __slots__ = ("evaluation", "outer", "variables")

    def __init__(
        self, variables: Mapping[str, Any], outer: Scope | None, evaluation: Evaluation
    ) -> None:
        self.variables: Mapping[str, Any] = variables
        self.outer: Scope | None = outer
        self.evaluation: Evaluation = evaluation

    def find(self, name: str) -> Any:
        """Return the value of a variable, or MISSING."""
        scope: Scope | None = self
        while scope is not None:
            value = scope.variables.get(name, MISSING)
            if value is not MISSING:
                return value
            scope = scope.outer
        return MISSING

    def inner(self, variables: Mapping[str, Any]) -> Scope:
        """Return a scope inside this one."""
        return Scope(variables, self, self.evaluation)
