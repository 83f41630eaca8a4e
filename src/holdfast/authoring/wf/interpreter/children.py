"""Child runs of a text: sub-workflows of every kind, calls on a lane, tasks as executors.

Each attempt is a child run of its own. An attempt that was followed by another one is marked as
superseded, so that a replay continues only the last of them.
"""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.authoring.wf.ast import CallWorkflowNode
from holdfast.authoring.wf.identity import attempt_identity, end_of
from holdfast.authoring.wf.interpreter.failures import StepFault, child_fault
from holdfast.authoring.wf.interpreter.machine import DEEPEST_RUN, Machine, OnlyCall, RunArguments
from holdfast.authoring.wf.interpreter.plan import PlanNode
from holdfast.authoring.wf.interpreter.requests import CallRequest
from holdfast.authoring.wf.interpreter.state import ChildEnd, FlowState, Place, StepResult
from holdfast.authoring.wf.outputs import output_of, with_block
from holdfast.authoring.wf.variables import ContextEntry, substitute_known
from holdfast.core.commands import AwaitChild, SetTimer, StartChild
from holdfast.core.definitions import DefinitionRef, ref_to
from holdfast.core.events import Event, EventRole
from holdfast.core.retry import RetryPolicy, decide
from holdfast.core.runs import ErrorInfo, Route
from holdfast.errors.wf_runs import TooDeep, UnknownSubflow

ONE_ATTEMPT = RetryPolicy(retries=0, delay=0, jitter=0.0)
"""The child retries its call itself."""


class _FailureLike(Exception):
    """Stands for the error of a child when a retry policy is asked: it has the name of its type."""


def failure_named(name: str, message: str) -> Exception:
    """Return an exception whose class has the recorded name, for the predicate of a policy."""
    kind = type(name or "Exception", (_FailureLike,), {})
    failure: Exception = kind(message)
    return failure


class ChildStart(msgspec.Struct):
    """The start of a child: its definition, its route and its input."""

    target: DefinitionRef
    route: Route
    input: bytes
    options: dict[str, Any] = {}


async def run_attempts(
    machine: Machine, identity: str, policy: RetryPolicy, start: ChildStart
) -> Event:
    """Start child runs until one completes, and return its end. Raises StepFault."""
    attempt = 1
    while True:
        command_id = attempt_identity(identity, attempt)
        run_id, event = await run_child(machine, command_id, start)
        if event.error is None:
            return event
        fault = child_fault(event, start.target.name, run_id, attempt)
        failure = failure_named(fault.info.type, fault.info.message)
        delay = None if fault.is_final else decide(policy, failure, attempt, 0.5)
        if delay is None:
            raise fault
        machine.mark(command_id, None, EventRole.SUPERSEDED)
        if delay:
            await machine.call(SetTimer(f"{command_id} delay", delay))
        attempt += 1


async def run_child(machine: Machine, command_id: str, start: ChildStart) -> tuple[str, Event]:
    """Start one child run and wait for its end; return its id and the event of its end."""
    program = machine.program
    program.open_children.add(command_id)
    command = StartChild(command_id, start.target, start.route, start.input, start.options)
    started = await machine.call(command)
    run_id: str = msgspec.json.decode(started.data or b"{}")["run"]
    event = await machine.call(AwaitChild(end_of(command_id), command_id, run_id, owned=True))
    program.open_children.discard(command_id)
    return run_id, event


# Sub-workflows


async def perform_subflow(
    machine: Machine, plan: PlanNode, state: FlowState, place: Place
) -> ChildEnd:
    """Run a sub-workflow and return its result. Raises StepFault."""
    node: CallWorkflowNode = plan.node
    variables = state.variables(place.extra)
    inputs = {name: substitute_known(text, variables) for name, text in node.inputs}
    identity = node.identity or machine.arguments.identity
    start = child_start(machine, node.name.text, inputs, lane=node.lane, identity=identity)
    event = await run_attempts(machine, place.path + plan.local, plan.policy, start)
    return child_end(machine.read(event))


def child_start(
    machine: Machine,
    name: str,
    inputs: dict[str, Any],
    *,
    lane: str | None = None,
    identity: str | None = None,
) -> ChildStart:
    """Return the start of a sub-workflow: a text of the bundle, else a definition of another kind.
    Raises StepFault."""
    return ChildStarts(machine, name, lane=lane, identity=identity).start(inputs)


