"""Decision tables: which rules match, and what the hit policy makes of them."""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum
from typing import Any

import msgspec

from holdfast.authoring.dmn.model import Box
from holdfast.core.expressions.operators import add, compare, equal
from holdfast.core.expressions.scope import Scope
from holdfast.errors.decisions import RulesDisagree, RulesOverlap


class HitPolicy(StrEnum):
    """How the results of several matching rules are combined."""

    UNIQUE = "UNIQUE"
    ANY = "ANY"
    PRIORITY = "PRIORITY"
    FIRST = "FIRST"
    RULE_ORDER = "RULE ORDER"
    OUTPUT_ORDER = "OUTPUT ORDER"
    COLLECT = "COLLECT"


class TableInput(msgspec.Struct, frozen=True, kw_only=True):
    """An input of a table."""

    value: Box
    allowed: Box | None
    variable: str
    """A further name of the value in the tests, beside ``?``."""


class TableOutput(msgspec.Struct, frozen=True, kw_only=True):
    """An output of a table."""

    name: str
    default: Box | None
    ranking: tuple[Box, ...]
    """The allowed values, best first, as functions of the scope."""


class TableRule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule: a test for each input, a value for each output."""

    tests: tuple[Box, ...]
    outputs: tuple[Box, ...]


class DecisionTable(msgspec.Struct, frozen=True, kw_only=True):
    """A decision table, as a boxed expression."""

    name: str
    policy: HitPolicy
    aggregation: str
    inputs: tuple[TableInput, ...]
    outputs: tuple[TableOutput, ...]
    rules: tuple[TableRule, ...]

    def __call__(self, scope: Scope) -> Any:
        """Return the result of the table. Raises RulesOverlap, RulesDisagree."""
        matching = self._matching(scope)
        if not matching:
            return self._without_match(scope)
        if self.policy is HitPolicy.UNIQUE and len(matching) > 1:
            raise RulesOverlap(decision=self.name, rules=_numbers(matching))
        results = [self._outputs(index, scope) for index in matching]
        return self._combined(matching, results, scope)

    def _matching(self, scope: Scope) -> list[int]:
        """Return the indexes of the rules that match."""
        scopes = []
        for table_input in self.inputs:
            value = table_input.value(scope)
            tested = {"?": value}
            if table_input.variable:
                tested[table_input.variable] = value
            inner = scope.inner(tested)
            allowed = table_input.allowed
            if allowed is not None and value is not None and allowed(inner) is not True:
                return []
            scopes.append(inner)
        scope.evaluation.step(len(self.rules))
        matching = []
        for index, rule in enumerate(self.rules):
            if all(test(inner) is True for test, inner in zip(rule.tests, scopes, strict=True)):
                matching.append(index)
                if self.policy is HitPolicy.FIRST:
                    break
        return matching

    def _outputs(self, index: int, scope: Scope) -> list[Any]:
        return [output(scope) for output in self.rules[index].outputs]

    def _value(self, values: list[Any]) -> Any:
        """Return the values of the outputs as one value."""
        if len(values) == 1:
            return values[0]
        names = (output.name for output in self.outputs)
        return dict(zip(names, values, strict=True))

    def _without_match(self, scope: Scope) -> Any:
        if any(output.default is not None for output in self.outputs):
            return self._value([_default(output, scope) for output in self.outputs])
        if self.policy is HitPolicy.COLLECT and self.aggregation:
            if self.aggregation == "COUNT":
                return Decimal(0)
            return None
        if self.policy in (HitPolicy.COLLECT, HitPolicy.RULE_ORDER, HitPolicy.OUTPUT_ORDER):
            return []
        return None

    def _combined(self, matching: list[int], results: list[list[Any]], scope: Scope) -> Any:
        policy = self.policy
        if policy is HitPolicy.ANY and any(equal(results[0], other) is False for other in results):
            raise RulesDisagree(decision=self.name, rules=_numbers(matching))
        if policy in (HitPolicy.PRIORITY, HitPolicy.OUTPUT_ORDER):
            results = self._ranked(results, scope)
        if policy is HitPolicy.COLLECT and self.aggregation:
            return _aggregated(self.aggregation, [values[0] for values in results])
        if policy in (HitPolicy.COLLECT, HitPolicy.RULE_ORDER, HitPolicy.OUTPUT_ORDER):
            scope.evaluation.produce(len(results))
            return [self._value(values) for values in results]
        return self._value(results[0])

    def _ranked(self, results: list[list[Any]], scope: Scope) -> list[list[Any]]:
        """Return results by the order of the allowed values of the outputs, best first."""
        orders = [[value(scope) for value in output.ranking] for output in self.outputs]
        return sorted(results, key=lambda values: list(map(_rank, values, orders)))


def _default(output: TableOutput, scope: Scope) -> Any:
    if output.default is None:
        return None
    return output.default(scope)


def _rank(value: Any, order: list[Any]) -> int:
    for place, allowed in enumerate(order):
        if equal(value, allowed) is True:
            return place
    return len(order)


def _numbers(matching: list[int]) -> str:
    return ", ".join(str(index + 1) for index in matching)


def _aggregated(aggregation: str, values: list[Any]) -> Any:
    if aggregation == "COUNT":
        return Decimal(len(values))
    result = values[0]
    for value in values[1:]:
        if aggregation == "SUM":
            result = add(result, value)
            continue
        order = compare(value, result)
        if order is None:
            return None
        if (order < 0) == (aggregation == "MIN"):
            result = value
    return result
