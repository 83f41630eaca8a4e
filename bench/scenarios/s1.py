"""S1: workflows of a hundred steps in sequence. Each step is one durable commit; the raw driver
commits one row."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from bench.place import Place, check
from bench.scenario import Scenario, Target

SCENARIO = Scenario(
    "s1",
    "steps in sequence",
    "rate",
    "steps/s",
    size={"seconds": 1.0, "steps": 100},
    targets=(
        Target("sqlite", "rate", 0.7, "raw"),
        Target("sqlite", "rate", 6, "dbos"),
        Target("sqlite", "rate", 1, "openworkflow"),
        Target("sqlite", "rate", 1, "restate"),
        Target("postgres", "rate", 0.75, "raw"),
        Target("postgres", "rate", 1, "absurd"),
        Target("sqlite", "cpu_ms_per_step", 0.25, at_most=True),
    ),
)

PAYLOAD = "x" * 100


def repeat(place: Place, run: Callable[[int], Any], count: int) -> dict[str, float]:
    """Call *run*, which makes *count* steps, for as long as the scenario lasts."""
    run(count)
    done, deadline = 0, time.perf_counter() + place.seconds
    with place.meter() as meter:
        while time.perf_counter() < deadline:
            run(count)
            done += count
    return place.per(meter, done, "step")


def holdfast(place: Place) -> dict[str, float]:
    from bench.peers import ours
    from holdfast import Engine

    with Engine(place.url) as engine:
        return repeat(
            place, lambda count: check(engine.start(ours.steps, count).result(), count), place.steps
        )


def holdfast_async(place: Place) -> dict[str, float]:
    import asyncio

    from bench.peers import ours
    from holdfast import AsyncEngine

    async def main() -> dict[str, float]:
        async with AsyncEngine(place.url) as engine:

            async def run() -> None:
                check(await (await engine.start(ours.steps, place.steps)).result(), place.steps)

            await run()
            done, deadline = 0, time.perf_counter() + place.seconds
            with place.meter() as meter:
                while time.perf_counter() < deadline:
                    await run()
                    done += place.steps
            return place.per(meter, done, "step")

    return asyncio.run(main())


def dbos(place: Place) -> dict[str, float]:
    from bench.peers import dbos as peer

    peer.launch(place)
    return repeat(place, lambda count: check(peer.steps(count), count), place.steps)


def absurd(place: Place) -> dict[str, float]:
    from bench.peers import absurd as peer

    client = peer.install(place)

    def run(count: int) -> None:
        task = client.spawn("steps", {"count": count})["task_id"]
        client.work_batch(claim_timeout=30)
        check(client.fetch_task_result(task).state, "completed")

    return repeat(place, run, place.steps)


def procrastinate(place: Place) -> dict[str, float]:
    import asyncio

    from bench.peers import procrastinate as peer

    async def main() -> dict[str, float]:
        made = await peer.opened(place)
        worker = peer.work(made, 1)
        await peer.chain(made, "warm", 10)
        done, deadline = 0, time.perf_counter() + place.seconds
        with place.meter() as meter:
            while time.perf_counter() < deadline:
                await peer.chain(made, str(done), place.steps)
                done += place.steps
        await peer.stop(made, worker)
        return place.per(meter, done, "step")

    return asyncio.run(main())


def openworkflow(place: Place) -> dict[str, float]:
    from bench.peers import openworkflow as peer

    return peer.measured(place, "sequence", "step")


def restate(place: Place) -> dict[str, float]:
    from bench.peers import restate as peer

    server = peer.Server(place)
    before = server.handlers.cpu()
    figures = repeat(
        place, lambda count: check(server.call("steps", [count], 1), [count]), place.steps
    )
    made = figures["rate"] * figures["seconds"]
    return peer.with_handlers(figures, (server.handlers.cpu() - before) / made, "step")


def restate_handlers(place: Place) -> None:
    from bench.peers import restate as peer

    peer.serve(place)


def raw_sqlite(place: Place) -> dict[str, float]:
    import sqlite3

    db = sqlite3.connect(place.url, isolation_level=None)
    for statement in (
        "PRAGMA journal_mode=wal",
        "PRAGMA synchronous=full",
        "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)",
    ):
        db.execute(statement)

    def run(count: int) -> None:
        for _ in range(count):
            db.execute("BEGIN IMMEDIATE")
            db.execute("INSERT INTO t (v) VALUES (?)", (PAYLOAD,))
            db.execute("COMMIT")

    return repeat(place, run, place.steps)


def raw_postgres(place: Place) -> dict[str, float]:
    import psycopg

    with psycopg.connect(place.url, autocommit=True) as db:
        db.execute("CREATE TABLE t (id BIGSERIAL PRIMARY KEY, v TEXT)")

        def run(count: int) -> None:
            for _ in range(count):
                db.execute("INSERT INTO t (v) VALUES (%s)", (PAYLOAD,), prepare=True)

        return repeat(place, run, place.steps)
