"""How Holdfast's own cost grows: with the number of runs at once, the steps of a run, the size of a
payload, the number of workers, the distance of the database. S7 has the number of finished runs."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import time
from typing import Any
from urllib.parse import parse_qs, urlsplit

from bench.place import Place, check, ready, say, wait_until
from bench.scenario import Scenario
from bench.scenarios.s2 import run_at_once
from bench.scenarios.s3 import DONE

SCENARIO = Scenario(
    "growth",
    "how the cost grows",
    "steps_10000_cpu_ms",
    "ms CPU per step",
    rounds=1,
    timeout=1800,
    size={
        "runs": [10, 100, 1000, 10_000],
        "steps": [10, 100, 1000, 10_000, 100_000],
        "bytes": [100, 10_000, 100_000, 1_000_000, 10_000_000],
        "workers": [1, 2, 4, 8],
        "drained": 4000,
        "latencies": [0, 1, 10],
    },
)


def holdfast(place: Place) -> dict[str, float]:
    from bench.peers import ours
    from holdfast import Engine

    found: dict[str, float] = {}
    with Engine(place.url) as engine:
        run_at_once(engine, ours.steps, 100, 5)
        for runs in place.size["runs"]:
            _note(
                found,
                place,
                f"runs_{runs}",
                runs,
                lambda runs=runs: run_at_once(engine, ours.steps, runs, 5),
            )
        for steps in place.size["steps"]:
            work = lambda steps=steps: check(  # noqa: E731
                engine.start(ours.steps, steps).result(timeout=600), steps
            )
            _note(found, place, f"steps_{steps}", steps, work)
        for size in place.size["bytes"]:
            times = max(2, min(50, 2_000_000 // size))
            _note(
                found,
                place,
                f"bytes_{size}",
                times,
                lambda size=size, times=times: _carry(engine, ours.carry, size, times),
            )
    for workers in place.size["workers"]:
        found[f"workers_{workers}_rate"] = _drain(place, workers, place.drained)
    if place.store == "postgres":
        for latency in place.latencies:
            found |= _far(place, latency)
    return found


def _note(found: dict[str, float], place: Place, name: str, count: int, work: Any) -> None:
    with place.meter() as meter:
        work()
    found[f"{name}_cpu_ms"], found[f"{name}_ms"] = meter.cpu / count * 1e3, meter.wall / count * 1e3


def _carry(engine: Any, workflow: Any, size: int, times: int) -> None:
    check(engine.start(workflow, size, times).result(timeout=120), times)


def _drain(place: Place, workers: int, count: int) -> float:
    from bench.peers import ours
    from holdfast import Engine

    if place.store == "sqlite":
        place = dataclasses.replace(place, url=os.path.join(place.folder, f"drain-{workers}.db"))
    engine = Engine(place.url)
    engine.start_many(ours.steps, [5] * count)
    done = ours.counter(place, DONE)
    before = done()
    helpers = [place.spawn("holdfast_worker") for _ in range(workers)]
    began = time.perf_counter()
    for helper in helpers:
        helper.go()
    wait_until(done, before + count, seconds=300)
    taken = time.perf_counter() - began
    for helper in helpers:
        helper.kill()
    engine.close()
    return count / taken


def _far(place: Place, latency: float) -> dict[str, float]:
    """Return the time of a step in sequence, and of a run of five steps among a thousand, with a
    database that is *latency* milliseconds away, there and back. All pass the proxy, which itself
    takes some time: also those at a distance of none."""
    from bench.peers import ours
    from holdfast import Engine

    helper = place.spawn("proxy", latency=latency)
    helper.go()
    port = helper.listen("port")
    name = urlsplit(place.url).path
    with Engine(f"postgresql://postgres@127.0.0.1:{port}{name}") as engine:
        run_at_once(engine, ours.steps, 10, 5)
        began = time.perf_counter()
        check(engine.start(ours.steps, 100).result(timeout=120), 100)
        step = (time.perf_counter() - began) / 100
        began = time.perf_counter()
        run_at_once(engine, ours.steps, 1000, 5)
        run = (time.perf_counter() - began) / 1000
    helper.kill()
    return {f"latency_{latency}_step_ms": step * 1e3, f"latency_{latency}_run_ms": run * 1e3}


def proxy(place: Place) -> None:
    from bench.latency import Proxy

    folder = parse_qs(urlsplit(place.url).query)["host"][0]
    (lock,) = pathlib.Path(folder).glob(".s.PGSQL.*.lock")
    target = str(lock).removesuffix(".lock")
    ready()
    say(f"port {Proxy(target, place.latency).port}")
    time.sleep(3600)


def holdfast_worker(place: Place) -> None:
    from bench.scenarios import s3

    s3.holdfast_worker(place)
