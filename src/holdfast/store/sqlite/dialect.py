"""Named queries in the SQL of SQLite: a file has no schemas, so the schema becomes a prefix."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from functools import cache
from operator import itemgetter
from typing import Any

import msgspec

from holdfast.store import sql_files

LARGE = 600
"""Bytes up to which an input is stored in the row of its run. A longer one would take overflow
pages, which SQLite rewrites whenever the run changes."""


def spelled(sql: str) -> str:
    """Return *sql* in the dialect of SQLite."""
    return sql_files.in_dialect(sql, "sqlite").replace("holdfast.", "holdfast_")


_PARAMETER = re.compile(r"(?<!:):([a-z_][a-z0-9_]*)")

SQL = {name: spelled(text) for name, text in sql_files.load("sqlite").items()}


@cache
def positional(name: str) -> tuple[str, Callable[[Any], Any]]:
    """Return a query with parameters by position, and a function that orders values for it. That
    saves SQLite the lookup of each name for each row.

    A parameter that occurs twice has two positions: some versions of Python warn of ``?1``."""
    text = SQL[name]
    names = _PARAMETER.findall(text)
    sql = _PARAMETER.sub("?", text)
    if len(names) > 1:
        return sql, itemgetter(*names)
    return sql, lambda row: tuple(row[name] for name in names)


def without_large(row: dict[str, Any]) -> dict[str, Any]:
    """Return the row of a new run as it is written: a large input is stored separately."""
    return {**row, "input": b""} if len(row["input"]) > LARGE else row


def large_of(rows: Iterable[dict[str, Any]]) -> list[dict[str, object]]:
    """Return the inputs of new runs that are stored separately."""
    return [
        {"run_id": row["id"], "input": row["input"]} for row in rows if len(row["input"]) > LARGE
    ]


def as_list(items: Iterable[object]) -> str:
    """Return a list as a parameter: SQLite takes lists as JSON."""
    return msgspec.json.encode(list(items)).decode()
