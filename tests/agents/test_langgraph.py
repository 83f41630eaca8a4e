"""Graphs of LangGraph in workflows: nodes and tools are steps; crashes, retries, interrupts, words,
money."""

from __future__ import annotations

import asyncio
import json
import operator
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

import pytest
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    HumanMessage,
    RemoveMessage,
    ToolMessage,
)
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import tool
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, MessagesState, StateGraph, add_messages
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command, Overwrite, Send, interrupt
from pydantic import BaseModel
from typing_extensions import TypedDict

import holdfast
from holdfast import Engine, Fail, Retry, gate, gather, workflow
from holdfast.agents import FlowTool
from holdfast.agents.langgraph import flow_tool, run
from holdfast.agents.langgraph_values import GraphValues, types_in
from holdfast.errors import BadData, BadOption, NotEncodable, RunFailed

world: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def new_world():
    world.clear()


def call(name, number=1, **arguments):
    return {"name": name, "args": arguments, "id": f"c-{name}-{number}", "type": "tool_call"}


class Scripted(BaseChatModel):
    """A model that asks for tools once, and then says what they answered."""

    calls: list[Any]

    @property
    def _llm_type(self):
        return "scripted"

    def think(self, messages):
        world["model"] += 1
        told = [message.content for message in messages if isinstance(message, ToolMessage)]
        usage = {"input_tokens": 100, "output_tokens": 10, "total_tokens": 110}
        if told or not self.calls:
            return AIMessage(f"got {told}", usage_metadata=usage)
        return AIMessage("", tool_calls=self.calls, usage_metadata=usage)

    def _generate(self, messages, stop=None, run_manager=None, **kwargs):
        return ChatResult(generations=[ChatGeneration(message=self.think(messages))])

    def _stream(self, messages, stop=None, run_manager=None, **kwargs):
        said = self.think(messages)
        if said.tool_calls:
            yield ChatGenerationChunk(
                message=AIMessageChunk(
                    "", tool_calls=said.tool_calls, usage_metadata=said.usage_metadata
                )
            )
            return
        for word in said.content.split():
            chunk = ChatGenerationChunk(message=AIMessageChunk(word))
            if run_manager:
                run_manager.on_llm_new_token(word, chunk=chunk)
            yield chunk
        yield ChatGenerationChunk(message=AIMessageChunk("", usage_metadata=said.usage_metadata))


def agent(tools, *calls):
    """Return the usual graph: a model, tools, and back."""
    model = Scripted(calls=list(calls))

    async def think(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("think", think)
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "think")
    graph.add_conditional_edges("think", tools_condition)
    graph.add_edge("tools", "think")
    return graph.compile(name="calculator")


QUESTION = {"messages": [("user", "how much?")]}


def said(state):
    return state["messages"][-1].content


# Parallel tools, and crashes


@tool
def add(a: int, b: int) -> int:
    """Add."""
    world[f"add {a} {b}"] += 1
    return a + b


@tool
async def multiply(a: int, b: int) -> int:
    """Multiply."""
    world[f"multiply {a} {b}"] += 1
    return a * b


calculator = agent(
    [add, multiply], call("add", a=1, b=2), call("multiply", a=2, b=3), call("add", 2, a=4, b=5)
)


@workflow
async def lg_calculate() -> str:
    return said(await run(calculator, QUESTION))


def test_nodes_and_calls_of_tools_are_steps(holdfast_lab):
    started = holdfast_lab.start(lg_calculate)

    assert holdfast_lab.finish(started) == "got ['3', '6', '9']"
    names = [event.step for event in started.history() if event.kind == "step_completed"]
    assert (names[0], names[-1]) == ("calculator/node:think", "calculator/node:think#2")
    assert sorted(names[1:-1]) == [
        "calculator/tool:add",
        "calculator/tool:add#2",
        "calculator/tool:multiply",
    ]


def test_it_comes_to_the_same_end_whatever_crashes(everywhere):
    everywhere(lg_calculate, setup=world.clear)


@pytest.mark.timeout(300)  # a process that loads a framework takes its time
def test_a_process_that_dies_in_a_tool_costs_no_second_answer(killed_in_a_tool):
    result, effects = killed_in_a_tool("langgraph")

    assert result == "it is 5"
    assert effects == ["model", "tool", "tool", "model"]


@workflow
async def lg_twice() -> list[str]:
    first, second = await gather(run(calculator, QUESTION), run(calculator, QUESTION))
    return [said(first), said(second), said(await run(calculator, QUESTION))]


def test_graphs_side_by_side_and_one_after_another_do_not_mix(holdfast_lab):
    started = holdfast_lab.start(lg_twice)

    assert set(holdfast_lab.finish(started)) == {"got ['3', '6', '9']"}
    graphs = Counter(event.step.split("/")[0] for event in started.history() if event.step)
    assert graphs == {"calculator": 5, "calculator#2": 5, "calculator#3": 5}


