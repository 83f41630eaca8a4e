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
        Target("sqlite", "import_ms", 120, at_most=True),
        Target("sqlite", "packages", 15, at_most=True),
        Target("sqlite", "first_run_ms", 50, at_most=True),
    ),
)


def _packages(python: str = sys.executable) -> int:
    """Return how many packages are in an environment, apart from what comes with every one."""
    code = (
        "import importlib.metadata as m; print(len({d.name for d in m.distributions()} - {'pip',"
        " 'setuptools', 'wheel'}))"
    )
    return int(
        subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout
    )


def _import_ms(code: str, python: str = sys.executable) -> float:
    """Return what importing costs, beyond what an empty program costs; the best of some, for there
    is noise."""

    def best(code: str) -> float:
        times = []
        for _ in range(7):
            began = time.perf_counter()
            subprocess.run([python, "-c", code], check=True, cwd="/")
            times.append(time.perf_counter() - began)
        return min(times) * 1e3

    return best(code) - best("pass")


def holdfast(place: Place) -> dict[str, float]:
    default = os.environ.get("BENCH_DEFAULT", sys.executable)
    found = {
        "packages": _packages(default),
        "import_ms": _import_ms("from holdfast import Engine, step, workflow", default),
    }
    from bench.peers import ours
    from holdfast import Engine

    began = time.perf_counter()
    with Engine(place.url) as engine:
        check(engine.start(ours.steps, 1).result(), 1)
        found["first_run_ms"] = (time.perf_counter() - began) * 1e3
        found["memory_mb"] = memory_mb()
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
