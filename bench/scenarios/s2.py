"""S2: a thousand runs of five steps at once."""

from __future__ import annotations

from typing import Any

from bench.place import Place, check, wait_until
from bench.scenario import Scenario, Target

SCENARIO = Scenario(
    "s2",
    "1,000 runs of 5 steps at once",
    "rate",
    "runs/s",
    size={"n": 1000, "steps": 5},
    share={
        "dbos": 0.2,
        "absurd": 0.5,
        "procrastinate": 0.2,
        "restate": 0.3,
        "openworkflow": 0.3,
    },
    targets=(
        Target("sqlite", "rate", 65, "dbos"),
        Target("sqlite", "rate", 1, "openworkflow"),
        Target("sqlite", "rate", 1, "restate"),
        Target("sqlite", "cpu_ms_per_run", 0.18, at_most=True),
        Target("postgres", "rate", 65, "dbos"),
        Target("postgres", "rate", 12, "absurd"),
        Target("postgres", "cpu_ms_per_run", 0.28, at_most=True),
    ),
)


def holdfast(place: Place) -> dict[str, float]:
    from bench.peers import ours
    from holdfast import Engine

    with Engine(place.url) as engine:
        run_at_once(engine, ours.steps, 100, place.steps)
        with place.meter() as meter:
            run_at_once(engine, ours.steps, place.n, place.steps)
        return place.per(meter, place.n, "run")


def run_at_once(engine: Any, workflow: Any, count: int, steps: int) -> None:
    """Start many and see that each has its result."""
    for run in engine.start_many(workflow, [steps] * count):
        check(run.result(timeout=60), steps)


def holdfast_async(place: Place) -> dict[str, float]:
    import asyncio

    from bench.peers import ours
    from holdfast import AsyncEngine

    async def main() -> dict[str, float]:
        async with AsyncEngine(place.url) as engine:

            async def run_all(count: int) -> None:
                runs = await engine.start_many(ours.steps, [place.steps] * count)
                results = await asyncio.gather(*(run.result(timeout=60) for run in runs))
                check(results, [place.steps] * count)

            await run_all(100)
            with place.meter() as meter:
                await run_all(place.n)
            return place.per(meter, place.n, "run")

    return asyncio.run(main())


def dbos(place: Place) -> dict[str, float]:
    from bench.peers import dbos as peer

    peer.launch(place)
    peer.at_once(place, 10, place.steps)
    with place.meter() as meter:
        peer.at_once(place, place.n, place.steps)
    check(peer.finished(place)(), place.n + 10)
    return place.per(meter, place.n, "run")


def absurd(place: Place) -> dict[str, float]:
    from bench.peers import absurd as peer

    client, count = peer.install(place), peer.finished(place)
    stop = peer.work(place)
    with place.meter() as meter:
        for _ in range(place.n):
            client.spawn("steps", {"count": place.steps})
        wait_until(count, place.n)
    stop()
    return place.per(meter, place.n, "run")


def openworkflow(place: Place) -> dict[str, float]:
    from bench.peers import openworkflow as peer

    return peer.measured(place, "at_once", "run")


def restate(place: Place) -> dict[str, float]:
    from bench.peers import restate as peer

    server = peer.Server(place)
    server.call("steps", [place.steps] * 10)
    before = server.handlers.cpu()
    with place.meter() as meter:
        check(server.call("steps", [place.steps] * place.n), [place.steps] * place.n)
    used = (server.handlers.cpu() - before) / place.n
    return peer.with_handlers(place.per(meter, place.n, "run"), used, "run")


def restate_handlers(place: Place) -> None:
    from bench.peers import restate as peer

    peer.serve(place)


def procrastinate(place: Place) -> dict[str, float]:
    import asyncio

    from bench.peers import procrastinate as peer

    async def main() -> dict[str, float]:
        made = await peer.opened(place)
        worker = peer.work(made)
        await peer.chain(made, "warm", 10)
        gate = asyncio.Semaphore(
            100
        )  # an unbounded burst exhausts its pool and fails the jobs themselves

        async def one(number: int) -> None:
            async with gate:
                await peer.chain(made, str(number), place.steps)

        with place.meter() as meter:
            await asyncio.wait_for(asyncio.gather(*(one(number) for number in range(place.n))), 120)
        await peer.stop(made, worker)
        return place.per(meter, place.n, "run")

    return asyncio.run(main())