def test_elsewhere_it_is_the_graph():
    assert said(asyncio.run(run(calculator, QUESTION))) == "got ['3', '6', '9']"


# A graph with everything in it


class Plan(BaseModel):
    steps: list[str]


@dataclass
class Note:
    text: str


class Everything(TypedDict, total=False):
    plan: Plan
    notes: Annotated[list[Note], operator.add]
    done: Annotated[list[str], operator.add]
    at: datetime
    seen: int


class Inner(TypedDict, total=False):
    done: Annotated[list[str], operator.add]
    seen: int


def plan(state: Everything) -> Command[Any]:
    world["plan"] += 1
    sends = [Send("work", {"item": item}) for item in ("a", "b", "c")]
    update = {
        "plan": Plan(steps=["a", "b", "c"]),
        "at": datetime(2026, 1, 1, tzinfo=UTC),
        "notes": [Note("planned")],
    }
    return Command(update=update, goto=sends)


async def work(state: dict[str, str]) -> Everything:
    world[f"work {state['item']}"] += 1
    return {"done": [state["item"]]}


def look(state: Inner) -> Inner:
    return {"seen": len(state["done"])}


def leave(state: Inner) -> Command[Any]:
    return Command(
        graph=Command.PARENT, update={"notes": [Note("left")], "seen": state["seen"]}, goto="last"
    )


def last(state: Everything) -> Everything:
    assert isinstance(state["plan"], Plan)
    assert isinstance(state["notes"][0], Note)
    return {"done": [f"{note.text}" for note in state["notes"]]}


def everything():
    inner = StateGraph(Inner)
    inner.add_node("look", look)
    inner.add_node("leave", leave)
    inner.add_edge(START, "look")
    inner.add_edge("look", "leave")
    graph = StateGraph(Everything)
    graph.add_node("plan", plan)
    graph.add_node("work", work)
    graph.add_node("inner", inner.compile(), destinations=("last",))
    graph.add_node("last", last)
    graph.add_edge(START, "plan")
    graph.add_edge("work", "inner")
    return graph.compile(name="everything")


whole = everything()


@workflow
async def lg_everything() -> list[Any]:
    state = await run(whole, {"done": []}, nodes={"last": False})
    return [state["plan"].steps, sorted(state["done"]), state["at"].isoformat(), state["seen"]]


def test_commands_sends_graphs_within_and_types_of_the_state_come_through(holdfast_lab):
    started = holdfast_lab.start(lg_everything)

    expected = [["a", "b", "c"], ["a", "b", "c", "left", "planned"], "2026-01-01T00:00:00+00:00", 3]
    assert holdfast_lab.finish(started) == expected
    steps = [event.step for event in started.history() if event.step]
    assert steps[0] == "everything/node:plan"
    assert sorted(steps[1:4]) == [
        "everything/node:work",
        "everything/node:work#2",
        "everything/node:work#3",
    ]
    assert steps[4:] == ["everything/node:look", "everything/node:leave"]


def test_all_of_it_survives_every_crash(everywhere):
    everywhere(lg_everything, setup=world.clear)


@pytest.mark.parametrize(
    "value",
    [
        None,
        [1, "a", {"b": 1.5}],
        {"$x": 1, 2: (1, {3})},
        HumanMessage("hi", id="1"),
        RemoveMessage(id="1"),
        Plan(steps=[]),
        AIMessage("", tool_calls=[call("add", a=1)]),
        ToolMessage("3", tool_call_id="c", artifact=Note("x")),
        Note("x"),
        Command(update={"notes": [Note("y")]}, goto=[Send("a", {"n": Note("z")}), "b"]),
        Overwrite([1]),
        b"x",
        {"$type": ["x", 1]},
    ],
    ids=repr,
)
def test_values_are_stored_as_json_and_come_back(value):
    values = GraphValues(types_in(Everything))
    data = json.loads(json.dumps(values.store(value)))

    assert values.restore(data) == value


def test_a_type_that_nobody_named_is_refused_both_ways():
    class Stranger(BaseModel):
        x: int = 1

    with pytest.raises(NotEncodable, match="types="):
        GraphValues([]).store(Stranger())
    with pytest.raises(BadData, match="no longer names"):
        GraphValues([]).restore({"$type": ["Stranger", {"x": 1}]})
    assert GraphValues([Stranger]).restore(GraphValues([Stranger]).store(Stranger())) == Stranger()


# Interrupts and approval


class Order(TypedDict, total=False):
    log: Annotated[list[str], operator.add]


async def prepare(state: Order) -> Order:
    world["prepare"] += 1
    return {"log": ["prepared"]}


