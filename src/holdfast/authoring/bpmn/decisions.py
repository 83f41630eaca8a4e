"""Business rule tasks: a deployed decision is evaluated as a step, with the visible variables.

The newest version of the decision is used, as models of other engines expect. Its result is part of
the history, so that a decision that is deployed later does not change a run.
"""

from __future__ import annotations

from typing import Any

from holdfast.authoring.bpmn.expressions import name_of, stored_value
from holdfast.authoring.bpmn.handlers import BoundHandler, HandlerTask
from holdfast.authoring.bpmn.model import Work
from holdfast.authoring.dmn.kind import KIND, model_of
from holdfast.authoring.registry import LoadContext
from holdfast.core.retry import policy_from
from holdfast.errors import DecisionNotFound, Fail


def decision_handler(work: Work, context: LoadContext) -> BoundHandler:
    """Return the handler of a business rule task. Its result variable holds the value of the
    decision, or what ``singleEntry``, ``singleResult``, ``collectEntries`` or ``resultList`` make
    of it; without such a variable, the value must be a context of variables."""
    result = work.decision_result

    async def evaluate(task: HandlerTask) -> Any:
        decision = name_of(work.decision or "", task.variables, context.now())
        stored = context.find(decision, None, KIND)
        if stored is None:
            why = "no decision of this name or id is deployed: deploy its file"
            raise DecisionNotFound(decision=decision, why=why)
        model = model_of(stored)
        value = model.value_of(decision, task.variables, now=context.time())
        plain = stored_value(value)
        if result is not None:
            plain = _mapped(_rows(plain, model.outputs(decision)), result, decision)
        if work.result:
            return {work.result: plain}
        return plain

    return BoundHandler(
        function=evaluate,
        is_async=True,
        parameters=(),
        required=(),
        task_parameter="task",
        takes_all=False,
        policy=policy_from(retries=0),  # a decision gives the same answer again
    )


def _rows(value: Any, outputs: tuple[str, ...]) -> list[dict[str, Any]]:
    """Return a value as a list of results, each with its outputs by name."""
    values = value
    if value is None:
        values = []
    elif not isinstance(value, list):
        values = [value]
    name = next(iter(outputs), "") or "result"
    return [row if isinstance(row, dict) else {name: row} for row in values]


def _mapped(rows: list[dict[str, Any]], result: str, decision: str) -> Any:
    if result == "resultList":
        return rows
    if result == "collectEntries":
        return [_entry(row, decision) for row in rows]
    if len(rows) > 1:
        raise Fail(f"the decision {decision} has {len(rows)} results, and {result} needs one")
    if not rows:
        return None
    if result == "singleResult":
        return rows[0]
    return _entry(rows[0], decision)


def _entry(row: dict[str, Any], decision: str) -> Any:
    if len(row) != 1:
        raise Fail(f"a result of the decision {decision} has {len(row)} outputs, not one")
    return next(iter(row.values()))
