"""Run agents of the OpenAI Agents SDK durably: ``result = await run(agent, "...")`` instead of
``Runner.run``.

In a workflow every call of a model, of a function tool, of a guardrail and of a session is a step:
recorded once, never paid for twice. Outside a workflow ``run`` calls ``Runner.run``. Tools that
need approval ask people through gates; tokens are reported to the budgets of the run.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import fields, replace
from inspect import isawaitable
from typing import Any

from holdfast.agents import adapter
from holdfast.agents.flow_tool import FlowTool
from holdfast.agents.openai_models import (
    USE_STREAM,
    AgentRunSettings,
    DurableProvider,
    DurableSession,
    Spends,
    decoded_arguments,
    durable_model,
    tokens,
)
from holdfast.errors import BadOption, NotInWorkflow, StepFailed

try:
    from agents import (
        Agent,
        FunctionTool,
        GuardrailFunctionOutput,
        Handoff,
        RunConfig,
        Runner,
        RunResult,
        ToolGuardrailFunctionOutput,
    )
    from agents.memory import Session
    from agents.run import AgentRunner, get_default_agent_runner, set_default_agent_runner
    from agents.tool import (
        ToolOutputFileContent,
        ToolOutputImage,
        ToolOutputText,
        maybe_invoke_function_tool_failure_error_function,
        set_function_tool_failure_error_function,
    )
    from pydantic_core import to_jsonable_python
except ImportError as error:
    raise adapter.missing("openai-agents", "openai-agents") from error

_OUTPUTS = {
    kind.__name__: kind for kind in (ToolOutputText, ToolOutputImage, ToolOutputFileContent)
}
_OUTPUT = "$tool_output"


_current_terms: ContextVar[AgentRunSettings | None] = ContextVar(
    "holdfast_openai_agents", default=None
)


async def run(
    agent: Agent[Any],
    input: Any,
    *,
    model: Mapping[str, Any] | None = None,
    tool: Mapping[str, Any] | None = None,
    tools: Mapping[str, Mapping[str, Any]] | None = None,
    stream: bool = False,
    approval: Mapping[str, Any] | None = None,
    spends: Spends = tokens,
    run_config: RunConfig | None = None,
    session: Session | None = None,
    **options: Any,
) -> RunResult:
    """Run an agent, in a workflow as steps of the run.

    Args:
        model: options of the steps that call a model (``retries``, ``delay``, ``timeout`` ...).
        tool: options of the steps that call a tool, a guardrail or a session.
        tools: options of single tools by name.
        stream: whether the text of the model is emitted as frames of the run's output.
        approval: options of the gates for tools that need approval.
        spends: returns the usage of a call of a model, by dimension.
        options: further options of ``Runner.run``.
    """
    settings_by_tool = {
        name: adapter.settings_from(f"tools {name}:", values)
        for name, values in (tools or {}).items()
    }
    terms = AgentRunSettings(
        adapter.settings_from("model", model),
        adapter.settings_from("tool", tool),
        settings_by_tool,
        stream,
        spends,
    )
    gate_options = adapter.approval_from(approval)
    if adapter.program_here() is None:
        return await Runner.run(agent, input, run_config=run_config, session=session, **options)
    options["run_config"] = _config(run_config or RunConfig(tracing_disabled=True), terms)
    if session is not None:
        options["session"] = DurableSession(session, terms)
    _Runner.install()
    token = _current_terms.set(terms)
    try:
        with adapter.agent_run(agent.name):
            return await _run_to_end(_durable(agent, terms), input, gate_options, options)
    finally:
        _current_terms.reset(token)


async def _run_to_end(
    agent: Agent[Any], input: Any, gate_options: Mapping[str, Any], options: Mapping[str, Any]
) -> RunResult:
    """Run a durable agent, and resume it after each decision of people."""
    result = await Runner.run(agent, input, **options)
    while result.interruptions:
        state = result.to_state()
        await _decide(state, result.interruptions, gate_options)
        result = await Runner.run(agent, state, **_resume_options(options))
    return result


def _config(config: RunConfig, terms: AgentRunSettings) -> RunConfig:
    """Return the same configuration, with models and guardrails that are called as steps."""
    if isinstance(config.model_provider, DurableProvider):
        return config
    return replace(
        config,
        model_provider=DurableProvider(config.model_provider, terms),
        model=durable_model(config.model, terms),
        input_guardrails=_guardrails(config.input_guardrails, GuardrailFunctionOutput, terms),
        output_guardrails=_guardrails(config.output_guardrails, GuardrailFunctionOutput, terms),
    )


def _resume_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options for resuming an interrupted run: its state has the others."""
    return {
        name: value
        for name, value in options.items()
        if name in ("run_config", "session", "hooks", "error_handlers", "max_turns")
    }


