"""Multi-instance activities and loops: a body token, and one token per instance. Nothing recurses,
so the number of instances is not limited by a stack."""

from __future__ import annotations

from typing import Any

from holdfast.authoring.bpmn.expressions import is_met, stored_value, value_of
from holdfast.authoring.bpmn.model import LoopCharacteristics
from holdfast.authoring.bpmn.token_machine.moves import cancel
from holdfast.authoring.bpmn.token_machine.state import (
    ACTIVE,
    COMPLETE,
    LoopState,
    MachineState,
    ProcessToken,
)
from holdfast.authoring.bpmn.token_machine.variables import seen_by
from holdfast.errors import BadExpression

ENDLESS = 1_000_000
"""The most instances of one activity."""


def begin_loop(state: MachineState, token: ProcessToken, loop: LoopCharacteristics) -> None:
    """Make a token the body of a loop, and start its first instances."""
    items = None
    total: int | None = None
    if loop.kind == "standard":
        token.loop = LoopState(total=loop.maximum)
    else:
        items, total = _extent(state, token, loop)
        token.loop = LoopState(total=total, items=items)
        if loop.output is not None:
            token.loop.outputs = [None] * total
    token.stage = ACTIVE
    token.waits_for = "child"
    token.locals = dict(token.locals or {})
    _count(token)
    if loop.kind == "parallel":
        for _ in range(total or 0):
            _start(state, token, loop)
    elif _goes_on(state, token, loop, is_first=True):
        _start(state, token, loop)
    if not token.loop.active:
        state.queue_token(token, COMPLETE)


def _extent(
    state: MachineState, token: ProcessToken, loop: LoopCharacteristics
) -> tuple[list[Any] | None, int]:
    view = seen_by(state, token)
    items = None
    if loop.collection is not None:
        value = value_of(loop.collection, view, state.now)
        if isinstance(value, dict):
            value = list(value.values())
        if not isinstance(value, list | tuple):
            raise BadExpression(
                expression=loop.collection.text, why="the collection of a loop must be a list"
            )
        items = list(value)
    if loop.cardinality is None:
        return items, len(items or ())
    return items, _number(loop, value_of(loop.cardinality, view, state.now))


def _number(loop: LoopCharacteristics, value: Any) -> int:
    text = loop.cardinality.text if loop.cardinality else ""
    try:
        number = int(str(value)) if isinstance(value, str) else int(value)
    except (TypeError, ValueError):
        raise BadExpression(
            expression=text, why=f"the number of instances is not a number: {value!r}"
        ) from None
    if not 0 <= number <= ENDLESS:
        raise BadExpression(expression=text, why=f"the number of instances is {number}")
    return number


def _start(state: MachineState, body: ProcessToken, loop: LoopCharacteristics) -> None:
    progress = body.loop
    if progress is None:
        return
    index = progress.started
    progress.started += 1
    values: dict[str, Any] = {"loopCounter": index}
    if progress.items is not None and index < len(progress.items):
        values[loop.item or "item"] = progress.items[index]
    if loop.output_item is not None and loop.output_item.language == "variable":
        values[loop.output_item.text] = None
    token = state.new_token(
        body.node,
        state.scopes[body.scope],
        body=body.id,
        item=index,
        locals=values,
        mode=body.mode,
    )
    progress.active[token.id] = None
    _count(body)


def _count(body: ProcessToken) -> None:
    progress = body.loop
    if progress is None or body.locals is None:
        return
    if progress.total is not None:
        body.locals["nrOfInstances"] = progress.total
    body.locals["nrOfActiveInstances"] = len(progress.active)
    body.locals["nrOfCompletedInstances"] = progress.completed


def end_instance(state: MachineState, token: ProcessToken, loop: LoopCharacteristics) -> None:
    """Count an instance that has completed, and go on: the next one, or the end of the body."""
    body = state.tokens[token.body or 0]
    progress = body.loop
    if progress is None:
        return
    output = None
    if progress.outputs is not None and loop.output_item is not None:
        output = stored_value(value_of(loop.output_item, seen_by(state, token), state.now))
    progress.completed += 1
    progress.active.pop(token.id, None)
    if progress.outputs is not None and token.item < len(progress.outputs):
        progress.outputs[token.item] = output
    _count(body)
    done = loop.completion is not None and is_met(loop.completion, seen_by(state, body), state.now)
    if done:
        for id in list(progress.active):
            cancel(state, state.tokens[id])
        progress.active.clear()
        _count(body)
    elif loop.kind != "parallel" and _goes_on(state, body, loop, is_first=False):
        _start(state, body, loop)
    if not progress.active:
        state.queue_token(body, COMPLETE)


def _goes_on(
    state: MachineState, body: ProcessToken, loop: LoopCharacteristics, *, is_first: bool
) -> bool:
    progress = body.loop
    if progress is None or progress.started >= ENDLESS:
        return False
    if progress.total is not None and progress.started >= progress.total:
        return False
    if loop.kind != "standard" or loop.condition is None or (is_first and not loop.test_before):
        return True
    return is_met(loop.condition, seen_by(state, body), state.now)
