"""Agents of the OpenAI Agents SDK in workflows: every call is a step; crashes, retries, approval,
words, money."""

from __future__ import annotations

import asyncio
import json
from collections import Counter

import pytest
from agents import (
    Agent,
    Model,
    ModelProvider,
    ModelResponse,
    RunConfig,
    ShellTool,
    SQLiteSession,
    Usage,
    function_tool,
    handoff,
)
from agents.tool import ToolOutputText
from openai.types.responses import (
    Response,
    ResponseCompletedEvent,
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseReasoningSummaryTextDeltaEvent,
    ResponseTextDeltaEvent,
    ResponseUsage,
)
from pydantic import BaseModel

import holdfast
from holdfast import Engine, Fail, Retry, gather, workflow
from holdfast.agents import FlowTool
from holdfast.agents.openai_agents import flow_tool, run
from holdfast.errors import BadOption, RunFailed

world: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def new_world():
    world.clear()


def call(name, number=1, **arguments):
    return ResponseFunctionToolCall(
        call_id=f"c-{name}-{number}",
        name=name,
        arguments=json.dumps(arguments),
        type="function_call",
    )


def text(words):
    content = [ResponseOutputText(text=words, type="output_text", annotations=[])]
    return ResponseOutputMessage(
        id="m", role="assistant", status="completed", type="message", content=content
    )


def told(input):
    """Return what tools have answered so far."""
    return [
        item["output"]
        for item in input
        if not isinstance(input, str) and item.get("type") == "function_call_output"
    ]


class Scripted(Model):
    """A model that says one thing after another; a turn may be a function of what tools have
    answered."""

    def __init__(self, *turns):
        self.turns = turns

    def think(self, input):
        world["model"] += 1
        said = (
            0
            if isinstance(input, str)
            else sum(item.get("type") == "function_call" for item in input)
        )
        turn = next(turn for least, turn in reversed(self.turns) if said >= least)
        return turn(told(input)) if callable(turn) else turn

    async def get_response(self, system_instructions, input, *args, **kwargs):
        usage = Usage(requests=1, input_tokens=100, output_tokens=10, total_tokens=110)
        return ModelResponse(output=self.think(input), usage=usage, response_id=None)

    async def stream_response(self, system_instructions, input, *args, **kwargs):
        output, number = self.think(input), 0
        yield ResponseReasoningSummaryTextDeltaEvent(
            delta="hm",
            item_id="r",
            output_index=0,
            summary_index=0,
            sequence_number=0,
            type="response.reasoning_summary_text.delta",
        )
        for item in output:
            for word in item.content[0].text.split() if item.type == "message" else []:
                number += 1
                yield ResponseTextDeltaEvent(
                    delta=word,
                    content_index=0,
                    item_id="m",
                    output_index=0,
                    logprobs=[],
                    sequence_number=number,
                    type="response.output_text.delta",
                )
        usage = ResponseUsage(
            input_tokens=100,
            output_tokens=10,
            total_tokens=110,
            input_tokens_details={"cached_tokens": 0, "cache_write_tokens": 0},
            output_tokens_details={"reasoning_tokens": 0},
        )
        whole = Response(
            id="resp",
            created_at=0,
            model="scripted",
            object="response",
            output=output,
            parallel_tool_calls=True,
            tool_choice="auto",
            tools=[],
            usage=usage,
        )
        yield ResponseCompletedEvent(
            response=whole, sequence_number=number + 1, type="response.completed"
        )


def last(answers):
    return [text(f"got {answers}")]


# Parallel tools, and crashes


@function_tool
def add(a: int, b: int) -> int:
    world[f"add {a} {b}"] += 1
    return a + b


@function_tool
async def multiply(a: int, b: int) -> list[int]:
    world[f"multiply {a} {b}"] += 1
    return [a * b]


@function_tool
def describe(what: str) -> ToolOutputText:
    return ToolOutputText(text=f"a fine {what}")


class Report(BaseModel):
    total: int


three = [call("add", a=1, b=2), call("multiply", a=2, b=3), call("add", 2, a=4, b=5)]
calculator = Agent(
    name="calculator",
    model=Scripted(
        (0, three), (3, lambda answers: [text(json.dumps({"total": sum(map(len, answers))}))])
    ),
    tools=[add, multiply],
    output_type=Report,
)


@workflow
async def oa_calculate(question: str) -> Report:
    return (await run(calculator, question)).final_output


def test_calls_of_models_and_tools_are_steps_and_the_output_has_its_type(holdfast_lab):
    started = holdfast_lab.start(oa_calculate, "how much?")

    assert holdfast_lab.finish(started) == Report(total=5)  # "3", "[6]", "9"
    names = [event.step for event in started.history() if event.kind == "step_completed"]
    assert (names[0], names[-1]) == ("calculator/model", "calculator/model#2")
    assert sorted(names[1:-1]) == [
        "calculator/tool:add",
        "calculator/tool:add#2",
        "calculator/tool:multiply",
    ]


