"""Inspect a SQLite file: its integrity, its versions and settings."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

from holdfast.store.rows import values_of
from holdfast.store.soundness import as_mapping
from holdfast.store.sqlite.connection import ApswConnection, StandardConnection, is_flawed

Fetch = Callable[[str], list[Any]]
Driver = type[StandardConnection] | type[ApswConnection]

WARNING = (
    "SQLite before 3.51.3 may damage a WAL that several processes share: "
    "pip install 'holdfast[sqlite]' and set HOLDFAST_SQLITE=apsw"
)


def integrity(fetch: Fetch) -> list[str]:
    """Describe the damage to the file and its indexes."""
    reports = [values_of(row)[0] for row in fetch("PRAGMA integrity_check")]
    damaged = [f"the file is damaged: {report}" for report in reports if report != "ok"]
    return damaged + [
        f"the file is damaged: index {name} does not have the entries of its table"
        for name in _miscounted(fetch)
    ]


def _miscounted(fetch: Fetch) -> Iterator[str]:
    """Yield the partial indexes that have more or fewer entries than there are rows for them:
    the integrity check of some versions of SQLite does not count these."""
    partial = "type = 'index' AND sql LIKE '% WHERE %' AND name LIKE 'holdfast%'"
    for index in map(
        as_mapping, fetch(f"SELECT name, tbl_name, sql FROM sqlite_master WHERE {partial}")
    ):
        table = index["tbl_name"]
        condition = index["sql"].split(" WHERE ", 1)[1]
        entries = f"SELECT COUNT(*) FROM {table} INDEXED BY {index['name']} WHERE {condition}"
        # Without a WHERE clause SQLite cannot use a partial index: this counts the rows of the
        # table itself.
        rows = f"SELECT COALESCE(SUM(CASE WHEN {condition} THEN 1 ELSE 0 END), 0) FROM {table}"
        # In one statement: a worker may write between two.
        (count,) = fetch(f"SELECT ({entries}) AS entries, ({rows}) AS expected")
        if count["entries"] != count["expected"]:
            yield index["name"]


def info(fetch: Fetch, path: str, driver: Driver) -> dict[str, object]:
    """Return the versions, settings and sizes that `doctor` shows."""
    settings = {
        name: values_of(fetch(f"PRAGMA {name}")[0])[0] for name in ("journal_mode", "page_size")
    }
    warnings = [WARNING] if is_flawed(driver.version) else []
    if os.name == "posix" and os.stat(path).st_mode & 0o007:
        warnings.append(f"any user of this host can open the database file: chmod 600 {path}")
    if os.stat(path).st_nlink > 1:
        warnings.append(
            "the file has several names (hard links): opening it under two of them damages it"
        )
    return {
        "database": path,
        "driver": driver.kind,
        "sqlite": driver.version,
        **settings,
        "schema": max(row["number"] for row in fetch("SELECT number FROM holdfast_migration")),
        "bytes": os.path.getsize(path) + _size(path + "-wal"),
        **({"warnings": warnings} if warnings else {}),
    }


def _size(path: str) -> int:
    """Return the bytes of a file; 0 if there is none."""
    try:
        return os.path.getsize(path)
    except FileNotFoundError:
        return 0
