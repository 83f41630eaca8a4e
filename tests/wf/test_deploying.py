"""Deployed texts: versions, starts by name, schedules and graphs that workers without files run."""

import json
import os
from contextlib import closing

import pytest
from click.testing import CliRunner

from holdfast import Engine, Graph, wf
from holdfast.cli.main import cli
from holdfast.errors import BadOption, ModelRefused, ModelUnreadable
from holdfast.remote import Client
from holdfast.testing import Lab, VirtualClock, internals
from tests.server.clients import ServeProcess

NIGHTLY = """workflow nightly {
  inputs { branch default = "main" }
  budget { cost_usd = "5.00" }
  call workflow part
  call report { output = verdict }
}
"""
PART = "workflow part { call piece }\n"


def executors():
    """Return a library without texts, which executes every call."""
    library = wf.Library()

    @library.executor()
    def answer(call):
        output = {"ok": True} if call.schema else None
        return wf.Output(context=f"{call.step} {call.inputs.get('branch', '')}", output=output)

    return library


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    flows = tmp_path / "flows"
    (flows / "schemas").mkdir(parents=True)
    (flows / "nightly.wf").write_text(NIGHTLY)
    (flows / "part.wf").write_text(PART)
    (flows / "schemas" / "verdict.yaml").write_text("fields:\n  ok: boolean\n")
    return flows


def test_a_deployed_text_is_started_by_its_name_without_the_file(database, folder):
    with Engine(database, work=False) as client:
        deployment = client.models.deploy(folder / "nightly.wf", by="ann")
        assert (deployment.processes, deployment.created) == ({"nightly": 1}, ("nightly",))
        again = client.models.deploy(str(folder / "nightly.wf"))
        assert (again.processes, again.created) == ({"nightly": 1}, ())
        for path in folder.glob("*.wf"):
            path.unlink()
        with pytest.raises(BadOption, match="brunch"):
            client.start("nightly", {"brunch": "x"})
        run = client.start("nightly", {"branch": "dev"})
        assert len(run.record.version) == 12

    with closing(Lab(database, workflows=[executors()])) as lab:
        assert lab.finish(run)["context"] == "report dev"
        shown = lab.engine.run(run.id)
        assert [step.step for step in shown.steps()] == ["part", "report"]
        stored = internals(lab.engine).store.definitions
        assert len(stored.of_route("default", "nightly", shown.record.version)) == 1


def test_new_runs_use_the_version_that_was_activated_last(tmp_path):
    texts = ["workflow w { call one }", "workflow w { call two }"]
    with closing(Lab(tmp_path / "x.db", workflows=[executors()])) as lab:
        models = lab.engine.models
        assert [models.deploy(text).processes["w"] for text in texts] == [1, 2]

        assert lab.run_to_end("w")["context"] == "two "
        lab.clock.advance("1s")
        models.activate("w", 1)
        assert lab.run_to_end("w")["context"] == "one "
        models.deprecate("w", 1)
        assert lab.run_to_end("w")["context"] == "two "
        assert lab.run_to_end("w", {}, version=1)["context"] == "one "
        assert [(each.version, each.state) for each in models.list()] == [
            (1, "deprecated"),
            (2, "active"),
        ]
        assert models.get("w", 2).xml == texts[1]


def test_sources_that_are_deployed_together_call_each_other(tmp_path):
    outer = "workflow outer { call workflow inner }"
    inner = b"// a comment\nworkflow inner { call deep }"
    library = executors()
    library.add("workflow third { call workflow fourth }", path="third.wf")
    library.add("workflow fourth { call last }", path="fourth.wf")
    with closing(Lab(tmp_path / "x.db", workflows=[executors()])) as lab:
        lab.engine.models.deploy(outer, inner, library["third"])

        assert lab.run_to_end("outer")["context"] == "deep "
        assert lab.run_to_end("third")["context"] == "last "


def test_a_name_means_the_deployed_text_and_a_workflow_of_a_library_its_own(tmp_path):
    library = executors()
    library.add("workflow w { call file }", path="w.wf")
    with closing(Lab(tmp_path / "x.db", workflows=[library])) as lab:
        assert lab.run_to_end("w")["context"] == "file "

        lab.engine.models.deploy("workflow w { call deployed }")

        assert lab.run_to_end("w")["context"] == "deployed "
        assert lab.run_to_end(library["w"])["context"] == "file "


@pytest.mark.parametrize(
    "sources, error, message",
    [
        (["workflow w { call x { retrys = 1 } }"], ModelRefused, "retries"),
        (["workflow w { call workflow gone }"], ModelRefused, "gone"),
        (["workflow w { call }", "workflow v { call }"], ModelRefused, "v"),
        (['workflow w { use "flows/part.wf" call workflow part }'], ModelRefused, "part.wf"),
        (["flows/none.wf"], ModelRefused, "none.wf"),
        ([b"workflow w { call a } // \xff"], ModelUnreadable, "UTF-8"),
        ([{"workflow": "w", "texts": {"a.wf": 1}}], ModelUnreadable, "texts"),
        ([{"workflow": "w", "texts": {}, "names": {}}], ModelUnreadable, "no workflow"),
    ],
)
def test_a_bad_source_deploys_nothing(folder, tmp_path, sources, error, message):
    good = "workflow good { call x }"
    with Engine(tmp_path / "x.db", work=False) as engine:
        with pytest.raises(error, match=message):
            engine.models.deploy(good, *sources)

        assert engine.models.list() == []


