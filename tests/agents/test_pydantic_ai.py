"""Agents of Pydantic AI in workflows: every request and every tool is a step; crashes, retries,
approval, words, money."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent, FunctionToolset, ModelRetry
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import DeltaThinkingPart, DeltaToolCall, FunctionModel
from pydantic_ai.usage import RequestUsage

import holdfast
from holdfast import Engine, Fail, Retry, gather, step, workflow
from holdfast.agents import FlowTool
from holdfast.agents.pydantic_ai import HoldfastDurability, flow_toolset
from holdfast.errors import BadOption, NotInWorkflow, RunFailed

world: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def new_world():
    world.clear()


def told(messages):
    """Return what tools have answered so far."""
    return [
        part.content
        for message in messages
        for part in message.parts
        if isinstance(part, ToolReturnPart)
    ]


def says(*calls, text=None):
    parts = (
        [TextPart(text)]
        if text is not None
        else [ToolCallPart(name, arguments) for name, arguments in calls]
    )
    return ModelResponse(parts=parts, usage=RequestUsage(input_tokens=100, output_tokens=10))


def scripted(*turns):
    """Return a model that says one thing after another; a turn may be a function of what tools have
    answered."""

    def think(messages, info):
        world["model"] += 1
        turn = turns[sum(isinstance(message, ModelResponse) for message in messages)]
        return turn(messages) if callable(turn) else turn

    return FunctionModel(think)


# Parallel tools, and crashes

sums = FunctionToolset(id="sums")


@sums.tool_plain
def add(a: int, b: int) -> int:
    world[f"add {a} {b}"] += 1
    return a + b


@sums.tool_plain
async def multiply(a: int, b: int) -> int:
    world[f"multiply {a} {b}"] += 1
    return a * b


class Report(BaseModel):
    total: int
    parts: list[int]


def final(messages):
    found = told(messages)
    return says(("final_result", {"total": sum(found), "parts": found}))


calculator = Agent(
    scripted(
        says(("add", {"a": 1, "b": 2}), ("multiply", {"a": 2, "b": 3}), ("add", {"a": 4, "b": 5})),
        final,
    ),
    name="calculator",
    output_type=Report,
    toolsets=[sums],
    capabilities=[HoldfastDurability(model={"retries": 2}, stream=False)],
)


@workflow
async def pai_calculate(question: str) -> Report:
    return (await calculator.run(question)).output


def test_requests_and_tools_are_steps_and_the_output_has_its_type(holdfast_lab):
    run = holdfast_lab.start(pai_calculate, "how much?")

    assert holdfast_lab.finish(run) == Report(total=18, parts=[3, 6, 9])
    names = [event.step for event in run.history() if event.kind == "step_completed"]
    tool = "calculator/function_toolset__sums.call_tool:"
    assert names[0] == "calculator/model.request"
    assert sorted(names[1:4]) == [f"{tool}add", f"{tool}add#2", f"{tool}multiply"]
    assert names[4:] == ["calculator/model.request#2"]


def test_it_comes_to_the_same_end_whatever_crashes(everywhere):
    everywhere(pai_calculate, "how much?", setup=world.clear)


@pytest.mark.timeout(300)  # a process that loads a framework takes its time
def test_a_process_that_dies_in_a_tool_costs_no_second_answer(killed_in_a_tool):
    result, effects = killed_in_a_tool("pydantic_ai")

    assert result == "it is 5"
    assert effects == ["model", "tool", "tool", "model"]


@workflow
async def pai_twice(question: str) -> list[int]:
    first, second = await gather(calculator.run(question), calculator.run(question))
    third = await calculator.run(question)
    return [first.output.total, second.output.total, third.output.total]


def test_agents_side_by_side_and_one_after_another_do_not_mix(holdfast_lab):
    run = holdfast_lab.start(pai_twice, "?")

    assert holdfast_lab.finish(run) == [18, 18, 18]
    agents = Counter(event.step.split("/")[0] for event in run.history() if event.step)
    assert agents == {"calculator": 5, "calculator#2": 5, "calculator#3": 5}


# Outside workflows


@step
async def calculate_in_a_step(question: str) -> int:
    return (await calculator.run(question)).output.total


@workflow
async def pai_in_a_step(question: str) -> int:
    return await calculate_in_a_step(question)


@workflow
def pai_in_a_plain_workflow(question: str) -> int:
    return asyncio.run(calculator.run(question)).output.total


def test_elsewhere_an_agent_is_what_it_was(holdfast_lab):
    assert asyncio.run(calculator.run("?")).output.total == 18
    run = holdfast_lab.start(pai_in_a_step, "?")
    assert holdfast_lab.finish(run) == 18
    assert [event.step for event in run.history() if event.step] == ["calculate_in_a_step"]
    with pytest.raises(RunFailed, match="async def workflow"):
        holdfast_lab.run_to_end(pai_in_a_plain_workflow, "?")


# Plain functions of an agent that are no tools

careful = Agent(
    scripted(says(text="a"), says(text="abc")), name="careful", capabilities=[HoldfastDurability()]
)


@careful.instructions
def instruct() -> str:
    return "be brief"


@careful.output_validator
def long_enough(output: str) -> str:
    if len(output) < 2:
        raise ModelRetry("more")
    return output


@workflow
async def pai_careful() -> str:
    return (await careful.run("?")).output


def test_plain_functions_of_an_agent_are_workflow_code(holdfast_lab):
    assert holdfast_lab.run_to_end(pai_careful) == "abc"
    assert world["model"] == 2


# Errors of tools

trouble = FunctionToolset(id="trouble")


@trouble.tool_plain(metadata={"holdfast": {"retries": 3, "delay": "1h"}})
def flaky(a: int) -> int:
    world["flaky"] += 1
    if holdfast.info().attempt < 3:
        raise ConnectionError("not yet")
    return a


@trouble.tool_plain
def asks_again(a: int) -> int:
    world["asks again"] += 1
    if holdfast.info().attempt == 1:
        raise Retry("in a while", after="2d")
    return a


@trouble.tool_plain
def hopeless(a: int) -> int:
    world["hopeless"] += 1
    raise Fail("it cannot be done")


@trouble.tool_plain
def picky(a: int) -> int:
    if a < 10:
        raise ModelRetry("give a larger number")
    return a


@trouble.tool_plain(metadata={"holdfast": False})
async def light(a: int) -> int:
    return a + 1


def troubled(*turns, **options):
    return Agent(
        scripted(*turns),
        name="troubled",
        toolsets=[trouble],
        capabilities=[HoldfastDurability(**options)],
    )


def last(messages):
    return says(text=f"got {told(messages)}")


stubborn = troubled(
    says(("flaky", {"a": 1}), ("asks_again", {"a": 2})), says(("light", {"a": 6})), last
)
hopeful = troubled(says(("hopeless", {"a": 1})), last, tool={"retries": 5})
honest = troubled(
    says(("hopeless", {"a": 1})), lambda messages: says(text="I could not"), tell_failures=True
)
corrected = troubled(says(("picky", {"a": 1})), says(("picky", {"a": 11})), last)


@workflow
async def pai_stubborn() -> str:
    return (await stubborn.run("?")).output


@workflow
async def pai_hopeful() -> str:
    return (await hopeful.run("?")).output


@workflow
async def pai_honest() -> str:
    return (await honest.run("?")).output


@workflow
async def pai_corrected() -> str:
    return (await corrected.run("?")).output


def test_a_tool_is_retried_as_its_metadata_say_and_as_its_code_asks(holdfast_lab):
    run = holdfast_lab.start(pai_stubborn)

    assert holdfast_lab.finish(run) == "got [1, 2, 7]"
    assert (world["flaky"], world["asks again"], world["model"]) == (3, 2, 3)
    assert not any("light" in (event.step or "") for event in run.history())


def test_a_tool_that_gives_up_fails_the_run_at_once(holdfast_lab):
    with pytest.raises(RunFailed, match="it cannot be done"):
        holdfast_lab.run_to_end(pai_hopeful)

    assert world["hopeless"] == 1


def test_a_model_can_be_told_that_a_tool_has_failed(holdfast_lab):
    assert holdfast_lab.run_to_end(pai_honest) == "I could not"


def test_a_model_is_told_to_call_a_tool_in_another_way(holdfast_lab):
    run = holdfast_lab.start(pai_corrected)

    assert holdfast_lab.finish(run) == "got ['give a larger number', 11]"
    assert world["model"] == 3


def test_a_request_that_fails_is_made_again(holdfast_lab):
    def think(messages, info):
        world["model"] += 1
        if world["model"] < 3:
            raise ConnectionError("overloaded")
        return says(text="at last")

    agent = Agent(
        FunctionModel(think),
        name="patient",
        capabilities=[HoldfastDurability(model={"retries": 5, "delay": "1h"})],
    )

    @workflow(name="pai_patient")
    async def patient() -> str:
        return (await agent.run("?")).output

    assert holdfast_lab.run_to_end(patient) == "at last"
    assert world["model"] == 3


# Approval

shop = FunctionToolset(id="shop")


@shop.tool_plain(requires_approval=True)
def buy(what: str) -> str:
    world[f"buy {what}"] += 1
    return f"bought {what}"


buyer = Agent(
    scripted(says(("buy", {"what": "tea"}), ("buy", {"what": "gold"})), last),
    name="buyer",
    toolsets=[shop],
    capabilities=[HoldfastDurability(approval={"assignees": ["ann"], "timeout": "2d"})],
)


@workflow
async def pai_buy() -> str:
    return (await buyer.run("buy")).output


def test_people_approve_and_reject_calls_of_tools(holdfast_lab):
    run = holdfast_lab.start(pai_buy)
    holdfast_lab.settle()
    gates = holdfast_lab.engine.gates.list(run=run.id)
    assert [gate.prompt for gate in gates] == ["May buyer call buy?", "May buyer call buy?"]
    assert not world["buy tea"]

    for gate in gates:
        if "tea" in str(gate.data):
            holdfast_lab.engine.gates.approve(gate.id, by="ann")
        else:
            holdfast_lab.engine.gates.reject(gate.id, by="ann", feedback="too dear")

    assert holdfast_lab.finish(run) == "got ['bought tea', 'too dear']"
    assert (world["buy tea"], world["buy gold"], world["model"]) == (1, 0, 2)


def test_without_an_answer_in_time_the_tool_is_not_called(holdfast_lab):
    assert "Nobody decided in time" in holdfast_lab.run_to_end(pai_buy)
    assert not world["buy tea"]


def test_approval_survives_every_crash(everywhere, approve):
    everywhere(pai_buy, setup=world.clear, people=[approve, approve])


def test_approval_survives_every_crash_on_postgres(everywhere_on_postgres, approve):
    everywhere_on_postgres(pai_buy, setup=world.clear, people=[approve, approve])


# Words and money


async def speak(messages, info):
    world["model"] += 1
    if len(messages) == 1:
        yield {0: DeltaThinkingPart(content="hm")}
        yield {1: DeltaToolCall(name="add", json_args='{"a": 1,', tool_call_id="c1")}
        yield {1: DeltaToolCall(json_args='"b": 2}', tool_call_id="c1")}
    else:
        for word in ("it ", "is ", "3"):
            yield word


heard: list[str] = []


async def listen(ctx, events):
    async for event in events:
        heard.append(type(event).__name__)


speaker = Agent(
    FunctionModel(stream_function=speak),
    name="speaker",
    toolsets=[sums],
    capabilities=[HoldfastDurability(stream=True)],
)
listened = Agent(
    FunctionModel(stream_function=speak),
    name="speaker",
    toolsets=[sums],
    capabilities=[HoldfastDurability(stream=True, event_stream_handler=listen)],
)


@workflow
async def pai_speak() -> str:
    return (await speaker.run("?")).output


@workflow
async def pai_listened() -> str:
    return (await listened.run("?")).output


def test_what_a_model_says_is_output_of_the_run(holdfast_lab):
    run = holdfast_lab.start(pai_speak)

    assert holdfast_lab.finish(run) == "it is 3"
    frames = [(frame.name, frame.value) for frame in holdfast_lab.engine.streams.tail(run.id)]
    assert frames == [
        ("thinking", "hm"),
        ("tool_call", {"tool": "add", "arguments": {"a": 1, "b": 2}}),
        ("text", "it "),
        ("text", "is "),
        ("text", "3"),
    ]


def test_a_handler_of_events_is_still_told(holdfast_lab):
    heard.clear()

    assert holdfast_lab.run_to_end(pai_listened) == "it is 3"
    assert {
        "PartStartEvent",
        "PartDeltaEvent",
        "FunctionToolCallEvent",
        "FunctionToolResultEvent",
    } <= set(heard)


def test_tokens_are_taken_from_the_budget_once(holdfast_lab):
    run = holdfast_lab.start(pai_calculate, "?", budget={"tokens": 1000, "requests": None})

    holdfast_lab.finish(run)

    assert holdfast_lab.engine.budgets.usage(run.id).total == {"requests": 2, "tokens": 220}


def test_an_agent_without_tokens_waits_for_more(holdfast_lab):
    run = holdfast_lab.start(pai_calculate, "?", budget={"tokens": 100})
    holdfast_lab.settle()
    assert (run.status, world["model"]) == ("blocked", 1)

    holdfast_lab.engine.budgets.raise_limits(f"tree:{run.id}", {"tokens": 1000})

    assert holdfast_lab.finish(run).total == 18


def test_what_a_request_costs_can_be_said(holdfast_lab):
    def price(usage):
        return {"money": f"{usage.input_tokens / 1000:.2f}"}

    agent = Agent(
        scripted(says(text="ok")), name="priced", capabilities=[HoldfastDurability(spends=price)]
    )

    @workflow(name="pai_priced")
    async def priced() -> str:
        return (await agent.run("?")).output

    run = holdfast_lab.start(priced, budget={"money": 1})
    holdfast_lab.finish(run)
    assert str(holdfast_lab.engine.budgets.usage(run.id).total["money"]) == "0.1"


# Flows, and what makes no sense


def test_managed_flows_are_a_toolset(tmp_path):
    with Engine(tmp_path / "flows.db") as engine:
        tools = flow_toolset(FlowTool(engine, agent="kate", session="s1"))
        start = says(("flow", {"action": "start", "controller": "research", "goal": "compare"}))
        agent = Agent(
            scripted(start, last),
            name="kate",
            toolsets=[tools],
            capabilities=[HoldfastDurability()],
        )

        @workflow(name="pai_flows")
        async def research() -> str:
            return (await agent.run("?")).output

        assert "'ok': True" in engine.start(research).result(timeout="20s")
        assert [flow.goal for flow in engine.flows.list(owner="agent:kate:session:s1")] == [
            "compare"
        ]


@pytest.mark.parametrize(
    "options",
    [
        {"model": {"retry": 3}},
        {"tool": {"retries": -1}},
        {"approval": {"options": []}},
        {"tool": 3},
    ],
)
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(BadOption):
        HoldfastDurability(**options)


def test_approval_needs_a_workflow():
    from holdfast.agents import adapter

    with pytest.raises(NotInWorkflow):
        adapter.approval("a", "b", {}, {})