async def _decide(state: Any, interruptions: list[Any], gate_options: Mapping[str, Any]) -> None:
    """Ask people about all calls that need approval, concurrently, and record their decisions in
    the state."""
    questions = [
        adapter.approval(
            item.agent.name, item.name or "a tool", decoded_arguments(item), gate_options
        )
        for item in interruptions
    ]
    for item, decision in zip(interruptions, await asyncio.gather(*questions), strict=True):
        if decision.approved:
            state.approve(item)
        else:
            state.reject(item, rejection_message=decision.words)


# Agents and tools


def _durable(agent: Agent[Any], terms: AgentRunSettings) -> Agent[Any]:
    """Return a copy of the agent whose models and tools, and those of the agents that it hands over
    to, are called as steps."""
    agent_and_copy = terms.known.get(id(agent))
    if agent_and_copy is not None:
        return agent_and_copy[1]
    if agent.mcp_servers:
        why = "MCP servers cannot be called as steps: offer what they do as function tools"
        raise BadOption(option="agent", value=agent.name, why=why)
    durable: Agent[Any] = copy.copy(agent)
    # before the handoffs: agents may hand over to each other
    terms.known[id(agent)] = (agent, durable)
    terms.known[id(durable)] = (agent, durable)
    durable.model = durable_model(agent.model, terms)
    durable.tools = [_tool(tool, terms) for tool in agent.tools]
    durable.handoffs = [_handoff(handoff, terms) for handoff in agent.handoffs]
    durable.input_guardrails = _guardrails(agent.input_guardrails, GuardrailFunctionOutput, terms)
    durable.output_guardrails = _guardrails(agent.output_guardrails, GuardrailFunctionOutput, terms)
    return durable


def _handoff(handoff: Any, terms: AgentRunSettings) -> Any:
    if not isinstance(handoff, Handoff):
        return _durable(handoff, terms)

    async def invoke(context: Any, arguments: str) -> Any:
        return _durable(await handoff.on_invoke_handoff(context, arguments), terms)

    return replace(handoff, on_invoke_handoff=invoke)


_LOCAL = ("ComputerTool", "LocalShellTool", "ShellTool", "ApplyPatchTool", "CustomTool")
"""The tools of the SDK that act on this machine and are not function tools."""


def _tool(tool: Any, terms: AgentRunSettings) -> Any:
    """Return a copy of a function tool whose calls are steps. A hosted tool is returned unchanged:
    it runs at the provider, as part of the call of the model."""
    if not isinstance(tool, FunctionTool):
        if type(tool).__name__ in _LOCAL:
            raise BadOption(
                option="tool",
                value=type(tool).__name__,
                why="only function tools can be called as steps",
            )
        return tool
    if tool._is_agent_tool:  # private API of the SDK
        return _agent_tool(tool, terms)
    settings = terms.tools.get(tool.name, terms.tool)
    # without its error function: the step must see the errors of the tool, to retry it
    raising_tool = set_function_tool_failure_error_function(copy.copy(tool), None)
    durable_tool = copy.copy(tool)

    async def invoke(context: Any, arguments: str) -> Any:
        async def body() -> Any:
            return _stored(await raising_tool.on_invoke_tool(context, arguments))

        try:
            return _restored(await adapter.recorded(f"tool:{tool.name}", body, settings))
        except StepFailed as failure:
            message = await maybe_invoke_function_tool_failure_error_function(
                function_tool=durable_tool, context=context, error=failure
            )
            if message is None:
                raise
            return message

    return _invoked_by(durable_tool, invoke, terms)


def _agent_tool(tool: FunctionTool, terms: AgentRunSettings) -> FunctionTool:
    """Return a copy of a tool that is an agent: the calls of that agent are steps of the run, and
    its requests for approval are those of the run."""

    async def invoke(context: Any, arguments: str) -> Any:
        with adapter.agent_run(f"tool:{tool.name}", within=True):
            return await tool.on_invoke_tool(context, arguments)

    return _invoked_by(copy.copy(tool), invoke, terms)


