"""An agent in a loop: it asks a model, runs the tools that the model requests in parallel, and asks
a person before it spends money.

Every answer of the model and every result of a tool is recorded: after a crash the agent continues
the same conversation and pays for no answer twice. The model is a local function with fixed
answers, so that nothing leaves this machine.

    python examples/agent_loop/workflow.py
"""

from __future__ import annotations

import sys
from typing import Any

from holdfast import Engine, Fail, gather, step, wait_signal, workflow

Message = dict[str, Any]


def think(messages: list[Message]) -> Message:
    """Stand for a model: request two tools, then one that spends money, then sum up."""
    results = [message["content"] for message in messages if message["role"] == "tool"]
    if not results:
        calls = [{"tool": "weather", "city": "Bergen"}, {"tool": "weather", "city": "Malmo"}]
    elif len(results) == 2:
        calls = [{"tool": "book", "city": "Malmo"}]
    else:
        return {"role": "assistant", "content": "; ".join(results), "calls": []}
    return {"role": "assistant", "content": "", "calls": calls}


@step(retries=5, delay="50ms", timeout="2m")
async def ask_model(messages: list[Message]) -> Message:
    """Ask the model. Its answer costs money: once it is recorded, it is never paid for again."""
    return think(messages)


@step(retries=2, delay="50ms")
async def call_tool(call: Message) -> str:
    """Run one tool."""
    match call:
        case {"tool": "weather", "city": city}:
            return f"{city}: {'rain' if city == 'Bergen' else 'sun'}"
        case {"tool": "book", "city": city}:
            return f"booked {city}"
    raise Fail("there is no such tool")


async def use(call: Message) -> str:
    """Run a tool. If it spends money, a person must agree within a day."""
    if call["tool"] == "book":
        try:
            answer = await wait_signal("approval", timeout="1d", type=bool)
        except TimeoutError:
            answer = False
        if not answer:
            return f"nobody agreed to {call['tool']} {call['city']}"
    return await call_tool(call)


@workflow
async def agent(question: str, most_turns: int = 10) -> str:
    """Ask the model until it requests no more tools."""
    messages: list[Message] = [{"role": "user", "content": question}]
    for _ in range(most_turns):
        answer = await ask_model(messages)
        messages.append(answer)
        if not answer["calls"]:
            return str(answer["content"])
        results = await gather(*(use(call) for call in answer["calls"]))
        messages += [{"role": "tool", "content": result} for result in results]
    raise Fail("the agent talked too long")


def main(path: str = "agent_loop.db") -> None:
    """Ask one question, and approve the booking."""
    with Engine(path) as engine:
        run = engine.start(agent, "Where is it dry, and can you get me there?")
        run.signal("approval", True)
        print(run.result())
        for event in run.history():
            print(f"  {event.seq:2} {event.kind:16} {event.step or ''}")


if __name__ == "__main__":
    main(*sys.argv[1:])
