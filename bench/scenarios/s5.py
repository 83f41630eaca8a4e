"""S5: from the call that sends a signal to the first step after the wait: in one process, and from
another one."""

from __future__ import annotations

import threading
import time
from typing import Any

from bench.place import Place, latencies, ready
from bench.scenario import Scenario, Target

SCENARIO = Scenario(
    "s5",
    "from signal to proceeding",
    "p50_ms",
    "ms",
    size={"n": 200},
    targets=tuple(
        target
        for store, alone in (("sqlite", 0.8), ("postgres", 1.0))
        for target in (
            Target(store, "p50_ms", alone, at_most=True),
            Target(store, "p99_ms", 4.5, at_most=True),
            Target(store, "between_p50_ms", 1.5, at_most=True),
            Target(store, "between_p99_ms", 9, at_most=True),
        )
    ),
)


def holdfast(place: Place) -> dict[str, float]:
    from bench.peers import ours
    from holdfast import Engine

    with Engine(place.url) as engine:
        found = latencies(_signalled(engine, ours.waiter, place.n))
    helper = place.spawn("holdfast_worker")
    helper.go()
    helper.listen("working")
    engine = Engine(place.url)
    between = latencies(_signalled(engine, ours.waiter, place.n))
    engine.close()
    helper.kill()
    return found | {f"between_{name}": value for name, value in between.items()}


def _signalled(engine: Any, waiter: Any, count: int) -> list[float]:
    found = []
    for number in range(count + 10):
        run = engine.start(waiter)
        while run.status.value != "waiting":
            time.sleep(0.0005)
        time.sleep(0.002)
        began = time.monotonic_ns()
        engine.signal(run.id, "go")
        taken = run.result(timeout=30) - began
        if number >= 10:
            found.append(taken / 1e9)
    return found


def holdfast_worker(place: Place) -> None:
    from bench.peers import ours
    from bench.place import say
    from holdfast import Engine

    ready()
    with Engine(place.url):
        say("working")
        ours.forever()


def holdfast_async(place: Place) -> dict[str, float]:
    import asyncio

    from bench.peers import ours
    from holdfast import AsyncEngine

    async def main() -> dict[str, float]:
        taken = []
        async with AsyncEngine(place.url) as engine:
            for number in range(place.n + 10):
                run = await engine.start(ours.waiter)
                await asyncio.sleep(0.01)  # by then it waits
                began = time.monotonic_ns()
                await engine.signal(run.id, "go")
                elapsed = await run.result(timeout=30) - began
                if number >= 10:
                    taken.append(elapsed / 1e9)
        return latencies(taken)

    return asyncio.run(main())


def dbos(place: Place) -> dict[str, float]:
    from bench.peers import dbos as peer

    more = (
        {"notification_listener_polling_interval_sec": 0.01} if place.store == "sqlite" else {}
    )  # as shipped: 1 s
    peer.launch(place, **more)
    found = []
    for key in range(place.n // 2):
        waits, proceeds = threading.Event(), threading.Event()
        peer.waiting[key] = (waits, proceeds)
        handle = peer.DBOS.start_workflow(peer.waiter, key)
        waits.wait(10)
        time.sleep(0.02)
        began = time.perf_counter()
        peer.DBOS.send(handle.get_workflow_id(), "x", "go")
        proceeds.wait(30)
        found.append(time.perf_counter() - began)
    return latencies(found)


def absurd(place: Place) -> dict[str, float]:
    from bench.peers import absurd as peer

    client = peer.install(place)
    stop = peer.work(place, threads=1, batch=1)
    sleeping = peer.counter(place, "SELECT count(*) FROM absurd.r_default WHERE state = 'sleeping'")
    found = []
    for key in map(str, range(place.n // 2)):
        client.spawn("waiter", {"key": key})
        while sleeping() == 0:
            time.sleep(0.001)
        began = time.monotonic_ns()
        client.emit_event("go" + key, {"x": 1})
        while key not in peer.proceeded:
            time.sleep(0.0002)
        found.append((peer.proceeded[key] - began) / 1e9)
    stop()
    return latencies(found)
