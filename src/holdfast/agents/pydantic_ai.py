"""Run agents of Pydantic AI durably: ``Agent(..., name="clerk",
capabilities=[HoldfastDurability()])``.

In a workflow every request to a model and every call of a tool is a step: recorded once, never paid
for twice. Outside a workflow the agent behaves as without the capability. Tools that need approval
ask people through gates; tokens are reported to the budgets of the run.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping
from typing import Any, Literal

from holdfast.agents import adapter
from holdfast.agents.adapter import CallSettings
from holdfast.agents.flow_tool import FlowTool
from holdfast.authoring.replay.replay import replayable_uuid
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
"""The key in the metadata of a tool for the options of its step; False runs the tool as workflow
code."""

Spends = Callable[[RequestUsage], Mapping[str, Amount]]


def tokens(usage: RequestUsage) -> Mapping[str, Amount]:
    """Return the usage of a request to a model: requests, tokens, input_tokens, output_tokens."""
    return adapter.used(1, usage.input_tokens, usage.output_tokens)


class _Backend(JournalCallableOperationBackend[CallSettings]):
    """Executes the operations of an agent as steps."""

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
        """Execute one operation, in a workflow as a step."""
        step = name.removeprefix(f"{self._owner.name}__")
        if step.startswith("model.request"):
            body = self._with_usage_report(body)
        try:
            return await adapter.recorded(step, body, config)
        except StepFailed as failure:
            if not self._owner.tell_failures or ".call_tool" not in step:
                raise
            raise ToolFailed(str(failure.facts.get("message") or failure)) from failure

    def _with_usage_report(
        self, body: Callable[[], Awaitable[object]]
    ) -> Callable[[], Awaitable[object]]:
        async def call() -> object:
            response = await body()
            usage = response.get("usage") if isinstance(response, dict) else None
            if usage is not None:
                adapter.report(self._owner.spends(JSON_CODEC.load(RequestUsage, usage)))
            return response

        return call


def _storage_error(error: Exception) -> BaseException:
    return Fail(f"what the tool or model returned cannot be stored as JSON: {error}")


class HoldfastDurability(BaseDurabilityCapability[Any]):
    """Makes an agent durable in workflows of Holdfast.

    Args:
        model: options of the steps that call a model (``retries``, ``delay``, ``timeout`` ...).
        tool: options of the steps that call a tool; a tool can have its own in its metadata,
            ``metadata={"holdfast": {"retries": 3}}``.
        stream: whether the text of the model is emitted as frames of the run's output.
        approval: options of the gates for tools that need approval.
        spends: returns the usage of a request, by dimension.
        tell_failures: whether the final failure of a tool is reported to the model; else it fails
            the run.
        models, event_stream_handler, name: those of Pydantic AI.
    """

    engine_spec = DurabilityEngineSpec(
        engine_name="Holdfast",
        durable_unit_noun="step",
        durable_container_noun="workflow",
        codec=JSON_CODEC,
        serialization_failure=_storage_error,
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
        self.model_step: CallSettings = adapter.settings_from("model", model)
        self.tool_step: CallSettings = adapter.settings_from("tool", tool)
        self.stream: bool = stream
        self.spends: Spends = spends
        self.tell_failures: bool = tell_failures
        self.approval: dict[str, Any] = adapter.approval_from(approval)

    @property
    def in_durable_context(self) -> bool:
        """Whether the agent runs in a workflow, outside a step."""
        return adapter.program_here() is not None

    def get_durable_operation_backend(self) -> _Backend:
        """Return the backend that executes the operations of the agent as steps."""
        return _Backend(self)

    def get_default_run_id(self) -> str | None:
        """Return an id that is the same in every replay."""
        program = adapter.program_here()
        if program is None:
            return None
        return str(replayable_uuid(program))

    def get_default_conversation_id(self, run_id: str) -> str | None:
        """Return an id that is the same in every replay."""
        if not self.in_durable_context:
            return None
        return conversation_id_from_run_id(run_id)

    async def wrap_run(
        self, ctx: RunContext[Any], *, handler: WrapRunHandler
    ) -> AgentRunResult[Any]:
        """Run the agent with steps that are named after it. Its plain functions, except its tools,
        run in the calling thread."""
        if not self.in_durable_context:
            return await super().wrap_run(ctx, handler=handler)
        with adapter.agent_run(self.name), disable_threads():
            return await super().wrap_run(ctx, handler=handler)

    def step_of(
        self, operation_id: Any, tool: Any, tool_name: str
    ) -> CallSettings | Literal[False]:
        """Return the settings of a tool: those in its metadata, else those of all tools; False to
        run it as workflow code. Raises BadOption."""
        metadata = getattr(getattr(tool, "tool_def", None), "metadata", None) or {}
        values = metadata.get(METADATA)
        if values is None:
            return self.tool_step
        if values is False:
            return False
        if not isinstance(values, Mapping):
            raise BadOption(
                option=f"metadata of {tool_name}",
                value=values,
                why="give options of its step, or False",
            )
        return adapter.settings_from(f"metadata of {tool_name}:", values)

    # Approval

    async def handle_deferred_tool_calls(
        self, ctx: RunContext[Any], *, requests: DeferredToolRequests
    ) -> DeferredToolResults | None:
        """Ask people about all calls that need approval, concurrently, and return their decisions.
        Calls that are executed externally are left to the caller of the agent."""
        if not requests.approvals or not self.in_durable_context:
            return None
        questions = [
            adapter.approval(self.name, call.tool_name, call.args_as_dict(), self.approval)
            for call in requests.approvals
        ]
        decisions = await asyncio.gather(*questions)
        return requests.build_results(
            approvals={
                call.tool_call_id: (
                    ToolApproved() if decision.approved else ToolDenied(decision.words)
                )
                for call, decision in zip(requests.approvals, decisions, strict=True)
            }
        )

    # Streamed output

    @property
    def has_wrap_run_event_stream(self) -> bool:
        """Whether models are asked to stream."""
        return super().has_wrap_run_event_stream or (self.stream and self.in_durable_context)

    def _model_stream_event_handler(self) -> EventStreamHandler[Any] | None:
        handler = super()._model_stream_event_handler()
        if not self.stream:
            return handler

        async def emitting(ctx: RunContext[Any], events: AsyncIterable[AgentStreamEvent]) -> None:
            if handler is None:
                async for event in events:
                    _emit_event(event)
            else:
                await handler(ctx, _emit_events(events))

        return emitting


async def _emit_events(events: AsyncIterable[AgentStreamEvent]) -> AsyncIterable[AgentStreamEvent]:
    async for event in events:
        _emit_event(event)
        yield event


def _emit_event(event: AgentStreamEvent) -> None:
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

    flow_tool: Tool[Any] = Tool.from_schema(
        flow, name=tool.name, description=tool.description, json_schema=tool.parameters
    )
    return FunctionToolset([flow_tool], id="flows")


__all__ = ["METADATA", "HoldfastDurability", "flow_toolset", "tokens"]