async def confirm(state: Order) -> Order:
    world["confirm"] += 1
    first = interrupt("Ship it?")
    second = interrupt({"really": first})
    return {"log": [f"{first} {second}"]}


async def meanwhile(state: Order) -> Order:
    return {"log": ["meanwhile"]}


def ordering():
    graph = StateGraph(Order)
    for name, node in (("prepare", prepare), ("confirm", confirm), ("meanwhile", meanwhile)):
        graph.add_node(name, node)
    graph.add_edge(START, "prepare")
    graph.add_edge("prepare", "confirm")
    graph.add_edge("prepare", "meanwhile")
    return graph.compile(name="ordering")


orders = ordering()


async def by_name(value: Any) -> str:
    return str(await gate(f"Who says so? {value}", options=["ann", "bob"]))


@workflow
async def lg_order() -> list[str]:
    return (await run(orders, {"log": []}, approval={"timeout": "2d"}))["log"]


@workflow
async def lg_order_by_name() -> list[str]:
    return (await run(orders, {"log": []}, ask=by_name))["log"]


def test_an_interrupt_is_a_gate_and_nothing_before_its_node_runs_again(holdfast_lab):
    started = holdfast_lab.start(lg_order)
    holdfast_lab.settle()
    [first] = holdfast_lab.engine.gates.list(run=started.id)
    assert first.prompt == "Ship it?"
    assert "ordering/node:meanwhile" in [event.step for event in started.history()]

    holdfast_lab.engine.gates.approve(first.id, by="ann")
    holdfast_lab.settle()
    [second] = holdfast_lab.engine.gates.list(run=started.id)
    holdfast_lab.engine.gates.reject(second.id, by="ann")

    assert holdfast_lab.finish(started) == ["prepared", "True False", "meanwhile"]
    assert (world["prepare"], world["confirm"]) == (1, 3)


def test_questions_can_be_asked_in_another_way(holdfast_lab):
    started = holdfast_lab.start(lg_order_by_name)
    for name in ("ann", "bob"):
        holdfast_lab.settle()
        [gate_] = holdfast_lab.engine.gates.list(run=started.id)
        holdfast_lab.engine.gates.decide(gate_.id, name, by="carl")

    assert holdfast_lab.finish(started) == ["prepared", "ann bob", "meanwhile"]
    opened = [event.step for event in started.history() if event.kind == "gate_opened"]
    assert opened == ["ordering/gate", "ordering/gate#2"]


def test_interrupts_survive_every_crash(everywhere, approve):
    everywhere(lg_order, setup=world.clear, people=[approve, approve])


@tool
def buy(what: str) -> str:
    """Buy something."""
    world[f"buy {what}"] += 1
    return f"bought {what}"


buyer = agent([buy], call("buy", what="tea"), call("buy", 2, what="gold"))


@workflow
async def lg_buy() -> str:
    return said(
        await run(
            buyer, QUESTION, approve=["buy"], approval={"assignees": ["ann"], "timeout": "2d"}
        )
    )


def test_people_approve_and_reject_calls_of_tools(holdfast_lab):
    started = holdfast_lab.start(lg_buy)
    holdfast_lab.settle()
    for gate_ in holdfast_lab.engine.gates.list(run=started.id):
        assert gate_.prompt == "May calculator call buy?"
        if "tea" in str(holdfast_lab.engine.gates.get(gate_.id).data):
            holdfast_lab.engine.gates.approve(gate_.id, by="ann")
        else:
            holdfast_lab.engine.gates.reject(gate_.id, by="ann", feedback="too dear")

    assert holdfast_lab.finish(started) == "got ['bought tea', 'too dear']"
    assert (world["buy tea"], world["buy gold"], world["model"]) == (1, 0, 2)


def test_approval_is_asked_for_in_a_graph_whose_state_is_a_list_of_messages(holdfast_lab):
    graph = StateGraph(Annotated[list, add_messages])
    graph.add_node(
        "ask",
        lambda messages: AIMessage(
            "", tool_calls=[call("buy", what="tea"), call("buy", 2, what="gold")]
        ),
    )
    graph.add_node("tools", ToolNode([buy]))
    graph.add_edge(START, "ask")
    graph.add_edge("ask", "tools")
    compiled = graph.compile(name="lister")

    @workflow(name="lg_list")
    async def listed() -> list[str]:
        state = await run(compiled, [("user", "?")], approve=["buy"])
        return [message.content for message in state[-2:]]

    started = holdfast_lab.start(listed)
    holdfast_lab.settle()
    first, second = holdfast_lab.engine.gates.list(run=started.id)
    holdfast_lab.engine.gates.approve(first.id, by="ann")
    holdfast_lab.engine.gates.reject(second.id, by="ann", feedback="no")

    assert sorted(holdfast_lab.finish(started)) in (["bought gold", "no"], ["bought tea", "no"])