def test_it_comes_to_the_same_end_whatever_crashes(everywhere):
    everywhere(oa_calculate, "how much?", setup=world.clear)


@pytest.mark.timeout(300)  # a process that loads a framework takes its time
def test_a_process_that_dies_in_a_tool_costs_no_second_answer(killed_in_a_tool):
    result, effects = killed_in_a_tool("openai_agents")

    assert result == "it is 5"
    assert effects == ["model", "tool", "tool", "model"]


@workflow
async def oa_twice(question: str) -> list[int]:
    first, second = await gather(run(calculator, question), run(calculator, question))
    third = await run(calculator, question)
    return [item.final_output.total for item in (first, second, third)]


def test_agents_side_by_side_and_one_after_another_do_not_mix(holdfast_lab):
    started = holdfast_lab.start(oa_twice, "?")

    assert holdfast_lab.finish(started) == [5, 5, 5]
    agents = Counter(event.step.split("/")[0] for event in started.history() if event.step)
    assert agents == {"calculator": 5, "calculator#2": 5, "calculator#3": 5}


def test_elsewhere_it_is_the_runner():
    config = RunConfig(tracing_disabled=True)

    assert asyncio.run(run(calculator, "?", run_config=config)).final_output == Report(total=5)


# Handing over, looking models up, remembering


class Shelf(ModelProvider):
    """A provider that knows two models by name."""

    def get_model(self, model_name):
        world[f"looked up {model_name}"] += 1
        turns = {
            "first": [(0, [call("transfer_to_expert")])],
            "second": [(0, [call("describe", what="boat")]), (2, last)],
        }
        return Scripted(*turns[model_name])


expert = Agent(name="expert", model="second", tools=[describe])
desk = Agent(name="desk", model="first", handoffs=[expert])
other_desk = Agent(name="desk", model="first", handoffs=[handoff(expert)])


@workflow
async def oa_hand_over(which: str) -> list[str]:
    config = RunConfig(model_provider=Shelf(), tracing_disabled=True)
    result = await run(desk if which == "agent" else other_desk, "?", run_config=config)
    return [result.last_agent.name, result.final_output]


@pytest.mark.parametrize("which", ["agent", "handoff"])
def test_who_is_handed_over_to_is_durable_too(holdfast_lab, which):
    started = holdfast_lab.start(oa_hand_over, which)

    name, output = holdfast_lab.finish(started)
    assert name == "expert"
    assert "a fine boat" in output
    steps = [event.step for event in started.history() if event.step]
    assert steps == ["desk/model", "desk/model#2", "desk/tool:describe", "desk/model#3"]


def test_a_session_is_read_and_written_in_steps(holdfast_lab, tmp_path):
    agent = Agent(name="mindful", model=Scripted((0, [text("hello")])))

    @workflow(name="oa_mindful")
    async def mindful() -> str:
        session = SQLiteSession("s1", tmp_path / "session.db")
        try:
            return (await run(agent, "hi", session=session)).final_output
        finally:
            session.close()

    started = holdfast_lab.start(mindful)

    assert holdfast_lab.finish(started) == "hello"
    session = SQLiteSession("s1", tmp_path / "session.db")
    assert [item.get("role") for item in asyncio.run(session.get_items())] == ["user", "assistant"]
    session.close()
    assert "mindful/session.add_items" in [event.step for event in started.history()]


# Errors of tools


@function_tool
def flaky(a: int) -> int:
    world["flaky"] += 1
    if holdfast.info().attempt < 3:
        raise ConnectionError("not yet")
    return a


@function_tool
def asks_again(a: int) -> int:
    if holdfast.info().attempt == 1:
        raise Retry("in a while", after="2d")
    return a


@function_tool
def hopeless(a: int) -> int:
    world["hopeless"] += 1
    raise Fail("it cannot be done")


@function_tool(failure_error_function=None)
def fatal(a: int) -> int:
    raise Fail("it cannot be done")


def troubled(*turns):
    return Agent(
        name="troubled", model=Scripted(*turns), tools=[flaky, asks_again, hopeless, fatal]
    )


stubborn = troubled((0, [call("flaky", a=1), call("asks_again", a=2)]), (2, last))
hopeful = troubled((0, [call("hopeless", a=1)]), (1, last))
doomed = troubled((0, [call("fatal", a=1)]), (1, last))


@workflow
async def oa_stubborn() -> str:
    return (await run(stubborn, "?", tools={"flaky": {"retries": 3, "delay": "1h"}})).final_output


@workflow
async def oa_hopeful() -> str:
    return (await run(hopeful, "?", tool={"retries": 5})).final_output


@workflow
async def oa_doomed() -> str:
    return (await run(doomed, "?")).final_output


def test_a_tool_is_retried_as_was_said_and_as_its_code_asks(holdfast_lab):
    assert holdfast_lab.run_to_end(oa_stubborn) == "got ['1', '2']"
    assert (world["flaky"], world["model"]) == (3, 2)


