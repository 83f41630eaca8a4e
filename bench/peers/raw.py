"""The driver alone."""

from __future__ import annotations

from typing import Any

from bench.place import Place


def connect(place: Place) -> Any:
    """Return a connection of the driver."""
    if place.store == "postgres":
        import psycopg

        return psycopg.connect(place.url, autocommit=True)
    import sqlite3

    return sqlite3.connect(place.url, timeout=30, isolation_level=None)


def begin(place: Place, columns: str) -> Any:
    """Return a connection to a new table ``t`` whose commits are as durable as ours. A BLOB is what
    the database calls so."""
    db = connect(place)
    for statement in (
        ()
        if place.store == "postgres"
        else ("PRAGMA journal_mode = wal", "PRAGMA synchronous = full")
    ):
        db.execute(statement)
    db.execute(
        "CREATE TABLE t"
        f" ({columns.replace('BLOB', 'BYTEA') if place.store == 'postgres' else columns})"
    )
    return db


def insert(place: Place, db: Any, rows: list[tuple[Any, ...]]) -> None:
    """Write rows in one transaction."""
    marks = ", ".join(["%s" if place.store == "postgres" else "?"] * len(rows[0]))
    db.execute("BEGIN")
    db.cursor().executemany(f"INSERT INTO t VALUES ({marks})", rows)
    db.execute("COMMIT")


def settle(place: Place) -> None:
    """After a large load: let a database write down and look at what it would in time by itself."""
    db = connect(place)
    for statement in (
        ("VACUUM ANALYZE", "CHECKPOINT")
        if place.store == "postgres"
        else ("PRAGMA wal_checkpoint(TRUNCATE)",)
    ):
        db.execute(statement)
    db.close()
