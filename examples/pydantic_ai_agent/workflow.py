"""An agent of Pydantic AI that survives its process: requests, tools and approval are part of the
run.

Every answer of the model is recorded and never paid for twice; the tool that spends money asks a
person first. The model here is a function with fixed answers, so that nothing leaves this machine;
a real agent differs only in its model.

    pip install 'holdfast[pydantic-ai]'
    python examples/pydantic_ai_agent/workflow.py
"""

from __future__ import annotations

import sys

from pydantic import BaseModel
from pydantic_ai import Agent, FunctionToolset
from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from holdfast import Engine, workflow
from holdfast.agents.pydantic_ai import HoldfastDurability

tools = FunctionToolset(id="travel")


@tools.tool_plain(metadata={"holdfast": {"retries": 3, "delay": "50ms"}})
async def weather(city: str) -> str:
    """Look the weather up."""
    return "rain" if city == "Bergen" else "sun"


@tools.tool_plain(requires_approval=True)
def book(city: str) -> str:
    """Book a journey."""
    return f"booked {city}"


class Trip(BaseModel):
    """The result of the agent."""

    city: str
    booking: str


def think(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Stand for a model: look at two cities, book the dry one, sum up."""
    told = [
        part.content
        for message in messages
        for part in message.parts
        if isinstance(part, ToolReturnPart)
    ]
    if not told:
        return ModelResponse(
            parts=[ToolCallPart("weather", {"city": city}) for city in ("Bergen", "Malmo")]
        )
    if len(told) == 2:
        return ModelResponse(parts=[ToolCallPart("book", {"city": "Malmo"})])
    return ModelResponse(
        parts=[ToolCallPart("final_result", {"city": "Malmo", "booking": told[-1]})]
    )


agent = Agent(
    FunctionModel(think),
    name="travel_agent",
    output_type=Trip,
    toolsets=[tools],
    capabilities=[
        HoldfastDurability(model={"retries": 5}, approval={"assignees": ["ann"], "timeout": "1d"})
    ],
)


@workflow
async def plan_trip(wish: str) -> Trip:
    """Let the agent plan a trip."""
    return (await agent.run(wish)).output


def main(path: str = "pydantic_ai_agent.db") -> None:
    """Ask for a trip and agree to the booking."""
    with Engine(path) as engine:
        run = engine.start(plan_trip, "somewhere dry", budget={"tokens": 10_000})
        next(engine.events.follow(run=run.id, kind="gate_opened"))
        engine.gates.approve(run.id, by="ann")
        trip = run.result()
        print(trip.city, trip.booking)
        for event in run.history():
            print(f"  {event.seq:2} {event.kind:16} {event.step or ''}")


if __name__ == "__main__":
    main(*sys.argv[1:])
