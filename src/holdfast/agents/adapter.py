"""The common part of the adapters: calls of an agent as steps, approval by gates, usage reported to
budgets, and streamed text as frames.

A step of an agent is named after the agent, the kind of call and the number of earlier calls of
that kind. The name does not depend on the asyncio task in which a framework makes the call, so that
a replay with another version of the framework finds the same steps.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from holdfast.authoring.python import api_async
from holdfast.authoring.python.budgets import record
from holdfast.authoring.python.step import failed, run_step
from holdfast.authoring.python.streams import emit
from holdfast.authoring.replay.async_program import AsyncProgram
from holdfast.authoring.replay.identity import Branch, current_branch
from holdfast.authoring.replay.replay import ReplayProgram, current_program
from holdfast.core import duration
from holdfast.core.budgets.ledger import current_spending
from holdfast.core.budgets.rules import Amount
from holdfast.core.duration import Duration
from holdfast.core.events import EventKind
from holdfast.core.gates.answer import Answer
from holdfast.core.retry import RetryPolicy, policy_from
from holdfast.core.step_info import current_step
from holdfast.errors import BadOption, GateWithdrawn, NotInWorkflow

_agent: ContextVar[tuple[ReplayProgram, Branch] | None] = ContextVar("holdfast_agent", default=None)


class CallSettings(NamedTuple):
    """The settings of a call: the options of a step that apply to calls of an agent."""

    policy: RetryPolicy = RetryPolicy()
    timeout: int | None = None
    transactional: bool = False
    capture: bool | None = None


def settings_from(option: str, values: Mapping[str, Any] | None) -> CallSettings:
    """Return the settings for options as users write them, such as ``{"retries": 3, "delay": "1s",
    "timeout": "2m"}``. Raises BadOption."""
    if values is None:
        return CallSettings()
    known = ("retries", "delay", "factor", "cap", "jitter", "when", "timeout", "capture")
    unknown = set(values) - set(known) if isinstance(values, Mapping) else {option}
    if unknown:
        raise BadOption(option=f"{option} {sorted(unknown)[0]}", known=", ".join(known))
    policy = {name: values[name] for name in known[:-2] if name in values}
    limit: Duration | None = values.get("timeout")
    timeout = duration.parse_optional(limit)
    return CallSettings(policy_from(**policy), timeout, False, values.get("capture"))


def program_here() -> AsyncProgram | None:
    """Return the program of the workflow in which this code runs; None outside a workflow and
    inside a step. Raises NotInWorkflow in a ``def`` workflow."""
    program = current_program.get()
    if program is None or current_step.get() is not None:
        return None
    if not isinstance(program, AsyncProgram):
        raise NotInWorkflow(
            call="agent", why="run the agent in an async def workflow, or entirely within a step"
        )
    return program


@contextmanager
def agent_run(name: str, *, within: bool = False) -> Iterator[None]:
    """Name the steps that are made inside the block after one run of an agent and, if it is
    *within* the run of another agent, after that one, too."""
    program = program_here()
    if program is None:
        yield
        return
    program.loop.enable_library_cleanup()
    outer = _branch(program) if within else program.root
    token = _agent.set((program, Branch(f"{outer.identify(name)}/")))
    try:
        yield
    finally:
        _agent.reset(token)


def _branch(program: ReplayProgram) -> Branch:
    """Return the branch of the current run of an agent, or of the workflow code if there is
    none."""
    agent = _agent.get()
    if agent is not None and agent[0] is program:
        return agent[1]
    return current_branch.get(program.root)


@contextmanager
def named_after_agent() -> Iterator[None]:
    """Name the commands of workflow code inside the block after the agent, regardless of the
    asyncio task in which a framework runs it."""
    program = program_here()
    assert program is not None
    token = current_branch.set(_branch(program))
    try:
        yield
    finally:
        current_branch.reset(token)


async def recorded(name: str, body: Callable[[], Awaitable[Any]], settings: CallSettings) -> Any:
    """Make a call as a step of the run and return its result as plain data; outside a workflow,
    make the call directly. Raises StepFailed."""
    program = program_here()
    if program is None:
        return await body()
    identity = _branch(program).identify(name)
    event = await program.call(run_step(_call, identity, name, (body,), {}, settings))
    if event.kind == EventKind.STEP_FAILED:
        raise failed(event)
    return program.read(event, program.codec.decode)


async def _call(body: Callable[[], Awaitable[Any]]) -> Any:
    return await body()


# Approval

Approval = Mapping[str, Any]
"""The options of gates for approval: assignees, roles, quorum, exclude, timeout, on_timeout,
remind, escalate."""
_APPROVAL = {
    "assignees",
    "roles",
    "quorum",
    "exclude",
    "timeout",
    "on_timeout",
    "remind",
    "escalate",
}
APPROVE = "approve"
REJECT = "reject"


def approval_from(options: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the options of gates for approval, checked; a timeout rejects unless *options* says
    otherwise. Raises BadOption."""
    unknown = set(options or {}) - _APPROVAL
    if unknown:
        raise BadOption(option=f"approval {sorted(unknown)[0]}", known=", ".join(sorted(_APPROVAL)))
    return {"on_timeout": REJECT, **(options or {})}


