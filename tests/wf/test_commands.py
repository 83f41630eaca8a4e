"""Text workflows on the command line."""

import json
import subprocess
import sys

import pytest
from click.testing import CliRunner

from holdfast import Engine, wf
from holdfast.cli.main import cli
from tests.bpmn.models import flows as flows_of
from tests.bpmn.models import process_of
from tests.engine.waiting import until
from tests.wf.test_executors import script

AGENTS = """
from holdfast import wf

@wf.executor("shout_of_command")
def shout(call):
    if call.inputs.get("who") == "nobody":
        raise ValueError("nobody is there")
    return {"context": call.inputs["who"].upper() + call.inputs.get("end", ""), "markers": ["loud"]}
"""
TEXT = """workflow greet {
  inputs { who default = "world" }
  call shout_of_command
  call workflow part
}
"""


@pytest.fixture
def flows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "greet.wf").write_text(TEXT)
    (tmp_path / "flows" / "part.wf").write_text('workflow part { script s { run = "echo hi" } }')
    (tmp_path / "agents_of_command.py").write_text(AGENTS)
    return tmp_path


def command(*words):
    return CliRunner().invoke(cli, ["--db", "x.db", *words])


RUN = ("run", "flows/greet.wf", "--using", "agents_of_command.py")


def test_a_file_is_run_and_shown(flows):
    ran = command(*RUN, "--input", "who=ann, bob", "--var", "end=!")
    assert ran.exit_code == 0, ran.output
    assert json.loads(ran.stdout)["context"] == "hi\n"

    shown = json.loads(command("--json", "show", "last").stdout)
    parent = json.loads(command("--json", "show", shown["parent_id"] or shown["id"]).stdout)
    steps = {step["step"]: step for step in parent["steps"]}
    assert steps["shout_of_command"]["context"] == "ANN, BOB!"
    assert (parent["dry_run"], steps["part"]["kind"]) == (False, "workflow")
    for run in (shown["id"], parent["id"]):
        plain = command("show", run)
        assert (plain.exit_code, plain.stderr) == (0, ""), plain.output
        assert command("models", "tokens", run).stderr.startswith("holdfast: ")


def test_a_dry_run_starts_no_scripts(flows):
    ran = command(*RUN, "--dry-run")

    assert json.loads(ran.stdout)["context"] == ""


@pytest.mark.parametrize(
    "words, message",
    [
        ((*RUN, "--input", "whom=x"), "whom"),
        ((*RUN, "--input", "x"), "NAME=VALUE"),
        ((*RUN, "--input", "who=nobody"), "nobody is there"),
        (("run", "flows/gone.wf"), "there is no file"),
        (("run", "agents_of_command.py:x", "--input", "a=b"), "--input is for text workflows"),
        ((*RUN, '{"who": 1}'), "--input NAME=VALUE"),
    ],
)
def test_a_mistake_is_one_clear_line(flows, words, message):
    ran = command(*words)

    assert ran.exit_code != 0
    assert message in ran.output and "Traceback" not in ran.output


def test_a_text_with_problems_is_refused(flows):
    (flows / "flows" / "bad.wf").write_text("workflow bad {\n  call x { retrys = 1 }\n}\n")
    ran = command("run", "flows/bad.wf")

    assert ran.exit_code == 1
    assert "retries" in ran.output and ":2:" in ran.output


def test_check_reports_scripts_and_targets_without_executors(flows):
    folder = flows / ".conductor" / "workflows"
    folder.mkdir(parents=True)
    script(flows / ".conductor" / "scripts" / "there.sh", "true")
    (flows / "plain.sh").write_text("true")
    (folder / "a.wf").write_text(
        "workflow a {\n meta { targets = [repo, tiket] }\n call unknown\n"
        ' script x { run = "./there.sh" }\n script y { run = "./plain.sh" }\n'
        ' script z { run = "./gone.sh" }\n script w { run = "make all" }\n}\n'
    )

    def codes(*words):
        files = json.loads(command("--json", "check", str(folder / "a.wf"), *words).stdout)["files"]
        return [(problem["code"], problem["line"]) for problem in files[0]["problems"]]

    assert codes() == [("not-executable", 5), ("missing-script", 6)]
    (flows / "holdfast.toml").write_text('targets = ["repo", "ticket"]\n')
    using = codes("--using", "agents_of_command.py")
    assert ("unknown-target", 2) in using and ("unknown-executor", 3) in using
    (flows / "holdfast.toml").write_text("targets = 3\n")
    wrong = command("check", str(folder / "a.wf"), "--using", "agents_of_command.py")
    assert wrong.exit_code != 0 and "targets" in wrong.output and "Traceback" not in wrong.output


PROCESS = {
    "id": "order_of_check",
    "start": "begin",
    "nodes": {
        "begin": {"type": {"kind": "Start"}, "outgoing_edges": [{"target": "ask"}]},
        "ask": {"type": {"kind": "UserTask"}, "outgoing_edges": [{"target": "done"}]},
        "done": {"type": {"kind": "End"}},
    },
}


def model_of_check(task, flow):
    """Return the process as a file, with one user task."""
    nodes = f'<startEvent id="begin"/><userTask id="{task}"/><endEvent id="done"/>'
    return process_of(nodes + flows_of(f"begin {task}", flow), id="order_of_check")


def test_check_judges_the_live_runs_of_stored_texts_and_models(flows):
    library = wf.Library()
    library.add("workflow held { call one_of_check gate human_review { } }", path="held.wf")
    library.executor("one_of_check")(lambda call: None)
    with Engine("x.db", workflows=[library]) as engine:
        engine.models.deploy(PROCESS)
        runs = [engine.start(library["held"]), engine.start("order_of_check", {})]
        until(lambda: all(run.status == "waiting" for run in runs))
    (flows / "flows" / "held.wf").write_text("workflow held { call two gate human_review { } }")

    def verdicts(*words):
        # In a process of its own: this one has workflows of other tests.
        words = ("--db", "x.db", "--json", "check", *words, "--live")
        ran = subprocess.run([sys.executable, "-m", "holdfast", *words], capture_output=True)
        groups = json.loads(ran.stdout)["live"]["groups"]
        return {group["workflow"]: group["verdict"] for group in groups}

    same = model_of_check("ask", "ask done")
    (flows / "same.bpmn").write_bytes(same)
    (flows / "other.bpmn").write_bytes(model_of_check("look", "look done"))

    assert verdicts() == {"held": "waits", "order_of_check": "continues"}
    assert verdicts("flows/held.wf", "other.bpmn") == {
        "held": "diverges",
        "order_of_check": "diverges",
    }
    assert verdicts("same.bpmn") == {"order_of_check": "continues"}
