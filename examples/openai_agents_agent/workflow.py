"""An agent of the OpenAI Agents SDK that survives its process, and hands over to another agent.

`run` replaces `Runner.run`: every call of a model and of a tool is a step, and the tool that spends
money asks a person first. The model here has fixed answers, so that nothing leaves this machine;
without `model=` the agents ask a real one.

    pip install 'holdfast[openai-agents]'
    python examples/openai_agents_agent/workflow.py
"""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from typing import Any

from agents import Agent, Model, ModelResponse, Usage, function_tool
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from holdfast import Engine, workflow
from holdfast.agents.openai_agents import run


@function_tool
async def weather(city: str) -> str:
    """Look the weather up."""
    return "rain" if city == "Bergen" else "sun"


@function_tool(needs_approval=True)
def book(city: str) -> str:
    """Book a journey."""
    return f"booked {city}"


def call(name: str, **arguments: str) -> ResponseFunctionToolCall:
    """Ask for a tool."""
    number = f"{name}-{'-'.join(arguments.values())}"
    return ResponseFunctionToolCall(
        call_id=number, name=name, arguments=json.dumps(arguments), type="function_call"
    )


def say(words: str) -> ResponseOutputMessage:
    """Say something."""
    text = ResponseOutputText(text=words, type="output_text", annotations=[])
    return ResponseOutputMessage(
        id="m", role="assistant", status="completed", type="message", content=[text]
    )


class FixedMind(Model):
    """Stands for a model: hand over, look at two cities, book the dry one, sum up."""

    async def get_response(
        self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any
    ) -> ModelResponse:
        items = [] if isinstance(input, str) else input
        told = [item["output"] for item in items if item.get("type") == "function_call_output"]
        output: list[Any] = [say("; ".join(told[1:]))]
        if not told:
            output = [call("transfer_to_travel_agent")]
        elif len(told) == 1:
            output = [call("weather", city="Bergen"), call("weather", city="Malmo")]
        elif len(told) == 3:
            output = [call("book", city="Malmo")]
        return ModelResponse(
            output=output,
            usage=Usage(requests=1, input_tokens=50, output_tokens=5),
            response_id=None,
        )

    def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


travel_agent = Agent(name="travel_agent", model=FixedMind(), tools=[weather, book])
desk = Agent(name="desk", model=FixedMind(), handoffs=[travel_agent])


@workflow
async def answer_wish(wish: str) -> str:
    """Let the agents plan a trip."""
    approval = {"assignees": ["ann"], "timeout": "1d"}
    result = await run(
        desk, wish, model={"retries": 5}, tools={"weather": {"retries": 3}}, approval=approval
    )
    return str(result.final_output)


def main(path: str = "openai_agents_agent.db") -> None:
    """Ask for a trip and agree to the booking."""
    with Engine(path) as engine:
        started = engine.start(answer_wish, "somewhere dry", budget={"tokens": 10_000})
        next(engine.events.follow(run=started.id, kind="gate_opened"))
        engine.gates.approve(started.id, by="ann")
        print(started.result())
        for event in started.history():
            print(f"  {event.seq:2} {event.kind:16} {event.step or ''}")


if __name__ == "__main__":
    main(*sys.argv[1:])
