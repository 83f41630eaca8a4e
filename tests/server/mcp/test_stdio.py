"""``holdfast mcp``: an agent over stdin and stdout, and tasks that survive the death of the server
and of the worker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress

import httpx
import pytest

from holdfast import Engine
from tests.engine.waiting import PATIENCE
from tests.server.clients import ServeProcess
from tests.server.mcp.rpc import McpCalls, message

MODULE = "tests.server.mcp.tools_module"


class Agent:
    """A client that has started ``holdfast mcp`` as its own process."""

    def __init__(self, database, *options):
        command = [sys.executable, "-m", "holdfast", "--db", str(database), "mcp", *options]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def result(self, method, params=None, **capabilities):
        sent = message(method, params, **capabilities)
        self.process.stdin.write(json.dumps(sent) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        assert answer["id"] == sent["id"]
        assert "result" in answer, answer
        return answer["result"]

    def tool(self, name, arguments=None, **capabilities):
        params = {"name": name, "arguments": arguments or {}}
        return self.result("tools/call", params, **capabilities)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        with suppress(BrokenPipeError):
            self.process.stdin.close()


def test_an_agent_calls_a_workflow_and_reads_its_run(tmp_path):
    with Agent(tmp_path / "stdio.db", MODULE) as agent:
        names = {tool["name"] for tool in agent.result("tools/list")["tools"]}
        result = agent.tool("mcp.add", {"left": 4}, tasks=False)
        (run,) = agent.tool("runs")["structuredContent"]["runs"]

        agent.process.stdin.close()
        assert agent.process.wait(timeout=PATIENCE) == 0

    assert {"mcp.add", "runs", "decide"} <= names and "cancel" not in names
    assert result["structuredContent"] == {"sum": 5}
    assert (run["workflow"], run["status"]) == ("mcp.add", "completed")


def test_a_task_survives_the_death_of_the_server_and_of_the_worker(tmp_path):
    database = tmp_path / "killed.db"
    with Agent(database, MODULE) as first:
        task_id = first.tool("mcp.ship", {"order": "o-1"})["taskId"]
        with Engine(database, work=False) as engine:
            engine.run(task_id).wait_until("waiting", timeout=PATIENCE)
        os.kill(first.process.pid, signal.SIGKILL)
        first.process.wait()

    with Agent(database, MODULE, "--name", "ann") as second:
        task = second.result("tasks/get", {"taskId": task_id})
        (key,) = task["inputRequests"]
        answers = {key: {"action": "accept", "content": {"confirm": True}}}
        second.result("tasks/update", {"taskId": task_id, "inputResponses": answers})
        with Engine(database, work=False) as engine:
            assert engine.run(task_id).result(timeout=PATIENCE) == "packed o-1, approve"
        done = second.result("tasks/get", {"taskId": task_id})

    assert (task["status"], done["status"]) == ("input_required", "completed")


def test_a_task_over_http_survives_kill_9_of_the_server(tmp_path):
    database = tmp_path / "http.db"
    with Engine(database, work=False) as engine:
        key = engine.api_keys.add("agent", roles=["operator"]).api_key

    def calls(server):
        return McpCalls(HttpClient(server.url, key))

    with ServeProcess(database, "--worker", MODULE) as first:
        task_id = calls(first).tool("mcp.ship", {"order": "o-2"})["taskId"]
        with Engine(database, work=False) as engine:
            engine.run(task_id).wait_until("waiting", timeout=PATIENCE)
        first.process.kill()
        first.process.wait()
    with ServeProcess(database, "--worker", MODULE) as second:
        agent = calls(second)
        (gate,) = agent.task(task_id)["inputRequests"]
        answers = {gate: {"action": "decline"}}
        agent.result("tasks/update", {"taskId": task_id, "inputResponses": answers})
        with Engine(database, work=False) as engine:
            engine.run(task_id).result(timeout=PATIENCE)
        done = agent.task(task_id)

    assert done["result"]["content"][0]["text"] == "packed o-2, reject"


class HttpClient:
    """Sends requests to a server over a socket, as ``ApiClient`` does without one."""

    def __init__(self, url, key):
        self._url = url.rstrip("/")
        self._key = key

    def __call__(self, method, path, body=None, *, headers=None, raw=False):
        sent = {"Authorization": f"Bearer {self._key}", **(headers or {})}
        return httpx.request(method, self._url + path, json=body, headers=sent, timeout=PATIENCE)


@pytest.mark.parametrize("option", [["--role", "nothing"], ["no.such.module"]])
def test_a_wrong_option_is_one_line_on_stderr(tmp_path, option):
    command = [sys.executable, "-m", "holdfast", "--db", str(tmp_path / "x.db"), "mcp", *option]

    ended = subprocess.run(command, capture_output=True, text=True)

    assert ended.returncode in (1, 2) and "Traceback" not in ended.stderr
    assert ended.stdout == ""
