"""Every command works over HTTP, or is refused with one line that says so."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from click.testing import CliRunner

from holdfast import Engine
from holdfast.cli.main import cli
from holdfast.remote import Client
from tests.bpmn.models import process_of
from tests.engine.namespaces.test_commands import COMMANDS
from tests.server import openapi_module
from tests.server.clients import ServeProcess

NOT_OVER_HTTP = {
    "bench": "it measures the database itself",
    "db backup": "it writes a file on the machine of the server",
    "db check": "it reads every row",
    "db copy": "it opens two databases",
    "db export": "it writes a file",
    "db info": "it describes the file",
    "db unseal": "it changes a database that is sealed",
    "demo": "it kills its own worker",
    "doctor": "it looks at this machine",
    "worker": "it executes code with the database",
}
"""The commands that are refused, with the reason."""


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cli")
    database = str(folder / "cli.db")
    openapi_module.populate(database)
    (folder / "graph.json").write_text('{"members": {"only": {"workflow": "ours-task"}}}')
    (folder / "model.bpmn").write_bytes(process_of('<startEvent id="s"/>', id="ours-model"))
    with Engine(database, work=False) as engine:
        key = engine.api_keys.add("root", roles="admin").api_key
        flow = engine.flows.create("driver", "a goal", owner="ann").id
        gate = engine.gates.list()[0].id
    with ServeProcess(database, "--worker", openapi_module.__file__) as server:
        server.key = key
        server.names = {
            "run": "waiting",
            "done": "completed",
            "gate": gate,
            "flow": flow,
            "folder": folder,
            "database": database,
            **dict.fromkeys(
                ("link", "wait", "operation", "task", "incident", "graph", "model_run"), "unknown"
            ),
            "proof": "leased.1.unknown",
        }
        yield server


@pytest.fixture
def call(served, monkeypatch):
    """Return a function that calls a command over HTTP."""
    monkeypatch.setenv("HOLDFAST_API_KEY", served.key)

    def invoke(*words):
        return CliRunner().invoke(cli, ["--db", served.url, *map(str, words)])

    return invoke


def test_tasks_are_submitted_leased_and_ended_over_http(call):
    retried = ("--key", "once", "--retries", "2", "--retry-delay", "0s")
    submitted = call("tasks", "submit", "render", "1", *retried).stdout.strip()
    again = json.loads(call("--json", "tasks", "submit", "render", "1", *retried).stdout)
    claim = ("--json", "tasks", "claim", "--workflow", "render", "--wait", "20s")
    (lease,) = json.loads(call(*claim).stdout)

    assert (again["id"], again["created"]) == (submitted, False)
    assert lease["run"] == submitted
    assert call("tasks", "renew", lease["proof"]).stdout == "renewed\n"
    failed = call("tasks", "fail", lease["proof"], "transient", "no disk")
    assert "will be retried" in failed.stdout, failed.output
    assert call("tasks", "attempts", submitted).exit_code == 0
    (lease,) = json.loads(call(*claim).stdout)
    ended = call("tasks", "complete", lease["proof"], "7")
    assert ended.stdout == f"run {submitted} is completed\n"


def test_runs_are_started_signalled_shown_and_forked_over_http(call):
    assert call("run", "openapi.completes", "4").stdout == "4\n"
    assert call("run", "shop.py:checkout").exit_code == 2
    started = call("run", "openapi.waits", "--detach", "--id", "detached").stdout
    assert call("signal", "detached", "go").stdout == "signal go sent to detached\n"
    assert call("fork", "completed", "--id", "forked").stdout == "forked\n"
    assert call("replay", "failed").stdout.startswith("run failed is ")
    shown = call("show", "completed").stdout

    assert started == "detached\n"
    assert "count" in shown and "history" in shown
    assert call("show", "failed").stdout.count("no") >= 1
    assert call("tail", "completed").exit_code == 0


def test_gates_are_decided_and_many_runs_changed_over_http(call, served):
    approved = call("gates", "decide", served.names["gate"], "yes")
    for key in ("a", "b"):
        call(
            "run",
            "openapi.completes",
            "--detach",
            "--delay",
            "1h",
            "--tag",
            "many=yes",
            "--key",
            key,
        )
    report = call("cancel", "--tag", "many=yes", "--yes", "--reason", "not needed")
    audit = json.loads(call("--json", "audit", "--action", "runs.cancel").stdout)["items"]

    assert approved.exit_code == 0, approved.output
    assert "2 of 2 runs changed" in report.output
    assert [entry["by"] for entry in audit] == ["root"]


def test_graphs_are_started_extended_and_awaited_over_http(call, served):
    folder = served.names["folder"]
    (folder / "pair.json").write_text(
        '{"members": {"a": {"workflow": "openapi.completes", "args": [5]}, "b": {"workflow":'
        ' "openapi.completes", "args": [{"$result": "a"}]}, "held": {"workflow": "nowhere"}}}'
    )
    (folder / "more.json").write_text(
        '{"members": {"held": {}, "c": {"workflow": "openapi.completes", "args": [6], "after":'
        ' ["held"]}}}'
    )

    started = call("graphs", "start", folder / "pair.json", "--id", "g-http").stdout
    extended = call("graphs", "extend", "g-http", folder / "more.json").stdout
    (held,) = json.loads(call("--json", "runs", "--workflow", "nowhere").stdout)["items"]
    call("tasks", "override", held["id"], "by hand")
    ended = call("graphs", "wait", "g-http", "--timeout", "20s").stdout

    assert started == "g-http\n" and "has revision" in extended
    assert json.loads(ended) == {"b": 5, "c": 6}


def test_a_schedule_is_set_over_http_by_the_name_of_its_workflow(call):
    made = call("schedules", "set", "hourly", "openapi.completes", "3", "--interval", "1h")
    changed = call("--json", "schedules", "set", "hourly", "--overlap", "queue")

    assert "starts openapi.completes" in made.stdout, made.output
    assert json.loads(changed.stdout)["overlap"] == "queue"
    assert call("schedules", "set", "wrong", "shop.py:report", "--interval", "1h").exit_code == 2
    assert "gone" in call("schedules", "set", "x", "gone", "--interval", "1h").stderr


def test_a_run_whose_holder_is_gone_is_reclaimed_over_http(call):
    run = call("tasks", "submit", "reclaimed", "7").stdout.strip()
    (lease,) = json.loads(call("--json", "tasks", "claim", "--workflow", "reclaimed").stdout)
    refused = call("tasks", "reclaim", run)
    call("tasks", "revoke", run)

    again = json.loads(call("--json", "tasks", "reclaim", run).stdout)

    assert "another holder has the lease" in refused.stderr
    assert (again["run"], again["input"]) == (run, 7)
    assert again["proof"] != lease["proof"]
    assert call("tasks", "complete", again["proof"]).stdout == f"run {run} is completed\n"
    assert call("tasks", "complete", lease["proof"]).exit_code == 1


def test_the_live_runs_of_a_server_are_judged_by_code_of_this_machine(call, served):
    folder = served.names["folder"]
    Client(served.url, served.key).start("openapi.asks", id="judged").wait_until("waiting", "20s")
    (folder / "changed.py").write_text(
        "from holdfast import workflow\n"
        "@workflow(name='openapi.asks')\nasync def asks() -> None:\n    raise ValueError('no')\n"
    )
    words = ["--db", served.url, "--json", "check", "--live", "--using", str(folder / "changed.py")]
    checked = subprocess.run(
        [sys.executable, "-m", "holdfast", *words],
        capture_output=True,
        text=True,
        env={**os.environ, "HOLDFAST_API_KEY": served.key},
    )

    live = json.loads(checked.stdout)["live"]
    assert checked.returncode == 1, checked.stderr
    assert "judged" in {objection["run_id"] for objection in live["objections"]}
    assert "openapi.waits" in live["not_judged"]


def test_every_command_works_or_is_refused_with_one_line(call, served):
    refused = set()
    for command, text in COMMANDS.items():
        if command in ("", "db"):
            continue  # they print their help
        words = [word.format(**served.names) for word in text.split()]
        done = call(*command.split(), *words)
        lines = done.stderr.strip().splitlines()
        assert "unexpected" not in done.stderr, (command, done.stderr)
        assert done.exit_code == 0 or len(lines) <= 1, (command, done.stderr)
        if "over HTTP" in done.stderr:
            refused.add(command)

    assert refused <= set(NOT_OVER_HTTP)
