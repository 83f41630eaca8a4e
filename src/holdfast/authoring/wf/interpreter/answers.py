"""The answers of executors: an executor is called, and its answer becomes the recorded result."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from holdfast.authoring.wf.outputs import MOST_BYTES, StepOutput, metrics_of, output_of, with_block
from holdfast.authoring.wf.registrations import ExecutorCall
from holdfast.authoring.wf.schemas import OutputSchema, check_output, context_of, markers_of
from holdfast.core.budgets.ledger import current_spending
from holdfast.core.budgets.rules import amounts_from
from holdfast.core.step_info import StepInfo, current_step
from holdfast.core.trace_context import span_of
from holdfast.errors.wf_runs import BadStepOutput

FEW = 100
"""Markers of an answer, and characters of each, that need not be measured."""

SMALL = MOST_BYTES // 32
"""Characters of a context, and of all markers, that need not be measured."""


def call_plain(
    run: Callable[[ExecutorCall], Any],
    facts: ExecutorCall,
    info: StepInfo,
    schema: OutputSchema | None,
) -> Any:
    """Call a ``def`` executor as a step and return its answer as it is recorded."""
    outer = current_step.set(info)
    try:
        with span_of(info):
            answer = run(facts)
            if inspect.iscoroutine(answer):
                answer = asyncio.run(answer)
        return recorded_answer(answer, facts.name, schema)
    finally:
        current_step.reset(outer)


async def call_async(
    run: Callable[[ExecutorCall], Any],
    facts: ExecutorCall,
    info: StepInfo,
    schema: OutputSchema | None,
) -> Any:
    """Call an ``async def`` executor as a step and return its answer as it is recorded."""
    outer = current_step.set(info)
    try:
        with span_of(info):
            answer = await run(facts)
        return recorded_answer(answer, facts.name, schema)
    finally:
        current_step.reset(outer)


def recorded_answer(answer: Any, executor: str, schema: OutputSchema | None) -> dict[str, Any]:
    """Return the answer of an executor as it is recorded. Raises BadStepOutput."""
    if schema is None:
        if answer is None:
            return {}
        if type(answer) is dict:
            data = _small_answer(answer)
            if data is not None:
                return data
    return recorded(output_of(answer, executor), schema)


def _small_answer(answer: dict[str, Any]) -> dict[str, Any] | None:
    """Return an answer of few markers and a short context as it is recorded, without the checks
    that cost more than the rest of a call; None for every other answer."""
    markers = answer.get("markers")
    context = answer.get("context")
    if len(answer) != (markers is not None) + (context is not None):
        return None
    data: dict[str, Any] = {}
    if markers is not None:
        if type(markers) is not list or len(markers) > FEW:
            return None
        for word in markers:
            if type(word) is not str or len(word) > FEW or not word.isascii():
                return None
        if markers:
            data["markers"] = markers[:]
    if context is not None:
        if type(context) is not str or len(context) > SMALL or not context.isascii():
            return None
        if context:
            data["context"] = context
    return data


def recorded(output: StepOutput, schema: OutputSchema | None) -> dict[str, Any]:
    """Return an answer as it is recorded; with a schema, its output is checked, and markers and
    context that it does not give are derived. Its metrics are spent. Raises BadStepOutput."""
    output = with_block(output, has_schema=schema is not None)
    markers = output.markers
    context = output.context
    if schema is not None:
        check_output(schema, output.output)
        if markers is None:
            markers = markers_of(schema, output.output)
        if context is None:
            context = context_of(schema, output.output)
    data: dict[str, Any] = {}
    if markers:
        data["markers"] = markers
    if context:
        data["context"] = context
    if output.output is not None:
        data["output"] = output.output
    if output.metrics:
        data["metrics"] = _spend(metrics_of(output.metrics))
    _check_size(data)
    return data


def _check_size(data: Mapping[str, Any]) -> None:
    if _is_small(data):
        return
    try:
        size = len(msgspec.json.encode(data))
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise BadStepOutput(why=f"the answer is not JSON: {error}") from None
    if size > MOST_BYTES:
        raise BadStepOutput(
            size=size, why=f"an answer has at most {MOST_BYTES} bytes: write it to a file"
        )


def _is_small(data: Mapping[str, Any]) -> bool:
    """Return whether an answer certainly fits, so that it need not be encoded here and again when
    it is recorded: as JSON, an ASCII text has at most six times its length."""
    for name, value in data.items():
        if name == "markers":
            text = "".join(value)
        elif name == "context":
            text = value
        else:
            return False
        if len(text) > SMALL or len(value) > SMALL or not text.isascii():
            return False
    return True


def _spend(metrics: dict[str, float]) -> dict[str, float]:
    """Count the metrics of a step against the budgets of its run."""
    spending = current_spending.get()
    if spending is None:
        return metrics
    counted = spending.counted()
    amounts = {name: str(value) for name, value in metrics.items() if name in counted}
    if amounts:
        spending.spend(amounts_from(amounts), None, fact=True)
    return metrics
