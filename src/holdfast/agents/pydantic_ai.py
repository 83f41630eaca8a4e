"""Agents of Pydantic AI as durable workflows: ``Agent(..., name="clerk",
capabilities=[HoldfastDurability()])``.

In a workflow every request to a model and every call of a tool is a step: recorded once, never paid
for twice. Elsewhere the agent is what it was. Tools that need approval ask people through gates;
tokens are reported to the budgets of the run.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping
from typing import Any, Literal

from holdfast.agents import adapter
from holdfast.agents.adapter import CallSettings
from holdfast.agents.flow_tool import FlowTool
from holdfast.core.budgets.rules import Amount
from holdfast.errors import BadOption, Fail, StepFailed

try:
    from pydantic_ai import FunctionToolset, Tool
    from pydantic_ai.agent import EventStreamHandler
    from pydantic_ai.capabilities.abstract import WrapRunHandler
    from pydantic_ai.durable_exec import (
        JSON_CODEC,
        BaseDurabilityCapability,
        DurabilityEngineSpec,
        JournalCallableOperationBackend,
        RoleBasedOperationConfig,
        conversation_id_from_run_id,
    )
    from pydantic_ai.durable_exec._utils import disable_threads
    from pydantic_ai.exceptions import ToolFailed
    from pydantic_ai.messages import (
        AgentStreamEvent,
        PartDeltaEvent,
        PartEndEvent,
        PartStartEvent,
        TextPart,
        TextPartDelta,
        ThinkingPart,
        ThinkingPartDelta,
        ToolCallPart,
    )
    from pydantic_ai.models import Model
    from pydantic_ai.run import AgentRunResult
    from pydantic_ai.tools import (
        DeferredToolRequests,
        DeferredToolResults,
        RunContext,
        ToolApproved,
        ToolDenied,
    )
    from pydantic_ai.usage import RequestUsage
except ImportError as error:
    raise adapter.missing("pydantic-ai-slim", "pydantic-ai") from error

METADATA = "holdfast"
"""Under this key the metadata of a tool has the options of its step, or False if it is to be run as
workflow code."""

Spends = Callable[[RequestUsage], Mapping[str, Amount]]


def tokens(usage: RequestUsage) -> Mapping[str, Amount]:
    """Return what a request to a model used: requests, tokens, input_tokens, output_tokens."""
    return adapter.used(1, usage.input_tokens, usage.output_tokens)


class _Backend(JournalCallableOperationBackend[CallSettings]):
    """Makes the operations of an agent as steps."""

    def __init__(self, owner: HoldfastDurability) -> None:
        config = RoleBasedOperationConfig(
            model=owner.model_step,
            event=CallSettings(),
            capability=owner.tool_step,
            tool=owner.tool_step,
            resolve_tool=owner.step_of,
        )
        super().__init__(
            agent_name=owner.name, default_model_id=owner.default_model_id, config=config
        )
        self._owner = owner

    async def execute(
        self,
        *,
        operation_id: Any,
        name: str,
        body: Callable[[], Awaitable[object]],
        cache_key: Any,
        config: CallSettings,
    ) -> object:
        """Make one operation: in a workflow as a step."""
        own = name.removeprefix(f"{self._owner.name}__")
        is_model = own.startswith("model.request")
        try:
            return await adapter.recorded(own, self._reporting(body) if is_model else body, config)
        except StepFailed as failure:
            if not self._owner.tell_failures or ".call_tool" not in own:
                raise
            raise ToolFailed(str(failure.facts.get("message") or failure)) from failure

    def _reporting(self, body: Callable[[], Awaitable[object]]) -> Callable[[], Awaitable[object]]:
        async def call() -> object:
            answer = await body()
            usage = answer.get("usage") if isinstance(answer, dict) else None
            if usage is not None:
                adapter.report(self._owner.spends(JSON_CODEC.load(RequestUsage, usage)))
            return answer

        return call


def _not_storable(error: Exception) -> BaseException:
    return Fail(f"what the tool or model returned cannot be stored as JSON: {error}")


class HoldfastDurability(BaseDurabilityCapability[Any]):
    """Makes an agent durable in workflows of Holdfast.

    *model* and *tool* are options of the steps (``retries``, ``delay``, ``timeout`` and so on); a
    tool has its own in its metadata, ``metadata={"holdfast": {"retries": 3}}``. With *stream* the
    words of the model are frames of the run's output while it speaks. *approval* are options of the
    gates for tools that need approval. *spends* says what a request costs, by dimension. With
    *tell_failures* the model is told of a tool that has failed for good; else the run fails.
    *models* and *event_stream_handler* are those of Pydantic AI.
    """

    engine_spec = DurabilityEngineSpec(
        engine_name="Holdfast",
        durable_unit_noun="step",
        durable_container_noun="workflow",
        codec=JSON_CODEC,
        serialization_failure=_not_storable,
        toolset_lifecycles={
            "function": "enter-always",
            "mcp": "enter-in-durable-unit",
            "dynamic": "enter-never",
        },
        tool_config_key=METADATA,
    )

    def __init__(
        self,
        *,
        model: Mapping[str, Any] | None = None,
        tool: Mapping[str, Any] | None = None,
        stream: bool = False,
        approval: Mapping[str, Any] | None = None,
        spends: Spends = tokens,
        tell_failures: bool = False,
        models: Mapping[str, Model] | None = None,
        event_stream_handler: EventStreamHandler[Any] | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(models=models, event_stream_handler=event_stream_handler, name=name)
        self.model_step, self.tool_step = (
            adapter.settings_from("model", model),
            adapter.settings_from("tool", tool),
        )
        self.stream, self.spends, self.tell_failures = stream, spends, tell_failures
        self.approval = adapter.approval_from(approval)

    @property
    def in_durable_context(self) -> bool:
        """Whether what the agent does here is part of a workflow."""
        return adapter.program_here() is not None

    def get_durable_operation_backend(self) -> _Backend:
        """Return what makes the operations of the agent as steps."""
        return _Backend(self)

    def get_default_run_id(self) -> str | None:
        """Return an id that is the same in every replay."""
        program = adapter.program_here()
        return None if program is None else str(program.uuid())

    def get_default_conversation_id(self, run_id: str) -> str | None:
        """Return an id that is the same in every replay."""
        return conversation_id_from_run_id(run_id) if self.in_durable_context else None

    async def wrap_run(
        self, ctx: RunContext[Any], *, handler: WrapRunHandler
    ) -> AgentRunResult[Any]:
        """Name the steps after the agent, and run plain functions of it, but for its tools, where
        they are called."""
        if not self.in_durable_context:
            return await super().wrap_run(ctx, handler=handler)
        with adapter.agent_run(self.name), disable_threads():
            return await super().wrap_run(ctx, handler=handler)

    def step_of(
        self, operation_id: Any, tool: Any, tool_name: str
    ) -> CallSettings | Literal[False]:
        """Return how a tool is called: as its metadata say, or else as all are."""
        metadata = getattr(getattr(tool, "tool_def", None), "metadata", None) or {}
        given = metadata.get(METADATA)
        if given is None:
            return self.tool_step
        if given is False:
            return False
        if not isinstance(given, Mapping):
            raise BadOption(
                option=f"metadata of {tool_name}",
                value=given,
                why="give options of its step, or False",
            )
        return adapter.settings_from(f"metadata of {tool_name}:", given)

    # Approval

    async def handle_deferred_tool_calls(
        self, ctx: RunContext[Any], *, requests: DeferredToolRequests
    ) -> DeferredToolResults | None:
        """Ask people about the calls that need approval, about all at once. Calls that are done
        elsewhere are not ours."""
        if not requests.approvals or not self.in_durable_context:
            return None
        asked = [
            adapter.approval(self.name, call.tool_name, call.args_as_dict(), self.approval)
            for call in requests.approvals
        ]
        verdicts = await asyncio.gather(*asked)
        return requests.build_results(
            approvals={
                call.tool_call_id: ToolApproved() if verdict.approved else ToolDenied(verdict.words)
                for call, verdict in zip(requests.approvals, verdicts, strict=True)
            }
        )

    # Words

    @property
    def has_wrap_run_event_stream(self) -> bool:
        """Whether models are asked to stream."""
        return super().has_wrap_run_event_stream or (self.stream and self.in_durable_context)

    def _model_stream_event_handler(self) -> EventStreamHandler[Any] | None:
        handler = super()._model_stream_event_handler()
        if not self.stream:
            return handler

        async def shown(ctx: RunContext[Any], events: AsyncIterable[AgentStreamEvent]) -> None:
            if handler is None:
                async for event in events:
                    _show(event)
            else:
                await handler(ctx, _showing(events))

        return shown


async def _showing(events: AsyncIterable[AgentStreamEvent]) -> AsyncIterable[AgentStreamEvent]:
    async for event in events:
        _show(event)
        yield event


def _show(event: AgentStreamEvent) -> None:
    match event:
        case (
            PartStartEvent(part=TextPart(content=text))
            | PartDeltaEvent(delta=TextPartDelta(content_delta=text))
        ):
            adapter.show("text", text)
        case (
            PartStartEvent(part=ThinkingPart(content=text))
            | PartDeltaEvent(delta=ThinkingPartDelta(content_delta=text))
        ):
            adapter.show("thinking", text)
        case PartEndEvent(part=ToolCallPart() as call):
            adapter.show("tool_call", {"tool": call.tool_name, "arguments": call.args_as_dict()})


def flow_toolset(tool: FlowTool) -> FunctionToolset[Any]:
    """Return managed flows as a toolset: ``Agent(..., toolsets=[flow_toolset(FlowTool(engine,
    ...))])``."""

    async def flow(**arguments: Any) -> dict[str, Any]:
        return await tool.aio(arguments)

    made: Tool[Any] = Tool.from_schema(
        flow, name=tool.name, description=tool.description, json_schema=tool.parameters
    )
    return FunctionToolset([made], id="flows")


__all__ = ["METADATA", "HoldfastDurability", "flow_toolset", "tokens"]
