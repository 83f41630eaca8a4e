"""The verbs for plain ``def`` workflows: the same names, without await."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Iterable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Generic, TypeVar, overload

from holdfast.authoring.python import children, deterministic, gates, graphs, signals, waits
from holdfast.authoring.python.gates import Names, Options
from holdfast.authoring.python.step import current_step
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
from holdfast.errors import BadOption, NotInWorkflow

A = TypeVar("A")
T = TypeVar("T")


def _here(call: str) -> SyncProgram:
    program = deterministic.program_here(call)
    if not isinstance(program, SyncProgram):
        raise NotInWorkflow(call=call, why=f"an async workflow uses holdfast.{call}, and awaits it")
    return program


def sleep(length: Duration) -> None:
    """Wait for a while: milliseconds or months. The process may end meanwhile."""
    if current_program.get() is None or current_step.get() is not None:
        time.sleep(duration.parse(length) / 1_000_000)
        return
    program = _here("sleep")
    resolve(program, signals.sleeping(program, length))


def wait_signal(name: str, *, timeout: Duration | None = None, type: Any = Any) -> Any:
    """Wait for a signal of that name and return its payload; it may have come before. Raises
    TimeoutError."""
    program = _here("wait_signal")
    return resolve(program, signals.awaiting_signal(program, name, timeout, type))


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

    Raises GateExpired when nobody decided in time, GateRejected when people reject what has no
    option to, GateWithdrawn."""
    program = _here("gate")
    wish = gates.asking(
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
    answer: Answer = resolve(program, wish)
    return answer


def wait_for(
    condition: str | Wait | Condition,
    *,
    timeout: Duration | None = None,
    on_timeout: str = "fail",
    type: Any = Any,
) -> Waited:
    """Wait until a condition is met, and say by which signals. When time is up: "fail" raises
    WaitTimeout, "cancel" and "expire" end the run like that, "continue" goes on, "escalate" waits
    on until a person acts."""
    program = _here("wait_for")
    found: Waited = resolve(program, waits.awaiting(program, condition, timeout, on_timeout, type))
    return found


def create_wait(name: str, *, expires: Duration | None = None) -> Wait:
    """Open a wait to which others may deliver signals from now on: give them its id and its token,
    then ``wait_for`` it."""
    program = _here("create_wait")
    found: Wait = resolve(program, waits.creating(program, name, expires))
    return found


def grow(graph: Graph) -> dict[str, str]:
    """Add to the graph that this run is a member of, once; return the ids of the new runs by their
    names."""
    program = _here("grow")
    found: dict[str, str] = resolve(program, graphs.growing(program, graph))
    return found


def gather(*calls: Callable[[], Any]) -> list[Any]:
    """Run calls side by side and return their results in order: ``gather(lambda: pack(1),
    partial(pack, 2))``."""
    program = _here("gather")
    return [value for _, value in sorted(_together(program, calls, None), key=lambda end: end[0])]


def first(*calls: Callable[[], T]) -> T:
    """Return the result of the call that ends first, and stop the others."""
    program = _here("first")
    if not calls:
        raise BadOption(option="first", why="there must be something to wait for")
    value: T = _together(program, calls, 1)[0][1]
    return value


def _together(
    program: SyncProgram, calls: Iterable[Callable[[], Any]], enough: int | None
) -> list[tuple[int, Any]]:
    ended = program.together([(_name(call), call) for call in calls], enough=enough)
    for _, _, error in ended:
        if error is not None:
            raise error
    return [(place, value) for place, value, _ in ended]


def _name(call: Any) -> str:
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
        self._workflow, self._start = workflow, start

    def result(self) -> T:
        """Wait for the child to end and return its result. Raises ChildFailed."""
        program = _here("result")
        found: T = resolve(
            program, children.awaiting_child(program, self._workflow, self._start, self.id)
        )
        return found

    def signal(self, name: str, payload: Any = None) -> None:
        """Send the child a signal."""
        program = _here("signal")
        resolve(program, signals.sending(program, self.id, name, payload))

    def cancel(self, reason: str = "its parent asked for it") -> None:
        """Ask the child to stop."""
        program = _here("cancel")
        resolve(program, signals.cancelling(program, self.id, reason))


@overload
def start(
    workflow: Workflow[..., Coroutine[Any, Any, T]], *args: Any, **options: Any
) -> ChildHandle[T]: ...
@overload
def start(workflow: Workflow[..., T], *args: Any, **options: Any) -> ChildHandle[T]: ...
def start(workflow: Workflow[..., Any], *args: Any, **options: Any) -> ChildHandle[Any]:
    """Start a child run and go on. The options are those of ``holdfast.start``."""
    if not isinstance(workflow, Workflow):
        raise BadOption(
            option="workflow", value=workflow, why="a function with @workflow is needed"
        )
    program = _here("start")
    wish = children.starting(program, workflow, args, {}, options)
    return ChildHandle(workflow, wish.command.id, resolve(program, wish))  # type: ignore[union-attr]


def map(
    call: Any,
    items: Iterable[Any],
    *,
    max_parallel: int | None = None,
    on_error: str = "fail_fast",
    min_success: int | None = None,
    **options: Any,
) -> list[Any]:
    """Call a step, or start a child run, once per item, and return the results in order."""
    program = _here("map")
    found = deterministic.listed(items)
    if isinstance(call, Workflow):
        policy = {"max_parallel": max_parallel, "on_error": on_error, "min_success": min_success}
        return list(
            resolve(program, children.mapping(program, call, found, options=options, **policy))  # type: ignore[arg-type]
        )
    children.check_call(call, options)
    children.check_map(max_parallel, on_error, min_success, len(found))
    return _map_steps(program, call, found, max_parallel or 32, on_error, min_success)


def _map_steps(
    program: SyncProgram, call: Any, items: list[Any], limit: int, on_error: str, least: int | None
) -> list[Any]:
    """Deal the items out to as many threads as may run at once, in turn, so that every replay deals
    the same."""
    tolerant = on_error == "collect" or least is not None
    results: list[Any] = [None] * len(items)

    def hand(start: int) -> None:
        for place in range(start, len(items), limit):
            try:
                results[place] = call(items[place])
            except Exception as error:
                if not tolerant:
                    raise
                results[place] = error

    hands: list[tuple[str, Callable[[], Any]]] = [
        (getattr(call, "name", "map"), partial(hand, start))
        for start in range(min(limit, len(items)))
    ]
    for _, _, error in program.together(hands, enough=None):
        if error is not None:
            raise error
    return children.settle_map(results, on_error, least)
