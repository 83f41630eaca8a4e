"""S2 as people write it, for everybody: ``def`` and ``async def``, started together and singly by
one caller, with Python's own garbage collector settings and with those of a worker. S2 itself shows
the best case. OpenWorkflow and Restate know one form: S2 has it."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Callable
from typing import Any

from bench.place import Place, check, wait_until
from bench.scenario import Scenario, Target

PYTHONS_OWN = (700, 10, 10)
"""The thresholds of the garbage collector in a program that sets none."""

SCENARIO = Scenario(
    "styles",
    "1,000 runs of 5 steps, as people write them",
    "rate",
    "runs/s, def functions together",
    size={"n": 1000, "many": 10_000, "steps": 5},
    share={"dbos": 0.1, "absurd": 0.2, "procrastinate": 0.1},
    targets=(
        Target("sqlite", "rate", 20, "dbos"),
        Target("postgres", "rate", 20, "dbos"),
        Target("sqlite", "singly_part", 0.6),
        Target("sqlite", "own_gc_part", 0.95),
        Target("sqlite", "own_gc_many_part", 0.9),
    ),
)

Work = Callable[[int], None]
"""Starts as many runs, and returns when they have ended."""


def rate(work: Work, count: int) -> float:
    """Return how many runs per second."""
    began = time.perf_counter()
    work(count)
    return count / (time.perf_counter() - began)


def styles(place: Place, plain: Work, together: Work, singly: Work) -> dict[str, float]:
    """Measure the styles of a peer: ``def`` functions together, ``async def`` functions together
    and singly, and together again with Python's own settings of the garbage collector. The parts
    are those of ``async def`` together."""
    few = max(place.n // 10, 1)
    plain(few)
    with place.meter() as meter:
        plain(place.n)
    figures = place.per(meter, place.n, "run")
    together(few)
    best = figures["async_rate"] = rate(together, place.n)
    figures["singly_rate"] = rate(singly, place.n)
    figures["singly_part"] = figures["singly_rate"] / best
    figures["own_gc_rate"] = with_own_gc(lambda: rate(together, place.n))
    figures["own_gc_part"] = figures["own_gc_rate"] / best
    return figures


def with_own_gc(measure: Callable[[], float]) -> float:
    """Measure with Python's own settings of the garbage collector."""
    tuned = gc.get_threshold()
    gc.set_threshold(*PYTHONS_OWN)
    try:
        return measure()
    finally:
        gc.set_threshold(*tuned)


def holdfast(place: Place) -> dict[str, float]:
    from bench.peers import ours
    from holdfast import Engine

    with Engine(place.url) as engine:

        def together(workflow: Any) -> Work:
            return lambda count: _ended(
                engine.start_many(workflow, [place.steps] * count), place.steps
            )

        def singly(count: int) -> None:
            _ended([engine.start(ours.steps, place.steps) for _ in range(count)], place.steps)

        best = together(ours.steps)
        figures = styles(place, together(ours.plain_steps), best, singly)
        figures["mixed_rate"] = rate(together(ours.mixed_steps), place.n)
        many = with_own_gc(lambda: rate(best, place.many))
        figures["own_gc_many_part"] = many / figures["async_rate"]
    return figures


def _ended(runs: list[Any], result: Any) -> None:
    for run in runs:
        check(run.result(timeout=120), result)


def dbos(place: Place) -> dict[str, float]:
    from bench.peers import dbos as peer

    peer.launch(place)

    def singly(count: int) -> None:
        handles = [peer.DBOS.start_workflow(peer.steps, place.steps) for _ in range(count)]
        for handle in handles:
            check(handle.get_result(), place.steps)

    with asyncio.Runner() as loop:  # one loop: it keeps the one that it has seen first
        return styles(
            place,
            lambda count: peer.at_once(place, count, place.steps),
            lambda count: loop.run(peer.async_at_once(place, count, place.steps)),
            singly,
        )


def absurd(place: Place) -> dict[str, float]:
    from bench.peers import absurd as peer

    client, finished = peer.install(place), peer.finished(place)

    def plain(count: int) -> None:
        wanted = finished() + count
        stop = peer.work(place)
        for _ in range(count):
            client.spawn("steps", {"count": place.steps})
        wait_until(finished, wanted)
        stop()

    def together(count: int) -> None:
        asyncio.run(peer.AsyncTasks(place, count, place.steps).run(callers=4))

    def singly(count: int) -> None:
        asyncio.run(peer.AsyncTasks(place, count, place.steps).run(callers=1))

    return styles(place, plain, together, singly)


def procrastinate(place: Place) -> dict[str, float]:
    from bench.peers import procrastinate as peer

    asyncio.run(peer.prepare(place))
    return styles(
        place,
        lambda count: asyncio.run(peer.chains(place, "plain", count, place.steps, 10)),
        lambda count: asyncio.run(peer.chains(place, "chain", count, place.steps, 10)),
        lambda count: asyncio.run(peer.chains(place, "chain", count, place.steps, 1)),
    )
