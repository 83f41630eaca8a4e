"""absurd: its SQL comes with its own control tool; four worker threads, claims of ten, polled every
5 ms."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg
from absurd_sdk import Absurd
from absurdctl import BUNDLED_SCHEMA_SQL

from bench.peers.notes import note
from bench.place import Place

THREADS, BATCH, POLL = 4, 10, 0.005
proceeded: dict[str, int] = {}


def install(place: Place, *queues: str) -> Absurd:
    with psycopg.connect(place.url, autocommit=True) as db:
        db.execute(BUNDLED_SCHEMA_SQL.encode())
    client = connect(place)
    for queue in ("default", *queues):
        client.create_queue(queue)
    return client


def connect(place: Place, queue: str = "default") -> Absurd:
    client = Absurd(place.url, queue_name=queue)

    @client.register_task("steps", queue="default")
    def steps(given: Any, task: Any) -> int:
        for number in range(given["count"]):
            task.step(f"s{number}", lambda number=number: number)
        return int(given["count"])

    @client.register_task("job", queue="default")
    def job(given: Any, task: Any) -> int:
        return int(given["number"])

    @client.register_task("child", queue="kids")
    def child(given: Any, task: Any) -> int:
        return int(given["number"])

    @client.register_task("parent", queue="default")
    def parent(given: Any, task: Any) -> int:
        ids = task.step(
            "spawn",
            lambda: [
                str(client.spawn("child", {"number": n})["task_id"]) for n in range(given["count"])
            ],
        )
        return sum(
            task.await_task_result(one, queue_name="kids").state == "completed" for one in ids
        )

    @client.register_task("waiter", queue="default")
    def waiter(given: Any, task: Any) -> int:
        task.await_event("go" + given["key"], timeout=60)
        proceeded[given["key"]] = time.monotonic_ns()
        return 1

    @client.register_task("logged", queue="default")
    def logged(given: Any, task: Any) -> int:
        for number in range(5):

            def execute(number: int = number) -> int:
                note(given["path"], given["run"], number)
                return number

            task.step(f"s{number}", execute)
        return 5

    return client


def work(
    place: Place,
    *,
    threads: int = THREADS,
    queue: str = "default",
    batch: int = BATCH,
    lease: int = 30,
) -> Callable[[], None]:
    """Work in threads, each with a connection of its own; return how to stop."""
    stopping = threading.Event()

    def loop() -> None:
        client = connect(place, queue)
        while not stopping.is_set():
            claimed = client.claim_tasks(batch_size=batch, claim_timeout=lease)
            if not claimed:
                time.sleep(POLL)
            for one in claimed:
                client._execute_task(one, lease)
        client.close()

    started = [threading.Thread(target=loop, daemon=True) for _ in range(threads)]
    for thread in started:
        thread.start()

    def stop() -> None:
        stopping.set()
        for thread in started:
            thread.join(10)

    return stop


def finished(place: Place, queue: str = "default") -> Callable[[], int]:
    return counter(place, f"SELECT count(*) FROM absurd.t_{queue} WHERE state = 'completed'")


def counter(place: Place, sql: str) -> Callable[[], int]:
    db = psycopg.connect(place.url, autocommit=True)
    return lambda: int((db.execute(sql.encode()).fetchone() or [0])[0])
