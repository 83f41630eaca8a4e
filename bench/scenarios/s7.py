"""S7: what is finished does not slow the living: S2 beside 200,000 finished runs; late steps of a
long run beside early ones."""

from __future__ import annotations

import dataclasses
import os
import statistics
from typing import Any

from bench.place import Place
from bench.scenario import Scenario, Target
from bench.scenarios.s2 import run_at_once

SCENARIO = Scenario(
    "s7",
    "with 200,000 finished runs",
    "full_to_empty",
    "of the speed",
    rounds=1,
    size={"n": 200_000, "runs": 500, "steps": 5, "long": 10_000},
    timeout=420,
    targets=tuple(
        target
        for store in ("sqlite", "postgres")
        for target in (
            Target(store, "full_to_empty", 0.9),
            Target(store, "late_to_early_step", 1.2, at_most=True),
        )
    ),
)


def holdfast(place: Place) -> dict[str, float]:
    from bench.peers import ours
    from bench.peers import raw as driver
    from holdfast import Engine

    empty = dataclasses.replace(place, url=_beside(place))
    with Engine(place.url) as engine:
        run_at_once(engine, ours.steps, 1000, place.steps)
    multiply(place, place.n // 1000)
    driver.settle(place)
    ratios, cpu = [], {"full": [], "empty": []}
    with Engine(place.url) as full, Engine(empty.url) as other:
        for turn in range(6):  # in turn, so that both see the same machine
            taken = {}
            for name, engine in (("full", full), ("empty", other)):
                with place.meter() as meter:
                    run_at_once(engine, ours.steps, place.runs, place.steps)
                taken[name] = meter.wall
                cpu[name].append(meter.cpu)
            if turn:
                ratios.append(taken["empty"] / taken["full"])
        early, late = _early_and_late(full, ours.marked, place.long)
    found = {"full_to_empty": statistics.median(ratios), "late_to_early_step": late / early}
    return found | {
        "cpu_full_to_empty": statistics.median(cpu["empty"]) / statistics.median(cpu["full"])
    }


def multiply(place: Place, times: int) -> None:
    """Copy the finished runs and their events many times over, by SQL, with ids of their own in
    order of time."""
    from bench.peers import ours

    db = ours.connect(place)
    numbers = (
        f"generate_series(1, {times - 1})"
        if place.store == "postgres"
        else (
            "(WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i <"
            f" {times - 1}) SELECT i FROM n)"
        )
    )
    for table, key in (("run", "id"), ("event", "run_id")):
        name = ours.spelled(place, f"holdfast.{table}")
        columns = [
            one for one in _columns(place, db, name) if not (table == "event" and one == "id")
        ]
        copied = ", ".join(
            (
                f"'0' || substr(s.{one}, 2, 13) || lpad_i || substr(s.{one}, 20)"
                if one == key
                else f"s.{one}"
            )
            for one in columns
        )
        padded = "lpad(i::text, 6, '0')" if place.store == "postgres" else "printf('%06d', i)"
        copied = copied.replace("lpad_i", padded)
        db.execute(
            f"INSERT INTO {name} ({', '.join(columns)}) SELECT {copied} FROM {name} AS s, {numbers}"
            " AS n(i)".replace("AS n(i)", "AS n(i)" if place.store == "postgres" else "AS n")
        )
    db.close()


def _columns(place: Place, db: Any, table: str) -> list[str]:
    if place.store == "sqlite":
        return [row[1] for row in db.execute(f"PRAGMA table_info({table})")]
    schema, name = table.split(".")
    sql = (
        "SELECT column_name FROM information_schema.columns WHERE table_schema = %s AND table_name"
        " = %s ORDER BY ordinal_position"
    )
    return [row[0] for row in db.execute(sql, (schema, name))]


def _beside(place: Place) -> str:
    if place.store == "sqlite":
        return os.path.join(place.folder, "empty.db")
    import psycopg

    name = place.url.split("?")[0].rsplit("/", 1)[1]
    with psycopg.connect(place.url, autocommit=True) as db:
        db.execute(f'CREATE DATABASE "{name}_empty"')
    return place.url.replace(name, f"{name}_empty")


def _early_and_late(engine: Any, workflow: Any, count: int) -> tuple[float, float]:
    """Return the CPU seconds that the process took for a step, early and late in a long run."""
    marks = engine.start(workflow, count, count // 10).result(timeout=300)
    return marks[1] - marks[0], marks[-1] - marks[-2]
