"""Ten thousand live runs that one worker holds in memory while they wait: what each takes, and what
the idle worker does."""

from __future__ import annotations

import gc
import time

from bench.place import Place, memory_mb, wait_until
from bench.scenario import Scenario, Target

SCENARIO = Scenario(
    "held",
    "10,000 live runs held",
    "idle_percent",
    "% of a core",
    size={"n": 10_000, "seconds": 10.0},
    targets=tuple(
        target
        for store in ("sqlite", "postgres")
        for target in (
            Target(store, "idle_percent", 0.5, at_most=True),
            Target(store, "kb_per_run", 12, at_most=True),
        )
    ),
)

WAITING = "SELECT count(*) FROM holdfast.run WHERE status = 'waiting' AND session_id IS NOT NULL"


def holdfast(place: Place) -> dict[str, float]:
    from bench.peers import ours
    from bench.scenarios.s2 import run_at_once
    from holdfast import Engine

    with Engine(place.url, idle_timeout="1h", concurrency=2 * place.n) as engine:
        run_at_once(engine, ours.steps, 100, 5)
        gc.collect()
        before = memory_mb()
        engine.start_many(ours.listener, range(place.n))
        wait_until(ours.counter(place, WAITING), place.n, pause=0.1)
        gc.collect()
        taken = memory_mb() - before
        time.sleep(min(place.seconds, 3.0))  # what follows the starts ends meanwhile
        with place.meter() as meter:
            time.sleep(place.seconds)
    return {
        "idle_percent": meter.cpu / meter.wall * 100,
        "kb_per_run": taken * 1000 / place.n,
    }
