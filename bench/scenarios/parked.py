"""A million parked runs in one SQLite file: what each costs, and what it takes to wake those that
are due."""

from __future__ import annotations

import os
import time

from bench.finished import multiply, remember_real
from bench.place import Place, ready, wait_until
from bench.scenario import Scenario, Target
from bench.scenarios.s3 import DONE

SCENARIO = Scenario(
    "parked",
    "a million parked runs",
    "bytes_per_run",
    "bytes per run",
    rounds=1,
    timeout=420,
    size={"n": 1_000_000},
    targets=(Target("sqlite", "worker_mb", 300, at_most=True),),
)

SOON = 20
"""Seconds after which one of a hundred is due."""


def holdfast_sqlite(place: Place) -> dict[str, float]:
    from bench.peers import ours
    from holdfast import Engine

    with Engine(place.url) as engine:
        engine.start_many(ours.sleeper, [SOON] * 10 + [30 * 86_400] * 990)
        parked = ours.counter(
            place,
            "SELECT count(*) FROM holdfast.run WHERE status = 'waiting' AND session_id IS NULL",
        )
        wait_until(parked, 1000)
        parked_at = time.monotonic()
    remember_real(place)
    multiply(place, place.n // 1000)
    ours.connect(place).execute("PRAGMA wal_checkpoint(TRUNCATE)")
    found: dict[str, float] = {"bytes_per_run": os.path.getsize(place.url) / place.n}
    helper = place.spawn("holdfast_worker")
    time.sleep(max(0.0, parked_at + SOON - time.monotonic()))
    began = time.perf_counter()
    helper.go()
    wait_until(ours.counter(place, DONE), place.n // 100, pause=0.1)
    found["woken_per_s"] = place.n // 100 / (time.perf_counter() - began)
    found["worker_mb"] = helper.peak_mb()
    helper.kill()
    return found


def holdfast_worker(place: Place) -> None:
    from bench.peers import ours
    from holdfast import Engine

    ready()
    with Engine(place.url):
        ours.forever()