def _invoked_by(
    tool: FunctionTool, invoke: Callable[[Any, str], Awaitable[Any]], terms: AgentRunSettings
) -> FunctionTool:
    tool.on_invoke_tool = invoke
    tool.tool_input_guardrails = _guardrails(
        tool.tool_input_guardrails, ToolGuardrailFunctionOutput, terms
    )
    tool.tool_output_guardrails = _guardrails(
        tool.tool_output_guardrails, ToolGuardrailFunctionOutput, terms
    )
    return tool


class _Runner(AgentRunner):
    """Runs the agents that the SDK starts by itself, within other agents: durably if they belong to
    a durable run, else by the runner that was installed before."""

    def __init__(self, inner: AgentRunner) -> None:
        self._inner = inner

    @classmethod
    def install(cls) -> None:
        """Install this runner as the default runner of the SDK."""
        current = get_default_agent_runner()
        if not isinstance(current, cls):
            set_default_agent_runner(cls(current))

    async def run(self, starting_agent: Agent[Any], input: Any, **options: Any) -> RunResult:
        """Run an agent."""
        terms = _current_terms.get()
        if terms is not None and adapter.program_here() is not None:
            starting_agent = _durable(starting_agent, terms)
            options["run_config"] = _config(
                options.get("run_config") or RunConfig(tracing_disabled=True), terms
            )
            session = options.get("session")
            if session is not None and not isinstance(session, DurableSession):
                options["session"] = DurableSession(session, terms)
        return await self._inner.run(starting_agent, input, **options)

    def run_sync(self, starting_agent: Agent[Any], input: Any, **options: Any) -> RunResult:
        """Run an agent."""
        return self._inner.run_sync(starting_agent, input, **options)

    def run_streamed(self, starting_agent: Agent[Any], input: Any, **options: Any) -> Any:
        """Run an agent and stream its events. Raises NotInWorkflow in a durable run."""
        if _current_terms.get() is not None and adapter.program_here() is not None:
            raise NotInWorkflow(call="run_streamed", why=USE_STREAM)
        return self._inner.run_streamed(starting_agent, input, **options)


def _guardrails(guardrails: Any, kind: type[Any], terms: AgentRunSettings) -> Any:
    """Return the same guardrails, evaluated in steps, because many of them call a model. *kind* is
    the type of their result."""
    return guardrails and [_guardrail(guardrail, kind, terms) for guardrail in guardrails]


def _guardrail(guardrail: Any, kind: type[Any], terms: AgentRunSettings) -> Any:
    name = guardrail.get_name()

    async def evaluate(*args: Any) -> Any:
        async def body() -> Any:
            result = guardrail.guardrail_function(*args)
            output = await result if isawaitable(result) else result
            return {
                part.name: to_jsonable_python(getattr(output, part.name), fallback=str)
                for part in fields(kind)
            }

        return kind(**await adapter.recorded(f"guardrail:{name}", body, terms.tool))

    return replace(guardrail, guardrail_function=evaluate, name=name)


def _stored(value: Any) -> Any:
    """Return the output of a tool as plain data."""
    if isinstance(value, list):
        return [_stored(item) for item in value]
    if isinstance(value, ToolOutputText | ToolOutputImage | ToolOutputFileContent):
        return {_OUTPUT: type(value).__name__, "value": value.model_dump(mode="json")}
    return to_jsonable_python(value, fallback=str)


def _restored(data: Any) -> Any:
    """Return the output of a tool from plain data."""
    if isinstance(data, list):
        return [_restored(item) for item in data]
    if isinstance(data, dict) and data.get(_OUTPUT) in _OUTPUTS:
        return _OUTPUTS[data[_OUTPUT]].model_validate(data["value"])
    return data


def flow_tool(tool: FlowTool) -> FunctionTool:
    """Return managed flows as a tool: ``Agent(..., tools=[flow_tool(FlowTool(engine, ...))])``."""

    async def invoke(_: Any, arguments: str) -> str:
        return json.dumps(await tool.aio(arguments))

    return FunctionTool(
        name=tool.name,
        description=tool.description,
        params_json_schema=tool.parameters,
        on_invoke_tool=invoke,
        strict_json_schema=False,
    )


__all__ = ["flow_tool", "run", "tokens"]
