"""Processes that publish, subscribe, complete, modify and migrate at random, on one database."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from holdfast import Engine
from holdfast.errors import NotThere, RunFinished, TaskClosed
from tests.crash.model_operators import NAME, version
from tests.crash.stages import databases
from tests.engine.waiting import PATIENCE, until

SECONDS = float(os.environ.get("HOLDFAST_SECONDS", "1"))
"""How long the processes operate."""

ROOT = Path(__file__).parents[2]


def operator(database: str, seed: int, seconds: float) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "tests.crash.model_operators", database, str(seed), str(seconds)],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
    )


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.timeout(SECONDS + 300)
def test_four_processes_leave_a_sound_database(kind, request, tmp_path):
    with databases(kind, request, tmp_path) as fresh:
        database = fresh()
        with Engine(database, work=False) as client:
            client.models.deploy(version("b"))
            client.models.deploy(version("c"))

            processes = [operator(database, seed, SECONDS) for seed in range(3)]
            victim = operator(database, 3, 600)
            for process in processes:
                assert process.wait(SECONDS + 120) == 0
            victim.kill()
            victim.wait()

            assert client.runs(workflow=NAME).count() > 3
            with Engine(database, shutdown_timeout=5) as engine:
                for run in engine.runs(workflow=NAME, live=True).page(limit=5):
                    finish(engine, run.id)
                assert engine.runs(workflow=NAME, status="stuck").count() == 0
            assert client.database.check() == []


def finish(engine: Engine, run_id: str) -> None:
    """Give a run everything that it waits for, as long as it rests.

    A run of the killed process rests with its answers until its session counts as dead.
    """
    run = engine.run(run_id)

    def completed() -> bool:
        if run.wait_until(("waiting", "completed"), timeout=PATIENCE) == "completed":
            return True
        with suppress(NotThere, RunFinished, TaskClosed):  # the worker goes on meanwhile
            release(engine, run_id)
        return False

    until(completed, f"run {run_id} completes")


def release(engine: Engine, run_id: str) -> None:
    tokens = engine.models.tokens(run_id)
    if any(token.status == "suspended" for token in tokens):
        engine.models.resume(run_id)
    if any(token.waits_for == "message" for token in tokens):
        key = engine.models.variables(run_id)["key"]
        engine.models.message("paid", {}, key=key, ttl="1h")
    for task in engine.models.tasks(run=run_id):
        engine.models.complete(task.id, {}, by="ann")