def test_the_model_is_told_of_a_tool_that_gives_up(holdfast_lab):
    assert "An error occurred" in holdfast_lab.run_to_end(oa_hopeful)
    assert world["hopeless"] == 1


def test_a_tool_without_words_for_failure_fails_the_run(holdfast_lab):
    with pytest.raises(RunFailed, match="it cannot be done"):
        holdfast_lab.run_to_end(oa_doomed)


# Approval


@function_tool(needs_approval=True)
def buy(what: str) -> str:
    world[f"buy {what}"] += 1
    return f"bought {what}"


buyer = Agent(
    name="buyer",
    model=Scripted((0, [call("buy", what="tea"), call("buy", 2, what="gold")]), (2, last)),
    tools=[buy],
)


@workflow
async def oa_buy() -> str:
    return (await run(buyer, "buy", approval={"assignees": ["ann"], "timeout": "2d"})).final_output


def test_people_approve_and_reject_calls_of_tools(holdfast_lab):
    started = holdfast_lab.start(oa_buy)
    holdfast_lab.settle()
    gates = holdfast_lab.engine.gates.list(run=started.id)
    assert [gate.prompt for gate in gates] == ["May buyer call buy?", "May buyer call buy?"]

    for gate in gates:
        if "tea" in str(holdfast_lab.engine.gates.get(gate.id).data):
            holdfast_lab.engine.gates.approve(gate.id, by="ann")
        else:
            holdfast_lab.engine.gates.reject(gate.id, by="ann", feedback="too dear")

    assert holdfast_lab.finish(started) == "got ['bought tea', 'too dear']"
    assert (world["buy tea"], world["buy gold"], world["model"]) == (1, 0, 2)


def test_without_an_answer_in_time_the_tool_is_not_called(holdfast_lab):
    assert "Nobody decided in time" in holdfast_lab.run_to_end(oa_buy)


def test_approval_survives_every_crash(everywhere, approve):
    everywhere(oa_buy, setup=world.clear, people=[approve, approve])


# Words and money

speaker = Agent(
    name="speaker",
    model=Scripted((0, [call("add", a=1, b=2)]), (1, [text("it is 3")])),
    tools=[add],
)


@workflow
async def oa_speak() -> str:
    return (await run(speaker, "?", stream=True)).final_output


def test_what_a_model_says_is_output_of_the_run(holdfast_lab):
    started = holdfast_lab.start(oa_speak, budget={"tokens": None})

    assert holdfast_lab.finish(started) == "it is 3"
    assert [
        (frame.name, frame.value) for frame in holdfast_lab.engine.streams.tail(started.id)
    ] == [
        ("thinking", "hm"),
        ("tool_call", {"tool": "add", "arguments": {"a": 1, "b": 2}}),
        ("thinking", "hm"),
        ("text", "it"),
        ("text", "is"),
        ("text", "3"),
    ]
    assert holdfast_lab.engine.budgets.usage(started.id).total == {"tokens": 220}


def test_tokens_are_taken_from_the_budget_once(holdfast_lab):
    started = holdfast_lab.start(oa_calculate, "?", budget={"tokens": 1000, "requests": None})

    holdfast_lab.finish(started)

    assert holdfast_lab.engine.budgets.usage(started.id).total == {"requests": 2, "tokens": 220}


def test_an_agent_without_tokens_waits_for_more(holdfast_lab):
    started = holdfast_lab.start(oa_calculate, "?", budget={"tokens": 100})
    holdfast_lab.settle()
    assert (started.status, world["model"]) == ("blocked", 1)

    holdfast_lab.engine.budgets.raise_limits(f"tree:{started.id}", {"tokens": 1000})

    assert holdfast_lab.finish(started).total == 5


# Flows, and what makes no sense


def test_managed_flows_are_a_tool(tmp_path):
    with Engine(tmp_path / "flows.db") as engine:
        tool = flow_tool(FlowTool(engine, agent="kate", session="s1"))
        start = [call("flow", action="start", controller="research", goal="compare")]
        agent = Agent(name="kate", model=Scripted((0, start), (1, last)), tools=[tool])

        @workflow(name="oa_flows")
        async def research() -> str:
            return (await run(agent, "?")).final_output

        assert '"ok": true' in engine.start(research).result(timeout="20s")
        assert [flow.goal for flow in engine.flows.list(owner="agent:kate:session:s1")] == [
            "compare"
        ]


@workflow
async def oa_shell() -> str:
    shell = ShellTool(executor=lambda request: "")
    return (
        await run(Agent(name="sheller", model=Scripted((0, last)), tools=[shell]), "?")
    ).final_output


def test_tools_that_cannot_be_steps_are_refused(holdfast_lab):
    with pytest.raises(RunFailed, match="only function tools"):
        holdfast_lab.run_to_end(oa_shell)


@pytest.mark.parametrize(
    "options",
    [{"model": {"retry": 3}}, {"tools": {"add": {"x": 1}}}, {"approval": {"options": []}}],
)
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(BadOption):
        asyncio.run(run(calculator, "?", **options))
