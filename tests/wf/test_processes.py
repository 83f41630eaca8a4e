"""Text workflows with real worker processes, which are killed."""

import os
import signal
import subprocess
import sys

import pytest

from holdfast import Engine, wf
from tests.engine.waiting import PATIENCE, until
from tests.wf.test_executors import is_alive, pids_of, script

TEXT = """workflow watched {
  call prepare_of_processes
  script hang { run = "./hang.sh" }
  call finish_of_processes
}
"""
AGENTS = """
from holdfast import wf

@wf.executor("prepare_of_processes")
def prepare(call):
    with open("calls.txt", "a") as notes:
        notes.write("prepare ")

@wf.executor("finish_of_processes")
def finish(call):
    with open("calls.txt", "a") as notes:
        notes.write("finish ")
    return {"context": call.inputs["prior_context"]}
"""
HANG = """
[ -e go ] && echo done && exit
sleep 600 & echo $! > inner.pid; echo $$ > outer.pid; wait
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "flows").mkdir()
    (tmp_path / "flows" / "watched.wf").write_text(TEXT)
    (tmp_path / "agents_of_processes.py").write_text(AGENTS)
    script(tmp_path / "hang.sh", HANG)
    return tmp_path


@pytest.fixture
def worker():
    """Return a function that starts ``holdfast worker`` on the folder; none is left at the end."""
    processes = []

    def start(database):
        words = ["--db", database, "worker", "flows", "--using", "agents_of_processes.py"]
        process = subprocess.Popen(
            [sys.executable, "-m", "holdfast", *words, "--quiet"], stderr=subprocess.PIPE
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def test_the_scripts_of_a_killed_worker_end_and_another_worker_continues(database, folder, worker):
    library = wf.Library("flows", root=folder)
    with Engine(database, work=False) as engine:
        run = engine.start(library.workflow("watched"), {}, cwd=str(folder))
        first = worker(database)
        pids = pids_of(folder, "inner.pid", "outer.pid")

        os.kill(first.pid, signal.SIGKILL)

        until(lambda: not any(is_alive(pid) for pid in pids))
        (folder / "go").touch()
        second = worker(database)
        assert run.result(timeout="60s")["context"] == "done\n"
        second.send_signal(signal.SIGTERM)
        assert second.wait(PATIENCE) == 0
    assert (folder / "calls.txt").read_text() == "prepare finish "
