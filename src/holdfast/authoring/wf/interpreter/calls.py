"""Calls: an executor is called as a step, and its answer is recorded."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.authoring.replay.replay import Compensation
from holdfast.authoring.wf.ast import CallNode
from holdfast.authoring.wf.identity import HANDLER, UNDO
from holdfast.authoring.wf.interpreter.answers import call_async, call_plain
from holdfast.authoring.wf.interpreter.children import run_child_step, run_definition_step
from holdfast.authoring.wf.interpreter.failures import StepFault, fail, step_fault
from holdfast.authoring.wf.interpreter.machine import Machine
from holdfast.authoring.wf.interpreter.plan import PlanNode
from holdfast.authoring.wf.interpreter.requests import CallRequest
from holdfast.authoring.wf.interpreter.state import (
    FAILED,
    ChildEnd,
    FlowState,
    Place,
    StepResult,
)
from holdfast.authoring.wf.registrations import Executor, ExecutorCall
from holdfast.authoring.wf.variables import VariableMap, text_of_value
from holdfast.core.commands import RunStep
from holdfast.core.events import Event, EventKind, EventRole
from holdfast.core.retry import RetryPolicy
from holdfast.core.step_info import StepInfo
from holdfast.errors.wf_runs import MissingExecutor


async def run_call(machine: Machine, plan: PlanNode, state: FlowState, place: Place) -> None:
    """Execute a call node: attempts, tolerance, handler, undo."""
    node: CallNode = plan.node
    request = CallRequest(
        node.target,
        plan.key,
        place.path + plan.local,
        place,
        state.variables(place.extra),
        plan.schema or place.schema,
        place.snippets + plan.snippets,
        node.identity or machine.arguments.identity,
        node.plugin_dirs,
        node.max_turns,
        policy_in(plan.policy, place),
        node.timeout,
        state.feedback,
    )
    executor = machine.executor(node.target)
    try:
        if node.lane is None and (executor is None or not executor.is_definition):
            # The plain case without a coroutine of its own: it is most of what a text does.
            event = await machine.call(step_command(machine, request, executor, None))
            result = answer_of(machine, event)
        else:
            result = await perform_call(machine, request, node.lane)
    except StepFault as fault:
        await take_failure(machine, plan, state, place, fault)
        return
    take_result(machine, plan, state, place, result)


def policy_in(policy: RetryPolicy, place: Place) -> RetryPolicy:
    """Return the policy of a step; a stopped parallel block makes no further attempts."""
    block = place.block
    if block is None or not policy.retries:
        return policy
    token = block
    before = policy.when

    def when(error: Exception) -> bool:
        return not token.stopped and (before is None or before(error))

    return msgspec.structs.replace(policy, when=when)


async def take_failure(
    machine: Machine, plan: PlanNode, state: FlowState, place: Place, fault: StepFault
) -> None:
    """Do as the options of a failed step say. Raises Stopped."""
    node = plan.node
    state.results[plan.key] = FAILED
    if not fault.is_final:
        if node.tolerates:
            return
        if node.on_fail is not None:
            await _run_handler(machine, plan, state, place, fault)
    fail(machine, state, fault.error)


def take_result(
    machine: Machine,
    plan: PlanNode,
    state: FlowState,
    place: Place,
    result: StepResult | ChildEnd,
) -> None:
    """Make the result of a completed step known to later steps, and register its undo."""
    if isinstance(result, ChildEnd):
        state.complete(plan.key, result.result, place.iterations, machine.fixed, result.entries)
        state.results.update(result.steps)
    else:
        state.complete(plan.key, result, place.iterations, machine.fixed)
    if plan.node.undo is not None:
        _register_undo(machine, plan, place.path + plan.local, state, place)


async def _run_handler(
    machine: Machine, plan: PlanNode, state: FlowState, place: Place, fault: StepFault
) -> None:
    """Call the handler of a failure once; its own failure changes nothing."""
    node = plan.node
    identity = place.path + plan.local
    prefix = f"{identity}{HANDLER}"
    machine.mark(prefix, None, EventRole.REPEATED)
    failed_step = node.target.text if isinstance(node, CallNode) else plan.key
    extra = {
        **(place.extra or {}),
        "failed_step": failed_step,
        "failure_reason": fault.reason,
        "retry_count": str(max(fault.attempts - 1, 0)),
    }
    request = CallRequest(
        target=node.on_fail,
        key=node.on_fail.key,
        identity=prefix + node.on_fail.key,
        place=place,
        variables=state.variables(extra),
        schema=place.schema,
        snippets=place.snippets,
        actor=node.identity or machine.arguments.identity,
        feedback=state.feedback,
    )
    try:
        result = await perform_call(machine, request, None)
    except StepFault:
        state.results[node.on_fail.key] = FAILED
        return
    state.results[node.on_fail.key] = result


def _register_undo(
    machine: Machine, plan: PlanNode, identity: str, state: FlowState, place: Place
) -> None:
    """Register the compensation of a completed step, with the variables as they are now."""
    node = plan.node
    undone = node.target.text if isinstance(node, CallNode) else plan.key
    request = CallRequest(
        target=node.undo,
        key=node.undo.key,
        identity=f"{identity}{UNDO}{node.undo.key}",
        place=place,
        variables=state.variables({**(place.extra or {}), "undone_step": undone}),
        actor=node.identity or machine.arguments.identity,
        feedback=state.feedback,
    )

    def make(step_id: str) -> RunStep:
        executor = machine.executor(request.target)
        return step_command(machine, request, executor, EventRole.COMPENSATION)

    machine.program.compensations.append(Compensation(request.identity, make))


async def perform_call(machine: Machine, request: CallRequest, lane: str | None) -> StepResult:
    """Call an executor and return its recorded answer. Raises StepFault."""
    executor = machine.executor(request.target)
    if executor is not None and executor.is_definition:
        return await run_definition_step(
            machine,
            executor.run,
            request.identity,
            request.policy,
            [_call_data(machine, request)],
            lane,
        )
    if lane is not None and machine.arguments.only is None:
        return await run_child_step(machine, request, lane)
    event = await machine.call(step_command(machine, request, executor, None))
    return answer_of(machine, event)


def answer_of(machine: Machine, event: Event) -> StepResult:
    """Return the answer that the outcome of a step records. Raises StepFault."""
    if event.kind == EventKind.STEP_FAILED:
        raise step_fault(event)
    return result_of(machine.read(event))


def result_of(data: Any) -> StepResult:
    """Return the recorded answer of a step."""
    if not data:
        return StepResult()
    return StepResult(data.get("markers", []), data.get("context", ""), data.get("output"))


def step_command(
    machine: Machine, request: CallRequest, executor: Executor | None, role: EventRole | None
) -> RunStep:
    """Return the command that calls the executor."""
    schema = None
    if request.schema is not None:
        schema = machine.host.find_schema(machine.document.name, request.schema)
    is_async = executor is not None and executor.is_async

    def call(info: StepInfo, connection: Any) -> Any:
        if executor is None:
            raise MissingExecutor(call=request.target.text, workflow=machine.document.name)
        facts = _call_of(machine, request, info)
        if is_async:
            return call_async(executor.run, facts, info, schema)
        return call_plain(executor.run, facts, info, schema)

    return RunStep(
        request.identity,
        request.key,
        call,
        is_async,
        request.policy,
        timeout=request.timeout,
        role=role,
    )


def _call_of(machine: Machine, request: CallRequest, info: StepInfo) -> ExecutorCall:
    return ExecutorCall(
        request.target.text,
        request.key,
        machine.document.name,
        machine.run_id,
        list(request.place.iterations or machine.arguments.iteration),
        info.attempt,
        max(request.policy.retries + 1 - info.attempt, 0),
        info.last_error,
        request.variables,
        request.schema,
        list(request.snippets),
        request.actor,
        list(request.plugin_dirs),
        request.max_turns,
        machine.dry_run,
        request.feedback,
        machine.cwd,
        info.idempotency_key,
    )


def _call_data(machine: Machine, request: CallRequest) -> dict[str, Any]:
    """Return the facts of a call as plain data, for a task that executes it."""
    info = StepInfo(machine.run_id, machine.document.name, request.identity, 1, 0)
    facts = _call_of(machine, request, info)
    fields = {name: getattr(facts, name) for name in facts.__struct_fields__}
    fields["inputs"] = dict(request.variables)
    del fields["attempt"], fields["last_error"], fields["retries_left"]
    return fields


async def only_call(machine: Machine, plan: PlanNode) -> tuple[StepResult, int]:
    """Execute a single call, for the run that waits for it; return its result and the number of its
    attempts. Raises StepFault."""
    node: CallNode = plan.node
    only = machine.arguments.only
    assert only is not None
    texts = {name: text_of_value(value) for name, value in machine.arguments.inputs.items()}
    request = CallRequest(
        target=node.target,
        key=plan.key,
        identity=only.identity or plan.local,
        place=Place(),
        variables=VariableMap(texts, None, None),
        schema=only.schema,
        snippets=tuple(only.snippets),
        actor=node.identity or machine.arguments.identity,
        plugin_dirs=node.plugin_dirs,
        max_turns=node.max_turns,
        policy=plan.policy,
        timeout=node.timeout,
        feedback=only.feedback,
    )
    executor = machine.executor(request.target)
    event = await machine.call(step_command(machine, request, executor, None))
    return answer_of(machine, event), event.attempt
