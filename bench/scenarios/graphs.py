"""Graphs: chains of ten that run to their ends, beside as many bare runs, in turn; and how long it
takes until the rest of a quorum is gone: runs that have not begun, and runs that wait in memory."""

from __future__ import annotations

import statistics
import time
from typing import Any

from bench.place import Place, check, wait_until
from bench.scenario import Scenario, Target

SCENARIO = Scenario(
    "graphs",
    "100 graphs of a chain of 10",
    "rate",
    "graphs/s",
    size={"n": 100, "length": 10, "width": 1000, "turns": 3},
    targets=tuple(
        target
        for store, goal in (("sqlite", 500), ("postgres", 400))
        for target in (
            Target(store, "rate", goal),
            Target(store, "rest_unbegun_s", 0.2, at_most=True),
        )
    ),
)


def holdfast(place: Place) -> dict[str, float]:
    from bench.peers import ours
    from holdfast import Engine

    with Engine(
        place.url, workflows=[ours.job, ours.listener], lanes=["default"], idle_timeout="1h"
    ) as engine:
        _chains(engine, place, 5)
        turns = [
            (_chains(engine, place, place.n), _bare(engine, place)) for _ in range(place.turns)
        ]
        meter = statistics.median_low([chains.wall for chains, _ in turns])
        best = next(chains for chains, _ in turns if chains.wall == meter)
        return place.per(best, place.n, "graph") | {
            "to_bare_runs": statistics.median(chains.wall / bare.wall for chains, bare in turns),
            "rest_unbegun_s": statistics.median(
                _quorum(engine, place, waiting=False) for _ in range(place.turns)
            ),
            "rest_waiting_s": statistics.median(
                _quorum(engine, place, waiting=True) for _ in range(place.turns)
            ),
        }


def _chains(engine: Any, place: Place, count: int) -> Any:
    """Let chains run to their ends: each member is given the result of the one before."""
    from bench.peers import ours
    from holdfast import Graph

    graphs = []
    for _ in range(count):
        graph = Graph("chain")
        last = graph.add(ours.job, 7, name="0")
        for number in range(1, place.length):
            last = graph.add(ours.job, last.result, name=str(number))
        graphs.append(graph)
    with place.meter() as meter:
        for run in engine.graphs.start_many(graphs):
            check(run.result(timeout=120), {str(place.length - 1): 7})
    return meter


def _bare(engine: Any, place: Place) -> Any:
    from bench.peers import ours

    with place.meter() as meter:
        for run in engine.start_many(ours.job, range(place.n * place.length)):
            run.result(timeout=120)
    return meter


def _quorum(engine: Any, place: Place, *, waiting: bool) -> float:
    """Let one of many complete, and see how long the others take to be gone."""
    from bench.peers import ours
    from holdfast import Graph

    graph = Graph("quorum")
    rest: dict[str, Any] = {} if waiting else {"lane": "nobody"}
    first = graph.add(ours.listener, 0, name="first")
    members = [
        graph.add(ours.listener, number, name=f"m{number}", **rest)
        for number in range(1, place.width)
    ]
    graph.add(ours.job, 1, name="last").after(first, *members, need="any", rest="cancel")
    run = engine.graphs.start(graph)
    if waiting:
        which = {"workflow": ours.listener.name, "status": "waiting"}
        wait_until(lambda: engine.runs(**which).count(), place.width)
    wait_until(lambda: int(_is_waiting(engine, f"{run.id}::first")), 1)
    began = time.perf_counter()
    engine.signal(f"{run.id}::first", "go")
    check(run.result(timeout=120), {"last": 1})
    return time.perf_counter() - began


def _is_waiting(engine: Any, run_id: str) -> bool:
    from holdfast.errors import RunNotFound

    try:
        return bool(engine.run(run_id).status == "waiting")
    except RunNotFound:  # a large graph is stored in parts: its members follow after start
        return False
