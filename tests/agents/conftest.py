"""Crashes on both stores, and worker processes that are killed, for the tests of all adapters."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from holdfast import Engine
from holdfast.testing import crash_everywhere
from holdfast.testing.postgres import _WIPE
from holdfast.testing.recorder import RUN
from tests.agents import victim

VICTIM = Path(__file__).with_name("victim.py")
SOURCES = str(Path(__file__).parents[2] / "src")


@pytest.fixture
def everywhere():
    """``crash_everywhere`` on a file, to a good end."""
    return partial(crash_everywhere, doubles=2, check=has_completed)


@pytest.fixture
def everywhere_on_postgres(request):
    """The same on a real PostgreSQL."""
    server = request.getfixturevalue("postgres_server")
    with server.lend() as url:
        clear = partial(server.execute, _WIPE, url)
        yield partial(
            crash_everywhere,
            doubles=0,
            zombies=False,
            database=url,
            clear=clear,
            check=has_completed,
        )


def has_completed(lab):
    assert lab.engine.run(RUN).status == "completed"


@pytest.fixture
def approve():
    """A person who agrees."""
    return lambda lab, gate: lab.engine.gates.approve(gate, by="ann", feedback="fine")


@pytest.fixture
def killed_in_a_tool(tmp_path, monkeypatch):
    """Run the agent of a framework in a process, kill that in the middle of a tool, and go on here;
    return the result, and all that models and tools were asked to do."""

    def play(framework):
        with closing(Engine(tmp_path / "victim.db", workflows=[])) as engine:
            run = engine.start(f"victim_{framework}", "2+3?")
        process = Process(framework, tmp_path)
        try:
            process.until(lambda: "tool" in process.effects())
        finally:
            process.kill()
        (tmp_path / "go").touch()
        monkeypatch.setattr(victim, "folder", tmp_path)
        with Engine(tmp_path / "victim.db", workflows=[getattr(victim, framework)()]) as engine:
            return engine.run(run.id).result(timeout="60s"), process.effects()

    return play


class Process:
    """A worker process."""

    def __init__(self, framework, folder):
        self.folder = folder
        around = {**os.environ, "PYTHONPATH": SOURCES, "VICTIM_FOLDER": str(folder)}
        self.process = subprocess.Popen(
            [sys.executable, str(VICTIM), framework, str(folder / "victim.db")], env=around
        )

    def effects(self):
        file = self.folder / "effects"
        return file.read_text().split() if file.exists() else []

    def until(self, condition):
        pause, began = threading.Event(), time.monotonic()
        while not condition():
            assert self.process.poll() is None, "the worker has ended by itself"
            assert time.monotonic() - began < 200
            pause.wait(0.02)

    def kill(self):
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()
