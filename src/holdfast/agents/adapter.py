"""What the adapters have in common: calls of an agent as steps, approval by gates, tokens to
budgets, words as frames.

A step of an agent is called by the agent, the kind of call and how many of that kind came before.
It does not matter in which tasks a framework makes its calls, so that another version of it finds
its steps again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

from holdfast.authoring.python import api_async
from holdfast.authoring.python.budgets import spent
from holdfast.authoring.python.step import current_step, failed, run_step
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
from holdfast.errors import BadOption, GateWithdrawn, NotInWorkflow

_agent: ContextVar[tuple[ReplayProgram, Branch] | None] = ContextVar("holdfast_agent", default=None)


class CallSettings(NamedTuple):
    """How a call is made: those of the options of a step that make sense for it."""

    policy: RetryPolicy = RetryPolicy()
    timeout: int | None = None
    transactional: bool = False
    capture: bool | None = None


def settings_from(option: str, given: Mapping[str, Any] | None) -> CallSettings:
    """Return the settings that a user wrote: ``{"retries": 3, "delay": "1s", "timeout": "2m"}``.
    Raises BadOption."""
    if given is None:
        return CallSettings()
    known = ("retries", "delay", "factor", "cap", "jitter", "when", "timeout", "capture")
    unknown = set(given) - set(known) if isinstance(given, Mapping) else {option}
    if unknown:
        raise BadOption(option=f"{option} {sorted(unknown)[0]}", known=", ".join(known))
    policy = {name: given[name] for name in known[:-2] if name in given}
    limit: Duration | None = given.get("timeout")
    return CallSettings(
        policy_from(**policy),
        None if limit is None else duration.parse(limit),
        False,
        given.get("capture"),
    )


def program_here() -> AsyncProgram | None:
    """Return the workflow of which a call made here would be a step, if any. Raises NotInWorkflow
    in a ``def`` workflow."""
    program = current_program.get()
    if program is None or current_step.get() is not None:
        return None
    if not isinstance(program, AsyncProgram):
        raise NotInWorkflow(
            call="agent", why="an agent is run by an async def workflow, or whole within a step"
        )
    return program


@contextmanager
def agent_run(name: str, *, within: bool = False) -> Iterator[None]:
    """Whatever is called inside belongs to one run of an agent; its steps are called after it, and,
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
    found = _agent.get()
    if found is not None and found[0] is program:
        return found[1]
    return current_branch.get(program.root)


@contextmanager
def named_after_agent() -> Iterator[None]:
    """Whatever workflow code does inside is called after the agent, in whichever task of a
    framework it is done."""
    program = program_here()
    assert program is not None
    token = current_branch.set(_branch(program))
    try:
        yield
    finally:
        current_branch.reset(token)


async def recorded(name: str, body: Callable[[], Awaitable[Any]], settings: CallSettings) -> Any:
    """Make a call as a step of the run and return its result as plain data; outside a run just make
    it. Raises StepFailed."""
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
"""Options of the gates that are asked for approval: assignees, roles, quorum, exclude, timeout,
on_timeout, remind, escalate."""
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
APPROVE, REJECT = "approve", "reject"


def approval_from(given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the options of gates that a user wrote. Raises BadOption."""
    unknown = set(given or {}) - _APPROVAL
    if unknown:
        raise BadOption(option=f"approval {sorted(unknown)[0]}", known=", ".join(sorted(_APPROVAL)))
    return {"on_timeout": REJECT, **(given or {})}


class ToolDecision(NamedTuple):
    """What people said about a call of a tool."""

    approved: bool
    words: str


def approval(
    agent: str, tool: str, arguments: Any, options: Mapping[str, Any]
) -> Coroutine[Any, Any, ToolDecision]:
    """Ask people whether a tool may be called like that. Without an answer in time it may not."""
    program = program_here()
    if program is None:
        raise NotInWorkflow(
            call="approval",
            why="a tool that needs approval is called by an agent that runs in a workflow",
        )
    choices = [{"value": APPROVE, "means": "approve"}, {"value": REJECT, "means": "reject"}]
    prompt = f"May {agent} call {tool}?"
    asking = ask(
        prompt,
        options=choices,
        data={"agent": agent, "tool": tool, "arguments": arguments},
        **options,
    )
    return _verdict(asking)


def ask(prompt: str, **options: Any) -> Coroutine[Any, Any, Answer]:
    """Open a gate that is called after the agent."""
    with named_after_agent():
        return api_async.gate(prompt, **options)


async def _verdict(asking: Awaitable[Answer]) -> ToolDecision:
    try:
        answer = await asking
    except GateWithdrawn as withdrawn:
        return ToolDecision(
            False,
            f"The question was withdrawn: {withdrawn.facts.get('reason') or 'no reason given'}.",
        )
    if answer.approved:
        return ToolDecision(True, answer.feedback or "")
    if answer.expired:
        return ToolDecision(False, "Nobody decided in time: the tool was not called.")
    return ToolDecision(False, answer.feedback or "A person has rejected this call of the tool.")


# Money and words


def report(amounts: Mapping[str, Amount]) -> None:
    """Tell the budgets of the run what a call has used, in those dimensions that they count."""
    purse = current_spending.get()
    if purse is None or current_step.get() is None:
        return
    counted = purse.counted()
    found = {name: amount for name, amount in amounts.items() if name in counted and amount}
    if found:
        spent(key=None, **found)


def used(requests: int, given: int, taken: int) -> dict[str, Amount]:
    """Return what a call of a model has used, by dimension."""
    return {
        "requests": requests,
        "input_tokens": given,
        "output_tokens": taken,
        "tokens": given + taken,
    }


def show(kind: str, value: Any) -> None:
    """Append a piece of what a model says to the output of the run: ``text``, ``thinking`` or
    ``tool_call``."""
    if value:
        emit(value, name=kind)


# Libraries


def missing(library: str, extra: str) -> BadOption:
    """Return the error that says what to install."""
    return BadOption(
        option=f"holdfast.agents for {library}",
        why=f"it is not installed: pip install 'holdfast[{extra}]'",
    )
