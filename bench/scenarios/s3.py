"""S3: ten thousand jobs: started in one call, singly by many callers at once and by one, drained by
one process and by two."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable
from typing import Any

from bench.place import Place, ready, wait_until
from bench.scenario import Scenario, Target

SCENARIO = Scenario(
    "s3",
    "10,000 jobs",
    "drain",
    "jobs/s",
    size={"n": 10_000},
    share={"dbos": 0.05, "procrastinate": 0.05, "absurd": 0.15},
    targets=(
        Target("postgres", "start_in_one_call", 10, "absurd", baseline="start_singly"),
        Target("postgres", "start_singly", 2, "absurd"),
        Target("postgres", "drain", 10, "absurd"),
        Target("postgres", "two_to_one", 1.5),
        Target("sqlite", "two_to_one", 1.5),
    ),
)

DONE = "SELECT count(*) FROM holdfast.run WHERE finished_at IS NOT NULL"


def drained(
    place: Place, worker: str, count: Callable[[], int], fill: Callable[[], Any]
) -> dict[str, float]:
    """Let one process drain the jobs, fill up again, let two; return the rates and what two are to
    one."""
    found, finished = {}, 0
    for workers, name in ((1, "drain"), (2, "drain_by_two")):
        if workers == 2:
            fill()
        helpers = [place.spawn(worker) for _ in range(workers)]
        began = time.perf_counter()
        for helper in helpers:
            helper.go()
        finished += place.n
        wait_until(count, finished, seconds=150, gently=True)
        found[name] = place.n / (time.perf_counter() - began)
        for helper in helpers:
            helper.kill()
    return found | {"two_to_one": found["drain_by_two"] / found["drain"]}


def timed(count: int, call: Callable[[], Any]) -> float:
    """Return how many per second."""
    began = time.perf_counter()
    call()
    return count / (time.perf_counter() - began)


def holdfast(place: Place) -> dict[str, float]:
    from bench.peers import ours
    from holdfast import Engine

    few = place.n // 10
    found = {"start_singly": asyncio.run(_many_callers(place.url, 2 * few))}
    engine = Engine(place.url)
    found["start_alone"] = timed(
        few, lambda: [engine.start(ours.job, number) for number in range(few)]
    )
    rest = range(3 * few, place.n)
    found["start_in_one_call"] = timed(len(rest), lambda: engine.start_many(ours.job, rest))
    found |= drained(
        place,
        "holdfast_worker",
        ours.counter(place, DONE),
        lambda: engine.start_many(ours.job, range(place.n)),
    )
    engine.close()
    return found


async def _many_callers(url: str, count: int) -> float:
    from bench.peers import ours
    from holdfast import AsyncEngine

    engine = AsyncEngine(url)
    began = time.perf_counter()
    await asyncio.gather(*(engine.start(ours.job, number) for number in range(count)))
    taken = time.perf_counter() - began
    await engine.close()
    return count / taken


def holdfast_worker(place: Place) -> None:
    from bench.peers import ours
    from holdfast import Engine

    ready()
    with Engine(place.url):
        ours.forever()


def dbos(place: Place) -> dict[str, float]:
    from bench.peers import dbos as peer

    peer.launch(place, listen=["none"])
    peer.queue(place)

    def fill() -> None:
        for number in range(place.n):
            peer.DBOS.enqueue_workflow("q", peer.job, number)

    found = {"start_singly": timed(place.n, fill)}
    return found | drained(place, "dbos_worker", peer.finished(place), fill)


def dbos_worker(place: Place) -> None:
    from bench.peers import dbos as peer

    ready()
    peer.launch(place, executor_id=str(os.getpid()))
    time.sleep(3600)


def absurd(place: Place) -> dict[str, float]:
    from bench.peers import absurd as peer

    client = peer.install(place)

    def spawn(numbers: range) -> None:
        client = peer.connect(place)
        for number in numbers:
            client.spawn("job", {"number": number})

    def fill(first: int = 0) -> None:
        threads = [
            threading.Thread(target=spawn, args=(range(first + n, place.n, 4),)) for n in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    few = place.n // 10
    found = {
        "start_alone": timed(
            few, lambda: [client.spawn("job", {"number": number}) for number in range(few)]
        )
    }
    found["start_singly"] = timed(place.n - few, lambda: fill(few))
    return found | drained(place, "absurd_worker", peer.finished(place), fill)


def absurd_worker(place: Place) -> None:
    from bench.peers import absurd as peer

    ready()
    peer.work(place)
    time.sleep(3600)


def procrastinate(place: Place) -> dict[str, float]:
    import psycopg

    from bench.peers import procrastinate as peer

    async def defer(*, fresh: bool) -> float:
        made = await peer.opened(place, fresh=fresh)
        began = time.perf_counter()
        for first in range(0, place.n, 500):
            await made.job.batch_defer_async(
                *({"number": number} for number in range(first, min(place.n, first + 500)))
            )
        taken = time.perf_counter() - began
        await made.close_async()
        return place.n / taken

    found = {"start_in_one_call": asyncio.run(defer(fresh=True))}
    db = psycopg.connect(place.url, autocommit=True)
    done = "SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded'"
    return found | drained(
        place,
        "procrastinate_worker",
        lambda: db.execute(done).fetchone()[0],
        lambda: asyncio.run(defer(fresh=False)),
    )


def procrastinate_worker(place: Place) -> None:
    from bench.peers import procrastinate as peer

    async def main() -> None:
        await peer.work(await peer.opened(place, fresh=False))

    ready()
    asyncio.run(main())