class ToolDecision(NamedTuple):
    """The decision of people about a call of a tool. ``words`` is the text for the model."""

    approved: bool
    words: str


def approval(
    agent: str, tool: str, arguments: Any, options: Mapping[str, Any]
) -> Coroutine[Any, Any, ToolDecision]:
    """Open a gate that asks people whether a tool may be called with these arguments.

    Raises NotInWorkflow outside a workflow."""
    program = program_here()
    if program is None:
        raise NotInWorkflow(
            call="approval",
            why="a tool that needs approval can be called only by an agent in a workflow",
        )
    choices = [{"value": APPROVE, "means": "approve"}, {"value": REJECT, "means": "reject"}]
    prompt = f"May {agent} call {tool}?"
    answer = ask(
        prompt,
        options=choices,
        data={"agent": agent, "tool": tool, "arguments": arguments},
        **options,
    )
    return _decision(answer)


def ask(prompt: str, **options: Any) -> Coroutine[Any, Any, Answer]:
    """Open a gate that is named after the agent, and return its answer."""
    with named_after_agent():
        return api_async.gate(prompt, **options)


async def _decision(pending_answer: Awaitable[Answer]) -> ToolDecision:
    try:
        answer = await pending_answer
    except GateWithdrawn as withdrawn:
        reason = withdrawn.facts.get("reason") or "no reason given"
        return ToolDecision(False, f"The question was withdrawn: {reason}.")
    if answer.approved:
        return ToolDecision(True, answer.feedback or "")
    if answer.expired:
        return ToolDecision(False, "Nobody decided in time: the tool was not called.")
    return ToolDecision(False, answer.feedback or "A person has rejected this call of the tool.")


# Usage and streamed output


def report(amounts: Mapping[str, Amount]) -> None:
    """Record the usage of a call in the budgets of the run, in the dimensions that they count."""
    spending = current_spending.get()
    if spending is None or current_step.get() is None:
        return
    dimensions = spending.counted()
    counted = {name: amount for name, amount in amounts.items() if name in dimensions and amount}
    if counted:
        record(key=None, **counted)


def used(requests: int, input_tokens: int, output_tokens: int) -> dict[str, Amount]:
    """Return the usage of a call of a model, by dimension."""
    return {
        "requests": requests,
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "tokens": input_tokens + output_tokens,
    }


def show(kind: str, value: Any) -> None:
    """Emit a piece of a model's response as a frame of the run's output. *kind* is ``text``,
    ``thinking`` or ``tool_call``; an empty value is not emitted."""
    if value:
        emit(value, name=kind)


# Libraries


def missing(library: str, extra: str) -> BadOption:
    """Return the error for a library that is not installed, with the command that installs it."""
    return BadOption(
        option=f"holdfast.agents for {library}",
        why=f"the library is not installed: pip install 'holdfast[{extra}]'",
    )
