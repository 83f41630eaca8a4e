"""Evaluation of decisions: requirements first, each decision once.

Invariants:
- A decision sees the elements that it requires, and else the variables of the caller.
- Required decisions are evaluated in an order in which each comes after its own requirements, so
  that a long chain of them is not deep.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from holdfast.authoring.dmn.linking import LinkedElement, LinkedModel
from holdfast.authoring.dmn.model import ElementKind
from holdfast.core.expressions.evaluate import FeelVariables
from holdfast.core.expressions.feel_calls import function_value
from holdfast.core.expressions.limits import ExpressionLimits
from holdfast.core.expressions.scope import MISSING, Evaluation, Scope
from holdfast.core.expressions.strict import Unusable
from holdfast.core.expressions.tree import TypeOf
from holdfast.core.expressions.values import FeelFunction, to_python
from holdfast.errors import BadExpression


def decide(
    model: LinkedModel,
    element: LinkedElement,
    variables: Mapping[str, Any],
    *,
    limits: ExpressionLimits,
    now: datetime | None,
) -> Any:
    """Return the value of a decision or decision service, as plain Python. Raises RulesOverlap,
    RulesDisagree, BadExpression."""
    evaluation = Evaluation(element.name, limits, now)
    run = _DecisionRun(model, FeelVariables(variables), evaluation, {})
    try:
        if element.kind == ElementKind.SERVICE:
            return to_python(run.serve(element))
        return to_python(run.decide(element))
    except RecursionError:
        why = "the values or the calls are nested too deeply"
        raise BadExpression(decision=element.name, why=why) from None
    except Unusable as problem:
        raise BadExpression(decision=element.name, why=problem.why) from None


class _DecisionRun:
    """One evaluation of a model: variables of the caller, and values that are known already."""

    def __init__(
        self,
        model: LinkedModel,
        variables: Mapping[str, Any],
        evaluation: Evaluation,
        known: dict[str, Any],
    ) -> None:
        self.model: LinkedModel = model
        self.variables: Mapping[str, Any] = variables
        self.evaluation: Evaluation = evaluation
        self.values: dict[str, Any] = known
        """Values by the key of their element."""
        self.scope: Scope = Scope(variables, None, evaluation)
        evaluation.resolve_type = self._resolve_type

    def _resolve_type(self, name: str) -> Any:
        types = self.model.types
        if not types.knows(name):
            return None
        return lambda value: types.conforms(value, name, self.scope)

    def decide(self, element: LinkedElement) -> Any:
        """Return the value of a decision, after the decisions that it requires."""
        for required in self.model.order_of(element):
            self.value(required)
        return self.value(element)

    def value(self, element: LinkedElement) -> Any:
        """Return the value of an element as other elements see it."""
        if element.key not in self.values:
            self.values[element.key] = None  # a cycle ends here; it was reported as a problem
            self.values[element.key] = self._computed(element)
        return self.values[element.key]

    def _computed(self, element: LinkedElement) -> Any:
        types = self.model.types
        if element.kind == ElementKind.INPUT:
            value = self.variables.get(element.variable, MISSING)
            if value is MISSING:
                value = self.variables.get(element.name, None)
            return types.coerced(value, element.type, self.scope)
        if element.kind == ElementKind.KNOWLEDGE:
            return self._function(element)
        if element.kind == ElementKind.SERVICE:
            return self._service_function(element)
        if element.box is None:
            return None
        value = element.box(self._scope_of(element))
        return types.coerced(value, element.type, self.scope)

    def _scope_of(self, element: LinkedElement) -> Scope:
        return Scope(_Visible(self, element), self.scope, self.evaluation)  # type: ignore[arg-type]

    def _function(self, element: LinkedElement) -> FeelFunction | None:
        if element.box is None:
            return None
        parameters = tuple((name, _type(kind)) for name, kind in element.parameters)
        return function_value(parameters, element.box, element.depth + 8, self._scope_of(element))

    def _service_function(self, element: LinkedElement) -> FeelFunction:
        """Return a service as a function of its input decisions and inputs."""
        inputs = self.model.linked(element.inputs)
        parameters = tuple((each.variable, _type(each.type)) for each in inputs)

        def call(values: list[Any]) -> Any:
            self.evaluation.step()
            self.evaluation.descend(20)
            known = dict(zip((each.key for each in inputs), values, strict=True))
            inner = _DecisionRun(self.model, {}, self.evaluation, known)
            result = inner.serve(element)
            self.evaluation.depth -= 20
            return result

        return FeelFunction(parameters, call)

    def serve(self, element: LinkedElement) -> Any:
        """Return the value of a service: of its output decision, or a context of several."""
        types = self.model.types
        for each in self.model.linked(element.inputs):
            if each.key not in self.values:
                value = self.variables.get(each.variable, None)
                self.values[each.key] = types.coerced(value, each.type, self.scope)
        outputs = self.model.linked(element.outputs)
        values = {each.variable: self.decide(each) for each in outputs}
        if len(outputs) == 1:
            return values[outputs[0].variable]
        return values


def _type(name: str) -> TypeOf | None:
    if not name or name == "Any":
        return None
    return TypeOf(name)


class _Visible:
    """The elements that a decision requires, as variables."""

    __slots__ = ("_element", "_run")

    def __init__(self, run: _DecisionRun, element: LinkedElement) -> None:
        self._run: _DecisionRun = run
        self._element: LinkedElement = element

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of a required element."""
        run = self._run
        target = self._element.visible.get(name)
        if target is not None:
            return run.value(target)
        members = self._element.imported.get(name)
        if members is not None:
            return {variable: run.value(each) for variable, each in members.items()}
        output = self._element.outputs_of.get(name)
        if output is None or run.variables.get(name, MISSING) is not MISSING:
            return default
        value = run.value(output)
        if isinstance(value, dict):
            return value.get(name, default)
        return value
