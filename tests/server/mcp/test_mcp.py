"""MCP over HTTP: tools, tasks, resources, and what each API key may do."""

from __future__ import annotations

import json

import pytest

from holdfast import Engine, gate, workflow
from holdfast.server import app
from tests.server.clients import ApiClient, problem
from tests.server.mcp.rpc import McpCalls, headers, message
from tests.server.mcp.tools_module import WORKFLOWS


@pytest.fixture
def engine(tmp_path):
    with Engine(tmp_path / "mcp.db", workflows=WORKFLOWS, shutdown_timeout=1) as engine:
        yield engine


@pytest.fixture
def connect(engine):
    make = ApiClient.maker(engine, app(engine, tools=["mcp.hidden"]))

    def connect(*roles, **options):
        client = make(*roles, **options)
        calls = McpCalls(client)
        calls.name = client.name
        return calls

    return connect


def names(calls):
    return {tool["name"] for tool in calls.result("tools/list")["tools"]}


def text(result):
    return result["content"][0]["text"]


def ended(engine, calls, task_id):
    engine.run(task_id).wait_until(["completed", "failed", "cancelled"], timeout="20s")
    return calls.task(task_id)


def test_workflows_are_tools_with_the_schema_of_their_arguments(connect):
    tools = {tool["name"]: tool for tool in connect("starter").result("tools/list")["tools"]}

    add = tools["mcp.add"]
    assert add["description"] == "Add two numbers."
    assert add["inputSchema"] == {
        "type": "object",
        "properties": {"left": {"type": "integer"}, "right": {"type": "integer", "default": 1}},
        "required": ["left"],
        "additionalProperties": False,
    }
    assert "mcp.hidden" in tools and "additionalProperties" not in tools["mcp.fails"]["inputSchema"]


def test_a_caller_sees_the_tools_that_it_may_use(connect):
    assert names(connect("viewer")) == {"runs", "show", "why", "gates"}
    assert {"mcp.add", "signal", "flow"} <= names(connect("starter"))
    assert {"cancel", "replay", "decide"} <= names(connect("operator"))
    assert "cancel" not in names(connect("viewer", "starter", "approver"))
    refused = connect("viewer")("tools/call", {"name": "mcp.add", "arguments": {"left": 1}})
    assert refused["error"]["code"] == -32602


def test_a_call_is_answered_by_a_task_and_the_task_has_the_result(engine, connect):
    calls = connect("starter")

    task = calls.tool("mcp.add", {"left": 2, "right": 3})

    assert task["resultType"] == "task" and "result" not in task
    done = ended(engine, calls, task["taskId"])
    assert done["status"] == "completed"
    assert done["result"]["structuredContent"] == {"sum": 5}
    assert json.loads(text(done["result"])) == {"sum": 5}
    assert engine.run(task["taskId"]).record.workflow == "mcp.add"


def test_a_call_that_is_repeated_with_its_key_gets_the_same_task(engine, connect):
    calls = connect("starter")
    by_meta = {"more_meta": {"holdfast/idempotency-key": "k-1"}}
    by_header = {"more_headers": {"Idempotency-Key": "k-1"}}

    first = calls.tool("mcp.add", {"left": 2}, **by_meta)["taskId"]

    assert calls.tool("mcp.add", {"left": 2}, **by_header)["taskId"] == first
    assert calls.tool("mcp.add", {"left": 2}, **by_meta, tasks=False)["structuredContent"]
    assert connect("starter").tool("mcp.add", {"left": 2}, **by_meta)["taskId"] != first
    assert calls.tool("mcp.add", {"left": 3}, **by_meta)["isError"] is True
    wrong = calls(
        "tools/call", {"name": "mcp.add"}, more_meta={"holdfast/idempotency-key": "x" * 201}
    )
    assert wrong["error"]["code"] == -32602
    assert engine.runs(workflow="mcp.add").count() == 2


def test_a_task_tells_when_retention_deletes_it(engine, connect):
    calls = connect("starter")
    task = calls.tool("mcp.add", {"left": 2})
    ended(engine, calls, task["taskId"])
    engine.retention.set("newest", keep_last=5)
    before = calls.task(task["taskId"])["ttlMs"]
    engine.retention.set("old", older_than="1h", workflow="mcp.add", status="completed")
    engine.retention.set("failed", older_than="1s", status="failed")

    assert (task["ttlMs"], before) == (None, None)
    assert 3_600_000 <= calls.task(task["taskId"])["ttlMs"] < 3_660_000


