"""S8: how much comes with it, and how soon the first durable run is done."""

from __future__ import annotations

import os
import subprocess
import sys
import time

from bench.place import Place, check, memory_mb
from bench.scenario import Scenario, Target

SCENARIO = Scenario(
    "s8",
    "footprint and start",
    "first_run_ms",
    "ms to the first durable run",
    targets=(
        Target("sqlite", "import_to_base", 1.6, at_most=True),
        Target("sqlite", "packages", 15, at_most=True),
        Target("sqlite", "next_file_ms", 50, at_most=True),
    ),
)


PROGRAM = """
import os, tempfile
from holdfast import Engine, step, workflow

@step
async def one(number):
    return number

@workflow
async def first(number):
    return await one(number)

with tempfile.TemporaryDirectory() as folder:
    with Engine(os.path.join(folder, "first.db")) as engine:
        assert engine.start(first, 1).result() == 1
"""
"""From the start of Python to the end of a program with one durable run."""


def _packages(python: str = sys.executable) -> int:
    """Return how many packages are in an environment, apart from what comes with every one."""
    code = (
        "import importlib.metadata as m; print(len({d.name for d in m.distributions()} - {'pip',"
        " 'setuptools', 'wheel'}))"
    )
    return int(
        subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout
    )


def _program_ms(*codes: str, python: str = sys.executable) -> list[float]:
    """Return what each program costs, beyond what an empty one costs: the best of some by turns,
    for there is noise. All are compiled before."""
    environ = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    taken: dict[str, list[float]] = {code: [] for code in ("pass", *codes)}
    for turn in range(10):
        for code, times in taken.items():
            began = time.perf_counter()
            subprocess.run([python, "-c", code], check=True, cwd="/", env=environ)
            if turn:
                times.append(time.perf_counter() - began)
    return [(min(taken[code]) - min(taken["pass"])) * 1e3 for code in codes]


def _import_ms(code: str) -> float:
    return _program_ms(code)[0]


def holdfast_sqlite(place: Place) -> dict[str, float]:
    default = os.environ.get("BENCH_DEFAULT", sys.executable)
    ours_ms, base_ms = _program_ms(
        "from holdfast import Engine, step, workflow", "import asyncio, msgspec", python=default
    )
    found = {
        "packages": _packages(default),
        "import_ms": ours_ms,
        "import_to_base": ours_ms / base_ms,
        "program_ms": _program_ms(PROGRAM, python=default)[0],
    }
    from bench.peers import ours
    from holdfast import Engine

    began = time.perf_counter()
    with Engine(place.url) as engine:
        check(engine.start(ours.steps, 1).result(), 1)
        found["first_run_ms"] = (time.perf_counter() - began) * 1e3  # with what opening loads
        found["memory_mb"] = memory_mb()
    began = time.perf_counter()
    with Engine(os.path.join(place.folder, "next.db")) as engine:
        check(engine.start(ours.steps, 1).result(), 1)
        found["next_file_ms"] = (time.perf_counter() - began) * 1e3
    return found


def dbos(place: Place) -> dict[str, float]:
    found = {"packages": _packages(), "import_ms": _import_ms("import dbos")}
    from bench.peers import dbos as peer

    began = time.perf_counter()
    peer.launch(place)
    check(peer.steps(1), 1)
    return found | {"first_run_ms": (time.perf_counter() - began) * 1e3, "memory_mb": memory_mb()}


def absurd(place: Place) -> dict[str, float]:
    found = {"packages": _packages(), "import_ms": _import_ms("import absurd_sdk")}
    from bench.peers import absurd as peer

    began = time.perf_counter()
    client = peer.install(place)
    client.spawn("steps", {"count": 1})
    client.work_batch()
    return found | {"first_run_ms": (time.perf_counter() - began) * 1e3, "memory_mb": memory_mb()}
