"""The remote client has the namespaces of an engine, and the command line works over HTTP."""

import json
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast import Engine, bpmn
from holdfast.errors import (
    BadOption,
    BadUrl,
    GateNotFound,
    MappingRefused,
    ModelNotFound,
    NotAuthenticated,
    ResultTimeout,
    RunNotFound,
    ServerUnreachable,
)
from holdfast.remote import Client
from tests.bpmn.models import flows, process_of
from tests.server.clients import ServeProcess

sys.path.insert(0, str(Path(__file__).parent.parent.parent / "tools"))
import generate_remote

MODULE = """
import holdfast

@holdfast.workflow(name="remote.half")
async def half(number: int) -> float:
    return number / 2

@holdfast.workflow(name="remote.asked")
async def asked() -> str:
    return (await holdfast.gate("Ship it?", options=["yes", "no"])).choice
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("remote")
    (folder / "remote_flows.py").write_text(MODULE)
    with Engine(folder / "s.db", work=False) as engine:
        key = engine.api_keys.add("root", roles="admin").api_key
    with ServeProcess(folder / "s.db", "--worker", str(folder / "remote_flows.py")) as server:
        server.key = key
        yield server


@pytest.fixture
def client(served):
    return Client(served.url, served.key)


def cli(served, *words):
    return subprocess.run(
        [sys.executable, "-m", "holdfast", "--db", served.url, *words],
        capture_output=True,
        text=True,
        env={**os.environ, "HOLDFAST_API_KEY": served.key},
    )


def test_the_operations_are_generated_from_the_table():
    assert generate_remote.TARGET.read_text("utf-8") == generate_remote.generated()


def test_runs_are_started_and_read_as_with_an_engine(client):
    run = client.start("remote.half", 5, tags={"customer": "7"}, key="once")

    assert client.start("remote.half", 5, tags={"customer": "7"}, key="once").id == run.id
    assert run.result(timeout="20s") == 2.5
    assert (run.status, run.record.tags) == ("completed", {"customer": "7"})
    assert [event.kind for event in run.history()] == ["run_completed"]
    assert client.runs(workflow="remote.half", tags={"customer": "7"}).count() == 1
    assert [found.id for found in client.runs(tags={"customer": "7"})] == [run.id]
    assert client.why(run.id).status == "completed"


def test_a_filter_takes_several_names(client):
    for name, lane in (("several.a", "north"), ("several.b", "south"), ("several.c", "west")):
        client.start(name, id=name, lane=lane)

    several = client.runs(workflow=["several.a", "several.b", "several.d"])
    lanes = client.runs(lane=("north", "west"))

    assert [run.id for run in several] == ["several.b", "several.a"]
    assert lanes.count() == 2
    assert lanes.cancel("not needed", force=True).changed == 2
    assert [run.id for run in client.runs(lane=["north", "south"], live=True)] == ["several.b"]


def test_gates_settings_and_bulk_verbs_work_as_with_an_engine(client):
    run = client.start("remote.asked")
    run.wait_until("waiting", timeout="20s")

    (gate,) = client.gates.list(run=run.id)
    decided = client.gates.decide(gate, "yes", feedback="fine")
    client.budgets.set("team", {"eur": 5}, reset=timedelta(days=1))
    client.lanes.set("slow", concurrency=2)
    client.start_many("nowhere", [1, 2])
    report = client.runs(workflow="nowhere").cancel("not needed")

    assert decided.entries[-1].person == "root"
    assert run.result(timeout="20s") == "yes"
    assert client.budgets.get("team").dimensions["eur"].hard == 5
    assert client.lanes.get("slow").concurrency == 2
    assert report.changed == 2


def test_errors_are_the_ones_of_an_engine(client, served):
    with pytest.raises(RunNotFound):
        client.run("unknown")
    with pytest.raises(GateNotFound):
        client.gates.get("unknown")
    with pytest.raises(ResultTimeout):
        client.start("nowhere").result(timeout=0.01)
    with pytest.raises(NotAuthenticated):
        Client(served.url, "hf_wrong").runs().count()
    with pytest.raises(ServerUnreachable):
        Client("http://127.0.0.1:9", "hf_x").runs().count()
    with pytest.raises(BadUrl):
        Client("ftp://example.org", "hf_x")
    with pytest.raises(BadOption):
        client.gates.get("a", "b", "c")
    assert served.key not in repr(client) + repr(client._calls)


@pytest.mark.parametrize(
    "words",
    [
        ("runs",),
        ("gates",),
        ("waits",),
        ("schedules",),
        ("budgets",),
        ("lanes",),
        ("workers",),
        ("operations",),
        ("events",),
        ("graphs",),
        ("flows",),
        ("api-keys", "list"),
        ("show", "last"),
        ("why", "last"),
    ],
    ids=" ".join,
)
def test_a_command_prints_the_same_over_http(client, served, words):
    client.start("remote.half", 1, key="printed").result(timeout="20s")

    done = cli(served, "--json", *words)

    assert done.returncode == 0, done.stderr
    assert isinstance(
        json.loads(done.stdout.splitlines()[0] if words == ("events",) else done.stdout),
        list | dict,
    )


@pytest.mark.parametrize("words", [("db", "info"), ("doctor",), ("bench",), ("serve",)])
def test_a_command_that_needs_the_database_says_so(served, words):
    done = cli(served, *words)

    assert done.returncode != 0
    assert "Traceback" not in done.stderr
    assert "over HTTP" in done.stderr


def test_models_are_deployed_and_operated_over_http(served, client, tmp_path):
    tasks = '<startEvent id="s"/><userTask id="look"/><userTask id="sign"/>'
    file = tmp_path / "remote.bpmn"
    file.write_bytes(process_of(tasks + flows("s look", "look sign"), id="remote-order"))

    assert cli(served, "models", "deploy", str(file)).stdout == "process remote-order: version 1\n"
    run = client.start("remote-order", {"x": 1})
    run.wait_until("waiting", timeout="20s")
    (token,) = client.models.tokens(run.id)
    moved = cli(
        served, "models", "modify", run.id, "--move", f"{token.id}=sign", "--dry-run", "--json"
    )

    assert [each["element"] for each in json.loads(moved.stdout)["items"]] == ["sign"]
    assert "look" in cli(served, "models", "tokens", run.id).stdout
    (task,) = json.loads(cli(served, "models", "tasks", "--run", run.id, "--json").stdout)["items"]
    assert "is completed" in cli(served, "models", "complete", task["id"], '{"y": 2}').stdout
    assert cli(served, "models", "show", "gone").stderr.count("\n") == 1


def test_a_run_of_a_model_is_changed_over_http(client):
    def version(task: str) -> bytes:
        tasks = f'<startEvent id="s"/><userTask id="{task}"/><userTask id="last"/>'
        return process_of(tasks + flows(f"s {task}", f"{task} last"), "remote_changed")

    models = client.models
    assert models.deploy(version("ask"), reason="first").processes == {"remote_changed": 1}
    run = client.start("remote_changed", {"x": 1})
    run.wait_until("waiting", timeout="20s")
    assert models.deploy(version("review")).processes == {"remote_changed": 2}

    plain = models.migrate(run.id, 2, dry_run=True)
    with pytest.raises(MappingRefused, match="review is a userTask"):
        models.migrate(run.id, 2, {"s": "review"})
    with pytest.raises(ModelNotFound):
        models.migrate(run.id, 7)
    preview = models.migrate(run.id, 2, {"ask": "review"}, dry_run=True)
    assert run.record.version == "1"
    moved = models.migrate(run.id, 2, {"ask": "review"}, reason="another form")

    assert [*plain.refused.values()] == [
        "the other version has no element 'ask': map ask to another element"
    ]
    assert (preview.moved, preview.refused) == (moved.moved, {})
    (token,) = models.tokens(run.id)
    assert (run.record.version, token.element, [token.id]) == ("2", "review", moved.moved)
    (instructed,) = [event for event in run.history() if event.kind == "instructed"]
    assert (instructed.data["by"], instructed.data["reason"]) == ("root", "another form")

    models.suspend(run.id, reason="a question")
    assert models.tokens(run.id)[0].status == "suspended"
    models.resume(run.id)
    (token,) = models.modify(run.id, bpmn.move(token.id, "last"), reason="known already")
    (task,) = models.tasks(run=run.id)
    models.complete(task.id, {"y": 2})
    assert (token.element, run.result(timeout="20s")) == ("last", {"x": 1, "y": 2})

    models.deprecate("remote_changed", 2, reason="a fault")
    models.activate("remote_changed", 2)
    entries = client.audit.list(subject="remote_changed")
    assert [(entry.action, entry.by, entry.details.get("reason")) for entry in entries] == [
        ("models.activate", "root", None),
        ("models.deprecate", "root", "a fault"),
        ("models.deploy", "root", None),
        ("models.deploy", "root", "first"),
    ]
