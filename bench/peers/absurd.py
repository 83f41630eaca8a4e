"""absurd: its SQL comes with its own control tool; four worker threads, claims of ten, polled every
5 ms."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import psycopg
from absurd_sdk import Absurd, AsyncAbsurd
from absurdctl import BUNDLED_SCHEMA_SQL

from bench.peers.notes import note
from bench.place import Place

THREADS, BATCH, POLL = 4, 10, 0.005
proceeded: dict[str, int] = {}
log_path = ""


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
                note(log_path, given["run"], number)
                return number

            task.step(f"s{number}", execute)
            note(log_path + "-recorded", given["run"], number)
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


class AsyncTasks:
    """Tasks of ``async def`` on one loop: as many workers as threads otherwise, each with a
    connection of its own."""

    def __init__(self, place: Place, count: int, length: int) -> None:
        self._place = place
        self._length = length
        self._wanted = count
        self._left = iter(range(count))
        self._ended = 0

    async def run(self, callers: int) -> None:
        """Let some callers start the tasks, and work until all have ended."""
        await asyncio.gather(
            *(self._work() for _ in range(THREADS)), *(self._call() for _ in range(callers))
        )

    async def _work(self) -> None:
        client = self._client()
        while self._ended < self._wanted:
            claimed = await client.claim_tasks(batch_size=BATCH, claim_timeout=30)
            if not claimed:
                await asyncio.sleep(POLL)
            for one in claimed:
                await client._execute_task(one, 30)
                self._ended += 1
        await client.close()

    async def _call(self) -> None:
        client = self._client()
        for _ in self._left:
            await client.spawn("async_steps", {"count": self._length})
        await client.close()

    def _client(self) -> Any:
        client = AsyncAbsurd(self._place.url, queue_name="default")
        client.register_task("async_steps", queue="default")(_async_steps)
        return client


async def _async_steps(given: Any, task: Any) -> int:
    for number in range(given["count"]):
        await task.step(f"s{number}", partial(_async_value, number))
    return int(given["count"])


async def _async_value(number: int) -> int:
    return number
