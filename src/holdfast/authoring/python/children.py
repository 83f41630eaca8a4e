"""Child runs: called like a function, started with a handle, or one per item of a map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from holdfast.authoring.replay.async_program import AsyncProgram
from holdfast.authoring.replay.call import Call, resolve
from holdfast.authoring.replay.replay import ReplayProgram
from holdfast.authoring.replay.sync_program import SyncProgram
from holdfast.core import typed_json
from holdfast.core.commands import AwaitChild, StartChild, StartMap
from holdfast.core.definitions import ref_to
from holdfast.core.events import Event
from holdfast.core.runs import ErrorInfo, Route
from holdfast.core.signature import Signature
from holdfast.core.text import is_one_of
from holdfast.core.validation import (
    checked_capabilities,
    checked_count,
    checked_start,
    checked_text,
)
from holdfast.errors import BadOption, ChildFailed, TooManyFailures


class ChildWorkflow(Protocol):
    """The part of a workflow definition that a parent needs to start it as a child."""

    name: str
    version: str
    kind: str
    lane: str
    capabilities: tuple[str, ...]
    signature: Signature
    start_options: dict[str, Any] | None


OPTIONS = (
    "id",
    "lane",
    "priority",
    "delay",
    "deadline",
    "tags",
    "capabilities",
    "budget",
    "share",
    "on_parent_end",
)


def start_child_call(
    program: ReplayProgram,
    workflow: ChildWorkflow,
    args: Any,
    kwargs: Any,
    options: Mapping[str, Any],
) -> Call:
    """Return the call that starts a child. It decodes to the id of the child's run."""
    identity = program.identify(f"run {workflow.name}")
    data = workflow.signature.encode_args(program.codec, args, kwargs)
    route = route_of(program, workflow, options)
    command = StartChild(identity, ref_to(workflow), route, data, child_options(options))
    if ends_with_parent(options):
        program.open_children.add(identity)
    return Call(command, lambda event: msgspec.json.decode(event.data or b"{}")["run"])


