"""How late timers fire: many runs parked in one database, some of them due within a window, with
other runs going on."""

from __future__ import annotations

import json
import time
from typing import Any

from bench.place import Place, latencies, ready
from bench.scenario import Scenario, Target
from bench.scenarios.s2 import run_at_once

SCENARIO = Scenario(
    "timers",
    "timers among 100,000 parked runs",
    "p99_ms",
    "ms late",
    rounds=1,
    timeout=300,
    size={"n": 100_000, "due": 2000, "window": 10.0},
    targets=tuple(Target(store, "p99_ms", 1000, at_most=True) for store in ("sqlite", "postgres")),
)

LEAD = 8.0
"""Seconds from the last parked run to the first that is due."""

FAR = 365 * 86_400


def holdfast(place: Place) -> dict[str, float]:
    from bench.peers import raw as driver
    from holdfast.connect.open_store import open_store
    from holdfast.store.runs.copy_operations import CopyRuns

    store = open_store(place.url)
    later = [store.now() + (FAR + number) * 1_000_000 for number in range(place.n - place.due)]
    for first in range(0, len(later), 5000):
        store.apply(
            [CopyRuns([parked(store.now(), until) for until in later[first : first + 5000]])]
        )
    driver.settle(place)
    helper = place.spawn("holdfast_worker")
    now = store.now()
    soon = [
        now + int((LEAD + place.window * number / place.due) * 1_000_000)
        for number in range(place.due)
    ]
    store.apply([CopyRuns([parked(now, until) for until in soon])])
    helper.go()
    helper.listen("done")
    found = latencies(_lateness(store, place.due)) | {
        "worker_mb": helper.peak_mb(),
        "cpu": helper.cpu() / (LEAD + place.window),
    }
    helper.kill()
    store.close()
    return found


def holdfast_worker(place: Place) -> None:
    from bench.peers import ours
    from bench.place import say
    from holdfast import Engine

    ready()
    end = time.monotonic() + LEAD + place.window + 3
    with Engine(place.url) as engine:
        while time.monotonic() < end:
            run_at_once(engine, ours.steps, 5, 5)
            time.sleep(0.05)
        say("done")
        ours.forever()


def parked(now: int, until: int) -> Any:
    """Return a run that sleeps until an instant, held by nobody, as it stands in the database."""
    from holdfast.core.events import Event, EventKind
    from holdfast.core.runs import RunRecord, RunSnapshot
    from holdfast.core.status import Status
    from holdfast.engine.runtime.ids import new_id

    wait = [{"kind": "timer", "step": "sleep", "until": until}]
    run = RunRecord(
        id=new_id(),
        namespace="default",
        workflow="sleeper",
        version="1",
        lane="default",
        capabilities=(),
        status=Status.WAITING,
        priority=0,
        input=b"[1]",
        generation=1,
        revision=0,
        crashes=0,
        created_at=now,
        started_at=now,
        waits=json.dumps(wait).encode(),
        wake_at=until,
    )
    return RunSnapshot(
        run,
        events=[
            Event(
                EventKind.TIMER_SET, "sleep", json.dumps({"until": until}).encode(), at=now, seq=1
            )
        ],
    )


def _lateness(store: Any, wanted: int) -> list[float]:
    from holdfast.core.events import EventKind
    from holdfast.store.runs.list_query import RunFilter

    found: list[float] = []
    which = RunFilter(statuses=["completed"], workflows=["sleeper"], limit=1000)
    while True:
        page = store.runs.page(which)
        for events in store.runs.histories([run.id for run in page.runs]).values():
            fired = next(event.at for event in events if event.kind == EventKind.TIMER_FIRED)
            found.append((fired - json.loads(events[0].data)["until"]) / 1e6)
        if page.next is None:
            break
        which.after = page.next
    if len(found) != wanted:
        raise AssertionError(f"{len(found)} of {wanted} timers have fired")
    return found
