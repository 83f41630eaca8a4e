"""Graphs: how many chains end per second, and how long it takes to cancel the rest of a quorum.

    python bench/graphs.py [--db graphs.db] [--graphs 100] [--length 10] [--width 1000] [--rounds 5]

Beside the chains the same number of bare runs is measured, started together: what a graph costs is what it takes more. The rest
of a quorum is measured from the end of the one that decides it until no other run of it is left; first with runs that have not
begun, then with runs that wait for a signal in memory.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path

from holdfast import Engine, Graph, wait_signal, workflow


@workflow(name="bench_link")
async def link(number: int) -> int:
    return number + 1


@workflow(name="bench_listener")
async def listener(number: int) -> int:
    await wait_signal("go")
    return number


@workflow(name="bench_idle", lane="bench_nobody")
async def idle(number: int) -> int:
    return number


def chain(length: int) -> Graph:
    """A graph in which each member is given the result of the one before."""
    graph = Graph("chain")
    last = graph.add(link, 0, name="0")
    for number in range(1, length):
        last = graph.add(link, last.result, name=str(number))
    return graph


def chains(engine: Engine, count: int, length: int) -> dict[str, float]:
    """Let chains run to their ends, and as many bare runs."""
    graphs = [chain(length) for _ in range(count)]
    began, busy = time.perf_counter(), time.process_time()
    runs = engine.graphs.start_many(graphs)
    staged = time.perf_counter() - began
    for run in runs:
        assert run.result(timeout=120) == {str(length - 1): length}
    took, cpu = time.perf_counter() - began, time.process_time() - busy
    began, busy = time.perf_counter(), time.process_time()
    for bare in engine.start_many(link, range(count * length)):
        bare.result(timeout=120)
    bare_took, bare_cpu = time.perf_counter() - began, time.process_time() - busy
    return {
        "graphs/s": count / took, "s": took, "staged in s": staged, "bare runs s": bare_took, "ratio": took / bare_took,
        "CPU ms per graph": 1000 * cpu / count, "CPU ratio": cpu / bare_cpu,
    }  # fmt: skip


def quorum(engine: Engine, rest: object, width: int) -> float:
    """Let one of many complete, and see how long the others take to be gone."""
    graph = Graph("quorum")
    members = [graph.add(listener, 0, name="first"), *(graph.add(rest, n, name=f"m{n}") for n in range(1, width))]
    graph.add(link, 1, name="last").after(*members, need="any", rest="cancel")
    run = engine.graphs.start(graph)
    if rest is listener:
        while (
            sum(one.status == "waiting" for one in engine.runs(workflow="bench_listener", status="waiting", limit=width)) < width
        ):
            time.sleep(0.05)
    while engine.run(f"{run.id}::first").status != "waiting":
        time.sleep(0.01)
    began = time.perf_counter()
    engine.signal(f"{run.id}::first", "go")
    assert run.result(timeout=120) == {"last": 2}
    return time.perf_counter() - began


def measure(db: str, count: int, length: int, width: int, rounds: int) -> dict[str, object]:
    """Measure all of it, some rounds each; tell the medians."""
    with Engine(db, workflows=[link, listener], lanes=["default"], linger="1h") as engine:
        chains(engine, 5, length)
        found = [chains(engine, count, length) for _ in range(rounds)]
        unbegun = [quorum(engine, idle, width) for _ in range(rounds)]
        waiting = [quorum(engine, listener, width) for _ in range(rounds)]
    told: dict[str, object] = {name: round(statistics.median(one[name] for one in found), 3) for name in found[0]}
    told |= {"best graphs/s": round(max(one["graphs/s"] for one in found))}
    told |= {f"rest of {width}, unbegun, s": round(statistics.median(unbegun), 3)}
    told |= {f"rest of {width}, waiting, s": round(statistics.median(waiting), 3)}
    return told | {"load": round(os.getloadavg()[0], 1)}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--db")
    for name, value in (("graphs", 100), ("length", 10), ("width", 1000), ("rounds", 5)):
        parser.add_argument(f"--{name}", type=int, default=value)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        db = args.db or str(Path(folder) / "graphs.db")
        print(json.dumps(measure(db, args.graphs, args.length, args.width, args.rounds), indent=2))


if __name__ == "__main__":
    main()
