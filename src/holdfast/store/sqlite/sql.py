"""The queries as SQLite is asked them: a file has no schemas, so the schema becomes a prefix."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from holdfast.store import queries


def spelled(sql: str) -> str:
    """Write *sql* as SQLite wants it."""
    return sql.replace("holdfast.", "holdfast_")


SQL = {name: spelled(text) for name, text in queries.load("sqlite").items()}
LAWS = {name: spelled(text) for name, text in queries.laws().items()}


def as_list(items: Iterable[object]) -> str:
    """Lists travel as JSON."""
    return msgspec.json.encode(list(items)).decode()
