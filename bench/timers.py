"""How late timers fire: many parked in one database, some of them due within a window, with other work going on.

    python bench/timers.py --parked 1000000 --due 10000 --window 20 [--db timers.db]

Runs are parked by writing rows as a workflow that sleeps leaves them. The worker is a process of its own; a timer is late by the
time from its instant to the event that says that it fired.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from holdfast import Engine, sleep, step, workflow
from holdfast.connect.store import open_store
from holdfast.core.records import Dossier, Event, Kind, Run
from holdfast.core.status import Status
from holdfast.engine.ids import new_id
from holdfast.store.contract import CopyRuns, Filter

PORTION = 5000
FAR = 365 * 86_400 * 1_000_000


@step
async def busy(number: int) -> int:
    return number


@workflow(name="bench_timer")
async def timer() -> None:
    await sleep("1s")


@workflow(name="bench_other")
async def other(steps: int) -> int:
    for number in range(steps):
        await busy(number)
    return steps


def parked(now: int, until: int) -> Dossier:
    """A run that sleeps until an instant, held by nobody."""
    wait = [{"kind": "timer", "step": "sleep", "until": until}]
    run = Run(
        id=new_id(), namespace="default", workflow="bench_timer", version="1", lane="default", capabilities=(),
        status=Status.WAITING, priority=0, input=b"[]", generation=1, revision=0, crashes=0, created_at=now, started_at=now,
        waits=json.dumps(wait).encode(), wake_at=until,
    )  # fmt: skip
    return Dossier(run, events=[Event(Kind.TIMER_SET, "sleep", json.dumps({"until": until}).encode(), at=now, seq=1)])


def fill(store: object, count: int, instants: list[int]) -> None:
    """Park runs, those that are due soon among the others."""
    now = store.now()  # type: ignore[attr-defined]
    left = [*instants, *(now + FAR + number for number in range(count - len(instants)))]
    for place in range(0, len(left), PORTION):
        answer = store.apply([CopyRuns([parked(now, until) for until in left[place : place + PORTION]])])[0]  # type: ignore[attr-defined]
        if isinstance(answer, BaseException):
            raise answer


def work(db: str, seconds: float) -> None:
    """Work for so long, with other runs going on all the time, and tell how much memory that took."""
    bare: list[float] = []
    end = time.monotonic() + seconds
    threading.Thread(target=sleep_bare, args=(end, bare), daemon=True).start()
    with Engine(db, workflows=[timer, other]) as engine:
        print("ready", flush=True)
        done = 0
        while time.monotonic() < end:
            for run in [engine.start(other, 5) for _ in range(5)]:
                run.result(timeout=60)
                done += 1
            threading.Event().wait(0.05)
        used = resource.getrusage(resource.RUSAGE_SELF)
    cpu = (used.ru_utime + used.ru_stime) / seconds
    said: dict[str, float] = {"other runs": done, "peak MB": round(used.ru_maxrss / 1024), "CPU %": round(100 * cpu)}
    said["bare sleep late p99 ms"] = round(sorted(bare)[int(len(bare) * 0.99)], 1)
    print(json.dumps({**said, "load": round(os.getloadavg()[0], 1)}), flush=True)


def sleep_bare(end: float, late: list[float]) -> None:
    """Sleep with nothing in between: how late is this machine by itself?"""
    while time.monotonic() < end - 1:
        began = time.monotonic()
        time.sleep(0.01)
        late.append((time.monotonic() - began - 0.01) * 1000)


def measure(db: str, count: int, due: int, window: float) -> dict[str, object]:
    """Fill, work, and look how late each timer fired."""
    store = open_store(db)
    lead = 15.0
    before = _bytes(db)
    began = time.monotonic()
    fill(store, count - due, [])
    now = store.now()
    instants = [now + int((lead + window * number / due) * 1_000_000) for number in range(due)]
    fill(store, due, instants)
    filled = time.monotonic() - began
    worker = subprocess.run(
        [sys.executable, __file__, "--work", str(lead + window + 5), "--db", db], capture_output=True, text=True, check=True
    )
    said = json.loads(worker.stdout.splitlines()[-1])
    late = _lateness(store, now)
    late.sort()
    return {
        "parked": count, "due": due, "window s": window, "fired": len(late),
        "bytes per run": round((_bytes(db) - before) / count),
        "filled in s": round(filled, 1), "late p50 ms": round(statistics.median(late), 1),
        "late p99 ms": round(late[int(len(late) * 0.99)], 1), "late max ms": round(late[-1], 1), **said,
    }  # fmt: skip


def _lateness(store: object, since: int) -> list[float]:
    found, before = [], None
    while page := store.runs(Filter(statuses=["completed"], workflow="bench_timer", before=before, limit=1000)):  # type: ignore[attr-defined]
        before = page[-1].id
        for events in store.histories([run.id for run in page]).values():  # type: ignore[attr-defined]
            until = json.loads(events[0].data)["until"]
            fired = next(event.at for event in events if event.kind == Kind.TIMER_FIRED)
            if until >= since:
                found.append((fired - until) / 1000)
    return found


def _bytes(db: str) -> int:
    if db.startswith("postgresql:"):
        store = open_store(db)
        try:
            return int(str(store.facts()["bytes"]))
        finally:
            store.close()
    return sum(file.stat().st_size for file in Path(db).parent.glob(Path(db).name + "*"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parked", type=int, default=1_000_000)
    parser.add_argument("--due", type=int, default=10_000)
    parser.add_argument("--window", type=float, default=20.0)
    parser.add_argument("--db")
    parser.add_argument("--work", type=float)
    given = parser.parse_args()
    if given.work:
        work(given.db, given.work)
        return
    with tempfile.TemporaryDirectory(prefix="holdfast-timers-") as folder:
        db = given.db or os.path.join(folder, "timers.db")
        print(json.dumps(measure(db, given.parked, given.due, given.window), indent=2))


if __name__ == "__main__":
    main()
