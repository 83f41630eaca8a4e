"""The coroutine of a run: the body, the always block, the result."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from holdfast.authoring.wf.ast import FieldRef
from holdfast.authoring.wf.identity import ALWAYS
from holdfast.authoring.wf.interpreter.calls import only_call
from holdfast.authoring.wf.interpreter.failures import StepFault, Stopped
from holdfast.authoring.wf.interpreter.machine import Machine
from holdfast.authoring.wf.interpreter.sequence import run_sequence
from holdfast.authoring.wf.interpreter.state import FlowState, Place, StepResult
from holdfast.authoring.wf.variables import ContextEntry, substitute
from holdfast.core.events import EventRole


async def run_flow(machine: Machine) -> bytes:
    """Execute a run and return its encoded result."""
    arguments = machine.arguments
    if arguments.only is not None:
        return await _run_only(machine, arguments.only.template)
    state = machine.new_state()
    body = machine.plan.body
    if arguments.body is not None:
        body = machine.plan.bodies[arguments.body]
        _seed(state, arguments.inputs)
    error: Exception | None = None
    was_cancelled = False
    end = "completed"
    try:
        await run_sequence(machine, body, state, Place())
        if state.failures:
            raise Stopped(state.failures[0])
    except Stopped as stop:
        error = stop.error
        end = "failed"
    except asyncio.CancelledError:
        was_cancelled = True
        end = "cancelled"
        task = asyncio.current_task()
        if task is not None:
            task.uncancel()
    if arguments.body is None and machine.plan.always:
        await _run_always(machine, state, end)
    if was_cancelled:
        raise asyncio.CancelledError
    if error is not None:
        raise error
    return machine.program.codec.encode(_result(machine, state))


async def _run_always(machine: Machine, state: FlowState, end: str) -> None:
    """Execute the always block, which sees nothing of the body's failure but the status."""
    machine.mark(ALWAYS, None, EventRole.REPEATED)
    place = Place(path=ALWAYS, always=True, extra={"workflow_status": end})
    try:
        await run_sequence(machine, machine.plan.always, state.fork(), place)
    except Stopped:
        return  # recorded with its step; it does not change the end of the run


async def _run_only(machine: Machine, template: str) -> bytes:
    """Execute a single call, for the run that waits for it."""
    try:
        result, attempts = await only_call(machine, machine.plan.steps[template].node)
    except StepFault as fault:
        raise fault.error from None
    data = _as_data(result)
    if attempts > 1:
        data["flow"] = {"attempts": attempts}
    return machine.program.codec.encode(data)


def _seed(state: FlowState, inputs: Any) -> None:
    """Let the body of a foreach begin with the contexts of the run around it."""
    for entry in msgspec.json.decode(inputs.get("prior_contexts") or b"[]"):
        state.last = ContextEntry(
            state.last,
            entry["step"],
            entry["iteration"],
            entry["context"],
            entry["markers"],
            entry["structured_output"],
        )
    if state.last is None and inputs.get("prior_context"):
        state.last = ContextEntry(None, "", 0, inputs["prior_context"], [], None)
    if inputs.get("prior_output"):
        state.prior_output = msgspec.json.decode(inputs["prior_output"])


def _as_data(result: StepResult) -> dict[str, Any]:
    return {"markers": result.markers, "context": result.context, "output": result.output}


def _result(machine: Machine, state: FlowState) -> dict[str, Any]:
    """Return the result of a run: the outcome of its last completed step, or its outputs. A child
    that is not an item also returns the results and contexts of its steps."""
    data = _as_data(state.last_result or StepResult())
    if machine.arguments.body is not None:
        return data
    if machine.document.outputs:
        data["output"] = _outputs(machine, state)
    if machine.arguments.depth > 1 and not machine.arguments.is_item:
        data["flow"] = {
            "steps": {
                key: _as_data(result)
                for key, result in state.results.items()
                if result.status == "completed"
            },
            "contexts": [entry.as_data() for entry in state.entries()],
        }
    return data


def _outputs(machine: Machine, state: FlowState) -> dict[str, Any]:
    variables = state.variables()
    values: dict[str, Any] = {}
    for declared in machine.document.outputs:
        if isinstance(declared.value, FieldRef):
            result = state.result(declared.value.step)
            output = result.output if result is not None else None
            values[declared.name] = (
                output.get(declared.value.field) if isinstance(output, dict) else None
            )
        else:
            values[declared.name] = substitute(declared.value, variables)
    return values
