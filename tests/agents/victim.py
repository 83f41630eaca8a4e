"""A worker process for tests that kill it in the middle of a tool: ``python victim.py FRAMEWORK
DATABASE``.

The model asks for one tool and then says what came of it. What models and tools do is a line in a
file.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Any

from holdfast import Engine, sleep, workflow

folder = Path(os.environ.get("VICTIM_FOLDER", "."))


def leave_a_line(word: str) -> None:
    file = os.open(folder / "effects", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(file, f"{word}\n".encode())
    finally:
        os.close(file)


async def add(a: int, b: int) -> int:
    """Add two numbers, as soon as the test says so."""
    leave_a_line("tool")
    while not (folder / "go").exists():
        await sleep("10ms")
    return a + b


def pydantic_ai() -> Any:
    from pydantic_ai import Agent, FunctionToolset
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    from holdfast.agents.pydantic_ai import HoldfastDurability

    def think(messages: Any, info: Any) -> ModelResponse:
        leave_a_line("model")
        if len(messages) == 1:
            return ModelResponse(parts=[ToolCallPart("add", {"a": 2, "b": 3})])
        return ModelResponse(parts=[TextPart(f"it is {messages[-1].parts[0].content}")])

    tools = FunctionToolset([add], id="math")
    agent = Agent(
        FunctionModel(think), name="victim", toolsets=[tools], capabilities=[HoldfastDurability()]
    )

    @workflow(name="victim_pydantic_ai")
    async def victim(question: str) -> str:
        return (await agent.run(question)).output

    return victim


def openai_agents() -> Any:
    from agents import Agent, Model, ModelResponse, Usage, function_tool
    from openai.types.responses import (
        ResponseFunctionToolCall,
        ResponseOutputMessage,
        ResponseOutputText,
    )

    from holdfast.agents.openai_agents import run

    class Scripted(Model):
        async def get_response(
            self, system_instructions: Any, input: Any, *args: Any, **kwargs: Any
        ) -> ModelResponse:
            leave_a_line("model")
            if isinstance(input, str) or len(input) == 1:
                call = ResponseFunctionToolCall(
                    call_id="c1", name="add", arguments='{"a": 2, "b": 3}', type="function_call"
                )
                return ModelResponse(output=[call], usage=Usage(), response_id=None)
            text = ResponseOutputText(
                text=f"it is {input[-1]['output']}", type="output_text", annotations=[]
            )
            said = ResponseOutputMessage(
                id="m", role="assistant", status="completed", type="message", content=[text]
            )
            return ModelResponse(output=[said], usage=Usage(), response_id=None)

        def stream_response(self, *args: Any, **kwargs: Any) -> Any:
            raise NotImplementedError

    agent = Agent(name="victim", model=Scripted(), tools=[function_tool(add)])

    @workflow(name="victim_openai_agents")
    async def victim(question: str) -> str:
        return str((await run(agent, question)).final_output)

    return victim


def langgraph() -> Any:
    from langgraph.graph import END, START, StateGraph
    from typing_extensions import TypedDict

    from holdfast.agents.langgraph import run

    class State(TypedDict, total=False):
        question: str
        sum: int
        said: str

    async def think(state: State) -> State:
        leave_a_line("model")
        return {"said": f"it is {state['sum']}"} if "sum" in state else {"said": "add"}

    async def act(state: State) -> State:
        return {"sum": await add(2, 3)}

    graph: Any = StateGraph(State)
    graph.add_node("think", think)
    graph.add_node("act", act)
    graph.add_edge(START, "think")
    graph.add_conditional_edges("think", lambda state: "act" if state["said"] == "add" else END)
    graph.add_edge("act", "think")
    compiled = graph.compile()

    @workflow(name="victim_langgraph")
    async def victim(question: str) -> str:
        return str((await run(compiled, {"question": question}))["said"])

    return victim


def main() -> None:
    framework, database = sys.argv[1:]
    with Engine(database, workflows=[globals()[framework]()]):
        threading.Event().wait()


if __name__ == "__main__":
    main()