def test_a_client_without_tasks_waits_for_the_result(connect):
    calls = connect("starter")

    assert calls.tool("mcp.add", {"left": 2}, tasks=False)["structuredContent"] == {"sum": 3}
    failed = calls.tool("mcp.fails", {"x": 1}, tasks=False)
    assert failed["isError"] is True and "no such order" in text(failed)
    params = {"name": "mcp.long", "arguments": {}}
    assert calls("tools/call", params, tasks=False)["error"]["code"] == -32021


def test_an_open_gate_requires_input_and_the_answer_has_the_name_of_the_key(engine, connect):
    calls = connect("starter", "approver", name="ann")
    task_id = calls.tool("mcp.ship", {"order": "o-7"})["taskId"]
    engine.run(task_id).wait_until("waiting", timeout="20s")
    assert calls.task(task_id)["status"] == "input_required"

    (key,) = calls.task(task_id)["inputRequests"]
    request = calls.task(task_id)["inputRequests"][key]["params"]
    calls.result(
        "tasks/update",
        {
            "taskId": task_id,
            "inputResponses": {key: {"action": "accept", "content": {"confirm": True}}},
        },
    )

    assert request["message"] == "Ship o-7?"
    assert text(ended(engine, calls, task_id)["result"]) == "packed o-7, approve"
    assert [entry.person for entry in engine.gates.entries(key)] == ["ann"]


def test_a_key_without_the_right_does_not_decide(engine, connect):
    calls = connect("starter")
    task_id = calls.tool("mcp.ship", {"order": "o-8"})["taskId"]
    engine.run(task_id).wait_until("waiting", timeout="20s")
    assert calls.task(task_id)["status"] == "input_required"
    (key,) = calls.task(task_id)["inputRequests"]

    answers = {key: {"action": "accept", "content": {"confirm": True}}}
    refused = calls("tasks/update", {"taskId": task_id, "inputResponses": answers})

    assert "error" in refused
    assert engine.gates.get(key).status == "open"


@workflow(name="mcp.ask_ann")
async def ask_ann() -> str:
    return (await gate("Ship it?", options=["yes", "no"], assignees=["ann"])).choice


def test_a_gate_of_another_person_does_not_exist_for_an_approver(engine, connect):
    run = engine.start(ask_ann)
    run.wait_until("waiting", timeout="30s")
    (asked,) = engine.gates.list(run=run.id)
    ann, bob = connect("approver", name="ann"), connect("approver", name="bob")

    hidden = bob.tool("decide", {"gate": asked.id, "choice": "yes"})
    unknown = bob.tool("decide", {"gate": "nothing", "choice": "yes"})
    decided = ann.tool("decide", {"gate": asked.id, "choice": "yes"})

    assert hidden["isError"] and unknown["isError"]
    assert text(hidden).replace(asked.id, "ID") == text(unknown).replace("nothing", "ID")
    assert decided["structuredContent"]["missing"] == 0
    assert run.result(timeout="30s") == "yes"


def test_a_cancelled_task_is_a_cancelled_run(engine, connect):
    calls = connect("starter")
    task_id = calls.tool("mcp.ship", {"order": "o-9"})["taskId"]

    calls.result("tasks/cancel", {"taskId": task_id})

    assert ended(engine, calls, task_id)["status"] == "cancelled"
    assert engine.run(task_id).record.cancelled_by == calls.name


def test_missing_arguments_are_asked_for_before_anything_starts(engine, connect):
    calls = connect("starter")

    asked = calls.tool("mcp.ship", tasks=False, elicitation=True)

    assert asked["resultType"] == "input_required"
    form = asked["inputRequests"]["arguments"]["params"]["requestedSchema"]
    assert form["required"] == ["order"]
    assert engine.runs().count() == 0
    answer = {"action": "accept", "content": {"order": "o-1"}}
    params = {"name": "mcp.ship", "arguments": {}, "inputResponses": {"arguments": answer}}
    task = calls.result("tools/call", params, elicitation=True)
    assert engine.run(task["taskId"]).record.input == ["o-1"]


def test_wrong_arguments_are_told_to_the_model_and_start_nothing(engine, connect):
    calls = connect("starter")

    assert calls.tool("mcp.add", {"left": "two"})["isError"] is True
    assert calls.tool("mcp.add", {"wrong": 1})["isError"] is True
    assert calls("tools/call", {"name": "nothing", "arguments": {}})["error"]["code"] == -32602
    assert engine.runs().count() == 0


