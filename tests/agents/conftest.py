"""Crashes on both stores, and worker processes that are killed, for the tests of all adapters."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from holdfast import Engine
from holdfast.testing import crash_everywhere
from holdfast.testing.ledger import RUN
from holdfast.testing.postgres import _WIPE

VICTIM = Path(__file__).with_name("victim.py")
SOURCES = str(Path(__file__).parents[2] / "src")


@pytest.fixture(params=["sqlite", "postgres"])
def everywhere(request):
    """``crash_everywhere`` on a file, and on a real PostgreSQL."""
    if request.param == "sqlite":
        yield partial(crash_everywhere, doubles=2, check=has_completed)
        return
    server = request.getfixturevalue("postgres_server")
    with server.lend() as url:
        clear = partial(server.execute, _WIPE, url)
        yield partial(crash_everywhere, doubles=0, zombies=False, database=url, clear=clear, check=has_completed)


def has_completed(lab):
    assert lab.engine.run(RUN).status == "completed"


@pytest.fixture
def approve():
    """A person who agrees."""
    return lambda lab, gate: lab.engine.approve(gate, by="ann", feedback="fine")


@pytest.fixture
def killed_in_a_tool(tmp_path):
    """Run the agent of a framework in a process, kill that in the middle of a tool, let another go on; return the result, and all
    that models and tools were asked to do."""

    def play(framework):
        with Engine(tmp_path / "victim.db", workflows=[]) as engine:
            run = engine.start(f"victim_{framework}", "2+3?")
            first = Process(framework, tmp_path)
            first.until(lambda: "tool" in first.effects())
            first.kill()
            (tmp_path / "go").touch()
            second = Process(framework, tmp_path)
            try:
                return run.result(timeout="60s"), second.effects()
            finally:
                second.kill()

    return play


class Process:
    """A worker process."""

    def __init__(self, framework, folder):
        self.folder = folder
        around = {**os.environ, "PYTHONPATH": SOURCES, "VICTIM_FOLDER": str(folder)}
        self.process = subprocess.Popen([sys.executable, str(VICTIM), framework, str(folder / "victim.db")], env=around)

    def effects(self):
        file = self.folder / "effects"
        return file.read_text().split() if file.exists() else []

    def until(self, condition):
        pause, began = threading.Event(), time.monotonic()
        while not condition():
            assert self.process.poll() is None, "the worker has ended by itself"
            assert time.monotonic() - began < 60
            pause.wait(0.02)

    def kill(self):
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()
