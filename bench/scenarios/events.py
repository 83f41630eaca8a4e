"""Following: one subscriber reads the events of all runs. The raw driver reads the same rows, 500
at a time."""

from __future__ import annotations

from bench.place import Place, check
from bench.scenario import Scenario, Target
from bench.scenarios.s2 import run_at_once

SCENARIO = Scenario(
    "events",
    "events that a subscriber follows",
    "rate",
    "events/s",
    size={"n": 40_000, "steps": 99},
    targets=tuple(Target(store, "rate", 20_000) for store in ("sqlite", "postgres")),
)


def holdfast(place: Place) -> dict[str, float]:
    from bench.peers import ours
    from holdfast import Engine

    with Engine(place.url) as engine:
        run_at_once(engine, ours.steps, place.n // (place.steps + 1), place.steps)
        with place.meter() as meter:
            check(sum(1 for _ in engine.events.read(workflow="steps")), place.n)
        with place.meter() as named:
            check(sum(1 for _ in engine.events.read(name="bench", workflow="steps")), place.n)
        return place.per(meter, place.n, "event") | {"named_rate": place.n / named.wall}


def raw(place: Place) -> dict[str, float]:
    from bench.peers import raw as driver

    db = driver.begin(
        place,
        "id INTEGER PRIMARY KEY, run TEXT, seq INTEGER, kind TEXT, step TEXT, data BLOB, at"
        " INTEGER",
    )
    driver.insert(
        place,
        db,
        [
            (n, f"r{n // 100}", n % 100, "step_completed", f"one#{n}", b"1", n)
            for n in range(1, place.n + 1)
        ],
    )
    rows, after = 0, 0
    with place.meter() as meter:
        while page := db.execute(
            f"SELECT * FROM t WHERE id > {after} ORDER BY id LIMIT 500"
        ).fetchall():
            rows, after = rows + len(page), page[-1][0]
    check(rows, place.n)
    return place.per(meter, place.n, "event")
