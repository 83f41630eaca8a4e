"""Work by others: tasks of 4 KiB submitted, leased and completed by 16 threads; how soon a
suspended one is at work again in another process; and whether a hundred workers of ten capabilities
find all that is theirs."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from typing import Any

from bench.place import Place, check, latencies, ready, say
from bench.scenario import STORES, Scenario, Target

SCENARIO = Scenario(
    "tasks",
    "10,000 tasks of 4 KiB, 16 workers",
    "rate",
    "tasks/s",
    size={"n": 10_000, "workers": 16, "batch": 16, "signals": 200, "kinds": 10, "routed": 1000},
    targets=tuple(
        target
        for store in STORES
        for target in (
            Target(store, "rate", 4080),
            Target(store, "resumed_p50_ms", 5, at_most=True),
            Target(store, "starved", 0, at_most=True),
        )
    ),
)

PAYLOAD = {"data": "x" * 4083}
PORTION = 500
"""How many are submitted in one call."""


def holdfast(place: Place) -> dict[str, float]:
    from holdfast import Engine

    engine = Engine(place.url)
    found = {
        "rate_one_by_one": place.n / 5 / _worked(engine, place, place.n // 5, together=False).wall
    }
    whole = _worked(engine, place, place.n, together=True)
    found |= place.per(whole, place.n, "task") | _resumed(engine, place) | _routed(engine, place)
    engine.close()
    return found


def _worked(engine: Any, place: Place, count: int, *, together: bool) -> Any:
    """Submit, lease and complete, and return how long it took."""
    done: list[int] = []
    with place.meter() as meter:
        for first in range(0, count, PORTION):
            engine.start_many("bench_task", [PAYLOAD] * min(PORTION, count - first))
        with engine.tasks.worker("bench", workflows=["bench_task"], ttl="1h") as leases:
            _in_threads(
                place.workers,
                lambda _: done.append(_drained(leases, place.batch, together=together)),
            )
    check(sum(done), count)
    return meter


def _drained(leases: Any, batch: int, *, together: bool) -> int:
    done = 0
    while found := leases.claim(batch):
        check(all(lease.input == PAYLOAD for lease in found), True)
        if together:
            leases.complete_all([(lease, {"ok": True}) for lease in found])
        else:
            for lease in found:
                lease.complete({"ok": True})
        done += len(found)
    return done


def _in_threads(count: int, work: Callable[[int], Any]) -> None:
    threads = [threading.Thread(target=work, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _resumed(engine: Any, place: Place) -> dict[str, float]:
    """From the signal to the lease in another process that waits for it."""
    run = engine.start("bench_wait", 1)
    helper = place.spawn("holdfast_holder")
    helper.go()
    late = []
    for number in range(place.signals):
        helper.listen("suspended")
        time.sleep(0.005)
        began = time.monotonic()
        engine.signal(run.id, "go", number)
        late.append(float(helper.listen("resumed")) - began)
    helper.kill()
    return {f"resumed_{name}": value for name, value in latencies(late[10:]).items()}


def holdfast_holder(place: Place) -> None:
    from holdfast import Engine

    ready()
    with Engine(place.url).tasks.worker("bench", workflows=["bench_wait"], ttl="1h") as leases:
        (lease,) = leases.claim(wait="60s")
        for number in range(place.signals):
            lease.suspend("go")
            say("suspended")
            (lease,) = leases.claim(wait="60s")
            now = time.monotonic()
            check([signal.payload for signal in lease.signals], [number])
            say(f"resumed {now}")
        lease.complete()


def _routed(engine: Any, place: Place) -> dict[str, float]:
    """Workers with two capabilities each, tasks that want one of them: none may be left."""
    words, began = [f"kind{number}" for number in range(place.kinds)], set()
    share = [PAYLOAD] * (place.routed // place.kinds)
    runs = [
        run.id
        for word in words
        for run in engine.start_many("bench_routed", share, capabilities=[word])
    ]

    def work(number: int) -> None:
        offer = sorted({words[number % place.kinds], words[(number * 7 + 1) % place.kinds]})
        with engine.tasks.worker(
            f"bench {number}", workflows=["bench_routed"], capabilities=offer, ttl="1h"
        ) as leases:
            while found := leases.claim(1):
                for lease in found:
                    began.add(lease.run_id)
                    lease.complete({"ok": True})

    with place.meter() as meter:
        _in_threads(100, work)
    return {"starved": len(set(runs) - began), "routed_rate": place.routed / meter.wall}


def raw(place: Place) -> dict[str, float]:
    """The same rows by the driver: inserted, chosen and marked, finished, with as many to a
    commit."""
    from bench.peers import raw as driver

    db = driver.begin(
        place, "id TEXT PRIMARY KEY, status TEXT, rank BIGINT, input BLOB, result TEXT"
    )
    db.execute("CREATE INDEX ready ON t (rank) WHERE rank IS NOT NULL")
    data, mark = json.dumps([PAYLOAD]).encode(), "%s" if place.store == "postgres" else "?"
    together = place.workers * place.batch
    with place.meter() as meter:
        for first in range(0, place.n, PORTION):
            rows = [
                (f"{number:08}", "pending", number, data, None)
                for number in range(first, first + PORTION)
            ]
            driver.insert(place, db, rows)
        while found := db.execute(
            f"SELECT id, input FROM t WHERE rank IS NOT NULL ORDER BY rank LIMIT {together}"
        ).fetchall():
            for change in ("status = 'running', rank = NULL", "status = 'completed', result = '1'"):
                db.execute("BEGIN")
                db.cursor().executemany(
                    f"UPDATE t SET {change} WHERE id = {mark}", [(row[0],) for row in found]
                )
                db.execute("COMMIT")
    return place.per(meter, place.n, "task")
