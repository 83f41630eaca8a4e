"""Agents of the OpenAI Agents SDK as durable workflows: ``result = await run(agent, "...")``
instead of ``Runner.run``.

In a workflow every call of a model, of a function tool, of a guardrail and of a session is a step:
recorded once, never paid for twice. Elsewhere ``run`` is ``Runner.run``. Tools that need approval
ask people through gates; tokens are reported to the budgets of the run.
"""

from __future__ import annotations

import asyncio
import copy
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, replace
from inspect import isawaitable
from typing import Any

from holdfast.agents import adapter
from holdfast.agents.adapter import CallSettings
from holdfast.agents.flow_tool import FlowTool
from holdfast.core.budgets.rules import Amount
from holdfast.errors import BadOption, NotInWorkflow, StepFailed

try:
    from agents import (
        Agent,
        FunctionTool,
        GuardrailFunctionOutput,
        Handoff,
        Model,
        ModelProvider,
        ModelResponse,
        RunConfig,
        Runner,
        RunResult,
        ToolGuardrailFunctionOutput,
        Usage,
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
    from openai.types.responses import (
        ResponseCompletedEvent,
        ResponseReasoningSummaryTextDeltaEvent,
        ResponseTextDeltaEvent,
    )
    from pydantic import TypeAdapter
    from pydantic_core import to_jsonable_python
except ImportError as error:
    raise adapter.missing("openai-agents", "openai-agents") from error

Spends = Callable[[Usage], Mapping[str, Amount]]
_RESPONSE: TypeAdapter[ModelResponse] = TypeAdapter(ModelResponse)
_OUTPUTS = {
    kind.__name__: kind for kind in (ToolOutputText, ToolOutputImage, ToolOutputFileContent)
}
_OUTPUT = "$tool_output"
_UNHEARD = "use run(..., stream=True), and follow the output of the run"


def tokens(usage: Usage) -> Mapping[str, Amount]:
    """Return what a call of a model used: requests, tokens, input_tokens, output_tokens."""
    return adapter.used(max(usage.requests, 1), usage.input_tokens, usage.output_tokens)


@dataclass
class _AgentRunSettings:
    """How the calls of one run of an agent are made."""

    model: CallSettings
    tool: CallSettings
    tools: Mapping[str, CallSettings]
    stream: bool
    spends: Spends
    known: dict[int, tuple[Agent[Any], Agent[Any]]] = field(default_factory=dict)
    """Agents by their ids, with what was made of them; they are kept, so that no other gets the
    id."""


_terms_here: ContextVar[_AgentRunSettings | None] = ContextVar(
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
    """Run an agent, in a workflow as steps of it.

    *model* and *tool* are options of the steps (``retries``, ``delay``, ``timeout`` and so on),
    *tools* those of single tools by name. With *stream* the words of the model are frames of the
    run's output while it speaks. *approval* are options of the gates for tools that need approval.
    *spends* says what a call of a model costs, by dimension. The rest is that of ``Runner.run``.
    """
    given = {
        name: adapter.settings_from(f"tools {name}:", one) for name, one in (tools or {}).items()
    }
    terms = _AgentRunSettings(
        adapter.settings_from("model", model),
        adapter.settings_from("tool", tool),
        given,
        stream,
        spends,
    )
    asked = adapter.approval_from(approval)
    if adapter.program_here() is None:
        return await Runner.run(agent, input, run_config=run_config, session=session, **options)
    config = _config(run_config or RunConfig(tracing_disabled=True), terms)
    kept = None if session is None else _Session(session, terms)
    _Runner.install()
    token = _terms_here.set(terms)
    try:
        with adapter.agent_run(agent.name):
            durable = _durable(agent, terms)
            result = await Runner.run(durable, input, run_config=config, session=kept, **options)
            while result.interruptions:
                state = result.to_state()
                await _decide(state, result.interruptions, asked)
                result = await Runner.run(
                    durable, state, run_config=config, session=kept, **_again(options)
                )
    finally:
        _terms_here.reset(token)
    return result


def _config(given: RunConfig, terms: _AgentRunSettings) -> RunConfig:
    """Return the same settings for agents whose models and guardrails are called as steps."""
    if isinstance(given.model_provider, _Provider):
        return given
    return replace(
        given,
        model_provider=_Provider(given.model_provider, terms),
        model=_model(given.model, terms),
        input_guardrails=_rails(given.input_guardrails, GuardrailFunctionOutput, terms),
        output_guardrails=_rails(given.output_guardrails, GuardrailFunctionOutput, terms),
    )


def _again(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options for going on with what was interrupted: the rest is in its state."""
    return {
        name: value
        for name, value in options.items()
        if name in ("hooks", "error_handlers", "max_turns")
    }


async def _decide(state: Any, interruptions: list[Any], asked: Mapping[str, Any]) -> None:
    """Ask people about the calls that need approval, about all of them at once."""
    questions = [
        adapter.approval(item.agent.name, item.name or "a tool", _arguments(item), asked)
        for item in interruptions
    ]
    for item, verdict in zip(interruptions, await asyncio.gather(*questions), strict=True):
        if verdict.approved:
            state.approve(item)
        else:
            state.reject(item, rejection_message=verdict.words)


def _arguments(item: Any) -> Any:
    text = item.arguments
    try:
        return json.loads(text) if isinstance(text, str) and text else text
    except ValueError:
        return text


# Agents and tools


def _durable(agent: Agent[Any], terms: _AgentRunSettings) -> Agent[Any]:
    """Return the same agent with models and tools that are called as steps; so are those that it
    hands over to."""
    found = terms.known.get(id(agent))
    if found is not None:
        return found[1]
    if agent.mcp_servers:
        why = "MCP servers cannot be called as steps: offer what they do as function tools"
        raise BadOption(option="agent", value=agent.name, why=why)
    made: Agent[Any] = copy.copy(agent)
    terms.known[id(agent)] = terms.known[id(made)] = agent, made
    made.model = _model(agent.model, terms)
    made.tools = [_tool(tool, terms) for tool in agent.tools]
    made.handoffs = [_handoff(one, terms) for one in agent.handoffs]
    made.input_guardrails = _rails(agent.input_guardrails, GuardrailFunctionOutput, terms)
    made.output_guardrails = _rails(agent.output_guardrails, GuardrailFunctionOutput, terms)
    return made


def _handoff(given: Any, terms: _AgentRunSettings) -> Any:
    if not isinstance(given, Handoff):
        return _durable(given, terms)

    async def invoke(context: Any, arguments: str) -> Any:
        return _durable(await given.on_invoke_handoff(context, arguments), terms)

    return replace(given, on_invoke_handoff=invoke)


_LOCAL = ("ComputerTool", "LocalShellTool", "ShellTool", "ApplyPatchTool", "CustomTool")
"""Tools of the SDK that act on this machine, and not as functions."""


def _tool(tool: Any, terms: _AgentRunSettings) -> Any:
    """Return a tool whose calls are steps. What runs at the provider is part of the call of the
    model."""
    if not isinstance(tool, FunctionTool):
        if type(tool).__name__ in _LOCAL:
            raise BadOption(
                option="tool",
                value=type(tool).__name__,
                why="only function tools can be called as steps",
            )
        return tool
    if tool._is_agent_tool:
        return _agent_tool(tool, terms)
    settings = terms.tools.get(tool.name, terms.tool)
    bare = set_function_tool_failure_error_function(
        copy.copy(tool), None
    )  # so that the step sees errors, and is tried again
    made = copy.copy(tool)

    async def invoke(context: Any, arguments: str) -> Any:
        async def body() -> Any:
            return _stored(await bare.on_invoke_tool(context, arguments))

        try:
            return _restored(await adapter.recorded(f"tool:{tool.name}", body, settings))
        except StepFailed as failure:
            told = await maybe_invoke_function_tool_failure_error_function(
                function_tool=made, context=context, error=failure
            )
            if told is None:
                raise
            return told

    return _invoked_by(made, invoke, terms)


def _agent_tool(tool: FunctionTool, terms: _AgentRunSettings) -> FunctionTool:
    """Return an agent that is a tool: what it calls are steps, and its questions those of the
    run."""

    async def invoke(context: Any, arguments: str) -> Any:
        with adapter.agent_run(f"tool:{tool.name}", within=True):
            return await tool.on_invoke_tool(context, arguments)

    return _invoked_by(copy.copy(tool), invoke, terms)


def _invoked_by(
    tool: FunctionTool, invoke: Callable[[Any, str], Awaitable[Any]], terms: _AgentRunSettings
) -> FunctionTool:
    tool.on_invoke_tool = invoke
    tool.tool_input_guardrails = _rails(
        tool.tool_input_guardrails, ToolGuardrailFunctionOutput, terms
    )
    tool.tool_output_guardrails = _rails(
        tool.tool_output_guardrails, ToolGuardrailFunctionOutput, terms
    )
    return tool


class _Runner(AgentRunner):
    """Runs agents within agents: those of a durable run are durable, all others are left to the
    runner that was there before."""

    def __init__(self, inner: AgentRunner) -> None:
        self._inner = inner

    @classmethod
    def install(cls) -> None:
        """Become the runner that the SDK takes where it runs an agent by itself."""
        found = get_default_agent_runner()
        if not isinstance(found, cls):
            set_default_agent_runner(cls(found))

    async def run(self, starting_agent: Agent[Any], input: Any, **options: Any) -> RunResult:
        """Run an agent."""
        terms = _terms_here.get()
        if terms is not None and adapter.program_here() is not None:
            starting_agent = _durable(starting_agent, terms)
            options["run_config"] = _config(
                options.get("run_config") or RunConfig(tracing_disabled=True), terms
            )
            session = options.get("session")
            if session is not None and not isinstance(session, _Session):
                options["session"] = _Session(session, terms)
        return await self._inner.run(starting_agent, input, **options)

    def run_sync(self, starting_agent: Agent[Any], input: Any, **options: Any) -> RunResult:
        """Run an agent."""
        return self._inner.run_sync(starting_agent, input, **options)

    def run_streamed(self, starting_agent: Agent[Any], input: Any, **options: Any) -> Any:
        """Run an agent that is listened to."""
        if _terms_here.get() is not None and adapter.program_here() is not None:
            raise NotInWorkflow(call="run_streamed", why=_UNHEARD)
        return self._inner.run_streamed(starting_agent, input, **options)


def _rails(given: Any, kind: type[Any], terms: _AgentRunSettings) -> Any:
    """Return the same guardrails, judging in steps: many ask a model. *kind* is what they
    return."""
    return given and [_rail(one, kind, terms) for one in given]


def _rail(given: Any, kind: type[Any], terms: _AgentRunSettings) -> Any:
    name = given.get_name()

    async def judge(*asked: Any) -> Any:
        async def body() -> Any:
            found = given.guardrail_function(*asked)
            verdict = await found if isawaitable(found) else found
            return {
                part.name: to_jsonable_python(getattr(verdict, part.name), fallback=str)
                for part in fields(kind)
            }

        return kind(**await adapter.recorded(f"guardrail:{name}", body, terms.tool))

    return replace(given, guardrail_function=judge, name=name)


def _stored(value: Any) -> Any:
    """Return what a tool returned as plain data."""
    if isinstance(value, list):
        return [_stored(one) for one in value]
    if isinstance(value, ToolOutputText | ToolOutputImage | ToolOutputFileContent):
        return {_OUTPUT: type(value).__name__, "value": value.model_dump(mode="json")}
    return to_jsonable_python(value, fallback=str)


def _restored(data: Any) -> Any:
    if isinstance(data, list):
        return [_restored(one) for one in data]
    if isinstance(data, dict) and data.get(_OUTPUT) in _OUTPUTS:
        return _OUTPUTS[data[_OUTPUT]].model_validate(data["value"])
    return data


# Models


def _model(given: Any, terms: _AgentRunSettings) -> Any:
    """Return a model whose calls are steps; a name is for the provider to look up."""
    return _DurableModel(lambda: given, terms) if isinstance(given, Model) else given


class _Provider(ModelProvider):
    """Looks models up where they are called: in the step."""

    def __init__(self, inner: ModelProvider, terms: _AgentRunSettings) -> None:
        self._inner, self._terms = inner, terms

    def get_model(self, model_name: str | None) -> Model:
        return _DurableModel(lambda: self._inner.get_model(model_name), self._terms)


class _DurableModel(Model):
    """A model whose calls are steps."""

    def __init__(self, find: Callable[[], Model], terms: _AgentRunSettings) -> None:
        self._find, self._terms = find, terms

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        """Call the model in a step."""

        async def body() -> Any:
            call = _spoken if self._terms.stream else _asked
            response = await call(self._find(), args, kwargs)
            adapter.report(self._terms.spends(response.usage))
            return _RESPONSE.dump_python(response, mode="json", by_alias=True, exclude_unset=True)

        return _RESPONSE.validate_python(await adapter.recorded("model", body, self._terms.model))

    def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        """Not in a workflow: there the words of a model are output of the run."""
        raise NotInWorkflow(call="run_streamed", why=_UNHEARD)


async def _asked(model: Model, args: Any, kwargs: Any) -> ModelResponse:
    return await model.get_response(*args, **kwargs)


async def _spoken(model: Model, args: Any, kwargs: Any) -> ModelResponse:
    """Let the model speak, show what it says, and return the whole."""
    found: ModelResponse | None = None
    async for event in model.stream_response(*args, **kwargs):
        if isinstance(event, ResponseTextDeltaEvent):
            adapter.show("text", event.delta)
        elif isinstance(event, ResponseReasoningSummaryTextDeltaEvent):
            adapter.show("thinking", event.delta)
        elif isinstance(event, ResponseCompletedEvent):
            found = _whole(event.response)
    if found is None:
        raise ConnectionError("the model stopped in the middle of its answer")
    for item in found.output:
        if getattr(item, "type", None) == "function_call":
            adapter.show(
                "tool_call", {"tool": getattr(item, "name", ""), "arguments": _arguments(item)}
            )
    return found


def _whole(response: Any) -> ModelResponse:
    told = response.usage
    usage = Usage()
    if told is not None:
        usage = Usage(
            requests=1,
            input_tokens=told.input_tokens,
            output_tokens=told.output_tokens,
            total_tokens=told.total_tokens,
            input_tokens_details=told.input_tokens_details,
            output_tokens_details=told.output_tokens_details,
        )
    return ModelResponse(output=response.output, usage=usage, response_id=response.id)


# Sessions


class _Session:
    """A session that is read and written in steps."""

    def __init__(self, inner: Session, terms: _AgentRunSettings) -> None:
        self._inner, self._terms = inner, terms
        self.session_id = inner.session_id
        self.session_settings = getattr(inner, "session_settings", None)

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """Read the conversation."""
        return list(await self._do("get_items", lambda: self._inner.get_items(limit)))

    async def add_items(self, items: list[Any]) -> None:
        """Append to the conversation."""
        await self._do("add_items", lambda: self._inner.add_items(items))

    async def pop_item(self) -> Any:
        """Take the last item away."""
        return await self._do("pop_item", self._inner.pop_item)

    async def clear_session(self) -> None:
        """Forget the conversation."""
        await self._do("clear_session", self._inner.clear_session)

    async def _do(self, name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        async def body() -> Any:
            return to_jsonable_python(await call(), fallback=str)

        return await adapter.recorded(f"session.{name}", body, self._terms.tool)


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
