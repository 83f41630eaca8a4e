"""S6: kill -9 with a thousand runs of five steps in flight, at 40 % of the work; then a restart, or
another worker takes over."""

from __future__ import annotations

import os
import time
from collections import Counter
from typing import Any

from bench.peers.notes import noted
from bench.place import Place, ready, wait_until
from bench.scenario import Scenario, Target

SCENARIO = Scenario(
    "s6",
    "kill -9 with 1,000 runs in flight",
    "restart_s",
    "s",
    size={"n": 1000},
    targets=tuple(
        target
        for store in ("sqlite", "postgres")
        for target in (
            Target(store, "restart_s", 3, at_most=True),
            Target(store, "takeover_s", 3, at_most=True),
            Target(store, "lost", 0, at_most=True),
            Target(store, "done_again", 0, at_most=True),
        )
    ),
)

STEPS = 5


def killed(place: Place, log: str, worker: str) -> None:
    """Start a worker and kill it when 40 % of the steps are done."""
    helper = place.spawn(worker, log=log)
    helper.go()
    wait_until(lambda: len(noted(log)), int(place.n * STEPS * 0.4), pause=0.002)
    helper.kill()


def judged(place: Place, logs: list[str], recorded: set[tuple[int, int]]) -> dict[str, float]:
    """Compare what was executed before and after with what should have been, once."""
    before, after = noted(logs[0]), noted(logs[1])
    executed = Counter(before) + Counter(after)
    lost = {(run, step) for run in range(place.n) for step in range(STEPS)} - set(executed)
    return {
        "lost": len(lost),
        "done_again": len(set(after) & recorded),
        "executed_twice": sum(many > 1 for many in executed.values()),
        "recorded_at_kill": len(recorded),
    }


def holdfast(place: Place) -> dict[str, float]:
    from bench.peers import ours
    from holdfast import Engine

    found: dict[str, float] = {}
    for case in ("restart", "takeover"):
        place.url = _fresh(place, case)
        logs = [os.path.join(place.folder, f"{case}-{name}") for name in ("before", "after")]
        engine = Engine(place.url)
        numbers = {
            run.id: number
            for number, run in enumerate(engine.start_many(ours.logged_steps, range(place.n)))
        }
        db, done = (
            ours.connect(place),
            ours.counter(place, "SELECT count(*) FROM holdfast.run WHERE finished_at IS NOT NULL"),
        )
        second = place.spawn("holdfast_worker", log=logs[1])
        killed(place, logs[0], "holdfast_worker")
        recorded = _recorded(place, db, numbers)
        if case == "takeover":
            second.go()
            began = time.perf_counter()
        else:
            second.kill()
            began = time.perf_counter()
            second = place.spawn(
                "holdfast_worker", log=logs[1]
            )  # a new process, its imports and all
            second.go()
        wait_until(done, place.n, pause=0.01)
        found[f"{case}_s"] = time.perf_counter() - began
        second.kill()
        engine.close()
        for name, value in judged(place, logs, recorded).items():
            found[name] = max(found.get(name, 0), value)
    return found


def _fresh(place: Place, case: str) -> str:
    if place.store == "sqlite":
        return os.path.join(place.folder, f"{case}.db")
    if case == "takeover":
        import psycopg

        with psycopg.connect(place.url, autocommit=True) as db:
            db.execute("DROP SCHEMA holdfast CASCADE")
    return place.url


def _recorded(place: Place, db: Any, numbers: dict[str, int]) -> set[tuple[int, int]]:
    from bench.peers import ours

    rows = db.execute(
        ours.spelled(place, "SELECT run_id, step FROM holdfast.event WHERE kind = 'step_completed'")
    ).fetchall()
    return {(numbers[run], int(step.split("#")[1]) - 1 if "#" in step else 0) for run, step in rows}


def holdfast_worker(place: Place) -> None:
    from bench.peers import ours
    from holdfast import Engine

    ours.log_path = place.log
    ready()
    with Engine(place.url):
        ours.forever()


def absurd(place: Place) -> dict[str, float]:
    from bench.peers import absurd as peer

    client = peer.install(place)
    for number in range(place.n):
        client.spawn("logged", {"path": os.path.join(place.folder, "before"), "run": number})
    before, after = (os.path.join(place.folder, name) for name in ("before", "after"))
    killed(place, before, "absurd_worker")
    began = time.perf_counter()
    second = place.spawn("absurd_worker", log=after)
    second.go()
    wait_until(peer.finished(place), place.n, seconds=100)
    return {"restart_s": time.perf_counter() - began}


def absurd_worker(place: Place) -> None:
    from bench.peers import absurd as peer

    ready()
    peer.work(place, lease=5)  # as short as it may be: what a dead worker held waits for this
    time.sleep(3600)


def dbos(place: Place) -> dict[str, float]:
    from bench.peers import dbos as peer

    peer.launch(place, listen=["none"])
    peer.queue(place)
    before = os.path.join(place.folder, "before")
    for number in range(place.n):
        peer.DBOS.enqueue_workflow("q", peer.logged_steps, before, number)
    killed(place, before, "dbos_worker")
    began = time.perf_counter()
    place.spawn("dbos_worker").go()
    wait_until(peer.finished(place), place.n, seconds=150)
    return {"restart_s": time.perf_counter() - began}


def dbos_worker(place: Place) -> None:
    from bench.peers import dbos as peer

    ready()
    peer.launch(place)
    time.sleep(3600)
