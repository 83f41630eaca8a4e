"""An agent as a graph of LangGraph that survives its process.

`run` replaces `graph.ainvoke`: every node is a step, every call of a tool is a step, and the tool
that spends money asks a person first. No checkpointer is needed. The model here is a function with
fixed answers, so that nothing leaves this machine.

    pip install 'holdfast[langgraph]'
    python examples/langgraph_agent/workflow.py
"""

from __future__ import annotations

import sys
from typing import Any

from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from holdfast import Engine, workflow
from holdfast.agents.langgraph import run


@tool
async def weather(city: str) -> str:
    """Look the weather up."""
    return "rain" if city == "Bergen" else "sun"


@tool
def book(city: str) -> str:
    """Book a journey."""
    return f"booked {city}"


def call(name: str, city: str) -> dict[str, Any]:
    """Ask for a tool."""
    return {"name": name, "args": {"city": city}, "id": f"{name}-{city}", "type": "tool_call"}


async def think(state: MessagesState) -> dict[str, Any]:
    """Stand for a model: look at two cities, book the dry one, sum up. A real graph calls its model
    here."""
    told = [
        str(message.content) for message in state["messages"] if isinstance(message, ToolMessage)
    ]
    if not told:
        return {
            "messages": [
                AIMessage("", tool_calls=[call("weather", "Bergen"), call("weather", "Malmo")])
            ]
        }
    if len(told) == 2:
        return {"messages": [AIMessage("", tool_calls=[call("book", "Malmo")])]}
    return {"messages": [AIMessage("; ".join(told))]}


def build() -> Any:
    """Make the graph: think, use tools, think again."""
    graph: Any = StateGraph(MessagesState)
    graph.add_node("think", think)
    graph.add_node("tools", ToolNode([weather, book]))
    graph.add_edge(START, "think")
    graph.add_conditional_edges("think", tools_condition)
    graph.add_edge("tools", "think")
    return graph.compile(name="travel_agent")


agent = build()


@workflow
async def travel(wish: str) -> str:
    """Let the graph plan a trip."""
    state = await run(
        agent,
        {"messages": [("user", wish)]},
        nodes={"think": {"retries": 5, "timeout": "2m"}},
        tools={"weather": {"retries": 3}},
        approve=["book"],
        approval={"assignees": ["ann"], "timeout": "1d"},
    )
    return str(state["messages"][-1].content)


def main(path: str = "langgraph_agent.db") -> None:
    """Ask for a trip and agree to the booking."""
    with Engine(path) as engine:
        started = engine.start(travel, "somewhere dry")
        next(engine.events.follow(run=started.id, kind="gate_opened"))
        engine.gates.approve(started.id, by="ann")
        print(started.result())
        for event in started.history():
            print(f"  {event.seq:2} {event.kind:16} {event.step or ''}")


if __name__ == "__main__":
    main(*sys.argv[1:])
