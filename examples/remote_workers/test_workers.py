"""Each worker is killed in the middle of a task, and another one completes it."""

import os
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from holdfast import Engine
from tests.server.clients import ServeProcess

HERE = Path(__file__).parent
COMMANDS = {
    "python": [sys.executable, "-I", str(HERE / "worker.py")],
    "shell": ["bash", str(HERE / "worker.sh")],
    "node": ["node", str(HERE / "worker.mjs")],
}
NEEDS = {"python": [], "shell": ["curl", "jq"], "node": ["node"]}


@contextmanager
def working(kind, served, key, *, seconds=0, lease="5m"):
    """A worker in a process group of its own; it is killed at the end."""
    process = subprocess.Popen(
        COMMANDS[kind],
        env={
            **os.environ,
            "HOLDFAST_URL": served.url,
            "HOLDFAST_API_KEY": key,
            "WORK_SECONDS": str(seconds),
            "LEASE_TTL": lease,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        text=True,
    )
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.mark.parametrize("kind", COMMANDS)
def test_another_worker_completes_the_task_of_a_killed_one(tmp_path, kind):
    missing = [tool for tool in NEEDS[kind] if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"missing tool: {missing[0]}")
    database = tmp_path / "remote.db"
    with Engine(database, work=False) as engine, ServeProcess(database) as served:
        key = engine.api_keys.add("worker", roles="worker").api_key
        run = engine.start("render", {"size": 7})
        with working(kind, served, key, seconds=600, lease="10s") as worker:
            # Killed sooner, the worker may not have received its lease, which is then given back.
            assert worker.stdout.readline() == "render 7\n"
        assert run.status == "running"

        with working("python", served, key), working(kind, served, key):
            result = run.result(timeout="60s")
            more = engine.start_many("render", [{"size": size} for size in range(4)])
            urls = [other.result(timeout="60s")["url"] for other in more]

        assert result["url"] == "image-7.png"
        assert urls == [f"image-{size}.png" for size in range(4)]
        kinds = [event.kind for event in run.history()]
        assert kinds.count("lease_lost") == 1 and kinds[-1] == "run_completed"
        assert engine.database.check() == []
