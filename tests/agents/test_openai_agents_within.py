"""Agents of the OpenAI Agents SDK within agents, and guardrails: what they call are steps of the
run, too."""

from __future__ import annotations

import pytest
from agents import (
    Agent,
    GuardrailFunctionOutput,
    InputGuardrailTripwireTriggered,
    RunConfig,
    Runner,
    ToolGuardrailFunctionOutput,
    function_tool,
    input_guardrail,
    output_guardrail,
    tool_input_guardrail,
)

from holdfast import workflow
from holdfast.agents.openai_agents import run
from holdfast.errors import RunFailed
from tests.agents.test_openai_agents import Report, Scripted, add, call, last, text, world


@pytest.fixture(autouse=True)
def new_world():
    world.clear()


# Guardrails


judge = Agent(name="judge", model=Scripted((0, [text("fine")])))


@input_guardrail
async def polite(context, agent, input):
    verdict = await Runner.run(judge, input, run_config=RunConfig(tracing_disabled=True))
    world["polite"] += 1
    return GuardrailFunctionOutput(
        output_info=verdict.final_output, tripwire_triggered=input == "you fool"
    )


@output_guardrail
def sound(context, agent, output):
    world["sound"] += 1
    return GuardrailFunctionOutput(output_info=Report(total=len(output)), tripwire_triggered=False)


@tool_input_guardrail
async def small(data):
    world["small"] += 1
    if '"a": 4' in data.context.tool_arguments:
        return ToolGuardrailFunctionOutput.reject_content("too big")
    return ToolGuardrailFunctionOutput.allow()


@function_tool(tool_input_guardrails=[small])
def double(a: int) -> int:
    world[f"double {a}"] += 1
    return 2 * a


guarded = Agent(
    name="guarded",
    model=Scripted((0, [call("double", a=1), call("double", 2, a=4)]), (2, last)),
    tools=[double],
    input_guardrails=[polite],
    output_guardrails=[sound],
)


@workflow
async def oa_guarded(question: str) -> list[str]:
    try:
        result = await run(guarded, question)
    except InputGuardrailTripwireTriggered as refused:
        return ["refused", refused.guardrail_result.guardrail.get_name()]
    info = [
        guardrail.output.output_info
        for guardrail in (*result.input_guardrail_results, *result.output_guardrail_results)
    ]
    return [result.final_output, *map(str, info)]


def test_guardrails_judge_in_steps(holdfast_lab):
    started = holdfast_lab.start(oa_guarded, "please")

    assert holdfast_lab.finish(started) == ["got ['2', 'too big']", "fine", "{'total': 20}"]
    names = sorted(
        event.step for event in started.history() if event.step and "guardrail" in event.step
    )
    assert names == [
        "guarded/guardrail:polite",
        "guarded/guardrail:small",
        "guarded/guardrail:small#2",
        "guarded/guardrail:sound",
    ]
    assert (world["double 1"], world["double 4"]) == (1, 0)


def test_what_guardrails_found_is_the_same_whatever_crashes(everywhere):
    everywhere(oa_guarded, "please", setup=world.clear)


def test_a_guardrail_stops_an_agent_whatever_crashes(holdfast_lab, everywhere):
    assert holdfast_lab.run_to_end(oa_guarded, "you fool") == ["refused", "polite"]
    everywhere(oa_guarded, "you fool", setup=world.clear)


# Agents that are tools


@function_tool(needs_approval=True)
def pay(a: int) -> int:
    world["pay"] += 1
    return a


cashier = Agent(
    name="cashier",
    model=Scripted((0, [call("pay", a=1), call("add", a=1, b=2)]), (2, last)),
    tools=[pay, add],
)
manager = Agent(
    name="manager",
    model=Scripted((0, [call("cash", input="x"), call("add", 3, a=1, b=2)]), (2, last)),
    tools=[add, cashier.as_tool("cash", "Ask the cashier.")],
)
listener = Agent(
    name="listener",
    model=Scripted((0, [call("cash", input="x")]), (1, last)),
    tools=[
        cashier.as_tool("cash", "Ask the cashier.", on_stream=print, failure_error_function=None)
    ],
)


@workflow
async def oa_manage() -> str:
    return (await run(manager, "?")).final_output


@workflow
async def oa_listen() -> str:
    return (await run(listener, "?")).final_output


def test_what_an_agent_that_is_a_tool_calls_are_steps(holdfast_lab):
    started = holdfast_lab.start(oa_manage)
    holdfast_lab.settle()
    [gate] = holdfast_lab.engine.gates.list(run=started.id)
    assert gate.prompt == "May cashier call pay?"
    holdfast_lab.engine.gates.approve(gate.id, by="ann")

    assert holdfast_lab.finish(started).count("got") == 2
    assert (world["model"], world["pay"], world["add 1 2"]) == (4, 1, 2)
    steps = {event.step for event in started.history() if event.kind == "step_completed"}
    assert {
        "manager/model",
        "manager/tool:cash/model",
        "manager/tool:cash/tool:add",
        "manager/model#2",
    } < steps


def test_an_agent_that_is_a_tool_and_waits_for_people_survives_every_crash(everywhere, approve):
    everywhere(oa_manage, setup=world.clear, people=[approve])


def test_an_agent_that_is_a_tool_is_not_listened_to_in_a_workflow(holdfast_lab):
    with pytest.raises(RunFailed, match="stream=True"):
        holdfast_lab.run_to_end(oa_listen)
