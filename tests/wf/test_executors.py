"""Executors with real processes and servers, which are killed, hang, answer late or twice."""

import http.server
import json
import sys
import threading

import pytest

from holdfast import wf
from holdfast.core.status import Status
from holdfast.errors import BadSettings
from holdfast.testing import Lab
from tests.engine.waiting import PATIENCE, until
from tests.wf.flows import steps_of

SECOND = 1.0


@pytest.fixture
def work(tmp_path):
    """Return a function that runs the workflow ``w`` of a text with a library to its end."""
    labs = []

    def run(text, prepare=None, inputs=None, **options):
        library = wf.Library(root=tmp_path)
        library.add(text, path="w.wf")
        if prepare is not None:
            prepare(library)
        lab = Lab(tmp_path / "runs.db", workflows=[library])
        labs.append(lab)
        run = lab.start(library["w"], inputs or {}, cwd=str(tmp_path), **options)
        return lab, run

    yield run
    for lab in labs:
        lab.close()


def script(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def error_of(lab, run):
    return lab.engine.run(run.id).record.error.message


def is_alive(pid):
    """Whether a process runs; a zombie does not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def pids_of(folder, *names):
    """Return the process ids in files, once they are written."""
    paths = [folder / name for name in names]
    # A shell creates a file before it writes to it.
    until(lambda: all(path.exists() and path.read_text() for path in paths))
    return [int(path.read_text()) for path in paths]


# Scripts


def test_values_in_commands_are_quoted_and_inputs_are_in_the_environment(work, tmp_path):
    script(tmp_path / "show.sh", 'printf "%s|%s|%s|%s" "$1" "$CONDUCTOR_WHO" "$HOLDFAST_WHO" "$X"')
    text = """workflow w {
      inputs { who required }
      script s { run = "./show.sh {{who}} {{unknown}}" env = { X = "to {{who}}" } }
    }"""
    evil = "$(touch pwned); 'a' \"b\" `id`"
    lab, run = work(text, inputs={"who": evil})

    assert lab.finish(run)["context"] == f"{evil}|{evil}|{evil}|to {evil}"
    assert not (tmp_path / "pwned").exists()


def test_the_settings_of_holdfast_do_not_reach_scripts(work, monkeypatch):
    monkeypatch.setenv("HOLDFAST_DB", "postgresql://user:secret@host/db")
    lab, run = work('workflow w { script s { run = "echo [$HOLDFAST_DB]" } }')

    assert lab.finish(run)["context"].strip() == "[]"


@pytest.mark.parametrize(
    "command, message",
    [
        ("exit 3", "code=3"),
        ("kill -9 $$", "SIGKILL"),
        ("./missing.sh", "there is no file"),
        ("./plain.txt", "not executable"),
        ("../outside.sh", "leaves its folder"),
        ("printf '\\377\\376'", "invalid UTF-8"),
        ("head -c 9000000 /dev/zero", "more than"),
        ("echo why >&2; exit 1", "why"),
    ],
)
def test_a_script_that_goes_wrong_says_what_to_do(work, tmp_path, command, message):
    (tmp_path / "plain.txt").write_text("x")
    text = f"workflow w {{ script s {{ run = {json.dumps(command)} }} }}"
    lab, run = work(text)
    lab.settle()

    assert lab.engine.run(run.id).status is Status.FAILED
    assert message in error_of(lab, run)


def test_a_script_beyond_its_time_limit_is_stopped_with_all_its_processes(work, tmp_path):
    script(tmp_path / "hang.sh", "sleep 600 & echo $! > inner.pid; echo $$ > outer.pid; wait")
    lab, run = work('workflow w { script s { run = "./hang.sh" timeout = 30 on_fail = continue } }')
    pids = pids_of(tmp_path, "inner.pid", "outer.pid")
    lab.clock.advance("31s")
    lab.settle()

    assert steps_of(lab, run) == ["s timed_out"]
    until(lambda: not any(is_alive(pid) for pid in pids))


def test_a_cancelled_run_stops_its_script_with_all_its_processes(work, tmp_path):
    script(tmp_path / "hang.sh", "sleep 600 & echo $! > inner.pid; echo $$ > outer.pid; wait")
    text = """workflow w {
      script s { run = "./hang.sh" }
      always { script tell { run = "echo {{workflow_status}}" } }
    }"""
    lab, run = work(text)
    pids = pids_of(tmp_path, "inner.pid", "outer.pid")
    lab.engine.cancel(run.id, "enough")
    lab.settle()

    assert lab.engine.run(run.id).status is Status.CANCELLED
    told = lab.engine.run(run.id).steps()[-1]
    assert told.context.strip() == "cancelled"
    until(lambda: not any(is_alive(pid) for pid in pids))


def test_a_process_in_the_background_does_not_hold_its_step(work, tmp_path):
    script(tmp_path / "leave.sh", "sleep 600 & echo $! > inner.pid; echo left")
    lab, run = work('workflow w { script s { run = "./leave.sh" } }')

    assert lab.finish(run)["context"] == "left\n"
    pid = int((tmp_path / "inner.pid").read_text())
    until(lambda: not is_alive(pid))


@pytest.mark.parametrize("name", ["PATH", "LD_PRELOAD", "GH_TOKEN"])
def test_a_text_must_not_set_these_variables(work, name):
    text = f'workflow w {{ script s {{ run = "true" env = {{ {name} = "x" }} }} }}'
    lab, run = work(text)
    lab.settle()

    assert lab.engine.run(run.id).status is Status.FAILED
    assert name in error_of(lab, run)


# Agents


AGENT = """
import json, os, sys
prompt = sys.stdin.read()
open("prompt.txt", "w").write(prompt)
mode = open("mode").read().split(",") if os.path.exists("mode") else ["ok"]
this, rest = mode[0], mode[1:]
open("mode", "w").write(",".join(rest))
if this == "killed":
    os.kill(os.getpid(), 9)
if this == "silent":
    sys.exit(0)
if this == "hang":
    open("agent.pid", "w").write(str(os.getpid()))
    import time; time.sleep(600)
if this == "twice":
    print('<<<FLOW_OUTPUT>>>{"markers": ["first"]}<<<END_FLOW_OUTPUT>>>')
print('talk talk <<<FLOW_OUTPUT>>>\\n```json\\n{"markers": ["done"], "context": "ok", "n": "7",}')
print('```\\n<<<END_FLOW_OUTPUT>>> bye')
"""


def agents(tmp_path, *modes):
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "mode").write_text(",".join(modes or ["ok"]))
    folder = tmp_path / ".claude" / "agents"
    folder.mkdir(parents=True)
    head = "---\nmodel: best\ncan_commit: true\n---\n"
    (folder / "fixer.md").write_text(f"{head}Fix {{{{what}}}}{{{{no}}}}.\n")
    prompts = tmp_path / ".conductor" / "prompts"
    prompts.mkdir(parents=True)
    (prompts / "style.md").write_text("Be brief.\n")
    return lambda library: library.executor()(wf.Agent([sys.executable, "agent.py"]))


def test_an_agent_gets_its_prompt_and_its_output_block_is_read(work, tmp_path):
    prepare = agents(tmp_path, "twice")
    text = """workflow w {
      inputs { what required }
      call fixer { with = ["style"] }
      if fixer.done { call fixer }
    }"""
    lab, run = work(text, prepare, inputs={"what": "it"}, dry_run=True)
    result = lab.finish(run)

    assert result == {"markers": ["done"], "context": "ok", "output": {"n": "7"}}
    prompt = (tmp_path / "prompt.txt").read_text()
    assert "do not commit" in prompt and "Fix it." in prompt and "<<<FLOW_OUTPUT>>>" in prompt
    assert lab.engine.run(run.id).steps()[0].markers == ["done"]


def test_an_agent_that_is_killed_is_tried_again(work, tmp_path):
    prepare = agents(tmp_path, "killed", "silent")
    lab, run = work("workflow w { call fixer { retries = 1 } }", prepare)
    lab.finish(run)

    (step,) = lab.engine.run(run.id).steps()
    assert (step.attempts, step.status, step.markers) == (2, "completed", [])
    assert "SIGKILL" in (tmp_path / "prompt.txt").read_text()


def test_an_agent_that_hangs_is_stopped_at_its_time_limit(work, tmp_path):
    prepare = agents(tmp_path, "hang", "ok")
    lab, run = work('workflow w { call fixer { timeout = "1m" retries = 1 } }', prepare)
    (pid,) = pids_of(tmp_path, "agent.pid")
    lab.clock.advance("61s")
    lab.finish(run)

    assert steps_of(lab, run) == ["fixer completed"]
    until(lambda: not is_alive(pid))


def test_an_agent_file_outside_the_root_is_refused(work, tmp_path):
    prepare = agents(tmp_path)
    lab, run = work('workflow w { call "secret/agent.md" }', prepare)
    lab.settle()

    assert "there is no agent file" in error_of(lab, run)


# Endpoints


class Endpoint(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server = self.server
        server.requests.append((body, self.headers["Idempotency-Key"]))
        mode = server.modes.pop(0) if server.modes else "ok"
        if mode == "hang":
            server.release.wait(PATIENCE)
            return
        if mode == "close":
            self.connection.close()
            return
        code = 503 if mode == "busy" else 422 if mode == "refuse" else 200
        answer = {"markers": ["served"], "output": {"step": body["step"]}}
        data = b"not json" if mode == "garbage" else json.dumps(answer).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)
        if mode == "twice":
            self.wfile.write(data)

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    server.requests, server.modes, server.release = [], [], threading.Event()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.release.set()
    server.shutdown()
    server.server_close()
    thread.join()


def endpoint(server, **options):
    url = f"http://127.0.0.1:{server.server_address[1]}/run"
    return lambda library: library.executor("render")(wf.Endpoint(url, **options))


@pytest.mark.parametrize("modes", [["twice"], ["busy", "ok"], ["close", "garbage", "ok"]])
def test_an_endpoint_is_asked_until_it_answers(work, server, modes):
    server.modes[:] = modes
    lab, run = work("workflow w { call render { retries = 2 } }", endpoint(server))

    assert lab.finish(run)["output"] == {"step": "render"}
    assert len({key for _, key in server.requests}) == 1
    assert len(server.requests) == len(modes)


def test_an_endpoint_that_refuses_a_call_is_not_asked_again(work, server):
    server.modes[:] = ["refuse"]
    lab, run = work("workflow w { call render { retries = 2 } }", endpoint(server))
    lab.settle()

    assert len(server.requests) == 1
    assert "422" in error_of(lab, run)


def test_an_endpoint_that_answers_too_late_is_asked_again(work, server):
    server.modes[:] = ["hang", "ok"]
    lab, run = work('workflow w { call render { timeout = "1m" retries = 1 } }', endpoint(server))
    until(lambda: len(server.requests) == 1)
    lab.clock.advance("61s")
    lab.finish(run)
    server.release.set()

    assert steps_of(lab, run) == ["render completed"]
    assert lab.engine.run(run.id).steps()[0].attempts == 2


# holdfast.toml


TICKETS = """
import json, sys
ask = json.load(sys.stdin)
first = {"id": "t1", "context": {"label": ask["scope"]["label"]}}
json.dump([first, {"id": "t2", "after": ["t1"]}], sys.stdout)
"""
CHECKS = """
import json, os, sys
ask = json.load(sys.stdin)
open("asked", "a").write(ask["gate"] + "\\n")
if os.path.exists("green"):
    print(json.dumps({"approved": True, "feedback": "all green"}))
"""
SCORE = """
import json, sys
call = json.load(sys.stdin)
print(json.dumps({"output": {"seen": call["inputs"].get("item.id", "")}}))
"""
SETTINGS = """
[executors.score]
command = ["{python}", "score.py"]
[providers.tickets]
command = ["{python}", "tickets.py"]
ordered = true
[resolvers.pr_checks]
command = ["{python}", "checks.py"]
every = "30s"
[environment]
set = {{ GREETING = "hello" }}
[schemas.seen.fields]
seen = "string"
"""


@pytest.fixture
def settings(tmp_path):
    (tmp_path / "holdfast.toml").write_text(SETTINGS.format(python=sys.executable))
    for name, text in {"tickets": TICKETS, "checks": CHECKS, "score": SCORE}.items():
        (tmp_path / f"{name}.py").write_text(text)


def test_programs_in_the_settings_are_executors_providers_and_environments(work, settings):
    text = """workflow w {
      foreach each { over = tickets scope = { label = "x" } ordered = true max_parallel = 1
        do { call score { output = "seen" } } }
      script s { run = "echo $GREETING" }
    }"""
    lab, run = work(text)

    assert lab.finish(run)["context"].strip() == "hello"
    each = lab.engine.run(run.id).steps()[0]
    assert [item["output"] for item in each.output["items"]] == [{"seen": "t1"}, {"seen": "t2"}]


def test_a_resolver_without_an_answer_adds_no_history_and_holds_no_run(work, settings, tmp_path):
    lab, run = work('workflow w { gate pr_checks { prompt = "green?" timeout = "7d" } }')
    lab.settle()
    before = len(lab.history(run))
    for _ in range(5):
        lab.advance("1d")
    assert len(lab.history(run)) == before
    assert lab.engine.run(run.id).status is Status.WAITING
    asked = len((tmp_path / "asked").read_text().split())
    assert asked >= 5

    (tmp_path / "green").touch()
    lab.advance("31s")
    lab.finish(run)
    (gate,) = lab.engine.gates.list(status="any")
    assert gate.entries[-1].person == "resolver:pr_checks"


@pytest.mark.parametrize(
    "text, part",
    [
        ("[executers.x]\n", "executors"),
        ('[executors.x]\nagent = "a"\nurl = "http://x"\n', "one of"),
        ("[executors.x]\n", "one of"),
        ('[resolvers.x]\ncommand = ["a"]\nevery = "soon"\n', "resolvers.x"),
        ("[schemas.x.fields]\na = 'strin'\n", "schemas.x"),
        ("not toml", "line 1"),
    ],
)
def test_settings_with_a_fault_name_the_entry(tmp_path, text, part):
    (tmp_path / "holdfast.toml").write_text(text)

    with pytest.raises(BadSettings, match=part):
        wf.Library(root=tmp_path)


# Functions and tasks


def test_a_python_function_may_hang_until_its_time_limit(work):
    started = threading.Event()

    def prepare(library):
        @library.executor("slow")
        async def slow(call):
            started.set()
            if call.attempt == 1:
                import asyncio

                await asyncio.Event().wait()
            return "<<<FLOW_OUTPUT>>>{}<<<END_FLOW_OUTPUT>>>"

    lab, run = work('workflow w { call slow { timeout = "5s" retries = 1 } }', prepare)
    assert started.wait(PATIENCE)
    lab.clock.advance("6s")
    lab.finish(run)

    assert lab.engine.run(run.id).steps()[0].attempts == 2
