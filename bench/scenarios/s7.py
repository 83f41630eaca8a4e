"""S7: finished runs do not slow down live ones: S2 beside up to ten million finished runs, and
beside none; late steps of a long run beside early ones.

The finished runs are copies of real ones, made by SQL, and 10,000 of them are compared with the
real ones row by row. This takes long and up to 20 GB of the disk on each store; ``--size`` makes it
smaller: ``{"levels": [1000000]}``."""

from __future__ import annotations

import dataclasses
import os
import statistics
from typing import Any

from bench import finished
from bench.place import Place
from bench.scenario import Scenario, Target
from bench.scenarios.s2 import run_at_once

SCENARIO = Scenario(
    "s7",
    "with ten million finished runs",
    "full_to_empty",
    "of the speed",
    rounds=1,
    size={
        "levels": [100_000, 1_000_000, 10_000_000],
        "compared": 10_000,
        "runs": 500,
        "turns": 11,
        "steps": 5,
        "long": 10_000,
    },
    timeout=3 * 3600,
    targets=tuple(
        target
        for store in ("sqlite", "postgres")
        for target in (
            Target(store, "full_to_empty", 0.95),
            Target(store, "late_to_early_step", 1.2, at_most=True),
        )
    ),
)


def holdfast(place: Place) -> dict[str, float]:
    from bench.peers import ours
    from bench.peers import raw as driver
    from holdfast import Engine

    empty = dataclasses.replace(place, url=_beside(place))
    with Engine(place.url) as engine:
        run_at_once(engine, ours.steps, finished.REAL, place.steps)
    finished.remember_real(place)
    figures: dict[str, float] = {}
    times = 1
    for level in place.levels:
        finished.multiply(place, level // finished.REAL, times)
        times = level // finished.REAL
        driver.settle(place)
        part, cpu_part = _beside_empty(place, empty)
        figures |= {f"finished_{level}_part": part, f"finished_{level}_cpu_part": cpu_part}
    figures["full_to_empty"] = part
    figures["cpu_full_to_empty"] = cpu_part
    figures["compared"] = finished.compare(place, times, place.compared)
    with Engine(place.url) as engine:
        early, late = _early_and_late(engine, ours.marked, place.long)
    return figures | {"late_to_early_step": late / early}


def _beside_empty(place: Place, empty: Place) -> tuple[float, float]:
    """Return the speed with the finished runs as a part of that without them, by the clock and in
    CPU, as medians: by turns, so that both see the same machine."""
    from bench.peers import ours
    from holdfast import Engine

    ratios = []
    cpu: dict[str, list[float]] = {"full": [], "empty": []}
    with Engine(place.url) as full, Engine(empty.url) as other:
        for turn in range(place.turns):
            taken = {}
            pair = [("full", full), ("empty", other)]
            for name, engine in pair if turn % 2 else reversed(pair):
                with place.meter() as meter:
                    run_at_once(engine, ours.steps, place.runs, place.steps)
                taken[name] = meter.wall
                cpu[name].append(meter.cpu)
            if turn:
                ratios.append(taken["empty"] / taken["full"])
    cpu_part = statistics.median(cpu["empty"]) / statistics.median(cpu["full"])
    return statistics.median(ratios), cpu_part


def _beside(place: Place) -> str:
    if place.store == "sqlite":
        return os.path.join(place.folder, "empty.db")
    import psycopg

    name = place.url.split("?")[0].rsplit("/", 1)[1]
    with psycopg.connect(place.url, autocommit=True) as db:
        db.execute(f'CREATE DATABASE "{name}_empty"')
    return place.url.replace(name, f"{name}_empty")


def _early_and_late(engine: Any, workflow: Any, count: int) -> tuple[float, float]:
    """Return the CPU seconds that the process took for a step, early and late in a long run."""
    marks = engine.start(workflow, count, count // 10).result(timeout=300)
    return marks[1] - marks[0], marks[-1] - marks[-2]
