"""DBOS: its SQLite file switched to WAL (it sets no journal mode itself; FULL sync stays), queues
polled every 10 ms."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import sqlalchemy
from dbos import DBOS

from bench.peers.notes import note
from bench.place import Place

THREADS = {"sqlite": 8, "postgres": 16}


@DBOS.step()
def one(number: int) -> int:
    return number


@DBOS.workflow()
def steps(count: int) -> int:
    for number in range(count):
        one(number)
    return count


@DBOS.step()
async def async_one(number: int) -> int:
    return number


@DBOS.workflow()
async def async_steps(count: int) -> int:
    for number in range(count):
        await async_one(number)
    return count


@DBOS.workflow()
def job(number: int) -> int:
    return number


@DBOS.workflow()
def parent(count: int, window: int) -> int:
    handles, done = [], 0
    for number in range(count):
        handles.append(DBOS.start_workflow(job, number))
        if window and len(handles) >= window:
            done += handles.pop(0).get_result() is not None
    return done + sum(handle.get_result() is not None for handle in handles)


log_path = ""


@DBOS.step()
def logged(run: int, number: int) -> int:
    note(log_path, run, number)
    return number


@DBOS.workflow()
def logged_steps(run: int) -> int:
    for number in range(5):
        logged(run, number)
        note(log_path + "-recorded", run, number)
    return 5


waiting: dict[int, tuple[threading.Event, threading.Event]] = {}


@DBOS.workflow()
def waiter(key: int) -> None:
    waits, proceeds = waiting[key]
    waits.set()
    DBOS.recv("go", timeout_seconds=60)
    proceeds.set()


def launch(place: Place, **more: Any) -> None:
    if place.store == "sqlite":
        import sqlite3

        sqlite3.connect(place.url).execute("PRAGMA journal_mode=wal").connection.close()
    listen = more.pop("listen", None)
    config = {
        "name": "bench",
        "system_database_url": url(place),
        "log_level": "ERROR",
        "application_version": "1",
        **more,
    }
    DBOS(config=config)  # type: ignore[arg-type]
    if listen is not None:
        DBOS.listen_queues(listen)
    DBOS.launch()


def url(place: Place) -> str:
    return f"sqlite:///{place.url}" if place.store == "sqlite" else place.url


def queue(place: Place) -> None:
    DBOS.register_queue(
        "q", polling_interval_sec=0.01, worker_concurrency=16 if place.store == "sqlite" else 64
    )


def finished(place: Place) -> Any:
    """Return a function that counts finished workflows."""
    address = url(place).replace("postgresql://", "postgresql+psycopg://")
    db = sqlalchemy.create_engine(address)
    table = "workflow_status" if place.store == "sqlite" else "dbos.workflow_status"

    def count() -> int:
        with db.connect() as connection:
            return int(
                connection.execute(
                    sqlalchemy.text(f"SELECT count(*) FROM {table} WHERE status = 'SUCCESS'")
                ).scalar()
                or 0
            )

    return count


def at_once(place: Place, count: int, length: int) -> None:
    """Run many workflows in as many threads as suit it."""
    numbers, lock = iter(range(count)), threading.Lock()

    def work() -> None:
        while True:
            with lock:
                if next(numbers, None) is None:
                    return
            steps(length)

    threads = [threading.Thread(target=work) for _ in range(THREADS[place.store])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


async def async_at_once(place: Place, count: int, length: int) -> None:
    """Run many workflows of ``async def`` on one loop, as many at once as suit it."""
    places = asyncio.Semaphore(THREADS[place.store])

    async def run() -> None:
        async with places:
            await async_steps(length)

    await asyncio.gather(*(run() for _ in range(count)))