class ChildStarts:
    """The starts of children of one workflow, which differ by their inputs alone.

    *body* is the place of an inline foreach whose body they execute. The results of children that
    are *items* leave out the steps of the child, because no condition can name them.
    """

    def __init__(
        self,
        machine: Machine,
        name: str,
        *,
        lane: str | None = None,
        identity: str | None = None,
        body: str | None = None,
        items: bool = False,
    ) -> None:
        depth = machine.arguments.depth + 1
        if depth > DEEPEST_RUN:
            raise refused(TooDeep(workflow=name, levels=DEEPEST_RUN))
        self._machine: Machine = machine
        self._name: str = name
        self._lane: str | None = lane
        target = machine.owner.sibling(name) if body is None else machine.owner
        self._target: Any = target
        if target is None:
            return
        arguments = msgspec.structs.replace(
            machine.arguments,
            inputs={},
            cwd=machine.cwd,
            depth=depth,
            body=body,
            only=None,
            iteration=[],
            identity=identity,
            is_item=items,
        )
        self._settings: dict[str, Any] = msgspec.to_builtins(arguments)
        namespace = machine.program.run.namespace
        self._route: Route = Route(namespace, target.name, target.version, lane or target.lane)
        self._ref: DefinitionRef = ref_to(target)
        self._options: dict[str, Any] = {}
        if body is None and target.start_budget is not None:
            self._options["budget"] = target.start_budget

    def start(self, inputs: dict[str, Any]) -> ChildStart:
        """Return the start of a child with these inputs. Raises StepFault."""
        if self._target is None:
            return _foreign_start(self._machine, self._name, inputs, self._lane)
        data = self._machine.program.codec.encode({"args": [inputs], "kwargs": self._settings})
        return ChildStart(self._ref, self._route, data, self._options)


def encoded(machine: Machine, arguments: RunArguments) -> bytes:
    """Return the arguments of a child as its input."""
    fields = msgspec.to_builtins(arguments)
    inputs = fields.pop("inputs", {})
    return machine.program.codec.encode({"args": [inputs], "kwargs": fields})


def refused(error: Exception) -> StepFault:
    """Return the failure of a step that cannot begin."""
    return StepFault(ErrorInfo(type(error).__name__, str(error)), error, 0)


def _foreign_start(
    machine: Machine, name: str, inputs: dict[str, Any], lane: str | None
) -> ChildStart:
    """Return the start of a workflow of another kind: the inputs are its arguments by name, or one
    object if it has a single parameter."""
    definition = machine.host.find_definition(name)
    if definition is None:
        raise refused(UnknownSubflow(workflow=name, caller=machine.document.name))
    codec = machine.program.codec
    signature = definition.signature
    if signature is None:
        data = codec.encode([inputs])
    elif set(inputs) <= signature.names:
        data = signature.encode_args(codec, (), dict(inputs))
    else:
        data = signature.encode_args(codec, (inputs,), {})
    route = Route(
        machine.program.run.namespace,
        definition.name,
        definition.version,
        lane or definition.lane,
        tuple(definition.capabilities),
    )
    return ChildStart(ref_to(definition), route, data)


def child_end(data: Any) -> ChildEnd:
    """Return the result of a child run, of whatever kind."""
    if isinstance(data, dict) and data.keys() <= {"markers", "context", "output", "flow"}:
        flow = data.get("flow") or {}
        steps = {
            key: StepResult(step.get("markers", []), step.get("context", ""), step.get("output"))
            for key, step in (flow.get("steps") or {}).items()
        }
        entries = [
            ContextEntry(
                None,
                entry["step"],
                entry["iteration"],
                entry["context"],
                entry["markers"],
                entry["structured_output"],
            )
            for entry in flow.get("contexts") or ()
        ]
        result = StepResult(
            data.get("markers") or [], data.get("context") or "", data.get("output")
        )
        return ChildEnd(result, steps, entries)
    if data is None:
        return ChildEnd(StepResult(), {}, [])
    output = data if isinstance(data, dict) else {"result": data}
    context = data if isinstance(data, str) else ""
    return ChildEnd(StepResult([], context, output), {}, [])


# Calls as child runs


async def run_child_step(machine: Machine, request: CallRequest, lane: str) -> StepResult:
    """Execute a call as a run of its own, on a lane. Raises StepFault."""
    arguments = msgspec.structs.replace(
        machine.arguments,
        inputs={**dict(request.variables)},
        cwd=machine.cwd,
        depth=machine.arguments.depth,
        only=OnlyCall(
            machine.owner.template(machine.arguments, request.identity),
            request.identity,
            request.schema,
            list(request.snippets),
            request.feedback,
        ),
        iteration=list(request.place.iterations),
    )
    owner = machine.owner
    route = Route(machine.program.run.namespace, owner.name, owner.version, lane)
    start = ChildStart(ref_to(owner), route, encoded(machine, arguments))
    event = await run_attempts(machine, request.identity, ONE_ATTEMPT, start)
    return child_end(machine.read(event)).result


async def run_definition_step(
    machine: Machine,
    definition: Any,
    identity: str,
    policy: RetryPolicy,
    args: list[Any],
    lane: str | None,
) -> StepResult:
    """Execute a call by a task: a child run of that definition. Raises StepFault."""
    codec = machine.program.codec
    data = codec.encode(args)
    if definition.signature is not None:
        data = definition.signature.encode_args(codec, tuple(args), {})
    route = Route(
        machine.program.run.namespace,
        definition.name,
        definition.version,
        lane or definition.lane,
        tuple(definition.capabilities),
    )
    start = ChildStart(ref_to(definition), route, data)
    event = await run_attempts(machine, identity, policy, start)
    value = machine.read(event)
    if isinstance(value, str):
        output = with_block(output_of(value, definition.name), has_schema=False)
        return StepResult(output.markers or [], output.context or "", output.output)
    return child_end(value).result
