"""How fast output is appended and events are followed, beside the raw driver: ``python bench/streams.py [URL] [--seconds 5]``.

Figures of one machine in one minute: compare them only with each other.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from holdfast import AsyncEngine, Engine, emit, sleep, step, workflow
from holdfast.core.subscriptions import BEGINNING, Which

RUNS, RATE = 50, 200
"""How many runs put out at once, and how many frames each per second: 10,000 in all."""


@step
async def speak(seconds: float, flat_out: bool) -> int:
    began, said = time.perf_counter(), 0
    while (passed := time.perf_counter() - began) < seconds:
        due = said + 100 if flat_out else int(passed * RATE)
        while said < due:
            emit({"token": said}, name="token")
            said += 1
        await sleep(0 if flat_out else "5ms")
    return said


@workflow(name="bench_speak")
async def speaking(seconds: float, flat_out: bool = False) -> int:
    return await speak(seconds, flat_out)


async def append(url: str, seconds: float, *, flat_out: bool) -> tuple[float, float]:
    """Return how many frames were written per second, and the processor's share of that time."""
    async with AsyncEngine(url) as engine:
        began, cpu = time.perf_counter(), time.process_time()
        runs = [await engine.start(speaking, seconds, flat_out) for _ in range(RUNS)]
        said = sum([await run.result() for run in runs])
        passed = time.perf_counter() - began
        assert sum(stream.frames for run in runs for stream in engine.streams(run.id)) == said
        return said / passed, (time.process_time() - cpu) / passed


@step
async def nothing(n: int) -> int:
    return n


@workflow(name="bench_events")
async def eventful(n: int) -> int:
    for number in range(n):
        await nothing(number)
    return n


def follow(url: str, events: int) -> tuple[float, float]:
    """Return how many events one reader is told per second: by an iterator, and by pages without any filter."""
    with Engine(url) as engine:
        for run in [engine.start(eventful, 99) for _ in range(events // 100)]:
            run.result(timeout=600)
        began = time.perf_counter()
        count = sum(1 for _ in engine.events(workflow="bench_events"))
        iterated = count / (time.perf_counter() - began)
        store = engine._parts.store
        began, place, count = time.perf_counter(), store.place(BEGINNING), 0
        while True:
            page, edge = store.events(place, Which(), 500)
            if edge == place:
                return iterated, count / (time.perf_counter() - began)
            place, count = edge, count + len(page)


def raw_append(url: str, seconds: float) -> float:
    """Rows per second that the driver writes, 500 per commit, with the same durability."""
    with closing(_connect(url)) as db:
        mark = "%s" if url.startswith("postgres") else "?"
        blob = "BYTEA" if url.startswith("postgres") else "BLOB"
        db.execute(f"CREATE TABLE raw_frame (run TEXT, seq INTEGER, data {blob}, PRIMARY KEY (run, seq))")
        db.commit()
        began, rows = time.perf_counter(), 0
        while time.perf_counter() - began < seconds:
            values = [(f"r{number % RUNS}", rows + number, b'{"token":1}') for number in range(500)]
            db.cursor().executemany(f"INSERT INTO raw_frame VALUES ({mark}, {mark}, {mark})", values)
            db.commit()
            rows += 500
        return rows / (time.perf_counter() - began)


def raw_read(url: str) -> float:
    """Rows of the event table per second that the driver reads, 500 at a time."""
    table = "holdfast.event" if url.startswith("postgres") else "holdfast_event"
    with closing(_connect(url)) as db:
        began, rows, after = time.perf_counter(), 0, 0
        query = f"SELECT id, run_id, seq, kind, step, data, at FROM {table} WHERE id > {{}} ORDER BY id LIMIT 500"
        if url.startswith("postgres"):
            db.execute("CREATE INDEX raw_event ON holdfast.event (id)")
            db.commit()
            began = time.perf_counter()
        while page := db.execute(query.format(after)).fetchall():
            rows, after = rows + len(page), page[-1][0]
        return rows / (time.perf_counter() - began)


def _connect(url: str) -> Any:
    if url.startswith("postgres"):
        import psycopg

        return psycopg.connect(url)
    db = sqlite3.connect(url)
    db.execute("PRAGMA synchronous = FULL")
    return db


@contextmanager
def database(url: str | None) -> Iterator[str]:
    """Use the database that was named, or a file of its own."""
    if url is not None:
        yield url
        return
    with tempfile.TemporaryDirectory(prefix="holdfast-bench-") as folder:
        yield os.path.join(folder, "streams.db")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", nargs="?")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--events", type=int, default=20_000)
    given = parser.parse_args()
    with database(given.url) as url:
        steady, cpu = asyncio.run(append(url, given.seconds, flat_out=False))
        most, _ = asyncio.run(append(url, given.seconds, flat_out=True))
        raw = raw_append(url, given.seconds)
        share = f"({cpu:.0%} of a processor)"
        print(f"frames: {steady:,.0f}/s asked of {RUNS * RATE:,} {share}, {most:,.0f}/s at most; raw {raw:,.0f}/s")
        iterated, paged = follow(url, given.events)
        read = raw_read(url)
        print(f"events: {iterated:,.0f}/s by an iterator, {paged:,.0f}/s by pages; raw {read:,.0f}/s")


if __name__ == "__main__":
    main()
