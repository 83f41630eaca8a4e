import json
import stat
import subprocess
import sys

import pytest

from holdfast import Engine, wf

GOOD = "workflow {name} {{\n  call b\n}}\n"
PATIENCE = 60


def holdfast(folder, *arguments, code=0, stdin=None):
    finished = subprocess.run(
        [sys.executable, "-m", "holdfast", *map(str, arguments)],
        cwd=folder,
        input=stdin,
        capture_output=True,
        timeout=PATIENCE,
    )
    assert finished.returncode == code, finished.stderr.decode()
    assert b"Traceback" not in finished.stderr
    return finished


@pytest.fixture
def flows(tmp_path):
    folder = tmp_path / "flows"
    (folder / "deep").mkdir(parents=True)
    (folder / "good.wf").write_text(GOOD.format(name="good"))
    (folder / "deep" / "bad.wf").write_text(
        "workflow bad {\n  call b { retrys = 1 }\n  if c.m { }\n}\n"
    )
    (folder / "parent.wf").write_text("workflow parent { call workflow good call workflow godo }\n")
    (folder / "latin.wf").write_bytes(b"workflow a {\n  // gr" + b"\xfc\xdf\n}\n")
    return folder


def test_a_folder_is_checked_and_every_problem_is_listed(flows):
    report = json.loads(holdfast(flows, "check", ".", "--json", code=1).stdout)

    files = {entry["path"].removeprefix("./"): entry for entry in report["files"]}
    assert list(files) == ["deep/bad.wf", "good.wf", "latin.wf", "parent.wf"]
    assert files["good.wf"]["ok"] is True
    assert files["good.wf"]["workflow"] == "good"
    assert [(problem["code"], problem["line"]) for problem in files["deep/bad.wf"]["problems"]] == [
        ("unknown-option", 2),
        ("unknown-step", 3),
    ]
    assert [(p["line"], p["column"]) for p in files["latin.wf"]["problems"]] == [(2, 8)]
    (problem,) = files["parent.wf"]["problems"]
    assert (problem["code"], "good" in problem["hint"]) == ("unknown-workflow", True)
    assert report["ok"] is False


def test_problems_are_lines_with_their_place(flows):
    text = holdfast(flows, "check", "good.wf", "deep", "none.wf", code=1).stdout.decode()

    assert "good.wf: ok" in text
    assert "deep/bad.wf:2:12: error: `call b` has no option `retrys`" in text
    assert "none.wf:1:1: error: the file cannot be read" in text
    assert "good.wf: ok" in holdfast(flows, "check", "good.wf").stdout.decode()


def test_files_are_formatted_in_place_and_only_once(flows):
    path = flows / "untidy.wf"
    path.write_text("workflow untidy{call b}// end\n")
    path.chmod(0o640)

    assert "would format" in holdfast(flows, "fmt", "--check", "untidy.wf", code=1).stdout.decode()
    assert "+  call b" in holdfast(flows, "fmt", "--diff", "untidy.wf").stdout.decode()
    assert path.read_text() == "workflow untidy{call b}// end\n"
    assert "formatted untidy.wf" in holdfast(flows, "fmt", "untidy.wf").stdout.decode()
    assert path.read_text() == "workflow untidy {\n  call b\n} // end\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert holdfast(flows, "fmt", "--check", "untidy.wf").stdout == b""
    assert sorted(file.name for file in flows.iterdir() if "~" in file.name) == []


def test_stdin_is_formatted_to_stdout_and_a_bad_text_is_refused(flows):
    assert holdfast(flows, "fmt", "-", stdin=b"workflow a{}").stdout == b"workflow a {}\n"
    refused = holdfast(flows, "fmt", "-", "latin.wf", stdin=b"workflow a{", code=1)
    assert b"<stdin>:1:1: error:" in refused.stderr
    assert b"latin.wf:2:8: error:" in refused.stderr


def test_a_file_is_drawn(flows):
    assert b'"b"' in holdfast(flows, "draw", "good.wf").stdout
    assert b"has errors" in holdfast(flows, "draw", "deep/bad.wf", code=1).stderr


def test_with_a_module_missing_executors_are_reported(flows):
    (flows / "agents.py").write_text(
        "from holdfast import wf\n\n@wf.executor('known')\ndef known(call):\n    return None\n"
    )
    (flows / "calls.wf").write_text("workflow calls {\n  call known\n  call knwon\n}\n")

    assert b"calls.wf: ok" in holdfast(flows, "check", "calls.wf").stdout
    report = holdfast(flows, "check", "calls.wf", "--using", "agents.py", "--json", code=1)
    (problem,) = json.loads(report.stdout)["files"][0]["problems"]
    assert (problem["code"], problem["line"], "known" in problem["hint"]) == (
        "unknown-executor",
        3,
        True,
    )


def test_live_runs_of_a_file_are_judged_by_its_new_text(flows, tmp_path):
    text = "workflow asks {\n  call before\n  gate human_review { }\n  call after\n}\n"
    (flows / "asks.wf").write_text(text)
    library = wf.Library(flows, root=flows)
    library.executor()(lambda call: None)
    database = tmp_path / "flows.db"
    with Engine(str(database), workflows=[library]) as engine:
        run = engine.start(library["asks"], {})
        wait_for_gate(engine, run)

    judge = ("--db", database, "check", "flows/asks.wf", "--live")
    assert b"1 run judged: the code fits all of them" in holdfast(tmp_path, *judge).stdout
    (flows / "asks.wf").write_text(text.replace("call after", "call after call more"))
    assert b"the code fits all of them" in holdfast(tmp_path, *judge).stdout
    (flows / "asks.wf").write_text(text.replace("call before", "call earlier"))
    refused = holdfast(tmp_path, *judge, code=1)
    assert b"the code does not fit 1 of them" in refused.stdout
    (flows / "asks.wf").write_text("workflow asks {\n  call\n}\n")
    assert b"asks.wf:3:1: error:" in holdfast(tmp_path, *judge, code=1).stdout
    kept = holdfast(tmp_path, "--db", database, "check", "--live")
    assert b"1 run judged: the code fits all of them" in kept.stdout


def wait_for_gate(engine, run):
    """Wait until the run has opened its gate: the engine tells by an event."""
    for event in engine.events.follow(workflow="asks"):
        if event.kind == "gate_opened":
            return