def test_schedules_and_graphs_keep_the_texts_of_their_runs(database):
    library = executors()
    library.add("workflow tick { call hourly }", path="tick.wf")
    library.add("workflow member { call joined }", path="member.wf")
    graph = Graph("two")
    first = graph.add(library["member"], name="first")
    graph.add(library["member"], name="second").after(first)
    clock = VirtualClock()
    with Engine(database, work=False, clock=clock) as client:
        client.schedules.set("hourly", library["tick"], interval="1h")
        client.graphs.start(graph, id="g")

    with closing(Lab(database, clock=clock, workflows=[executors()])) as lab:
        lab.settle()
        assert lab.engine.graphs.get("g").status == "completed"
        clock.advance("1h")
        lab.settle()
        (run,) = lab.engine.runs(workflow="tick").page()
        assert run.status.value == "completed"


def test_texts_are_deployed_and_run_by_the_command_line(folder, tmp_path):
    (tmp_path / "agents_of_deploy.py").write_text(
        "from holdfast import wf\n"
        "@wf.executor('piece')\ndef piece(call): return {'context': 'p'}\n"
        "@wf.executor('report')\ndef report(call): return {'output': {'ok': True}}\n"
    )

    def command(*words):
        return CliRunner().invoke(cli, ["--db", "x.db", "--json", *words])

    using = ("--using", "agents_of_deploy.py")
    deployed = command("models", "deploy", "flows/nightly.wf", *using)
    assert json.loads(deployed.stdout)["processes"] == {"nightly": 1}, deployed.output
    (folder / "nightly.wf").unlink()

    ran = command("run", "nightly", '{"branch": "dev"}', *using)
    assert json.loads(ran.stdout)["output"] == {"ok": True}, ran.output
    assert "budget" in command("models", "show", "nightly").stdout
    ran = command(
        "run", "nightly", "--input", "branch=x", "--var", "repo=acme", "--dry-run", *using
    )
    assert json.loads(ran.stdout)["output"] == {"ok": True}, ran.output
    shown = json.loads(command("show", "last").stdout)
    assert (shown["workflow"], shown["dry_run"]) == ("nightly", True)
    assert shown["input"]["args"] == [{"branch": "x"}]
    assert shown["input"]["kwargs"]["variables"] == {"repo": "acme"}
    for words in ('{"brunch": "dev"}',), ("--input", "brunch=dev"), ("{}", "--input", "branch=x"):
        wrong = command("run", "nightly", *words, *using)
        assert wrong.exit_code == 2 and "Traceback" not in wrong.output


AGENTS_OF_SERVER = """
from holdfast import wf

@wf.executor("piece")
def piece(call):
    return {"context": call.inputs["repo"]}

@wf.executor("report")
def report(call):
    return {"output": {"ok": call.dry_run}, "context": call.inputs["prior_context"]}
"""


def test_texts_are_deployed_and_run_over_http(folder, tmp_path, monkeypatch):
    (tmp_path / "agents_of_server.py").write_text(AGENTS_OF_SERVER)
    with Engine("x.db", work=False) as engine:
        monkeypatch.setenv("HOLDFAST_API_KEY", engine.api_keys.add("root", roles="admin").api_key)

    def command(*words):
        return CliRunner().invoke(cli, ["--db", server.url, "--json", *words])

    with ServeProcess("x.db", "--worker", "agents_of_server.py") as server:
        deployed = command("models", "deploy", "flows/nightly.wf")
        assert json.loads(deployed.stdout)["processes"] == {"nightly": 1}, deployed.output
        for path in folder.glob("*.wf"):
            path.unlink()
        ran = command("run", "nightly", "--input", "branch=dev", "--var", "repo=acme", "--dry-run")
        assert json.loads(ran.stdout)["output"] == {"ok": True}, ran.output
        assert json.loads(ran.stdout)["context"] == "acme"
        wrong = command("run", "nightly", "--input", "brunch=dev")
        assert wrong.exit_code != 0 and "brunch" in wrong.output and "Traceback" not in wrong.output
        assert command("run", "nightly", "--cwd", ".").exit_code == 2

        client = Client(server.url, api_key=os.environ["HOLDFAST_API_KEY"])
        with pytest.raises(ModelRefused, match="retries"):
            client.models.deploy("workflow w { call x { retrys = 1 } }")
        assert client.models.deploy("workflow sent { call workflow part }", PART).processes == {
            "sent": 1,
            "part": 1,
        }
        run = client.start("sent", {}, variables={"repo": "sent"})
        assert run.result(timeout="30s")["context"] == "sent"
        client.close()
