"""Managed flows as a tool that an agent calls."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

import holdfast
from holdfast import AsyncEngine, Engine, step, workflow
from holdfast.agents import FlowTool
from holdfast.errors import BadDuration, BadOption, EngineClosed, NotInWorkflow

SOON = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
LATE = (datetime.now(UTC) + timedelta(days=31)).isoformat()
PAST = "2020-01-01T00:00:00Z"


@pytest.fixture
def tool(database):
    engine = Engine(database)
    yield FlowTool(engine, agent="kate", session="s1")
    assert engine.database.check() == []
    engine.close()


def begun(tool):
    return tool({"action": "start", "controller": "research", "goal": "compare"})["flow"]["id"]


def test_the_eight_actions(tool):
    flow = begun(tool)
    assert tool({"action": "status", "flow_id": flow})["flow"]["revision"] == 1
    assert (
        tool({"action": "advance", "flow_id": flow, "patch": {"a": 1}, "current_step": "two"})[
            "flow"
        ]["current_step"]
        == "two"
    )
    waiting = tool({"action": "wait", "flow_id": flow, "wait": {"kind": "timer", "at": SOON}})[
        "flow"
    ]
    assert (waiting["status"], waiting["wait"]["kind"]) == ("waiting", "timer")
    assert tool({"action": "cancel", "flow_id": flow})["flow"]["status"] == "cancelled"
    second, third = begun(tool), begun(tool)
    assert tool({"action": "finish", "flow_id": second, "patch": {"b": 2}})["flow"]["state"] == {
        "b": 2
    }
    assert tool({"action": "fail", "flow_id": third, "reason": "no"})["flow"]["status"] == "failed"

    mine = tool({"action": "list_mine"})
    assert (mine["ok"], mine["count"], {flow["id"] for flow in mine["flows"]}) == (
        True,
        3,
        {flow, second, third},
    )


def test_arguments_may_come_as_the_text_that_a_model_wrote(tool):
    assert tool('{"action": "start", "controller": "c", "goal": "g"}')["ok"]
    assert tool("{nonsense")["ok"] is False
    assert tool("[1]")["ok"] is False


def test_the_definition_names_every_action_and_is_plain_data(tool):
    definition = tool.definition

    assert definition["parameters"]["properties"]["action"]["enum"] == [
        "start",
        "status",
        "advance",
        "wait",
        "finish",
        "fail",
        "cancel",
        "list_mine",
    ]
    assert set(definition) == {"name", "description", "parameters"}


def test_another_session_can_neither_see_nor_touch_it(tool, database):
    flow = begun(tool)
    engine = Engine(database)
    other = FlowTool(engine, agent="kate", session="s2")

    for arguments in (
        {"action": "status"},
        {"action": "cancel"},
        {"action": "advance"},
        {"action": "fail", "reason": "x"},
    ):
        assert other({**arguments, "flow_id": flow})["error"] == "belongs to a different session"
    assert other({"action": "list_mine"}) == {"ok": True, "count": 0, "flows": []}
    assert tool({"action": "status", "flow_id": flow})["flow"]["status"] == "running"
    engine.close()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"action": "dance"}, "list_mine"),
        ({}, "list_mine"),
        ({"action": "start", "controller": "c"}, "goal"),
        ({"action": "start", "controller": "c", "goal": "  "}, "goal"),
        ({"action": "start", "controller": "c", "goal": "g", "owner": "me"}, "owner"),
        ({"action": "fail", "reason": " "}, "reason"),
        ({"action": "wait"}, "wait"),
        ({"action": "wait", "wait": {"kind": "moon"}}, "external_event"),
        ({"action": "wait", "wait": {"kind": "timer"}}, "at"),
        ({"action": "wait", "wait": {"kind": "timer", "at": "soon"}}, "2026-12-24"),
        ({"action": "wait", "wait": {"kind": "timer", "at": PAST}}, "past"),
        ({"action": "wait", "wait": {"kind": "timer", "at": LATE}}, "too far"),
        (
            {
                "action": "wait",
                "wait": {"kind": "external_event", "topic": " ", "correlation": "7"},
            },
            "topic",
        ),
        ({"action": "wait", "wait": {"kind": "manual", "at": SOON}}, "at"),
        ({"action": "wait", "wait": {"kind": ["timer"]}}, "external_event"),
        ({"action": "fail", "reason": None}, "reason"),
        ({"action": "list_mine", "status": "running"}, "list_mine does not take it"),
    ],
)
def test_what_a_model_gets_wrong_comes_back_as_data(tool, arguments, told):
    flow = begun(tool)
    given = (
        arguments
        if arguments.get("action") in ("start", "dance", None)
        else {**arguments, "flow_id": flow}
    )

    answer = tool(given)

    assert answer["ok"] is False
    assert told in answer["error"]
    assert tool({"action": "status", "flow_id": flow})["flow"]["revision"] == 1


@pytest.mark.parametrize("arguments", ["", "{", "null", "7", "[]", '"start"', None, 7, []])
def test_arguments_that_are_no_object_come_back_as_data_too(tool, arguments):
    assert tool(arguments)["ok"] is False


def test_what_a_model_leaves_empty_was_not_given(tool):
    made = tool(
        '{"action": "start", "controller": "c", "goal": "g", "current_step": null, "state": null,'
        ' "flow_id": null}'
    )
    assert (made["ok"], made["flow"]["current_step"], made["flow"]["state"]) == (True, "init", {})


def test_an_unknown_flow_is_no_exception(tool):
    assert tool({"action": "status", "flow_id": "x"}) == {
        "ok": False,
        "error": "not_found",
        "flow_id": "x",
    }


def test_a_tool_belongs_to_a_session(database):
    engine = Engine(database)
    for agent, session in (
        ("kate", ""),
        ("", "s"),
        ("kate", None),
        ("kate", 7),
        (b"kate", "s"),
        ("kate", "a\0b"),
        ("kate", "\ud800"),
        ("k" * 200, "s"),
        ("kate:session:s", "1"),
        ("kate:session", "1"),
    ):
        with pytest.raises(BadOption):
            FlowTool(engine, agent=agent, session=session)
    with pytest.raises(BadDuration):
        FlowTool(engine, agent="kate", session="s", horizon="soon")
    engine.close()


def test_sessions_that_differ_by_a_colon_are_not_mixed_up(database):
    engine = Engine(database)
    mine = FlowTool(engine, agent="kate", session="s:session:1")
    with pytest.raises(BadOption):
        FlowTool(engine, agent="kate:session:s", session="1")
    assert mine.owner == "agent:kate:session:s:session:1"
    engine.close()


def test_a_session_whose_name_ends_in_a_space_finds_its_flows_again(database):
    engine = Engine(database)
    tool = FlowTool(engine, agent="kate", session="s1 ")

    assert tool({"action": "status", "flow_id": begun(tool)})["ok"] is True
    assert tool({"action": "list_mine"})["count"] == 1
    engine.close()


def test_what_is_nested_too_deep_comes_back_as_data(tool):
    deep = "[" * 50_000 + "]" * 50_000
    answer = tool(f'{{"action": "start", "controller": "c", "goal": "g", "state": {deep}}}')
    assert (answer["ok"], tool({"action": "list_mine"})["count"]) == (False, 0)


def test_what_is_no_fault_of_the_model_is_raised(database):
    engine = Engine(database)
    tool = FlowTool(engine, agent="kate", session="s1")
    engine.close()
    with pytest.raises(EngineClosed):
        tool({"action": "start", "controller": "c", "goal": "g"})


def test_the_tool_of_an_async_engine_is_awaited(database):
    async def main():
        engine = AsyncEngine(database)
        tool = FlowTool(engine, agent="kate", session="s1")
        with pytest.raises(NotInWorkflow, match="aio"):
            tool({"action": "list_mine"})
        made = (await tool.aio('{"action": "start", "controller": "c", "goal": "g"}'))["flow"]["id"]
        told = [
            await tool.aio({"action": "advance", "flow_id": made, "patch": {"x": 1}}),
            await tool.aio(
                {"action": "wait", "flow_id": made, "wait": {"kind": "timer", "at": PAST}}
            ),
            await tool.aio({"action": "status", "flow_id": made}),
            await tool.aio({"action": "status", "flow_id": "x"}),
            await tool.aio({"action": "finish", "flow_id": made}),
            await tool.aio({"action": "finish", "flow_id": made}),
            await tool.aio({"action": "list_mine"}),
            await tool.aio("{"),
        ]
        await engine.close()
        return [answer["ok"] for answer in told]

    assert asyncio.run(main()) == [True, False, True, False, True, False, True, False]


def test_the_tool_of_an_engine_can_be_awaited_too(tool):
    assert asyncio.run(tool.aio({"action": "list_mine"})) == {"ok": True, "count": 0, "flows": []}


@step(retries=1, delay="1ms")
def start_flows(tool_of: str) -> list[str]:
    tool = TOOLS[tool_of]
    made = [
        tool({"action": "start", "controller": "research", "goal": goal})["flow"]["id"]
        for goal in ("compare", "choose")
    ]
    if holdfast.info().attempt == 1:
        raise ConnectionError("the answer was lost")
    return made


@workflow
async def flows_from_a_step(tool_of: str) -> list[str]:
    return await start_flows.aio(tool_of)


TOOLS: dict[str, FlowTool] = {}


def test_a_step_that_is_made_again_starts_no_second_flow(engine):
    TOOLS["kate"] = FlowTool(engine, agent="kate", session="s1")

    made = engine.start(flows_from_a_step, "kate").result(timeout="20s")

    assert sorted(flow["id"] for flow in TOOLS["kate"]({"action": "list_mine"})["flows"]) == sorted(
        made
    )
    assert len(set(made)) == 2


@step(retries=1, delay="1ms")
def act_on_flows(tool_of: str) -> list[bool]:
    tool = TOOLS[tool_of]
    told = []
    for number, end in enumerate(ENDS):
        flow = tool({"action": "start", "controller": "research", "goal": str(number)})["flow"][
            "id"
        ]
        told.append(tool({**end, "flow_id": flow})["ok"])
    if holdfast.info().attempt == 1:
        raise ConnectionError("the answers were lost")
    return told


ENDS = (
    {"action": "finish"},
    {"action": "finish", "patch": {"x": 1}},
    {"action": "fail", "reason": " no "},
    {"action": "cancel"},
    {"action": "wait", "wait": {"kind": "manual"}},
    {"action": "wait", "wait": {"kind": "timer", "at": SOON}},
    {"action": "wait", "wait": {"kind": "external_event", "topic": "t", "correlation": "c"}},
)


@workflow
async def flows_that_end_in_a_step(tool_of: str) -> list[bool]:
    return await act_on_flows.aio(tool_of)


def test_a_step_that_is_made_again_hears_that_what_it_did_is_done(engine):
    TOOLS["ann"] = FlowTool(engine, agent="ann", session="s1")

    assert engine.start(flows_that_end_in_a_step, "ann").result(timeout="20s") == [True] * len(ENDS)
    assert {flow["revision"] for flow in TOOLS["ann"]({"action": "list_mine"})["flows"]} == {2}


@step
def end_twice(tool_of: str) -> list[bool]:
    tool = TOOLS[tool_of]
    flow = tool({"action": "start", "controller": "research", "goal": "once"})["flow"]["id"]
    ends = [
        {"action": "finish", "patch": {"x": 1}},
        {"action": "finish", "patch": {"x": 2}},
        {"action": "cancel"},
    ]
    return [tool({**end, "flow_id": flow})["ok"] for end in ends]


@workflow
async def a_flow_that_ends_twice(tool_of: str) -> list[bool]:
    return await end_twice.aio(tool_of)


def test_another_end_is_refused_in_a_step_too(engine):
    TOOLS["bob"] = FlowTool(engine, agent="bob", session="s1")

    assert engine.start(a_flow_that_ends_twice, "bob").result(timeout="20s") == [True, False, False]