def test_without_an_answer_in_time_the_tool_is_not_called(holdfast_lab):
    assert "Nobody decided in time" in holdfast_lab.run_to_end(lg_buy)


# Errors of tools


@tool
def flaky(a: int) -> int:
    """Fail at first."""
    world["flaky"] += 1
    if holdfast.info().attempt < 3:
        raise ConnectionError("not yet")
    return a


@tool
def asks_again(a: int) -> int:
    """Ask for more time."""
    if holdfast.info().attempt == 1:
        raise Retry("in a while", after="2d")
    return a


@tool
def hopeless(a: int) -> int:
    """Give up."""
    world["hopeless"] += 1
    raise Fail("it cannot be done")


stubborn = agent([flaky, asks_again], call("flaky", a=1), call("asks_again", a=2))
hopeful = agent([hopeless], call("hopeless", a=1))


@workflow
async def lg_stubborn() -> str:
    return said(await run(stubborn, QUESTION, tools={"flaky": {"retries": 3, "delay": "1h"}}))


@workflow
async def lg_hopeful() -> str:
    return said(await run(hopeful, QUESTION, node={"retries": 5}))


def test_a_tool_is_retried_as_was_said_and_as_its_code_asks(holdfast_lab):
    assert holdfast_lab.run_to_end(lg_stubborn) == "got ['1', '2']"
    assert (world["flaky"], world["model"]) == (3, 2)


def test_a_tool_that_gives_up_fails_the_run_at_once(holdfast_lab):
    with pytest.raises(RunFailed, match="it cannot be done"):
        holdfast_lab.run_to_end(lg_hopeful)

    assert world["hopeless"] == 1


# Words and money


@tool
def talk(what: str) -> str:
    """Say something while at work."""
    get_stream_writer()({"now": what})
    return what


speaker = agent([talk], call("talk", what="hm"))


@workflow
async def lg_speak() -> str:
    return said(await run(speaker, QUESTION, stream=True))


def test_what_a_model_says_is_output_of_the_run(holdfast_lab):
    started = holdfast_lab.start(lg_speak, budget={"tokens": None, "requests": None})

    holdfast_lab.finish(started)
    assert [
        (frame.name, frame.value) for frame in holdfast_lab.engine.streams.tail(started.id)
    ] == [
        ("tool_call", {"tool": "talk", "arguments": {"what": "hm"}}),
        ("custom", {"now": "hm"}),
        ("text", "got"),
        ("text", "['hm']"),
    ]
    assert holdfast_lab.engine.budgets.usage(started.id).total == {"requests": 2, "tokens": 220}


def test_an_agent_without_tokens_waits_for_more(holdfast_lab):
    started = holdfast_lab.start(lg_calculate, budget={"tokens": 100})
    holdfast_lab.settle()
    assert (started.status, world["model"]) == ("blocked", 1)

    holdfast_lab.engine.budgets.raise_limits(f"tree:{started.id}", {"tokens": 1000})

    assert holdfast_lab.finish(started) == "got ['3', '6', '9']"


# Flows, and what makes no sense


def test_managed_flows_are_a_tool(tmp_path):
    with Engine(tmp_path / "flows.db") as engine:
        found = flow_tool(FlowTool(engine, agent="kate", session="s1"))
        graph = agent([found], call("flow", action="start", controller="research", goal="compare"))

        @workflow(name="lg_flows")
        async def research() -> str:
            return said(await run(graph, QUESTION))

        assert '"ok": true' in engine.start(research).result(timeout="20s")
        assert [flow.goal for flow in engine.flows.list(owner="agent:kate:session:s1")] == [
            "compare"
        ]


@workflow
async def lg_stopping() -> None:
    graph = StateGraph(Order)
    graph.add_node("prepare", prepare)
    graph.add_edge(START, "prepare")
    graph.add_edge("prepare", END)
    await run(graph.compile(interrupt_before=["prepare"]), {"log": []})


def test_what_cannot_be_done_is_refused(holdfast_lab):
    with pytest.raises(RunFailed, match="interrupt_before"):
        holdfast_lab.run_to_end(lg_stopping)
    with pytest.raises(BadOption, match="StateGraph"):
        asyncio.run(run(StateGraph(Order), {}))
    wrong: list[dict[str, Any]] = [
        {"node": {"retry": 1}},
        {"nodes": {"think": {"x": 1}}},
        {"tools": {"add": {"x": 1}}},
        {"approval": {"x": 1}},
        {"nodes": {"thnik": {}}},
        {"tools": {"ad": {}}},
        {"approve": ["ad"]},
        {"approve": ["add"], "nodes": {"tools": False}},
    ]
    for options in wrong:
        with pytest.raises(BadOption):
            asyncio.run(run(calculator, QUESTION, **options))
