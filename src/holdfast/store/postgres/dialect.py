"""The named queries in the parameter styles of psycopg (%(name)s) and of the server ($1)."""

from __future__ import annotations

import re
from collections.abc import Iterable

from holdfast.store import sql_files
from holdfast.store.postgres.arrays import Texts

CHANNEL = "holdfast"
"""The channel on which commits are announced."""

_PARAMETER = re.compile(r"(?<!:):([a-z_][a-z0-9_]*)")


def spelled(sql: str) -> str:
    """Return *sql* with the parameters of psycopg."""
    return _PARAMETER.sub(r"%(\1)s", sql_files.in_dialect(sql, "postgres").replace("%", "%%"))


SQL = {name: spelled(text) for name, text in sql_files.load("postgres").items()}


def _numbered(sql: str) -> tuple[str, list[str]]:
    names = sql_files.parameters(sql)
    return _PARAMETER.sub(lambda match: f"${names.index(match[1]) + 1}", sql), names


NUMBERED = {name: _numbered(text) for name, text in sql_files.load("postgres").items()}
"""The queries with numbered parameters, as the server takes them, and the names of the
parameters."""


def as_list(items: Iterable[object]) -> Texts:
    """Return *items* as an array parameter."""
    return Texts(str(item) for item in items)
