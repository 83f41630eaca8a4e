"""Call the models and sessions of the OpenAI Agents SDK in steps, for ``openai_agents``."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from holdfast.agents import adapter
from holdfast.agents.adapter import CallSettings
from holdfast.core.budgets.rules import Amount
from holdfast.errors import NotInWorkflow

try:
    from agents import Agent, Model, ModelProvider, ModelResponse, Usage
    from agents.memory import Session
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
USE_STREAM = "use run(..., stream=True), and follow the output of the run"
_RESPONSE: TypeAdapter[ModelResponse] = TypeAdapter(ModelResponse)


@dataclass
class AgentRunSettings:
    """The settings of one run of an agent."""

    model: CallSettings
    tool: CallSettings
    tools: Mapping[str, CallSettings]
    stream: bool
    spends: Spends
    known: dict[int, tuple[Agent[Any], Agent[Any]]] = field(default_factory=dict)
    """Agents by ``id()``, each with its durable copy. The agents are kept alive, so that no other
    object gets the same id."""


def tokens(usage: Usage) -> Mapping[str, Amount]:
    """Return the usage of a call of a model: requests, tokens, input_tokens, output_tokens."""
    return adapter.used(max(usage.requests, 1), usage.input_tokens, usage.output_tokens)


def decoded_arguments(item: Any) -> Any:
    """Return the arguments of a call of a tool as data; as text if they are not JSON."""
    text = item.arguments
    try:
        if isinstance(text, str) and text:
            return json.loads(text)
        return text
    except ValueError:
        return text


# Models


def durable_model(model: Any, terms: AgentRunSettings) -> Any:
    """Return a model whose calls are steps; a name of a model is returned unchanged, for the
    provider to look up."""
    if not isinstance(model, Model):
        return model
    return _DurableModel(lambda: model, terms)


class DurableProvider(ModelProvider):
    """Returns models that are looked up when they are called, in the step."""

    def __init__(self, inner: ModelProvider, terms: AgentRunSettings) -> None:
        self._inner = inner
        self._terms = terms

    def get_model(self, model_name: str | None) -> Model:
        return _DurableModel(lambda: self._inner.get_model(model_name), self._terms)


class _DurableModel(Model):
    """A model whose calls are steps."""

    def __init__(self, find: Callable[[], Model], terms: AgentRunSettings) -> None:
        self._find = find
        self._terms = terms

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        """Call the model in a step."""

        async def body() -> Any:
            call = _stream_response if self._terms.stream else _get_response
            response = await call(self._find(), args, kwargs)
            adapter.report(self._terms.spends(response.usage))
            return _RESPONSE.dump_python(response, mode="json", by_alias=True, exclude_unset=True)

        return _RESPONSE.validate_python(await adapter.recorded("model", body, self._terms.model))

    def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        """Raise NotInWorkflow: in a workflow the text of a model is output of the run."""
        raise NotInWorkflow(call="run_streamed", why=USE_STREAM)


async def _get_response(model: Model, args: Any, kwargs: Any) -> ModelResponse:
    return await model.get_response(*args, **kwargs)


async def _stream_response(model: Model, args: Any, kwargs: Any) -> ModelResponse:
    """Call the model, emit its response in pieces, and return the whole response. Raises
    ConnectionError if the stream ends early."""
    response: ModelResponse | None = None
    async for event in model.stream_response(*args, **kwargs):
        if isinstance(event, ResponseTextDeltaEvent):
            adapter.show("text", event.delta)
        elif isinstance(event, ResponseReasoningSummaryTextDeltaEvent):
            adapter.show("thinking", event.delta)
        elif isinstance(event, ResponseCompletedEvent):
            response = _model_response(event.response)
    if response is None:
        raise ConnectionError("the model stopped in the middle of its response")
    for item in response.output:
        if getattr(item, "type", None) == "function_call":
            adapter.show(
                "tool_call",
                {"tool": getattr(item, "name", ""), "arguments": decoded_arguments(item)},
            )
    return response


def _model_response(response: Any) -> ModelResponse:
    """Return the response of the OpenAI API as a response of the SDK."""
    reported = response.usage
    usage = Usage()
    if reported is not None:
        usage = Usage(
            requests=1,
            input_tokens=reported.input_tokens,
            output_tokens=reported.output_tokens,
            total_tokens=reported.total_tokens,
            input_tokens_details=reported.input_tokens_details,
            output_tokens_details=reported.output_tokens_details,
        )
    return ModelResponse(output=response.output, usage=usage, response_id=response.id)


# Sessions


class DurableSession:
    """A session that is read and written in steps."""

    def __init__(self, inner: Session, terms: AgentRunSettings) -> None:
        self._inner = inner
        self._terms = terms
        self.session_id = inner.session_id
        self.session_settings = getattr(inner, "session_settings", None)

    async def get_items(self, limit: int | None = None) -> list[Any]:
        """Read the conversation."""
        return list(await self._step("get_items", lambda: self._inner.get_items(limit)))

    async def add_items(self, items: list[Any]) -> None:
        """Append to the conversation."""
        await self._step("add_items", lambda: self._inner.add_items(items))

    async def pop_item(self) -> Any:
        """Remove and return the last item."""
        return await self._step("pop_item", self._inner.pop_item)

    async def clear_session(self) -> None:
        """Delete the conversation."""
        await self._step("clear_session", self._inner.clear_session)

    async def _step(self, name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        async def body() -> Any:
            return to_jsonable_python(await call(), fallback=str)

        return await adapter.recorded(f"session.{name}", body, self._terms.tool)
