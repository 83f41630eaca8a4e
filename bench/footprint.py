"""What a run of five steps costs a database: rows, transactions, statements, WAL and bytes that stay.

The figures in ARCHITECTURE.md ("Past one server") come from here: ``python bench/footprint.py``. Steps return a small number, so
what is measured is Holdfast's own share; what you store in inputs and results comes on top.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import sqlite3
import tempfile
import time
from collections import Counter
from contextlib import closing
from typing import Any

import psycopg

from holdfast import Engine, step, workflow
from holdfast.testing.postgres import Server, postgres

TABLES = ("run", "event", "signal", "tag", "fanout")


@step(name="footprint.act")
async def act(n: int) -> int:
    return n + 1


@workflow(name="footprint.five")
async def five(n: int) -> int:
    for _ in range(5):
        n = await act(n)
    return n


def work(engine: Engine, runs: int, at_once: int) -> float:
    """Do so many runs, so many of them at once, and return the seconds that it took."""
    began = time.monotonic()
    for first in range(0, runs, at_once):
        for run in engine.start_many(five, range(first, min(first + at_once, runs))):
            run.result(timeout=120)
    return time.monotonic() - began


def ask(db: psycopg.Connection[Any], sql: str) -> Any:
    found = db.execute(sql).fetchone()  # type: ignore[call-overload]
    assert found is not None
    return found[0]


def count_statements(engine: Engine) -> Counter[str]:
    """Count what the writing connection of an engine is asked from now on."""
    counts: Counter[str] = Counter()
    db = engine._parts.store._writer  # type: ignore[attr-defined]
    for name in ("rows", "change", "many", "script", "append"):
        call = getattr(db, name)
        setattr(db, name, lambda *args, _call=call, **kwargs: (counts.update(["statements"]), _call(*args, **kwargs))[1])
    return counts


def on_postgres(server: Server, runs: int, at_once: int) -> dict[str, float]:
    """Return what one run costs, on average."""
    url = server.new_database()
    with Engine(url, workflows=[five]) as engine, psycopg.connect(url, autocommit=True) as db:
        work(engine, 50, at_once)
        db.execute("CHECKPOINT")
        rows = {table: ask(db, f"SELECT COUNT(*) FROM holdfast.{table}") for table in TABLES}
        sizes = {table: ask(db, f"SELECT pg_total_relation_size('holdfast.{table}')") for table in TABLES}
        store: Any = engine._parts.store
        commits, began = store.commits, ask(db, "SELECT pg_current_wal_lsn()")
        statements = count_statements(engine)
        seconds = work(engine, runs, at_once)
        wal = ask(db, f"SELECT pg_current_wal_lsn() - '{began}'")
        figures = {
            "rows": sum(ask(db, f"SELECT COUNT(*) FROM holdfast.{table}") - rows[table] for table in TABLES) / runs,
            "transactions": (store.commits - commits) / runs,
            "statements": statements["statements"] / runs,
            "WAL bytes": float(wal) / runs,
            "bytes kept": sum(ask(db, f"SELECT pg_total_relation_size('holdfast.{t}')") - sizes[t] for t in TABLES) / runs,
            "runs per second": runs / seconds,
        }
        indexes = sum(ask(db, f"SELECT pg_indexes_size('holdfast.{table}')") for table in TABLES)
        figures["bytes of indexes among them"] = indexes / (runs + 50)
        began, clock = ask(db, "SELECT pg_current_wal_lsn()"), time.monotonic()
        gone = engine.prune("0s")
        figures["runs pruned per second"] = gone / (time.monotonic() - clock)
        figures["WAL bytes to prune one"] = float(ask(db, f"SELECT pg_current_wal_lsn() - '{began}'")) / gone
        return figures


def on_sqlite(folder: pathlib.Path, runs: int, at_once: int) -> dict[str, float]:
    """The same for a file."""
    path = folder / f"footprint-{at_once}.db"
    with Engine(path, workflows=[five]) as engine:
        work(engine, 50, at_once)
        before, commits = size_of(path), engine._parts.store.commits  # type: ignore[attr-defined]
        seconds = work(engine, runs, at_once)
        kept = size_of(path) - before
        commits = engine._parts.store.commits - commits  # type: ignore[attr-defined]
    return {"transactions": commits / runs, "bytes kept": kept / runs, "runs per second": runs / seconds}


def size_of(path: pathlib.Path) -> int:
    with closing(sqlite3.connect(path)) as db:
        (pages,), (size,) = db.execute("PRAGMA page_count").fetchone(), db.execute("PRAGMA page_size").fetchone()
    return int(pages * size)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=4000)
    given = parser.parse_args()
    print(f"{os.cpu_count()} cores, {given.runs} runs of 5 steps; per run:")
    with tempfile.TemporaryDirectory() as folder, postgres(durable=True) as server:
        for at_once in (1, 200):
            count = given.runs // 4 if at_once == 1 else given.runs
            for name, figures in (
                ("PostgreSQL", on_postgres(server, count, at_once)),
                ("SQLite", on_sqlite(pathlib.Path(folder), count, at_once)),
            ):
                print(f"\n{name}, {at_once} at once")
                for what, figure in figures.items():
                    print(f"{figure:>12,.2f} {what}")


if __name__ == "__main__":
    main()
