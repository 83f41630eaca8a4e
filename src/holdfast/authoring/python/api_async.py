"""The functions that ``async def`` workflows call to wait, branch and start children."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Any, Generic, Literal, TypeVar, overload

from holdfast.authoring.python import children, deterministic, gates, graphs, signals, waits
from holdfast.authoring.python.gates import Names, Options
from holdfast.authoring.python.waits import Wait, Waited
from holdfast.authoring.python.workflow import Workflow
from holdfast.authoring.replay.async_program import AsyncProgram
from holdfast.authoring.replay.call import Call
from holdfast.authoring.replay.replay import current_program
from holdfast.core import duration
from holdfast.core.conditions.model import Condition
from holdfast.core.duration import Duration
from holdfast.core.gates.answer import Answer
from holdfast.core.graphs.builder import Graph
from holdfast.core.step_info import current_step
from holdfast.errors import BadOption, NotInWorkflow

__all__ = ["first", "gate", "gather", "map", "sleep", "start", "timeout", "wait_signal"]

A = TypeVar("A")
T = TypeVar("T")
T1 = TypeVar("T1")
T2 = TypeVar("T2")
T3 = TypeVar("T3")
T4 = TypeVar("T4")
T5 = TypeVar("T5")
T6 = TypeVar("T6")


def _here(call: str, path: str | None = None) -> AsyncProgram:
    """Return the program whose workflow code makes this call. Raises NotInWorkflow.

    *path* is the name of the function below ``holdfast.sync``, if it is not there itself.
    """
    program = deterministic.program_here(call)
    if not isinstance(program, AsyncProgram):
        raise NotInWorkflow(
            call=call, why=f"a plain def workflow uses holdfast.sync.{path or call}"
        )
    return program


# Workflow code may wrap this coroutine, ``_start`` and ``one`` in tasks. Their names are then part
# of step identities in recorded histories (see WorkflowLoop.create_task), so they must not change.
async def _fulfil(program: AsyncProgram, call: Call) -> Any:
    return call.decode(await program.call(call.command))


def sleep(length: Duration) -> Coroutine[Any, Any, None]:
    """Wait durably, for milliseconds or months; the process may end meanwhile.

    Outside workflow code it is an ordinary sleep.
    """
    if current_program.get() is None or current_step.get() is not None:
        return asyncio.sleep(duration.parse(length) / 1_000_000)
    program = _here("sleep")
    return _fulfil(program, signals.sleep_call(program, length))


def wait_signal(
    name: str, *, timeout: Duration | None = None, type: Any = Any
) -> Coroutine[Any, Any, Any]:
    """Wait for a signal of that name and return its payload, decoded as *type*.

    The signal may have arrived before. Raises TimeoutError.
    """
    program = _here("wait_signal")
    return _fulfil(program, signals.wait_signal_call(program, name, timeout, type))


def gate(
    prompt: str,
    *,
    options: Options | None = None,
    assignees: Names | None = None,
    roles: Names | None = None,
    quorum: int = 1,
    exclude: Names | None = None,
    timeout: Duration | None = None,
    on_timeout: str = "fail",
    remind: Any = None,
    escalate: Any = None,
    form: Any = None,
    data: Any = None,
) -> Coroutine[Any, Any, Answer]:
    """Ask people for a decision and return the answer: the text of the choice, and who made it,
    when and why.

    Raises GateExpired if there was no decision in time, GateRejected if people reject a gate that
    has no option for it, and GateWithdrawn."""
    program = _here("gate")
    call = gates.gate_call(
        program,
        prompt,
        options=options,
        assignees=assignees,
        roles=roles,
        quorum=quorum,
        exclude=exclude,
        timeout=timeout,
        on_timeout=on_timeout,
        remind=remind,
        escalate=escalate,
        form=form,
        data=data,
    )
    return _fulfil(program, call)


def wait_for(
    condition: str | Wait | Condition,
    *,
    timeout: Duration | None = None,
    on_timeout: str = "fail",
    type: Any = Any,
) -> Coroutine[Any, Any, Waited]:
    """Wait until a condition is met, and return the signals that met it.

    When time is up, *on_timeout* decides: "fail" raises WaitTimeout, "cancel" and "expire" end the
    run with that status, "continue" returns, "escalate" waits on until a person acts."""
    program = _here("wait_for", "waits.wait_for")
    return _fulfil(program, waits.wait_for_call(program, condition, timeout, on_timeout, type))


def create_wait(name: str, *, expires: Duration | None = None) -> Coroutine[Any, Any, Wait]:
    """Open a wait to which other programs may deliver signals from now on: give them its id and its
    token, then ``wait_for`` it."""
    program = _here("create_wait", "waits.create_wait")
    return _fulfil(program, waits.create_wait_call(program, name, expires))


def extend(graph: Graph) -> Coroutine[Any, Any, dict[str, str]]:
    """Add members to the graph that this run belongs to, once; return the ids of the new runs by
    member name. A graph that cannot be added fails the run."""
    program = _here("extend", "graphs.extend")
    return _fulfil(program, graphs.extend_call(program, graph))


# Typed like asyncio.gather: the results of a few calls keep their own types.
@overload
async def gather(
    call1: Awaitable[T1],
    call2: Awaitable[T2],
    /,
    *,
    return_exceptions: Literal[False] = ...,
) -> tuple[T1, T2]: ...
@overload
async def gather(
    call1: Awaitable[T1],
    call2: Awaitable[T2],
    call3: Awaitable[T3],
    /,
    *,
    return_exceptions: Literal[False] = ...,
) -> tuple[T1, T2, T3]: ...
@overload
async def gather(
    call1: Awaitable[T1],
    call2: Awaitable[T2],
    call3: Awaitable[T3],
    call4: Awaitable[T4],
    /,
    *,
    return_exceptions: Literal[False] = ...,
) -> tuple[T1, T2, T3, T4]: ...
@overload
async def gather(
    call1: Awaitable[T1],
    call2: Awaitable[T2],
    call3: Awaitable[T3],
    call4: Awaitable[T4],
    call5: Awaitable[T5],
    /,
    *,
    return_exceptions: Literal[False] = ...,
) -> tuple[T1, T2, T3, T4, T5]: ...
@overload
async def gather(
    call1: Awaitable[T1],
    call2: Awaitable[T2],
    call3: Awaitable[T3],
    call4: Awaitable[T4],
    call5: Awaitable[T5],
    call6: Awaitable[T6],
    /,
    *,
    return_exceptions: Literal[False] = ...,
) -> tuple[T1, T2, T3, T4, T5, T6]: ...
@overload
async def gather(
    *calls: Awaitable[T],
    return_exceptions: Literal[False] = ...,
) -> list[T]: ...
@overload
async def gather(
    *calls: Awaitable[T],
    return_exceptions: Literal[True],
) -> list[T | BaseException]: ...
async def gather(*calls: Awaitable[Any], return_exceptions: bool = False) -> Any:
    """Run calls concurrently and return the list of their results, in order."""
    _check_awaitable(calls)
    return list(await asyncio.gather(*calls, return_exceptions=return_exceptions))


async def first(*calls: Awaitable[T]) -> T:
    """Return the result of the call that ends first, and cancel the others."""
    if not calls:
        raise BadOption(option="first", why="give at least one call to wait for")
    _check_awaitable(calls)
    tasks = [asyncio.ensure_future(call) for call in calls]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        return next(task for task in tasks if task in done).result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _check_awaitable(calls: Sequence[object]) -> None:
    """Raise BadOption if a call cannot be awaited, and close the coroutines among the others."""
    not_awaitable = [call for call in calls if not inspect.isawaitable(call)]
    if not not_awaitable:
        return
    for call in calls:
        if inspect.iscoroutine(call):
            call.close()
    raise BadOption(
        option="calls",
        value=not_awaitable[0],
        why="give awaitable calls, such as pack(item), where pack is async",
    )


def timeout(length: Duration) -> asyncio.Timeout:
    """Limit, durably, how long a block of a workflow takes: ``async with timeout("5m"): ...``.
    Raises TimeoutError."""
    return asyncio.timeout(duration.parse(length) / 1_000_000)


class AsyncChildHandle(Generic[T]):
    """A child run that this workflow has started."""

    def __init__(self, workflow: Workflow[..., Any], start: str, run_id: str) -> None:
        self.id = run_id
        self._workflow = workflow
        self._start = start

    async def result(self) -> T:
        """Wait for the child to end and return its result. Raises ChildFailed."""
        program = _here("result")
        value: T = await _fulfil(
            program, children.await_child_call(program, self._workflow, self._start, self.id)
        )
        return value

    async def signal(self, name: str, payload: Any = None) -> None:
        """Send the child a signal."""
        program = _here("signal")
        await _fulfil(program, signals.send_signal_call(program, self.id, name, payload))

    async def cancel(self, reason: str = "its parent asked for it") -> None:
        """Request the cancellation of the child."""
        program = _here("cancel")
        await _fulfil(program, signals.cancel_run_call(program, self.id, reason))


@overload
def start(
    workflow: Workflow[..., Coroutine[Any, Any, T]], *args: Any, **options: Any
) -> Coroutine[Any, Any, AsyncChildHandle[T]]: ...
@overload
def start(
    workflow: Workflow[..., T], *args: Any, **options: Any
) -> Coroutine[Any, Any, AsyncChildHandle[T]]: ...
def start(
    workflow: Workflow[..., Any], *args: Any, **options: Any
) -> Coroutine[Any, Any, AsyncChildHandle[Any]]:
    """Start a child run and continue without waiting for it.

    Options: id, lane, priority, delay, deadline, tags, capabilities, budget, share, and
    on_parent_end="cancel" or "leave"."""
    if not isinstance(workflow, Workflow):
        raise BadOption(option="workflow", value=workflow, why="give a function with @workflow")
    program = _here("start")
    kwargs, start_options = children.split_options(workflow, options)
    workflow = workflow.workflow
    call = children.start_child_call(program, workflow, args, kwargs, start_options)
    return _start(program, workflow, call)


async def _start(
    program: AsyncProgram, workflow: Workflow[..., Any], call: Call
) -> AsyncChildHandle[Any]:
    return AsyncChildHandle(workflow, call.command.id, await _fulfil(program, call))  # type: ignore[union-attr]


@overload
async def map(
    call: Callable[[A], Coroutine[Any, Any, T]],
    items: Iterable[A],
    *,
    max_parallel: int | None = None,
    on_error: str = "fail_fast",
    min_success: int | None = None,
    **options: Any,
) -> list[T]: ...
@overload
async def map(
    call: Callable[[A], T],
    items: Iterable[A],
    *,
    max_parallel: int | None = None,
    on_error: str = "fail_fast",
    min_success: int | None = None,
    **options: Any,
) -> list[T]: ...
async def map(
    call: Any,
    items: Iterable[Any],
    *,
    max_parallel: int | None = None,
    on_error: str = "fail_fast",
    min_success: int | None = None,
    **options: Any,
) -> list[Any]:
    """Call a step, or start a child run, once per item, and return the results in order.

    With ``on_error="collect"`` or ``min_success`` the list has the error of each item that failed
    in place of its result."""
    program = _here("map")
    item_list = deterministic.list_items(items)
    if isinstance(call, Workflow):
        map_call = children.map_call(
            program,
            call.workflow,
            item_list,
            max_parallel=max_parallel,
            on_error=on_error,
            min_success=min_success,
            options={**(call.start_options or {}), **options},
        )
        return list(await _fulfil(program, map_call))
    children.check_call(call, options)
    children.check_map(max_parallel, on_error, min_success, len(item_list))
    return await _map_steps(call, item_list, max_parallel, on_error, min_success)


async def _map_steps(
    call: Callable[[Any], Awaitable[Any]],
    items: list[Any],
    max_parallel: int | None,
    on_error: str,
    min_success: int | None,
) -> list[Any]:
    slots = asyncio.Semaphore(max_parallel or max(len(items), 1))
    tolerant = on_error == "collect" or min_success is not None

    async def one(made: Awaitable[Any]) -> Any:
        async with slots:
            return await made

    calls = [call(item) for item in items]
    _check_awaitable(calls)
    tasks = [asyncio.ensure_future(one(made)) for made in calls]
    try:
        results = await asyncio.gather(*tasks, return_exceptions=tolerant)
    finally:
        for task in tasks:
            task.cancel()
        for made in calls:
            if (
                inspect.iscoroutine(made)
                and inspect.getcoroutinestate(made) == inspect.CORO_CREATED
            ):
                made.close()  # never started: a close avoids the warning that it was not awaited
    return children.map_results(list(results), on_error, min_success)
