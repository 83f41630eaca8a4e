"""What a run of five steps costs a database: rows, transactions, statements, WAL and bytes that
stay. The figures of docs/guides/scaling.md ("One server") come from here. Steps return a small
number: what you store comes on top."""

from __future__ import annotations

import os
from typing import Any

from bench.place import Place
from bench.scenario import Scenario
from bench.scenarios.s2 import run_at_once
from holdfast.testing import internals

SCENARIO = Scenario(
    "rows",
    "what a run leaves in the database",
    "bytes",
    "bytes per run",
    size={"n": 2000, "steps": 5},
    rounds=1,
)
TABLES = ("run", "event", "signal", "tag", "fanout")


def holdfast(place: Place) -> dict[str, float]:
    from bench.peers import ours
    from holdfast import Engine

    found: dict[str, float] = {}
    with Engine(place.url) as engine:
        store: Any = internals(engine).store
        run_at_once(engine, ours.steps, 50, place.steps)
        for name, count, at_once in (("alone", place.n // 10, 1), ("together", place.n, 200)):
            before, commits, counts = _state(place), store.database.commits, _count(store)
            for _ in range(count // at_once):
                run_at_once(engine, ours.steps, at_once, place.steps)
            after = _state(place)
            figures = {key: (after[key] - before[key]) / count for key in after}
            figures |= {
                "transactions": (store.database.commits - commits) / count,
                "statements": counts["all"] / count,
            }
            found |= {
                (key if name == "together" else f"{key}_alone"): value
                for key, value in figures.items()
            }
        if place.store == "postgres":
            before = _state(place)
            found["wal_to_prune"] = engine.retention.prune("0s") and (
                _state(place)["wal"] - before["wal"]
            ) / (place.n * 1.1 + 50)
    return found


def _state(place: Place) -> dict[str, float]:
    from bench.peers import ours

    db = ours.connect(place)
    try:
        rows = sum(
            db.execute(ours.spelled(place, f"SELECT count(*) FROM holdfast.{table}")).fetchone()[0]
            for table in TABLES
        )
        if place.store == "sqlite":
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            return {"rows": rows, "bytes": os.path.getsize(place.url)}
        sizes = ", ".join(f"pg_total_relation_size('holdfast.{table}')" for table in TABLES)
        found = db.execute(f"SELECT pg_current_wal_lsn() - '0/0', {sizes}").fetchone()
        return {"rows": rows, "bytes": float(sum(found[1:])), "wal": float(found[0])}
    finally:
        db.close()


def _count(store: Any) -> dict[str, int]:
    """Count what the writing connection is asked from now on."""
    counts = {"all": 0}
    db = getattr(store, "_writer", None) or store.database._db
    for name in ("rows", "change", "many", "script", "append"):
        call = getattr(type(db), name, None)
        if call is not None:
            setattr(db, name, _counting(call.__get__(db), counts))
    return counts


def _counting(call: Any, counts: dict[str, int]) -> Any:
    def counted(*args: Any, **kwargs: Any) -> Any:
        counts["all"] += 1
        return call(*args, **kwargs)

    return counted
