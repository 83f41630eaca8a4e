"""The queries as psycopg is asked them: parameters are %(name)s."""

from __future__ import annotations

import re
from collections.abc import Iterable

from holdfast.store import sql_files
from holdfast.store.postgres.arrays import Texts

CHANNEL = "holdfast"
"""On which commits are announced."""

_PARAMETER = re.compile(r"(?<!:):([a-z_][a-z0-9_]*)")


def spelled(sql: str) -> str:
    """Write *sql* as psycopg wants it."""
    return _PARAMETER.sub(r"%(\1)s", sql_files.in_dialect(sql, "postgres").replace("%", "%%"))


SQL = {name: spelled(text) for name, text in sql_files.load("postgres").items()}


def _numbered(sql: str) -> tuple[str, list[str]]:
    names = sql_files.parameters(sql)
    return _PARAMETER.sub(lambda found: f"${names.index(found[1]) + 1}", sql), names


NUMBERED = {name: _numbered(text) for name, text in sql_files.load("postgres").items()}
"""The same with numbers for parameters, as the server itself wants them, and the names that the
numbers stand for."""


def as_list(items: Iterable[object]) -> Texts:
    """Lists travel as arrays."""
    return Texts(str(item) for item in items)
