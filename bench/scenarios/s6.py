"""S6: kill -9 with a thousand runs of five steps in flight, at 40 % of the work; then a restart, or
another worker takes over."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable
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


def _restarted(
    place: Place, worker: str, count: Callable[[], int], *, seconds: float = 150
) -> dict[str, float]:
    """Kill a peer's worker at 40 % of the work, start another one, and wait for the end.

    A peer returns from a step when it is recorded, and its workflow writes that down: so the notes
    of the first worker tell which steps were recorded."""
    logs = [os.path.join(place.folder, name) for name in ("before", "after")]
    killed(place, logs[0], worker)
    began = time.perf_counter()
    second = place.spawn(worker, log=logs[1])
    second.go()
    wait_until(count, place.n, seconds=seconds)
    taken = time.perf_counter() - began
    second.kill()
    return {"restart_s": taken} | judged(place, logs, set(noted(logs[0] + "-recorded")))


def absurd(place: Place) -> dict[str, float]:
    from bench.peers import absurd as peer

    client = peer.install(place)
    for number in range(place.n):
        client.spawn("logged", {"run": number})
    return _restarted(place, "absurd_worker", peer.finished(place))


def absurd_worker(place: Place) -> None:
    from bench.peers import absurd as peer

    peer.log_path = place.log
    ready()
    peer.work(place, lease=5)  # as short as it may be: what a dead worker held waits for this
    time.sleep(3600)


def dbos(place: Place) -> dict[str, float]:
    from bench.peers import dbos as peer

    peer.launch(place, listen=["none"])
    peer.queue(place)
    for number in range(place.n):
        peer.DBOS.enqueue_workflow("q", peer.logged_steps, number)
    return _restarted(place, "dbos_worker", peer.finished(place))


def dbos_worker(place: Place) -> None:
    from bench.peers import dbos as peer

    peer.log_path = place.log
    ready()
    peer.launch(place)
    time.sleep(3600)


def openworkflow(place: Place) -> dict[str, float]:
    import sqlite3

    from bench.peers import openworkflow as peer

    peer.result(place, "fill")
    db = sqlite3.connect(place.url, timeout=30)
    done = "SELECT count(*) FROM workflow_runs WHERE status = 'completed'"
    return _restarted(place, "openworkflow_worker", lambda: int(db.execute(done).fetchone()[0]))


def openworkflow_worker(place: Place) -> None:
    from bench.peers import openworkflow as peer

    ready()
    peer.become(place, "drain", log=place.log)


def restate(place: Place) -> dict[str, float]:
    from bench.peers import restate as peer

    before, after = (os.path.join(place.folder, name) for name in ("before", "after"))
    server = peer.Server(place, log=before)
    server.send("logged", list(range(place.n)))
    wait_until(lambda: len(noted(before)), int(place.n * STEPS * 0.4), pause=0.002)
    server.handlers.kill()
    began = time.perf_counter()
    server.start_handlers(log=after)
    # A handler that ends has noted its last step; notes are what can be counted from outside.
    wait_until(
        lambda: sum(number == STEPS - 1 for _, number in {*noted(before), *noted(after)}), place.n
    )
    taken = time.perf_counter() - began
    return {"restart_s": taken} | judged(place, [before, after], set(noted(before + "-recorded")))


def restate_handlers(place: Place) -> None:
    from bench.peers import restate as peer

    peer.serve(place)