def test_operators_look_at_runs_and_change_them(engine, connect):
    calls = connect("operator", name="ops")
    run = engine.start("mcp.ship", "o-5")
    run.wait_until("waiting", timeout="20s")

    listed = calls.tool("runs", {"status": "waiting"})["structuredContent"]["runs"]
    why = calls.tool("why", {"run": run.id})["structuredContent"]
    shown = calls.tool("show", {"run": run.id})["structuredContent"]
    (gate,) = calls.tool("gates")["structuredContent"]["gates"]
    decided = calls.tool("decide", {"gate": gate["id"], "choice": "reject"})

    assert [item["id"] for item in listed] == [run.id]
    assert why["blockers"][0]["kind"] == "gate"
    assert next(row["id"] for row in shown["timeline"]["rows"]) == "note"
    assert decided["structuredContent"]["missing"] == 0
    assert run.result(timeout="20s") == "packed o-5, reject"
    calls.tool("replay", {"run": run.id})
    assert engine.audit.list(action="run.replay")[0].by == "ops"
    assert "no such run" in text(calls.tool("why", {"run": "nothing"})).lower()
    assert calls.tool("why", {"wrong": 1})["isError"] is True


def test_managed_flows_are_a_tool(engine, connect):
    calls = connect("starter", name="agent-7")

    started = calls.tool("flow", {"action": "start", "controller": "research", "goal": "find it"})

    flow_id = started["structuredContent"]["flow"]["id"]
    assert engine.flows.get(flow_id).owner == "agent:agent-7:session:mcp"
    assert calls.tool("flow", {"action": "dance"})["structuredContent"]["ok"] is False


def test_runs_are_resources(engine, connect):
    calls = connect("viewer")
    run = engine.start("mcp.add", 1)
    run.result(timeout="20s")

    listed = calls.result("resources/list")["resources"]
    templates = calls.result("resources/templates/list")["resourceTemplates"]
    read = calls.result("resources/read", {"uri": f"holdfast://runs/{run.id}"})
    timeline = calls.result("resources/read", {"uri": f"holdfast://runs/{run.id}/timeline"})

    assert [item["uri"] for item in listed] == [f"holdfast://runs/{run.id}"]
    assert len(templates) == 3
    assert json.loads(read["contents"][0]["text"])["result"] == {"sum": 2}
    assert json.loads(timeline["contents"][0]["text"])["run"] == run.id
    assert "error" in calls("resources/read", {"uri": "holdfast://runs/nothing"})
    assert "error" in calls("resources/read", {"uri": "file:///etc/passwd"})


def test_a_task_of_another_namespace_does_not_exist(engine, connect):
    calls = connect("operator", namespace="acme")
    run = engine.start("mcp.add", 1)

    for method in ("tasks/get", "tasks/cancel"):
        assert calls(method, {"taskId": run.id})["error"]["message"] == "Task not found"


def test_a_key_that_does_not_see_values_sees_no_results(engine, connect):
    calls = connect("starter", "viewer", values=False)
    task_id = calls.tool("mcp.add", {"left": 1_234_567_890_123})["taskId"]

    done = ended(engine, calls, task_id)

    assert "1234567890124" not in json.dumps(done)
    assert "1234567890124" not in json.dumps(calls.tool("show", {"run": task_id}))


def test_strangers_are_refused(engine):
    client = ApiClient(app(engine), {})

    assert problem(client("POST", "/mcp", {}, raw=True)) == "NotAuthenticated"


@pytest.mark.parametrize(
    ("origin", "is_refused"),
    [
        ("http://evil.example", True),
        ("http://localhost:9999", True),
        ("null", True),
        ("http://[", True),
        ("http://localhost", False),
    ],
)
def test_a_page_of_another_site_is_refused(engine, origin, is_refused):
    client = ApiClient.maker(engine, app(engine))("viewer")
    sent = message("tools/list", {})

    answer = client("POST", "/mcp", sent, headers={**headers(sent), "origin": origin}, raw=True)

    assert (answer.status_code == 403) == is_refused
    assert not is_refused or problem(answer) == "OriginRefused"


def test_a_header_that_names_another_task_is_refused(engine, connect):
    make = ApiClient.maker(engine, app(engine))
    client = make("viewer")
    sent = message("tasks/get", {"taskId": "a"})
    answer = client("POST", "/mcp", sent, headers={**headers(sent), "mcp-name": "b"}, raw=True)

    assert answer.json()["error"]["code"] == -32020
