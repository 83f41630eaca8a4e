"""Scripts: a command line of the text, run as a step in a process group of its own."""

from __future__ import annotations

from typing import Any

from holdfast.authoring.wf.ast import ScriptNode
from holdfast.authoring.wf.interpreter.answers import recorded
from holdfast.authoring.wf.interpreter.calls import (
    answer_of,
    policy_in,
    take_failure,
    take_result,
)
from holdfast.authoring.wf.interpreter.failures import StepFault
from holdfast.authoring.wf.interpreter.machine import Machine
from holdfast.authoring.wf.interpreter.plan import PlanNode
from holdfast.authoring.wf.interpreter.state import FlowState, Place, StepResult
from holdfast.authoring.wf.registrations import EnvironmentAsk
from holdfast.authoring.wf.scripts import run_script, script_environment
from holdfast.authoring.wf.variables import substitute, substitute_quoted
from holdfast.core.commands import RunStep
from holdfast.core.step_info import StepInfo, current_step
from holdfast.core.trace_context import span_of

LONGEST_TEXT = 10_000
"""Characters of a variable in the environment of a script, unless it is an input."""


async def run_script_node(machine: Machine, plan: PlanNode, state: FlowState, place: Place) -> None:
    """Execute a script node: attempts, tolerance, handler, undo. A dry run records it alone."""
    try:
        result = await _perform(machine, plan, state, place)
    except StepFault as fault:
        await take_failure(machine, plan, state, place, fault)
        return
    take_result(machine, plan, state, place, result)


async def _perform(machine: Machine, plan: PlanNode, state: FlowState, place: Place) -> StepResult:
    """Run the script as a step and return its recorded answer. Raises StepFault."""
    node: ScriptNode = plan.node
    identity = place.path + plan.local
    if machine.dry_run:
        machine.mark(identity, {"status": "completed", "dry_run": True})
        return StepResult()
    command = RunStep(
        identity,
        node.name,
        _script_call(machine, node, state.variables(place.extra)),
        True,
        policy_in(plan.policy, place),
        timeout=node.timeout,
    )
    return answer_of(machine, await machine.call(command))


def _script_call(machine: Machine, node: ScriptNode, variables: Any) -> Any:
    """Return the function of a step that runs the script once."""

    async def call(info: StepInfo, connection: Any) -> Any:
        outer = current_step.set(info)
        try:
            actor = node.identity or machine.arguments.identity
            env = await script_environment(
                name=node.name,
                providers=machine.host.environments(),
                ask=EnvironmentAsk(actor, machine.run_id),
                # A long text that a step printed is no input: it must not fail every later script.
                inputs={
                    name: text
                    for name, text in variables.small.items()
                    if name in machine.typed or len(text) <= LONGEST_TEXT
                },
                own={name: substitute(text, variables) for name, text in node.env},
            )
            env["HOLDFAST_IDEMPOTENCY_KEY"] = info.idempotency_key
            line = substitute_quoted(node.run.text, variables)
            with span_of(info):
                output = await run_script(
                    node.name, line, root=machine.host.root, cwd=machine.cwd, env=env
                )
            return recorded(output, None)
        finally:
            current_step.reset(outer)

    return call
