"""The queries as SQLite is asked them: a file has no schemas, so the schema becomes a prefix."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from operator import itemgetter
from typing import Any

import msgspec

from holdfast.store import sql_files

LARGE = 600
"""How many bytes an input has at most that is kept in the row of its run: a longer one would take a
page of its own there, which is written anew whenever the run changes."""


def spelled(sql: str) -> str:
    """Write *sql* as SQLite wants it."""
    return sql_files.in_dialect(sql, "sqlite").replace("holdfast.", "holdfast_")


SQL = {name: spelled(text) for name, text in sql_files.load("sqlite").items()}
LAWS = {name: spelled(text) for name, text in sql_files.laws().items()}


@cache
def numbered(name: str) -> tuple[str, Callable[[Any], Any]]:
    """Return a query with numbers for parameters, and what puts values into their order: names are
    sought anew for each row."""
    text = SQL[name]
    names = sql_files.parameters(text)
    sql = re.sub(r"(?<!:):([a-z_][a-z0-9_]*)", lambda found: f"?{names.index(found[1]) + 1}", text)
    return sql, itemgetter(*names) if len(names) > 1 else lambda row: tuple(
        row[one] for one in names
    )


def without_large(row: dict[str, Any]) -> dict[str, Any]:
    """Return a new run as it is written: an input that is large is kept apart."""
    return {**row, "input": b""} if len(row["input"]) > LARGE else row


def large_of(rows: Iterable[dict[str, Any]]) -> list[dict[str, object]]:
    """Return the inputs of new runs that are kept apart."""
    return [
        {"run_id": row["id"], "input": row["input"]} for row in rows if len(row["input"]) > LARGE
    ]


def as_list(items: Iterable[object]) -> str:
    """Lists travel as JSON."""
    return msgspec.json.encode(list(items)).decode()
