"""How fast work goes to others: tasks that are submitted, leased and completed by many workers; how soon a suspended task is
at work again in another process; and whether workers of all capabilities find all that is theirs.

    python bench/tasks.py [--db postgresql] [--only throughput|batches|loop|processes|resume|routing|raw]

Each line is one figure, as JSON. ``cpu us`` is the time of this machine's processors per task: of this process, its children,
and the server that it started. It says more than the clock where others work on the same machine. ``raw`` is what the driver
alone takes for the same rows and the same commits.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from holdfast import AsyncEngine, Engine

TASKS, BYTES, WORKERS = 10_000, 4096, 16
PAYLOAD = {"data": "x" * (BYTES - len('[{"data":""}]'))}
PORTION = 500
"""How many are submitted in one call."""
BATCH = 16
"""How many a worker leases at once."""


class Clock:
    """Time that passes, here and in the processes that were waited for."""

    def __init__(self) -> None:
        self.wall, self.cpu = time.perf_counter(), _cpu()

    def told(self, count: int) -> dict[str, float]:
        """Say how long each of so many took."""
        wall, cpu = time.perf_counter() - self.wall, _cpu() - self.cpu
        load = round(os.getloadavg()[0], 1)
        return {
            "per s": round(count / wall),
            "wall us": round(1e6 * wall / count),
            "cpu us": round(1e6 * cpu / count),
            "load": load,
        }


server = 0
"""The process of the database server, if this program has started it."""


def _cpu() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used) + (_of_server() if server else 0.0)


def _of_server() -> float:
    """Return the time that the server and its processes, the ended ones among them, have worked."""
    ticks = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            fields = stat.read_text().rpartition(")")[2].split()
            if int(stat.parent.name) == server:
                ticks += sum(map(int, fields[11:15]))
            elif int(fields[1]) == server:
                ticks += sum(map(int, fields[11:13]))
    return ticks / os.sysconf("SC_CLK_TCK")


def say(what: str, **figures: object) -> None:
    """Print one figure."""
    print(json.dumps({"what": what, **figures}), flush=True)


# Submit, claim, complete


def submit(engine: Engine, count: int, workflow: str = "bench_task") -> None:
    """Submit tasks, a portion per call."""
    for place in range(0, count, PORTION):
        engine.start_many(workflow, [PAYLOAD] * min(PORTION, count - place))


def drain(engine: Engine, workers: int, *, together: bool) -> Counter[int]:
    """Lease and complete all there is, with so many threads, one by one or all that was leased together; return how many each
    has done."""
    done: Counter[int] = Counter()

    def work(number: int, leases: Any) -> None:
        while found := leases.claim(BATCH):
            assert all(lease.input[0] == PAYLOAD for lease in found)
            if together:
                leases.complete_all([(lease, {"ok": True}) for lease in found])
            else:
                for lease in found:
                    lease.complete({"ok": True})
            done[number] += len(found)

    with engine.leases("bench", workflows=["bench_task"]) as leases:
        threads = [threading.Thread(target=work, args=(number, leases)) for number in range(workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return done


def with_threads(db: str, count: int, *, together: bool = False) -> None:
    """All three, one after another, by threads."""
    engine = Engine(db)
    by = f"{WORKERS} threads, {'a call per batch' if together else 'a call each'}"
    whole, clock = Clock(), Clock()
    submit(engine, count)
    say("submit", by=f"{PORTION} per call", **clock.told(count))
    clock = Clock()
    done = drain(engine, WORKERS, together=together)
    assert sum(done.values()) == count, done
    say("claim and complete", by=by, **clock.told(count))
    say("submit, claim, complete", by=by, **whole.told(count))
    engine.close()


def with_tasks(db: str, count: int) -> None:
    """The same by tasks of one event loop."""
    asyncio.run(_with_tasks(db, count))


async def _with_tasks(db: str, count: int) -> None:
    engine = AsyncEngine(db)
    whole = Clock()
    for place in range(0, count, PORTION):
        await engine.start_many("bench_task", [PAYLOAD] * min(PORTION, count - place))
    clock, done = Clock(), 0
    async with engine.leases("bench", workflows=["bench_task"]) as leases:

        async def work() -> None:
            nonlocal done
            while found := await leases.claim(BATCH):
                await asyncio.gather(*(lease.complete({"ok": True}) for lease in found))
                done += len(found)

        await asyncio.gather(*(work() for _ in range(WORKERS)))
    assert done == count
    say("claim and complete", by=f"{WORKERS} tasks of a loop", **clock.told(count))
    say("submit, claim, complete", by=f"{WORKERS} tasks of a loop", **whole.told(count))
    await engine.close()


def with_processes(db: str, count: int, processes: int = 4) -> None:
    """The same by processes, each with its share of the workers."""
    engine = Engine(db)
    submit(engine, count)
    clock = Clock()
    workers = [_child("drain", db, str(WORKERS // processes)) for _ in range(processes)]
    done = sum(int(worker.communicate()[0]) for worker in workers)
    assert done == count, done
    say("claim and complete", by=f"{processes} processes of {WORKERS // processes} threads, started anew", **clock.told(count))
    engine.close()


# Suspended, and at work again elsewhere


def resumed(db: str, times: int = 200) -> None:
    """From the signal to the lease in another process that waits for it."""
    engine = Engine(db)
    run = engine.start("bench_wait", 1)
    child = _child("resume", db, str(times))
    assert child.stdout is not None
    late = []
    for number in range(times):
        said = child.stdout.readline().strip()  # it has suspended the run, and waits
        assert said == "waits", said
        time.sleep(0.005)
        began = time.monotonic()
        engine.signal(run.id, "go", number)
        late.append((float(child.stdout.readline()) - began) * 1000)
    child.wait()
    late.sort()
    say(
        "suspended to resumed in another process", times=times, **{"p50 ms": round(statistics.median(late), 2)},
        **{"p95 ms": round(late[int(times * 0.95)], 2), "p99 ms": round(late[int(times * 0.99)], 2)},
        load=round(os.getloadavg()[0], 1),
    )  # fmt: skip
    engine.close()


def _resume(db: str, times: int) -> None:
    engine = Engine(db)
    with engine.leases("bench", workflows=["bench_wait"], ttl="1h") as leases:
        (lease,) = leases.claim(wait="60s")
        for number in range(times):
            lease.suspend("go")
            print("waits", flush=True)
            (lease,) = leases.claim(wait="60s")
            now = time.monotonic()
            assert [signal.payload for signal in lease.signals] == [str(number).encode()]
            print(now, flush=True)
        lease.complete()
    engine.close()


# Capabilities


def routing(db: str, workers: int = 100, count: int = 1000, kinds: int = 10) -> None:
    """Workers with one or two capabilities each, and tasks that want one: none may be left."""
    engine = Engine(db)
    words = [f"kind{number}" for number in range(kinds)]
    runs = [run for word in words for run in engine.start_many("bench_task", [PAYLOAD] * (count // kinds), capabilities=[word])]
    began: dict[str, float] = {}
    clock, guard = Clock(), threading.Lock()

    def work(number: int) -> None:
        offer = {words[number % kinds], words[(number * 7 + 1) % kinds]}
        with engine.leases(f"bench {number}", workflows=["bench_task"], capabilities=sorted(offer)) as leases:
            while found := leases.claim(1):
                for lease in found:
                    assert set(lease.run.capabilities) <= offer
                    with guard:
                        began[lease.run.id] = time.perf_counter() - clock.wall
                    lease.complete({"ok": True})

    threads = [threading.Thread(target=work, args=(number,)) for number in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    figures = clock.told(count)
    waits = sorted(began.values())
    starved = [run.id for run in runs if run.id not in began]
    say(
        "capability routing", workers=workers, tasks=count, starved=len(starved), **figures,
        **{"begun p50 ms": round(1000 * statistics.median(waits)), "begun last ms": round(1000 * waits[-1])},
    )  # fmt: skip
    assert not starved
    engine.close()


# The driver alone


def raw(db: str, count: int) -> None:
    """The same rows by the driver: inserted, chosen and marked, finished, in as many commits."""
    (_raw_postgres if db.startswith("postgresql:") else _raw_sqlite)(db, count)


def _raw_sqlite(db: str, count: int) -> None:
    import sqlite3

    data = json.dumps([PAYLOAD]).encode()
    with tempfile.TemporaryDirectory() as folder:
        link = sqlite3.connect(os.path.join(folder, "raw.db"), isolation_level=None)
        link.executescript(
            "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; CREATE TABLE task (id TEXT PRIMARY KEY, status TEXT, rank INTEGER,"
            " input BLOB, result BLOB) WITHOUT ROWID; CREATE INDEX ready ON task (rank) WHERE rank IS NOT NULL;"
        )
        _raw(link.execute, link.executemany, "?", data, count, "raw sqlite3")
        link.close()


def _raw_postgres(db: str, count: int) -> None:
    import psycopg

    data = json.dumps([PAYLOAD]).encode()
    with psycopg.connect(db, autocommit=True) as link:
        link.execute("CREATE TEMP TABLE task (id TEXT PRIMARY KEY, status TEXT, rank BIGINT, input BYTEA, result BYTEA)")
        link.execute("CREATE INDEX ON task (rank) WHERE rank IS NOT NULL")
        cursor = link.cursor()
        _raw(cursor.execute, cursor.executemany, "%s", data, count, "raw psycopg, a table that is not logged")


def _raw(one: Callable[..., Any], many: Callable[..., Any], mark: str, data: bytes, count: int, by: str) -> None:
    clock = Clock()
    for place in range(0, count, PORTION):
        one("BEGIN")
        rows = [(f"{number:08}", number, data) for number in range(place, place + PORTION)]
        many(f"INSERT INTO task VALUES ({mark}, 'pending', {mark}, {mark}, NULL)", rows)
        one("COMMIT")
    while True:
        found = one("SELECT id, input FROM task WHERE rank IS NOT NULL ORDER BY rank LIMIT 256").fetchall()
        if not found:
            break
        for query in (
            f"UPDATE task SET status = 'running', rank = NULL WHERE id = {mark}",
            f"UPDATE task SET status = 'completed', result = '1' WHERE id = {mark}",
        ):
            one("BEGIN")
            many(query, [(row[0],) for row in found])
            one("COMMIT")
    say("submit, claim, complete", by=by, **clock.told(count))


# Command line


def _child(what: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, __file__, "--child", what, *arguments], stdout=subprocess.PIPE, text=True)


@contextmanager
def places(given: str | None) -> Iterator[Iterator[str]]:
    """Yield databases, each one new."""
    with tempfile.TemporaryDirectory(prefix="holdfast-tasks-") as folder:
        if given is None:
            yield (os.path.join(folder, f"tasks{number}.db") for number in range(100))
        elif given == "postgresql":
            from holdfast.testing.postgres import postgres

            global server
            with postgres(durable=True) as started:
                server = int((started.data / "postmaster.pid").read_text().split()[0])
                yield iter(started.new_store, None)
        else:
            yield iter(lambda: given, None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--db", help="a URL; postgresql alone starts a server, with full durability; default: a new SQLite file")
    parser.add_argument("--tasks", type=int, default=TASKS)
    parser.add_argument("--only", action="append", help="throughput, batches, loop, processes, resume, routing, raw")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        what, db, number = given.child
        if what == "drain":
            engine = Engine(db)
            print(sum(drain(engine, int(number), together=True).values()))
            engine.close()
        else:
            _resume(db, int(number))
        return
    figures: dict[str, Callable[[str], None]] = {
        "throughput": lambda db: with_threads(db, given.tasks),
        "batches": lambda db: with_threads(db, given.tasks, together=True),
        "loop": lambda db: with_tasks(db, given.tasks),
        "processes": lambda db: with_processes(db, given.tasks),
        "resume": resumed,
        "routing": routing,
        "raw": lambda db: raw(db, given.tasks),
    }
    with places(given.db) as databases:
        for name, figure in figures.items():
            if not given.only or name in given.only:
                figure(next(databases))


if __name__ == "__main__":
    main()
