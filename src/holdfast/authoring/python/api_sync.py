"""The functions that ``def`` workflows call to wait, branch and start children.

They have the names of those in ``api_async``, and block instead of being awaited.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Iterable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Generic, TypeVar, overload

from holdfast.authoring.python import children, deterministic, gates, graphs, signals, waits
from holdfast.authoring.python.gates import Names, Options
from holdfast.authoring.python.waits import Wait, Waited
from holdfast.authoring.python.workflow import Workflow
from holdfast.authoring.replay.call import resolve
from holdfast.authoring.replay.replay import current_program
from holdfast.authoring.replay.sync_program import SyncProgram
from holdfast.core import duration
from holdfast.core.commands import SetTimer
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


def _here(call: str, path: str | None = None) -> SyncProgram:
    """Return the program whose workflow code makes this call. Raises NotInWorkflow.

    *path* is the name of the function below ``holdfast``, if it is not there itself.
    """
    program = deterministic.program_here(call)
    if not isinstance(program, SyncProgram):
        raise NotInWorkflow(
            call=call, why=f"an async workflow uses holdfast.{path or call}, and awaits it"
        )
    return program


def sleep(length: Duration) -> None:
    """Wait durably, for milliseconds or months; the process may end meanwhile.

    Outside workflow code it is an ordinary sleep.
    """
    if current_program.get() is None or current_step.get() is not None:
        time.sleep(duration.parse(length) / 1_000_000)
        return
    program = _here("sleep")
    resolve(program, signals.sleep_call(program, length))


def wait_signal(name: str, *, timeout: Duration | None = None, type: Any = Any) -> Any:
    """Wait for a signal of that name and return its payload, decoded as *type*.

    The signal may have arrived before. Raises TimeoutError.
    """
    program = _here("wait_signal")
    return resolve(program, signals.wait_signal_call(program, name, timeout, type))


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
) -> Answer:
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
    answer: Answer = resolve(program, call)
    return answer


def wait_for(
    condition: str | Wait | Condition,
    *,
    timeout: Duration | None = None,
    on_timeout: str = "fail",
    type: Any = Any,
) -> Waited:
    """Wait until a condition is met, and return the signals that met it.

    When time is up, *on_timeout* decides: "fail" raises WaitTimeout, "cancel" and "expire" end the
    run with that status, "continue" returns, "escalate" waits on until a person acts."""
    program = _here("wait_for", "waits.wait_for")
    waited: Waited = resolve(
        program, waits.wait_for_call(program, condition, timeout, on_timeout, type)
    )
    return waited


def create_wait(name: str, *, expires: Duration | None = None) -> Wait:
    """Open a wait to which other programs may deliver signals from now on: give them its id and its
    token, then ``wait_for`` it."""
    program = _here("create_wait", "waits.create_wait")
    wait: Wait = resolve(program, waits.create_wait_call(program, name, expires))
    return wait


def extend(graph: Graph) -> dict[str, str]:
    """Add members to the graph that this run belongs to, once; return the ids of the new runs by
    member name. A graph that cannot be added fails the run."""
    program = _here("extend", "graphs.extend")
    run_ids: dict[str, str] = resolve(program, graphs.extend_call(program, graph))
    return run_ids


# Typed like asyncio.gather: the results of a few calls keep their own types.
@overload
def gather(
    call1: Callable[[], T1],
    call2: Callable[[], T2],
    /,
) -> tuple[T1, T2]: ...
@overload
def gather(
    call1: Callable[[], T1],
    call2: Callable[[], T2],
    call3: Callable[[], T3],
    /,
) -> tuple[T1, T2, T3]: ...
@overload
def gather(
    call1: Callable[[], T1],
    call2: Callable[[], T2],
    call3: Callable[[], T3],
    call4: Callable[[], T4],
    /,
) -> tuple[T1, T2, T3, T4]: ...
@overload
def gather(
    call1: Callable[[], T1],
    call2: Callable[[], T2],
    call3: Callable[[], T3],
    call4: Callable[[], T4],
    call5: Callable[[], T5],
    /,
) -> tuple[T1, T2, T3, T4, T5]: ...
@overload
def gather(
    call1: Callable[[], T1],
    call2: Callable[[], T2],
    call3: Callable[[], T3],
    call4: Callable[[], T4],
    call5: Callable[[], T5],
    call6: Callable[[], T6],
    /,
) -> tuple[T1, T2, T3, T4, T5, T6]: ...
@overload
def gather(
    *calls: Callable[[], T],
) -> list[T]: ...
def gather(*calls: Callable[[], Any]) -> Any:
    """Run calls concurrently and return the list of their results, in order: ``gather(lambda:
    pack(1), partial(pack, 2))``."""
    program = _here("gather")
    results = _run_parallel(program, calls, None)
    return [value for _, value in sorted(results, key=lambda result: result[0])]


def first(*calls: Callable[[], T]) -> T:
    """Return the result of the call that ends first, and cancel the others."""
    program = _here("first")
    if not calls:
        raise BadOption(option="first", why="give at least one call to wait for")
    value: T = _run_parallel(program, calls, 1)[0][1]
    return value


def _run_parallel(
    program: SyncProgram, calls: Iterable[Callable[[], Any]], enough: int | None
) -> list[tuple[int, Any]]:
    """Run calls until *enough* have ended (all, if None); return the index and value of each, in
    the order of their ends. Raise the error of a call that failed."""
    ends = program.run_parallel([(_branch_name(call), call) for call in calls], enough=enough)
    for _, _, error in ends:
        if error is not None:
            raise error
    return [(index, value) for index, value, _ in ends]


def _branch_name(call: Any) -> str:
    """Return the name of the branch for a call: the name of its function. Raises BadOption."""
    if not callable(call):
        raise BadOption(
            option="calls", value=call, why="give functions to call, such as lambda: pack(item)"
        )
    inner = call.func if isinstance(call, partial) else call
    return str(getattr(inner, "name", getattr(inner, "__name__", "branch"))).strip("<>")


def timeout(length: Duration) -> AbstractContextManager[None]:
    """Limit, durably, how long a block of a workflow waits: ``with timeout("5m"): ...``. Raises
    TimeoutError."""
    program = _here("timeout")
    return program.limited(SetTimer(program.identify("timer"), duration.parse(length)))


class ChildHandle(Generic[T]):
    """A child run that this workflow has started."""

    def __init__(self, workflow: Workflow[..., Any], start: str, run_id: str) -> None:
        self.id = run_id
        self._workflow = workflow
        self._start = start

    def result(self) -> T:
        """Wait for the child to end and return its result. Raises ChildFailed."""
        program = _here("result")
        value: T = resolve(
            program, children.await_child_call(program, self._workflow, self._start, self.id)
        )
        return value

    def signal(self, name: str, payload: Any = None) -> None:
        """Send the child a signal."""
        program = _here("signal")
        resolve(program, signals.send_signal_call(program, self.id, name, payload))

    def cancel(self, reason: str = "its parent asked for it") -> None:
        """Request the cancellation of the child."""
        program = _here("cancel")
        resolve(program, signals.cancel_run_call(program, self.id, reason))


@overload
def start(
    workflow: Workflow[..., Coroutine[Any, Any, T]], *args: Any, **options: Any
) -> ChildHandle[T]: ...
@overload
def start(workflow: Workflow[..., T], *args: Any, **options: Any) -> ChildHandle[T]: ...
def start(workflow: Workflow[..., Any], *args: Any, **options: Any) -> ChildHandle[Any]:
    """Start a child run and continue without waiting for it. The options are the same as for
    ``holdfast.start``."""
    if not isinstance(workflow, Workflow):
        raise BadOption(option="workflow", value=workflow, why="give a function with @workflow")
    program = _here("start")
    kwargs, start_options = children.split_options(workflow, options)
    workflow = workflow.workflow
    call = children.start_child_call(program, workflow, args, kwargs, start_options)
    return ChildHandle(workflow, call.command.id, resolve(program, call))  # type: ignore[union-attr]


@overload
def map(
    call: Callable[[A], Coroutine[Any, Any, T]],
    items: Iterable[A],
    *,
    max_parallel: int | None = None,
    on_error: str = "fail_fast",
    min_success: int | None = None,
    **options: Any,
) -> list[T]: ...
@overload
def map(
    call: Callable[[A], T],
    items: Iterable[A],
    *,
    max_parallel: int | None = None,
    on_error: str = "fail_fast",
    min_success: int | None = None,
    **options: Any,
) -> list[T]: ...
def map(
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
        return list(resolve(program, map_call))
    children.check_call(call, options)
    children.check_map(max_parallel, on_error, min_success, len(item_list))
    return _map_steps(
        program,
        call,
        item_list,
        max_parallel=max_parallel or 32,
        on_error=on_error,
        min_success=min_success,
    )


def _map_steps(
    program: SyncProgram,
    call: Any,
    items: list[Any],
    *,
    max_parallel: int,
    on_error: str,
    min_success: int | None,
) -> list[Any]:
    """Distribute the items over at most *max_parallel* threads and return the results in order.

    The distribution is round-robin, so it is the same in every replay.
    """
    tolerant = on_error == "collect" or min_success is not None
    results: list[Any] = [None] * len(items)

    def work(start: int) -> None:
        for index in range(start, len(items), max_parallel):
            try:
                results[index] = call(items[index])
            except Exception as error:
                if not tolerant:
                    raise
                results[index] = error

    branches: list[tuple[str, Callable[[], Any]]] = [
        (getattr(call, "name", "map"), partial(work, start))
        for start in range(min(max_parallel, len(items)))
    ]
    for _, _, error in program.run_parallel(branches, enough=None):
        if error is not None:
            raise error
    return children.map_results(results, on_error, min_success)