def split_options(
    workflow: ChildWorkflow, keywords: Mapping[str, Any]
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """Return the keyword arguments of a child, and the options of its start.

    If ``workflow.options`` has set the options apart, all keywords are arguments. Otherwise they
    are options, and an option with the name of a parameter is refused. Raises BadOption.
    """
    if workflow.start_options is not None:
        return keywords, workflow.start_options
    for name in sorted(workflow.signature.names):
        if name in keywords:
            raise BadOption(
                option=name,
                why=f"{workflow.name}() has a parameter of this name: pass the argument by"
                f" position, or start {workflow.name}.options(...), which has the options apart"
                " from the arguments",
            )
    return {}, keywords


def ends_with_parent(options: Mapping[str, Any]) -> bool:
    """Return whether a child with these options must end before its parent does."""
    return options.get("on_parent_end") is None or is_one_of(options["on_parent_end"], ("cancel",))


def route_of(program: ReplayProgram, workflow: ChildWorkflow, options: Mapping[str, Any]) -> Route:
    """Return the route of a child of this program: namespace, workflow, lane, capabilities."""
    lane = checked_text("lane", options.get("lane")) or workflow.lane
    capabilities = workflow.capabilities
    if options.get("capabilities") is not None:
        capabilities = checked_capabilities(options["capabilities"])
    return Route(program.run.namespace, workflow.name, workflow.version, lane, capabilities)


def child_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a child as plain data, durations in microseconds. Raises BadOption."""
    unknown = set(options) - set(OPTIONS)
    if unknown:
        raise BadOption(option=sorted(unknown)[0], known=", ".join(OPTIONS))
    if options.get("on_parent_end") is not None and not is_one_of(
        options["on_parent_end"], ("cancel", "leave")
    ):
        raise BadOption(
            option="on_parent_end",
            value=options["on_parent_end"],
            why='the value must be "cancel" or "leave"',
        )
    if options.get("budget") is not None:
        from holdfast.core.budgets.rules import read_option  # on use: saves the import at start-up

        read_option(options["budget"])
    return checked_start(
        {name: value for name, value in options.items() if name not in ("lane", "capabilities")}
    )


def await_child_call(
    program: ReplayProgram, workflow: ChildWorkflow, start: str, run_id: str, *, owned: bool = False
) -> Call:
    """Return the call that waits for the end of a child. It decodes to the child's result, or
    raises ChildFailed.

    An *owned* child is cancelled if the wait is dropped.
    """

    def decode(event: Event) -> Any:
        program.open_children.discard(start)
        return program.read(
            event, lambda data: child_value(program, workflow, run_id, data, event.error)
        )

    return Call(
        AwaitChild(program.identify(f"{start.rsplit('/', 1)[-1]} end"), start, run_id, owned),
        decode,
    )


def child_value(
    program: ReplayProgram,
    workflow: ChildWorkflow,
    run_id: str,
    data: bytes | None,
    error: bytes | None,
) -> Any:
    """Return the result of a child. Raises ChildFailed."""
    if error is not None:
        info = typed_json.decode(error, ErrorInfo)
        raise _child_failed(workflow, run_id, info)
    return workflow.signature.decode_result(program.codec, data or b"null")


def _child_failed(workflow: ChildWorkflow, run_id: str, info: ErrorInfo) -> ChildFailed:
    context: dict[str, object] = {
        name: info.facts[name] for name in ("step", "origin") if name in info.facts
    }
    if info.cause is not None:
        context["cause"] = info.cause
    error = ChildFailed(
        workflow=workflow.name, run=run_id, type=info.type, message=info.message, **context
    )
    error.traceback = info.traceback
    return error


def call_child(
    program: ReplayProgram,
    workflow: ChildWorkflow,
    args: Any,
    kwargs: Any,
    options: Mapping[str, Any],
) -> Any:
    """Run a child and return its result; in an ``async def`` workflow, return a coroutine of it."""
    start_call = start_child_call(program, workflow, args, kwargs, options)
    start = start_call.command.id  # type: ignore[union-attr]
    if isinstance(program, AsyncProgram):
        return _call_child(program, workflow, start_call, start)
    assert isinstance(program, SyncProgram)
    run_id = resolve(program, start_call)
    result = resolve(program, await_child_call(program, workflow, start, run_id, owned=True))
    program.note_completed(start)
    return result


# Workflow code may wrap this coroutine in a task. Its name is then part of step identities in
# recorded histories (see WorkflowLoop.create_task), so it must not change.
async def _call_child(
    program: AsyncProgram, workflow: ChildWorkflow, start_call: Call, start: str
) -> Any:
    run_id = start_call.decode(await program.call(start_call.command))
    end_call = await_child_call(program, workflow, start, run_id, owned=True)
    result = end_call.decode(await program.call(end_call.command))
    program.note_completed(start)
    return result


def map_call(
    program: ReplayProgram,
    workflow: ChildWorkflow,
    items: Sequence[Any],
    *,
    max_parallel: int | None,
    on_error: str,
    min_success: int | None,
    options: Mapping[str, Any],
) -> Call:
    """Return the call that starts one child per item and waits for all of them.

    It decodes to the results in order: see ``map_results``.
    """
    check_map(max_parallel, on_error, min_success, len(items))
    inputs = [workflow.signature.encode_args(program.codec, (item,), {}) for item in items]
    command = StartMap(
        program.identify(f"map {workflow.name}"),
        ref_to(workflow),
        route_of(program, workflow, options),
        inputs,
        child_options(options),
        max_parallel,
        on_error == "fail_fast" and min_success is None,
    )

    if ends_with_parent(options):
        program.open_children.add(command.id)

    def decode(event: Event) -> list[Any]:
        ends = typed_json.decode(event.data or b"[]", list[tuple[str, msgspec.Raw, msgspec.Raw]])
        if len(ends) == len(inputs):
            program.open_children.discard(command.id)
        results = [_value_or_error(program, workflow, end) for end in ends]
        return map_results(results, on_error, min_success)

    return Call(command, decode)


def _value_or_error(
    program: ReplayProgram, workflow: ChildWorkflow, end: tuple[str, Any, Any]
) -> Any:
    run_id, data, error = end
    try:
        return child_value(program, workflow, run_id, _raw(data), _raw(error))
    except ChildFailed as failure:
        return failure


def _raw(value: Any) -> bytes | None:
    data = None if value is None else bytes(value)
    if data == b"null":
        return None
    return data


def check_map(max_parallel: int | None, on_error: str, min_success: int | None, count: int) -> None:
    """Raise BadOption if the options of ``map`` are invalid for *count* items."""
    if not is_one_of(on_error, ("fail_fast", "collect")):
        raise BadOption(
            option="on_error", value=on_error, why='the value must be "fail_fast" or "collect"'
        )
    if max_parallel is not None:
        checked_count("max_parallel", max_parallel, least=1)
    if min_success is not None and checked_count("min_success", min_success) > count:
        raise BadOption(
            option="min_success", value=min_success, why=f"there are only {count} items"
        )


def check_call(call: Any, options: Mapping[str, Any]) -> None:
    """Raise BadOption if a map cannot call *call*, or if options of runs are given: only a map of
    workflows starts runs."""
    if not callable(call):
        raise BadOption(option="call", value=call, why="give a step, a workflow or a function")
    if options:
        raise BadOption(
            option=sorted(options)[0],
            why="this is an option of child runs, and only a map of workflows starts them",
        )


def map_results(results: list[Any], on_error: str, min_success: int | None) -> list[Any]:
    """Return the results in order, with the errors that the options tolerate.

    Raises the first error if none is tolerated, and TooManyFailures if fewer than *min_success*
    items succeeded.
    """
    errors = [result for result in results if isinstance(result, Exception)]
    if min_success is not None and len(results) - len(errors) < min_success:
        raise TooManyFailures(
            needed=min_success, succeeded=len(results) - len(errors), first=str(errors[0])
        ) from errors[0]
    if errors and on_error == "fail_fast" and min_success is None:
        raise errors[0]
    return results
